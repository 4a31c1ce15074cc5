"""Arguments to calls. `./run.sh` passes everything on to here."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from shared import course, pages, report, selfcheck, skeleton, source

PASS, NOT_YET, FAULT = 0, 1, 2

_EPILOG = """commands
  ./run.sh                        the lessons and how far you are
  ./run.sh 02_softmax             check a lesson: 02, 2, softmax, a script or its path will do
  ./run.sh hint 02                the next hint for the TODO that is open or failing
  ./run.sh picture 02             draw which program touches which elements
  ./run.sh reset 02               start a lesson's scripts anew; asks, and keeps a copy
  ./run.sh test                   the course's own tests

exit status: 0 passed, 1 not there yet, 2 this machine or the command line is at fault"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    folder = os.environ.get("COURSE_FROM")  # run.sh moved here from where the person is
    if folder and os.path.isdir(folder):
        os.chdir(folder)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows ? and goes on
    commands = {
        "hint": _hint,
        "reset": _reset,
        "picture": _picture,
        "record": _record,
        "test": _test,
        "list": lambda rest: _list(),
    }
    try:
        if not arguments:
            return _list()
        if arguments[0] in commands:
            return commands[arguments[0]](arguments[1:])
        return _check(arguments)
    except course.UnknownName as error:
        return _fault(str(error))
    except (OSError, UnicodeDecodeError) as error:
        return _fault(f"A file could not be read or written: {error}")
    except KeyboardInterrupt:
        return _fault("Stopped.")


def _fault(message: str) -> int:
    print(message, file=sys.stderr)
    return FAULT


def _parser(name: str = "./run.sh", **kwargs) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=name, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
    )


def _list() -> int:
    print(report.lessons([(script, course.state_of(script)) for script in course.scripts()]))
    return PASS


def _check(arguments: list[str]) -> int:
    parser = _parser(description="Check a lesson's scripts.", epilog=_EPILOG)
    parser.add_argument("name", nargs="+", help="a lesson, a script or a path")
    parser.add_argument(
        "--solution", action="store_true", help="check the finished solution in place of your file"
    )
    parser.add_argument(
        "--file", metavar="PATH", help="check this file against the lesson's contract"
    )
    parser.add_argument(
        "--json",
        metavar="PATH",
        help="write the whole verdict as data; a list if it is several scripts",
    )
    parser.add_argument("--no-bench", action="store_true", help="stop before timing")
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "gpu"),
        default="auto",
        help="cpu: the interpreter, even where there is a GPU",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=0,
        metavar="N",
        help="stop a script that is silent for this long",
    )
    given = parser.parse_args(arguments)
    forms = [name for name in given.name if course.variant(name)]
    if forms and (len(given.name) > 1 or given.file):
        return _fault(f"{forms[0]} is another form of a solution: check it by itself.")
    if forms:
        script, path = course.variant(forms[0])
        given.name, given.file, given.solution = [script.name], str(path), False
    scripts = list(dict.fromkeys(s for name in given.name for s in course.resolve(name)))
    in_solutions = [Path(name).resolve().is_relative_to(course.SOLUTIONS) for name in given.name]
    solution = given.solution or all(in_solutions)
    if solution and given.file:
        return _fault("--solution and --file name two different files to check: choose one.")
    if any(in_solutions) and not all(in_solutions) and not given.solution:
        return _fault("Some of these are solutions and some are your files: check them apart.")
    if given.file and len(scripts) > 1:
        meant = [s for s in scripts if s.file == Path(given.file).name]
        scripts = meant or [s for s in scripts if not s.optional]
    if given.file and len(scripts) > 1:
        names = " or ".join(script.name for script in scripts)
        return _fault(f"--file checks one script, {given.name[0]} has several: name {names}.")
    if given.file and not Path(given.file).is_file():
        return _fault(f"--file: {given.file} is not a file.")
    if given.json and Path(given.json).is_dir():
        return _fault(f"--json: {given.json} is a folder, a file is wanted.")
    if given.json and not Path(given.json).absolute().parent.is_dir():
        return _fault(f"--json: the folder {Path(given.json).absolute().parent} does not exist.")
    named = {Path(name).resolve() for name in given.name} | {
        name.removesuffix(".py") for name in given.name
    }
    options = selfcheck.Options(given.device, not given.no_bench, given.seconds)
    verdicts: list[dict] = []
    checked: list[course.Script] = []
    for script in scripts:
        own = not solution and not given.file
        asked = script.path in named or script.name in named or len(scripts) == 1
        if own and script.optional and not asked and course.state_of(script) == "not started":
            print(report.optional(script))
            continue
        path = (
            Path(given.file).resolve()
            if given.file
            else script.solution
            if solution
            else script.path
        )
        report.heading(script, path, solution)
        verdict = selfcheck.run(script, path, options, report.progress)
        verdicts.append(verdict)
        checked.append(script)
        print(report.verdict(verdict, script))
        target = course.target_of(path) if forms else ""
        if target and verdict["cases"]:
            print(report.form(path, target, verdict["machine"].get("target", "")))
        if own:
            _remember(script, verdict)
    if given.json:
        data = verdicts[0] if len(verdicts) == 1 else verdicts
        Path(given.json).write_text(
            json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )
    if (
        not solution
        and not given.file
        and verdicts
        and all(v["status"] == selfcheck.PASSED for v in verdicts)
    ):
        print(report.onward(checked, [(s, course.state_of(s)) for s in course.scripts()]))
    return _status(scripts, verdicts)


def _status(scripts, verdicts: list[dict]) -> int:
    if any(v["status"] == selfcheck.FAULT for v in verdicts):
        return FAULT
    optional = {s.file for s in scripts if s.optional} if len(scripts) > 1 else set()
    counted = [v for v in verdicts if v["script"] not in optional] or verdicts
    return PASS if all(v["status"] == selfcheck.PASSED for v in counted) else NOT_YET


def _remember(script: course.Script, verdict: dict) -> None:
    if verdict["status"] == selfcheck.FAULT:
        return
    todo = next((c["todo"] for c in verdict["causes"] if c["todo"]), 0)
    if verdict["todos"]["open"]:
        todo = verdict["todos"]["open"][0]["number"]
    device = verdict["machine"].get("name", "").replace(", Triton interpreter", "") or "no device"
    course.remember(
        script,
        status=verdict["status"],
        digest=course.digest(script.path),
        device=device,
        todo=todo,
    )


def _hint(arguments: list[str]) -> int:
    parser = _parser(
        "./run.sh hint", description="The next hint for the TODO that is open or failing."
    )
    parser.add_argument("name", help="a lesson or a script")
    parser.add_argument(
        "todo", nargs="?", type=int, help="the number of the TODO, if another one is meant"
    )
    given = parser.parse_args(arguments)
    scripts = course.resolve(given.name)
    script = next((s for s in scripts if not course.state_of(s).startswith("passed")), scripts[0])
    known = course.recall(script)
    number = given.todo or _todo_in_question(script, known)
    if number not in script.hints:
        numbers = ", ".join(map(str, script.hints))
        return _fault(f"{script.file} has no TODO {number}. It has hints for {numbers}.")
    given_so_far = known.get("hints", {}).get(str(number), 0)
    texts = script.hints[number]
    level = min(given_so_far, len(texts) - 1)
    course.remember(script, hints={**known.get("hints", {}), str(number): level + 1})
    print(report.hint(script, number, level, texts, repeated=given_so_far >= len(texts)))
    return PASS


def _todo_in_question(script: course.Script, known: dict) -> int:
    """The first open TODO, else the one last blamed, else the first with hints left."""
    open_todos = source.read(script.path).open_todos if script.path.exists() else ()
    if open_todos:
        return open_todos[0].number
    if known.get("todo"):
        return known["todo"]
    given = known.get("hints", {})
    return next(
        (n for n, texts in script.hints.items() if given.get(str(n), 0) < len(texts)),
        min(script.hints),
    )


def _reset(arguments: list[str]) -> int:
    parser = _parser(
        "./run.sh reset",
        description="Write a lesson's scripts anew, with their TODOs open. "
        "A file that differs is copied to .course/backup first.",
    )
    parser.add_argument("name", nargs="*", help="lessons or scripts")
    parser.add_argument("--all", action="store_true", help="every script of the course")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)
    if bool(given.name) == given.all:
        return _fault("Name what to reset, or say --all.")
    chosen = (
        course.scripts() if given.all else [s for name in given.name for s in course.resolve(name)]
    )
    status = PASS
    for script in chosen:
        fresh = skeleton.skeleton_of(script.solution.read_text(encoding="utf-8"))
        where = script.path.relative_to(course.ROOT)
        if not script.path.exists():
            script.path.write_text(fresh, encoding="utf-8")
            print(f"{where}: written.")
            continue
        if script.path.read_bytes() == fresh.encode():
            print(f"{where}: nothing to do.")
            continue
        if not given.yes and not _confirmed(
            f"{where} differs from the fresh skeleton. Replace it?"
        ):
            print(f"{where}: left as it is.")
            status = NOT_YET
            continue
        copy = course.back_up(script)
        script.path.write_text(fresh, encoding="utf-8")
        course.forget(script)
        print(f"{where}: reset. What it held is in {copy.relative_to(course.ROOT)}.")
    return status


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        print(f"{question} Nobody is there to answer: say --yes to do it.")
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _picture(arguments: list[str]) -> int:
    parser = _parser(
        "./run.sh picture",
        description="Draw which program touches which elements, from the accesses "
        "of the real kernel.",
    )
    parser.add_argument("name", help="a lesson or a script")
    parser.add_argument(
        "--solution", action="store_true", help="of the solution, in place of your file"
    )
    parser.add_argument("--into", metavar="FOLDER", help="where the picture goes")
    given = parser.parse_args(arguments)
    status = PASS
    for script in course.resolve(given.name):
        path = script.solution if given.solution else script.path
        if not given.solution and source.read(path).open_todos:
            print(f"{script.file}: fill in its TODOs first, or add --solution.")
            status = NOT_YET
            continue
        folder = (
            Path(given.into).resolve() if given.into else selfcheck.results_folder(script, path)
        )
        drawn, message = selfcheck.picture(script, path, folder)
        print(message)
        status = status if drawn else NOT_YET
    return status


def _record(arguments: list[str]) -> int:
    parser = _parser(
        "./run.sh record",
        description="Measure the solutions on this machine's GPU and keep tables and "
        "plots in solutions/results/.",
    )
    parser.add_argument("name", nargs="*", help="lessons or scripts; all, if none is named")
    given = parser.parse_args(arguments)
    chosen = (
        [s for name in given.name for s in course.resolve(name)]
        if given.name
        else list(course.scripts())
    )
    status = PASS
    for script in chosen:
        report.heading(script, script.solution, True)
        verdict = selfcheck.record(script, report.progress)
        print(report.timings(verdict))
        if verdict["status"] != selfcheck.PASSED:
            print(verdict["message"])
            status = FAULT
    try:
        for page in pages.refresh_all():
            print(f"{report.shown(page)}: brought up to date.")
    except ValueError as error:  # what was measured is saved by now
        return _fault(str(error))
    return status


def _test(arguments: list[str]) -> int:
    import pytest

    return int(
        pytest.main(
            [str(course.ROOT / "shared" / "tests"), "-q", "-p", "no:cacheprovider", *arguments]
        )
    )
