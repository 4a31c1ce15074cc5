"""How far a learner is: one JSON file, .course/progress.json. Losing it loses no work."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from shared.course import layout, source
from shared.course.scripts import Script
from shared.facts.plain import from_plain, to_plain


@dataclass(frozen=True)
class Progress:
    """What is remembered of one script.

    passed: the last verdict; None if it was never checked.
    digest: of the file that it was about.
    device: what it ran on.
    todo:   the TODO that was open or blamed, 0 if none was.
    hints:  how many hints were given, by the number of the TODO.
    """

    passed: bool | None = None
    digest: str = ""
    device: str = ""
    todo: int = 0
    hints: dict[str, int] = field(default_factory=dict)


def recall(script: Script) -> Progress:
    """What is remembered of a script; nothing, if what is there cannot be read."""
    try:
        return from_plain(Progress, _remembered()[_key(script)])
    except (KeyError, ValueError):
        return Progress()


def remember(script: Script, **facts) -> None:
    """Add facts about a script. A read-only checkout forgets, silently."""
    known = replace(recall(script), **facts)
    _write({**_remembered(), _key(script): to_plain(known)})


def forget(script: Script) -> None:
    """Drop everything remembered about a script: its verdict and the hints given."""
    _write({key: facts for key, facts in _remembered().items() if key != _key(script)})


def digest(path: Path) -> str:
    """A short fingerprint of a file's contents, "" if there is no file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def state_of(script: Script) -> str:
    """One phrase: "not started", "TODO 2 of 4", "failing on CPU", "edited since it passed"."""
    if not script.path.exists():
        return "file missing"
    if script.to_read:
        return "finished, to be read"
    try:
        text = source.read(script.path)
    except (OSError, UnicodeDecodeError):
        return "cannot be read"
    if text.error:
        return f"syntax error in line {text.error_line}"
    if text.open_gaps:
        if len(text.open_gaps) == len(text.gaps):
            return "not started"
        return f"TODO {text.open_gaps[0].number} of {len(text.gaps)}"
    known = recall(script)
    if known.passed is None:
        return "not checked yet"
    if known.digest != digest(script.path):
        return f"edited since it {'passed' if known.passed else 'failed'}"
    return f"{'passed' if known.passed else 'failing'} on {known.device or '?'}"


def back_up(script: Script) -> Path:
    """Copy a script to .course/backup, under a name that is not taken; returns the copy's path."""
    folder = layout.STATE / "backup"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (copy := folder / f"{script.name}.{number}.py").exists():
        number += 1
    copy.write_bytes(script.path.read_bytes())
    return copy


def _key(script: Script) -> str:
    return f"{script.lesson}/{script.file}"


def _remembered() -> dict:
    try:
        remembered = json.loads((layout.STATE / "progress.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}


def _write(remembered: dict) -> None:
    try:
        layout.STATE.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=layout.STATE, delete=False, encoding="utf-8"
        ) as file:
            json.dump(remembered, file, indent=1)
        os.replace(file.name, layout.STATE / "progress.json")
    except OSError:
        return
