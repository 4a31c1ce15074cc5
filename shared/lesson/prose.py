"""Sentences as a check.py writes them: over several lines, wrapped only where they are shown."""

from __future__ import annotations

import re


def unbroken(text: str) -> str:
    """The text in one line, however it was laid out in the source."""
    return re.sub(r"\s*\n\s*", " ", text.strip())


def unbreak(record: object, *names: str) -> None:
    """Do so to these fields of a frozen dataclass that has just been made."""
    for name in names:
        object.__setattr__(record, name, unbroken(getattr(record, name)))
