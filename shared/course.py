"""Finds lessons and scripts, resolves what a person types, and keeps a learner's progress."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shared import source
from shared.exercise import Exercise

ROOT = Path(__file__).resolve().parent.parent
LESSONS = ROOT / "lessons"
SOLUTIONS = ROOT / "solutions"
RESULTS = SOLUTIONS / "results"
STATE = ROOT / ".course"


class UnknownName(ValueError):
    """Nothing in the course has that name. The message suggests the nearest."""


@dataclass(frozen=True)
class Script:
    """One script of one lesson, as its check.py says. hints: TODO number -> three texts."""

    lesson: str
    file: str
    optional: bool
    hints: dict[int, tuple[str, str, str]]

    @property
    def name(self) -> str:
        return self.file.removesuffix(".py")

    @property
    def path(self) -> Path:
        return LESSONS / self.lesson / self.file

    @property
    def solution(self) -> Path:
        return SOLUTIONS / self.lesson / self.file

    @property
    def check(self) -> Path:
        return LESSONS / self.lesson / "check.py"

    @property
    def results(self) -> Path:
        """Where a learner's own tables and plots go."""
        return LESSONS / self.lesson / "results"

    def __hash__(self) -> int:
        return hash((self.lesson, self.file))


@cache
def scripts() -> tuple[Script, ...]:
    """All scripts, in the order of the course. Reads the text of each check.py; imports nothing."""
    found = []
    for check in sorted(LESSONS.glob("[0-9][0-9]_*/check.py")):
        for node in ast.walk(ast.parse(check.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Exercise":
                given = {k.arg: k.value for k in node.keywords}
                literal = {
                    k: ast.literal_eval(given[k])
                    for k in ("script", "optional", "hints")
                    if k in given
                }
                found.append(
                    Script(
                        check.parent.name,
                        literal["script"],
                        literal.get("optional", False),
                        literal.get("hints", {}),
                    )
                )
    return tuple(found)


def resolve(name: str) -> tuple[Script, ...]:
    """The scripts that a name stands for: `07`, `7`, `layernorm`, `07_layernorm`, a script, a path.

    Raises UnknownName with a suggestion.
    """
    everything = scripts()
    typed = name.rstrip("/")
    path = Path(typed).expanduser()
    for base in (Path.cwd(), ROOT):
        full = (base / path).resolve()
        if full.exists():
            in_folder = tuple(
                s for s in everything if full in (s.path.parent, s.check, s.solution.parent)
            )
            chosen = tuple(s for s in everything if full in (s.path, s.solution)) or in_folder
            if chosen:
                return chosen
    word = path.name.removesuffix(".py")
    matches = [s for s in everything if word == s.lesson]
    if not matches and word.isdigit():
        matches = [s for s in everything if int(s.lesson[:2]) == int(word)]
    if not matches:
        matches = [s for s in everything if word == s.lesson[3:]] or [
            s for s in everything if word == s.name
        ]
    if matches:
        return tuple(matches)
    forms = {path.stem for path in SOLUTIONS.glob("*/*.py") if variant(path.stem)}
    names = sorted(
        forms
        | {s.lesson for s in everything}
        | {s.lesson[3:] for s in everything}
        | {s.name for s in everything}
    )
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UnknownName(f"There is no lesson or script called {name!r}.{hint}  ./run.sh  lists them.")


def variant(name: str) -> tuple[Script, Path] | None:
    """Another finished form of a script, `flash_attention_fast.py` beside the solution
    `flash_attention.py`: the script and that file, or None. name: the file's, or a path to it.
    """
    typed = Path(name).expanduser()
    meant = {(base / typed).resolve() for base in (Path.cwd(), ROOT)}
    known = {script.solution for script in scripts()}
    for script in scripts():
        for path in sorted(script.solution.parent.glob(f"{script.name}_*.py")):
            if path not in known and (path in meant or name in (path.stem, path.name)):
                return script, path
    return None


def target_of(form: Path) -> str:
    """The GPU that another form's own kernel is for, its TARGET: "sm_90". "" if it names none."""
    for node in ast.parse(form.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TARGET":
            return ast.literal_eval(node.value)
    return ""


def load_exercise(script: Script) -> Exercise:
    """Import the lesson's check.py and return the script's exercise. Needs torch."""
    spec = importlib.util.spec_from_file_location(f"check_{script.lesson}", script.check)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, Exercise) and value.script == script.file
    )


def digest(path: Path) -> str:
    """A short fingerprint of a file's contents, "" if there is no file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


# Progress: one JSON file, .course/progress.json. Losing it loses no work.


def progress() -> dict[str, dict]:
    """What is remembered of each script, by "lesson/file". Empty if nothing is."""
    try:
        remembered = json.loads((STATE / "progress.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(remembered, dict):
        return {}
    return {name: facts for name, facts in remembered.items() if isinstance(facts, dict)}


def remember(script: Script, **facts) -> None:
    """Add facts about a script to the progress. A read-only checkout forgets, silently."""
    state = progress()
    key = f"{script.lesson}/{script.file}"
    _write({**state, key: {**state.get(key, {}), **facts}})


def forget(script: Script) -> None:
    """Drop everything remembered about a script: its verdict and the hints given."""
    _write({k: v for k, v in progress().items() if k != f"{script.lesson}/{script.file}"})


def _write(state: dict) -> None:
    try:
        STATE.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=STATE, delete=False, encoding="utf-8") as file:
            json.dump(state, file, indent=1)
        os.replace(file.name, STATE / "progress.json")
    except OSError:
        return


def recall(script: Script) -> dict:
    """What `remember` kept about a script."""
    return progress().get(f"{script.lesson}/{script.file}", {})


def state_of(script: Script) -> str:
    """One phrase: "not started", "TODO 2 of 4", "failing", "passed on CPU", "edited since it
    passed".
    """
    if not script.path.exists():
        return "file missing"
    try:
        text = source.read(script.path)
    except (OSError, UnicodeDecodeError):
        return "cannot be read"
    if text.error:
        return f"syntax error in line {text.error_line}"
    if text.open_todos:
        if len(text.open_todos) == len(text.todos):
            return "not started"
        return f"TODO {text.open_todos[0].number} of {len(text.todos)}"
    known = recall(script)
    if "status" not in known:
        return "not checked yet"
    if known.get("digest") != digest(script.path):
        return "edited since it passed" if known["status"] == "passed" else "edited since it failed"
    return (
        f"passed on {known.get('device', '?')}"
        if known["status"] == "passed"
        else f"failing on {known.get('device', '?')}"
    )


def back_up(script: Script) -> Path:
    """Copy a script to .course/backup, under a name that is not taken; returns the copy's path."""
    folder = STATE / "backup"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (copy := folder / f"{script.name}.{number}.py").exists():
        number += 1
    copy.write_bytes(script.path.read_bytes())
    return copy
