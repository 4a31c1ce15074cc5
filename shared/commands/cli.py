"""Which command is meant. `./run.sh` passes everything on to here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from shared.commands import lists
from shared.commands.checking import check
from shared.commands.exits import FAULT, PASS, BadCommand
from shared.commands.hint import hint
from shared.commands.picture import picture
from shared.commands.record import record
from shared.commands.reset import reset
from shared.commands.terminal import fault
from shared.course import layout
from shared.course.scripts import UnknownName


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    folder = os.environ.get("COURSE_FROM")  # run.sh moved here from where the person is
    if folder and os.path.isdir(folder):
        os.chdir(folder)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows ? and goes on
    command, rest = _meant(arguments)
    try:
        return command(rest)
    except (UnknownName, BadCommand) as error:
        fault(str(error))
    except (OSError, UnicodeDecodeError) as error:
        fault(f"A file could not be read or written: {error}")
    except KeyboardInterrupt:
        fault("Stopped.")
    return FAULT


def _meant(arguments: list[str]) -> tuple[Callable[[list[str]], int], list[str]]:
    """The command and its arguments; whatever names no command names something to check."""
    if not arguments:
        return _list, []
    if arguments[0] in _COMMANDS:
        return _COMMANDS[arguments[0]], arguments[1:]
    return check, arguments


def _list(arguments: list[str]) -> int:
    print(lists.lessons())
    return PASS


def _test(arguments: list[str]) -> int:
    import pytest

    return int(pytest.main([str(layout.TESTS), "-q", "-p", "no:cacheprovider", *arguments]))


_COMMANDS = {
    "hint": hint,
    "list": _list,
    "picture": picture,
    "record": record,
    "reset": reset,
    "test": _test,
}
