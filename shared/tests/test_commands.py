"""The command line: names, exit statuses, hints, JSON, resetting, every way to start a check."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shared.check import stages
from shared.commands import cli, report, terminal
from shared.course import layout, progress, skeleton
from shared.course.scripts import Script, resolve, scripts
from shared.diagnosis.edits import edited


@pytest.fixture
def copy(tmp_path):
    """A copy of the course in a path with a space, as a fresh clone has it."""
    target = tmp_path / "my course"
    ignore = shutil.ignore_patterns(
        ".git", ".venv*", ".course", "results", "__pycache__", "figures", ".gpu"
    )
    shutil.copytree(layout.ROOT, target, ignore=ignore)
    return target


def run(command, cwd, **environment):
    path = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(cwd),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHON": sys.executable,
    }
    return subprocess.run(
        command, cwd=cwd, env={**path, **environment}, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    "name",
    [
        "02_softmax",
        "02",
        "2",
        "softmax",
        "lessons/02_softmax",
        "lessons/02_softmax/",
        "lessons/02_softmax/check.py",
        "solutions/02_softmax",
    ],
)
def test_a_lesson_by_any_name(name):
    assert [s.name for s in resolve(name)] == ["softmax", "fast_softmax"]


@pytest.mark.parametrize(
    "name",
    [
        "row_wise_max",
        "row_wise_max.py",
        "lessons/01_row_reduce/row_wise_max.py",
        "solutions/01_row_reduce/row_wise_max.py",
        str(layout.LESSONS / "01_row_reduce" / "row_wise_max.py"),
    ],
)
def test_a_script_by_any_name(name):
    assert [s.name for s in resolve(name)] == ["row_wise_max"]


@pytest.mark.parametrize(
    ("name", "near"),
    [("sofmax", "softmax"), ("vectoradd", "vector_add"), ("row_sum", "row_wise_sum")],
)
def test_an_unknown_name_suggests_the_nearest_and_exits_2(name, near, state, capsys):
    assert cli.main([name]) == 2
    assert f"Did you mean {near}?" in capsys.readouterr().err


def test_the_list(state, capsys):
    assert cli.main([]) == 0
    told = capsys.readouterr().out
    for script in scripts():
        assert script.file in told
    assert "not started" in told and "(optional)" in told and "Next: read" in told


def test_hints_come_one_at_a_time(state, capsys):
    texts = resolve("00")[0].exercise.hints[1]
    for level in (1, 2, 3, 3):
        assert cli.main(["hint", "00"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert f"hint {level} of 3" in told
        assert " ".join(texts[level - 1].split()) in told
    assert "solutions/00_vector_add/vector_add.py" in told
    assert cli.main(["hint", "00", "9"]) == 2


def test_the_hint_is_for_the_todo_that_failed(state, capsys, monkeypatch, tmp_path):
    script = resolve("00")[0]
    monkeypatch.setattr(Script, "path", property(lambda self: tmp_path / self.file))
    shutil.copy(script.solution, script.path)
    progress.remember(script, passed=False, todo=4)
    assert cli.main(["hint", "00"]) == 0
    assert "TODO 4" in capsys.readouterr().out


def test_reset_asks_and_keeps_a_copy(state, capsys, monkeypatch, tmp_path):
    script = resolve("00")[0]
    (tmp_path / "lessons").mkdir()
    monkeypatch.setattr(layout, "ROOT", tmp_path)
    monkeypatch.setattr(Script, "path", property(lambda self: tmp_path / "lessons" / self.file))
    script.path.write_text("my work\n")
    assert cli.main(["reset", "00"]) == 1  # nobody is there to answer
    assert script.path.read_text() == "my work\n"
    assert cli.main(["reset", "00", "--yes"]) == 0
    assert script.path.read_text() == skeleton.skeleton_of(script.solution.read_text())
    assert [copy.read_text() for copy in (state / "backup").iterdir()] == ["my work\n"]
    assert cli.main(["reset", "00"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert cli.main(["reset"]) == 2


def test_states(state, monkeypatch, tmp_path):
    script = resolve("00")[0]
    monkeypatch.setattr(Script, "path", property(lambda self: tmp_path / self.file))
    assert progress.state_of(script) == "file missing"
    text = script.solution.read_text()
    script.path.write_text(skeleton.skeleton_of(text))
    assert progress.state_of(script) == "not started"
    script.path.write_text(text.replace("mask = offsets < n_elements", "mask = ..."))
    assert progress.state_of(script) == "TODO 2 of 5"
    script.path.write_text(text + "(\n")
    assert progress.state_of(script).startswith("syntax error in line")
    script.path.write_text(text)
    assert progress.state_of(script) == "not checked yet"
    progress.remember(script, passed=True, digest=progress.digest(script.path), device="CPU")
    assert progress.state_of(script) == "passed on CPU"
    script.path.write_text(text + "\n")
    assert progress.state_of(script) == "edited since it passed"


@pytest.mark.parametrize("text", ["{ broken", "[]", '{"00_vector_add/vector_add.py": 3}'])
def test_progress_that_cannot_be_read_is_no_progress(state, text):
    state.mkdir()
    (state / "progress.json").write_text(text)
    assert progress.recall(resolve("00")[0]) == progress.Progress()
    assert cli.main([]) == 0
    progress.remember(resolve("00")[0], passed=True)
    assert progress.recall(resolve("00")[0]).passed


def test_json_is_the_whole_verdict(state, tmp_path, capsys):
    script = resolve("row_wise_max")[0]
    text = script.solution.read_text().replace('other=-float("inf")', "other=0.0")
    wrong = tmp_path / "mine.py"
    wrong.write_text(text)
    path = tmp_path / "verdict.json"
    assert (
        cli.main(["row_wise_max", "--file", str(wrong), "--json", str(path), "--device", "cpu"])
        == 1
    )

    def no_constants(name):
        raise AssertionError(f"{name} is no JSON")

    verdict = json.loads(path.read_text(), parse_constant=no_constants)
    assert verdict["status"] == "not there yet" and verdict["stage"] == "correctness"
    assert verdict["machine"]["device"] == "cpu" and verdict["machine"]["triton"]
    wrong_cases = [case for case in verdict["cases"] if case["status"] == "wrong"]
    assert {"error", "allowed", "got", "expected", "index"} <= set(wrong_cases[0]["numbers"])
    (padding,) = [cause for cause in verdict["causes"] if cause["name"] == "padding of 0"]
    assert text.splitlines()[padding["line"] - 1].strip().startswith("# TODO 2")
    assert verdict["compiled"] and verdict["memory"]
    assert "padding" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["00", "--file", "no_such_file.py"],
        ["00", "--json", "no/such/folder/v.json"],
        ["01", "--file", __file__],
    ],
)
def test_a_command_line_at_fault_exits_2_and_says_why(arguments, state, capsys):
    assert cli.main(arguments) == 2
    assert "--" in capsys.readouterr().err


def test_no_gpu_is_said_when_one_is_asked_for(state, capsys):
    assert cli.main(["00", "--solution", "--device", "gpu"]) == 2
    assert "--device cpu" in " ".join(capsys.readouterr().out.split())


def test_recording_without_a_gpu_is_refused(state, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "RESULTS", tmp_path / "results")
    monkeypatch.setattr("shared.measure.pages.refresh_all", list)
    assert cli.main(["record", "00"]) == 2
    assert "no GPU here" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


# Started from a shell


def test_run_sh_from_another_folder_in_a_path_with_a_space(copy, tmp_path):
    done = run([str(copy / "run.sh"), "00"], tmp_path)
    assert done.returncode == 1, done.stderr
    assert "all 5 TODOs are still" in done.stdout
    mine = tmp_path / "mine.py"
    mine.write_text((copy / "solutions/00_vector_add/vector_add.py").read_text())
    done = run([str(copy / "run.sh"), "00", "--file", "mine.py"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed." in done.stdout


@pytest.mark.parametrize(
    ("folder", "typed"),
    [
        (".", "lessons/00_vector_add/vector_add.py"),
        ("lessons/00_vector_add", "./vector_add.py"),
        ("lessons/00_vector_add", "../00_vector_add/check.py"),
    ],
)
def test_a_lesson_file_runs_the_check(copy, folder, typed):
    solution = (copy / "solutions/00_vector_add/vector_add.py").read_text()
    (copy / "lessons/00_vector_add/vector_add.py").write_text(solution + skeleton.ENDING)
    done = run([sys.executable, typed], copy / folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed." in done.stdout and "Next:" in done.stdout
    again = run([str(copy / "run.sh")], copy)
    assert "passed on CPU" in again.stdout


def test_a_solution_is_checked_by_its_path_and_this_is_said(state, capsys):
    path = layout.SOLUTIONS / "00_vector_add" / "vector_add.py"
    assert cli.main([str(path), "--device", "cpu"]) == 0
    assert "the finished solution, not your file" in capsys.readouterr().out


def test_a_python_named_by_a_relative_path(copy, tmp_path):
    wrapper = tmp_path / "mypython"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    done = run([str(copy / "run.sh")], tmp_path, PYTHON="./mypython")
    assert done.returncode == 0, done.stderr


def test_an_unknown_python_is_said(copy):
    done = run([str(copy / "run.sh")], copy, PYTHON="no-such-python")
    assert done.returncode == 2 and "PYTHON: there is no no-such-python" in done.stderr


def test_a_finished_environment_is_used_and_an_unfinished_one_is_not(copy, tmp_path):
    """With a Python that has nothing, .venv decides; its marker must fit requirements.txt."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    venv = copy / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (venv / "python").chmod(0o755)
    sums = subprocess.run(
        "cksum < requirements.txt", shell=True, cwd=copy, capture_output=True, text=True
    ).stdout
    (copy / ".venv" / "complete").write_text(sums)
    (copy / ".venv" / "made-by").write_text(f"{bare}/bin/python\n")
    done = run([str(copy / "run.sh")], copy, PYTHON=str(bare / "bin/python"))
    assert done.returncode == 0, done.stderr
    assert "vector_add.py" in done.stdout
    (copy / ".venv" / "made-by").write_text("/some/other/python\n")
    done = run([str(copy / "run.sh")], copy, PYTHON=str(bare / "bin/python"))
    assert done.returncode == 2 and "cannot be used as it is" in done.stderr
    (copy / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")  # no longer works
    (copy / "requirements.txt").write_text("no-such-package-anywhere==1\n")
    done = run([str(copy / "run.sh")], copy, PYTHON=str(bare / "bin/python"))
    assert done.returncode == 2 and "Setting up, once" in done.stderr
    assert "could not be" in done.stderr


def test_every_command_of_the_readme_is_understood():
    text = (layout.ROOT / "README.md").read_text()
    commands = set(re.findall(r"`?\./run\.sh ?([^`\n]*?)`", text)) | set(
        re.findall(r"^\./run\.sh (\S+)", text, re.M)
    )
    assert len(commands) > 10
    for command in commands:
        words = command.split()
        if not words or words[0] in ("...", "test", "record"):
            continue
        name = words[1] if words[0] in ("hint", "picture", "reset") else words[0]
        if name == "12":
            continue  # the new lesson, which the next test adds
        if name != "--all":
            assert resolve(name), command


SCALE = '''"""Scale: twice a vector."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, stride_x, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets * stride_x, mask=mask)

    # TODO 1: store twice x (1 line).
    tl.store(out_ptr + offsets, 2 * x, mask=mask)


def scale(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(out.numel(), 256),)
    scale_kernel[grid](x, out, x.stride(0), out.numel(), BLOCK_SIZE=256)
    return out
'''

SCALE_CHECK = """
from shared.lesson import Case, Exercise, Function, Mistake, Todo, one_read_one_write

scale = Exercise(
    script="scale.py",
    functions=[
        Function(
            name="scale",
            arguments=lambda shape: {"x": shape},
            reference=lambda x: 2 * x,
            cases=[Case((3,)), Case((700,), "float16")],
            traffic=one_read_one_write,
            memory=(1000,),
            typical=(4096,),
            picture=(700,),
        )
    ],
    todos=[
        Todo(1, hints=("Twice.", "tl.store", "2 * x"), mistakes=[
            Mistake("not doubled", "2 * x", "x", says="x is stored as it is"),
        ]),
    ],
)
"""


def test_a_new_lesson_by_the_steps_of_the_readme(copy):
    for folder in ("solutions", "lessons"):
        (copy / folder / "12_scale").mkdir()
    (copy / "solutions/12_scale/scale.py").write_text(SCALE)
    (copy / "lessons/12_scale/check.py").write_text(SCALE_CHECK)
    course_run = str(copy / "run.sh")
    assert run([course_run, "reset", "12"], copy).returncode == 0
    skeleton_text = (copy / "lessons/12_scale/scale.py").read_text()
    assert "    # TODO 1: store twice x (1 line).\n    ...\n" in skeleton_text
    told = run([course_run, "12"], copy)
    assert told.returncode == 1 and "the TODO is still `...`" in told.stdout
    told = run([course_run, "12", "--solution"], copy)
    assert told.returncode == 0 and "2 of 2 cases" in told.stdout, told.stdout
    figures = copy / "lessons/12_scale/figures"
    drawn = [course_run, "picture", "12", "--solution", "--into", str(figures)]
    assert run(drawn, copy).returncode == 0 and (figures / "scale_accesses.png").exists()
    (copy / "lessons/12_scale/scale.py").write_text(SCALE.replace("2 * x", "x"))
    told = run([course_run, "scale"], copy)
    assert told.returncode == 1 and "x is stored as it is." in told.stdout


def test_the_example_of_the_readme_is_what_is_printed(tmp_path):
    script = resolve("02")[0]
    mistakes = {m.name: m for m in script.exercise.mistakes}
    path = tmp_path / "softmax.py"
    planted = mistakes["padding of 0 in stable_softmax"]
    path.write_text(edited(script.solution.read_text(), planted))
    verdict = stages.run(script, path, stages.Options(device="cpu"))
    told = report.told(verdict, script).replace(str(path), "lessons/02_softmax/softmax.py")
    readme = (layout.ROOT / "README.md").read_text()
    example = re.search(r"```\n02_softmax  softmax.py\n(.*?)Edit it and run", readme, re.S)
    for line in example.group(1).splitlines():
        assert line in told.splitlines() or line == "  [...]", line


def test_files_that_the_pages_link_to_exist():
    for page in [layout.ROOT / "README.md", *layout.LESSONS.glob("*/README.md")]:
        for target in re.findall(r"\]\(([\w./]*\w)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_paths_are_shown_short():
    assert terminal.shown(layout.ROOT / "README.md") == "README.md"
    assert terminal.shown("/elsewhere/x.py") == "/elsewhere/x.py"
