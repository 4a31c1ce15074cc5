"""`./run.sh reset 02`: a lesson's scripts written anew, with their TODOs open."""

from __future__ import annotations

import sys

from shared.commands.exits import NOT_YET, PASS, BadCommand
from shared.commands.parser import parser
from shared.course import layout, progress
from shared.course.scripts import Script, resolve, scripts
from shared.course.skeleton import skeleton_of

_DESCRIPTION = """Write a lesson's scripts anew, with their TODOs open.
A file that differs is copied to .course/backup first."""


def reset(arguments: list[str]) -> int:
    """Reset what was asked for. Returns the exit status."""
    asked = parser("reset", description=_DESCRIPTION)
    asked.add_argument("name", nargs="*", help="lessons or scripts")
    asked.add_argument("--all", action="store_true", help="every script of the course")
    asked.add_argument("--yes", action="store_true", help="do not ask")
    given = asked.parse_args(arguments)
    if bool(given.name) == given.all:
        raise BadCommand("Name what to reset, or say --all.")
    named = [script for name in given.name for script in resolve(name)]
    chosen = [s for s in (scripts() if given.all else named) if not s.to_read]
    if not chosen:
        raise BadCommand(f"{given.name[0]} is there to be read: it has no TODOs.")
    done = [_reset_one(script, given.yes) for script in chosen]
    return PASS if all(done) else NOT_YET


def _reset_one(script: Script, sure: bool) -> bool:
    """Write a script anew if it differs and the person agrees. False if they do not."""
    fresh = skeleton_of(script.solution.read_text(encoding="utf-8"))
    where = script.path.relative_to(layout.ROOT)
    if not script.path.exists():
        script.path.write_text(fresh, encoding="utf-8")
        print(f"{where}: written.")
        return True
    if script.path.read_bytes() == fresh.encode():
        print(f"{where}: nothing to do.")
        return True
    if not sure and not _confirmed(f"{where} differs from the fresh skeleton. Replace it?"):
        print(f"{where}: left as it is.")
        return False
    copy = progress.back_up(script)
    script.path.write_text(fresh, encoding="utf-8")
    progress.forget(script)
    print(f"{where}: reset. What it held is in {copy.relative_to(layout.ROOT)}.")
    return True


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        print(f"{question} Nobody is there to answer: say --yes to do it.")
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
