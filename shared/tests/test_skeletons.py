"""Skeletons: equal to their solutions outside the TODOs, importable, and reported as unfinished."""

import subprocess
import sys

import pytest

from shared.check import stages
from shared.course import skeleton, source
from shared.course.scripts import resolve
from shared.facts.verdict import Ruling, Stage
from shared.tests.conftest import SCRIPTS


def test_equals_its_solution_outside_the_todos(script):
    fresh = skeleton.skeleton_of(script.solution.read_text())
    assert script.path.read_text() == fresh, (
        f"{script.path} was edited, or ./run.sh reset --all was forgotten"
    )


def test_every_todo_is_open_and_numbered_in_order(script):
    text = source.read(script.path)
    numbers = [gap.number for gap in text.gaps]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [gap.number for gap in text.open_gaps] == numbers
    assert not source.read(script.solution).open_gaps


def test_every_todo_has_three_hints(script):
    numbers = {gap.number for gap in source.read(script.path).gaps}
    assert set(script.exercise.hints) == numbers
    assert all(len(texts) == 3 and all(texts) for texts in script.exercise.hints.values())


def test_every_mistake_belongs_to_a_todo_that_exists(script, exercise):
    numbers = {gap.number for gap in source.read(script.path).gaps} | {0}
    assert {mistake.todo for mistake in exercise.mistakes} <= numbers
    names = [mistake.name for mistake in exercise.mistakes]
    assert len(names) == len(set(names))


IMPORT_EACH = """
import os, runpy, sys, traceback
import torch, triton  # once; the scripts are imported in children, which know nothing of each other
for path in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            runpy.run_path(path)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(path)
"""


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_each_imports_alone(interpret, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *(str(script.path) for script in SCRIPTS)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TRITON_INTERPRET": interpret, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0 and not run.stdout, run.stdout + run.stderr


def test_is_reported_unfinished_without_a_traceback(script):
    verdict = stages.run(script, script.path, stages.Options(device="cpu"))
    assert verdict.status is Ruling.NOT_YET
    assert verdict.stage is Stage.TODOS
    assert verdict.message.startswith("Not started")
    assert verdict.seconds < 1


def test_says_which_todo_is_open(tmp_path):
    script = resolve("00")[0]
    text = script.solution.read_text().replace("mask = offsets < n_elements", "mask = ...")
    path = tmp_path / "vector_add.py"
    path.write_text(text)
    verdict = stages.run(script, path, stages.Options(device="cpu"))
    assert verdict.message == "TODO 2 of 5 is still `...`."
    assert text.splitlines()[verdict.line - 1].strip() == "mask = ..."


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("    x = 1\n", ["    x = ..."]),
        ("    y = 2\n    x = y\n", ["    x = ..."]),
        ("    x += 1\n", ["    x = ..."]),
        ("    f(1)\n", ["    ..."]),
        ("    for i in range(3):\n        x = i\n", ["    x = ..."]),
        ("    return 3\n", ["    return ..."]),
    ],
)
def test_what_an_answer_becomes(answer, left):
    solution = f"def f():\n    # TODO 1: a thing\n{answer}\n    g(x)\n"
    expected = ["def f():", "    # TODO 1: a thing", *left, "", "    g(x)"]
    assert skeleton.skeleton_of(solution) == "\n".join(expected) + "\n" + skeleton.ENDING


def test_a_todo_without_an_answer_is_refused():
    with pytest.raises(ValueError, match="no answer"):
        skeleton.skeleton_of("def f():\n    # TODO 1: a thing\n\n    g()\n")
