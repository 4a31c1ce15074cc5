"""A lesson's mistake, made in the text of its solution."""

from __future__ import annotations

import textwrap
from pathlib import Path

from shared.course import source
from shared.lesson.todo import Mistake


def edited(solution: str, mistake: Mistake) -> str:
    """The solution with the mistake in it.

    Raises ValueError if an edit fits nowhere, or in more than one place.
    """
    for old, new in mistake.edits:
        start, end = _where(solution, mistake, old)
        part = solution[start:end]
        if part.count(old) != 1:
            raise ValueError(f"mistake {mistake.name!r}: {old!r} is there {part.count(old)} times")
        at = start + part.index(old)
        new = _laid_out(new, solution[:at].rpartition("\n")[2])
        solution = solution[:at] + new + solution[at + len(old) :]
    return solution


def _laid_out(new: str, before: str) -> str:
    """A block of lines, indented as the line that it begins on. before: what that line begins with.

    A text of one line, or one that begins on its first, stays as it is.
    """
    if not new.startswith("\n"):
        return new
    indent = before[: len(before) - len(before.lstrip())]
    return textwrap.indent(textwrap.dedent(new).strip("\n"), indent).removeprefix(indent)


def _where(solution: str, mistake: Mistake, old: str) -> tuple[int, int]:
    """The part of the text in which an edit is looked up: the TODO's answer if it is there, else
    everything.
    """
    lines = solution.splitlines(keepends=True)
    for gap in source.parse(solution, Path()).gaps:
        if gap.number == mistake.todo:
            start = sum(map(len, lines[: gap.first - 1]))
            end = sum(map(len, lines[: gap.last]))
            if old in solution[start:end]:
                return start, end
    return 0, len(solution)
