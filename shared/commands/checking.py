"""`./run.sh 02_softmax`: which files are meant, their check, and what is said of it."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from shared.check import stages
from shared.commands import lists, report
from shared.commands.exits import FAULT, NOT_YET, PASS, BadCommand
from shared.commands.parser import parser
from shared.commands.terminal import progress as say
from shared.course import layout, progress
from shared.course.scripts import Script, resolve
from shared.facts.plain import to_plain
from shared.facts.verdict import Verdict

_EPILOG = """commands
  ./run.sh                        the lessons and how far you are
  ./run.sh 02_softmax             check a lesson: 02, 2, softmax, a script or its path will do
  ./run.sh hint 02                the next hint for the TODO that is open or failing
  ./run.sh picture 02             draw which program touches which elements
  ./run.sh reset 02               start a lesson's scripts anew; asks, and keeps a copy
  ./run.sh test                   the course's own tests

exit status: 0 passed, 1 not there yet, 2 this machine or the command line is at fault"""


@dataclass(frozen=True)
class Request:
    """What is to be checked.

    names:    as they were typed.
    scripts:  what they stand for.
    file:     another file to hold against the one script, if it is not a learner's own.
    solution: whether the finished solutions are meant.
    json:     where the verdicts are written as data.
    """

    names: tuple[str, ...]
    scripts: tuple[Script, ...]
    file: Path | None
    solution: bool
    json: Path | None
    options: stages.Options

    @property
    def own(self) -> bool:
        """Whether it is about the learner's own files."""
        return not self.solution and self.file is None

    def path(self, script: Script) -> Path:
        """The file that is checked against the script's contract."""
        return self.file or (script.solution if self.solution else script.path)

    def named(self, script: Script) -> bool:
        """Whether this very script was asked for, and not just its lesson."""
        if len(self.scripts) == 1:
            return True
        paths = {Path(name).resolve() for name in self.names}
        words = {name.removesuffix(".py") for name in self.names}
        return script.path in paths or script.name in words


def check(arguments: list[str]) -> int:
    """Check what was asked for. Returns the exit status."""
    request = _request(_parser().parse_args(arguments))
    verdicts: dict[Script, Verdict] = {}
    for script in request.scripts:
        if request.own and script.optional and not request.named(script) and _untouched(script):
            print(lists.optional(script))
            continue
        verdicts[script] = _check_one(script, request)
    if request.json:
        _write(list(verdicts.values()), request.json)
    if request.own and verdicts and all(v.passed for v in verdicts.values()):
        print(lists.onward(list(verdicts)))
    return _status(verdicts)


def _parser() -> argparse.ArgumentParser:
    asked = parser(description="Check a lesson's scripts.", epilog=_EPILOG)
    add = asked.add_argument
    add("name", nargs="+", help="a lesson, a script or a path")
    add("--solution", action="store_true", help="check the finished solution, not your file")
    add("--file", metavar="PATH", help="check this file against the lesson's contract")
    add("--json", metavar="PATH", help="write the verdict as data; a list if it is several scripts")
    add("--no-bench", action="store_true", help="stop before timing")
    devices = ("auto", "cpu", "gpu")
    add("--device", choices=devices, default="auto", help="cpu: the interpreter, GPU or not")
    add("--seconds", type=float, default=0, metavar="N", help="stop a script silent for this long")
    return asked


def _request(given: argparse.Namespace) -> Request:
    """What the arguments ask for. Raises BadCommand if they do not go together."""
    scripts = tuple(dict.fromkeys(s for name in given.name for s in resolve(name)))
    in_solutions = [Path(name).resolve().is_relative_to(layout.SOLUTIONS) for name in given.name]
    solution = given.solution or all(in_solutions)
    if solution and given.file:
        raise BadCommand("--solution and --file name two different files to check: choose one.")
    if any(in_solutions) and not solution:
        raise BadCommand("Some of these are solutions and some your files: check them apart.")
    if given.file:
        scripts = _the_one(scripts, given.file, given.name[0])
    if given.json:
        _check_writable(Path(given.json))
    file = Path(given.file).resolve() if given.file else None
    json_path = Path(given.json) if given.json else None
    options = stages.Options(given.device, not given.no_bench, given.seconds)
    return Request(tuple(given.name), scripts, file, solution, json_path, options)


def _the_one(scripts: tuple[Script, ...], file: str, name: str) -> tuple[Script, ...]:
    """The script whose contract a foreign file is held to."""
    if len(scripts) > 1:
        meant = tuple(s for s in scripts if s.file == Path(file).name)
        scripts = meant or tuple(s for s in scripts if not s.optional)
    if len(scripts) > 1:
        names = " or ".join(script.name for script in scripts)
        raise BadCommand(f"--file checks one script, {name} has several: name {names}.")
    if not Path(file).is_file():
        raise BadCommand(f"--file: {file} is not a file.")
    return scripts


def _check_writable(path: Path) -> None:
    if path.is_dir():
        raise BadCommand(f"--json: {path} is a folder, a file is wanted.")
    if not path.absolute().parent.is_dir():
        raise BadCommand(f"--json: the folder {path.absolute().parent} does not exist.")


def _check_one(script: Script, request: Request) -> Verdict:
    path = request.path(script)
    print(report.heading(script, path, request.solution or script.to_read), flush=True)
    verdict = stages.run(script, path, request.options, say)
    print(report.told(verdict, script))
    if request.own and not script.to_read:
        _remember(script, verdict)
    return verdict


def _untouched(script: Script) -> bool:
    return script.to_read or progress.state_of(script) == "not started"


def _remember(script: Script, verdict: Verdict) -> None:
    if verdict.at_fault:
        return
    todo = next((cause.todo for cause in verdict.causes if cause.todo), 0)
    if verdict.open_todos:
        todo = verdict.open_todos[0].number
    device = "no device"
    if verdict.machine:
        device = "CPU" if verdict.machine.device == "cpu" else verdict.machine.name
    progress.remember(
        script,
        passed=verdict.passed,
        digest=progress.digest(script.path),
        device=device,
        todo=todo,
    )


def _write(verdicts: list[Verdict], path: Path) -> None:
    data = to_plain(verdicts[0] if len(verdicts) == 1 else verdicts)
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _status(verdicts: dict[Script, Verdict]) -> int:
    if any(verdict.at_fault for verdict in verdicts.values()):
        return FAULT
    counted = [v for script, v in verdicts.items() if not script.optional or len(verdicts) == 1]
    return PASS if all(v.passed for v in counted or verdicts.values()) else NOT_YET
