"""How text looks in a terminal: colour where there is one, lines that fit, short paths."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

from shared.course import layout

WIDTH = 100


def good(text: str) -> str:
    return _colour(text, "32")


def bad(text: str) -> str:
    return _colour(text, "31")


def strong(text: str) -> str:
    return _colour(text, "1")


def _colour(text: str, code: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\033[{code}m{text}\033[0m"


def wrap(text: str, indent: str = "  ", first: str | None = None) -> str:
    """The text in lines that fit, each with the indent. first: that of the first line."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shown(path: str | Path) -> str:
    """A path as short as it can be and still be opened from here."""
    path = Path(path)
    for base in (Path.cwd(), layout.ROOT):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def progress(text: str) -> None:
    """A line before slow work, on stderr so that it never mixes with the verdict."""
    print(f"  {text} ...", file=sys.stderr, flush=True)


def fault(message: str) -> None:
    """Say what is wrong with the command line or this machine."""
    print(message, file=sys.stderr)
