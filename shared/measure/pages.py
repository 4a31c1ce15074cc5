"""Puts the recorded measurements into the lessons' pages.

A page says `<!-- measured: row_wise_sum -->` and `<!-- end -->`; what stands between them is
written from solutions/results/, so no number on a page is typed by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from shared.course import layout
from shared.facts.rows import Row, StudyRow, TrafficRow
from shared.measure import tables

_PART = re.compile(r"<!-- measured: ([\w.]+) -->\n.*?<!-- end -->", re.DOTALL)


def table(path: Path) -> str:
    """A recorded table as Markdown, with the machine under it."""
    recorded = tables.read(path)
    first = recorded.rows[0]
    if isinstance(first, TrafficRow):
        lines = _traffic(recorded.rows)
    elif isinstance(first, StudyRow):
        lines = _study(recorded.rows)
    else:
        lines = _benchmark(recorded.rows)
    note = f"{recorded.machine}, {first.dtype}, medians."
    if others := tables.pinned_otherwise(recorded.machine):
        note += f" The course's own environment has {' and '.join(others)}."
    return "\n".join([*lines, "", f"*{note}*"])


def _benchmark(rows: list[Row]) -> list[str]:
    first = rows[0]
    head = [first.x, *[f"{name}, µs" for name in (*first.baselines, first.function)]]
    head += [first.unit, "of the ceiling"]
    head += [f"{name.replace('yours', first.function)}, MB" for name in first.megabytes]
    lines = [_line(head), _aligned("r" * len(head))]
    for row in rows:
        times = [f"{time:.1f}" for time in (*row.baselines.values(), row.yours)]
        sizes = [f"{size:,.0f}" for size in row.megabytes.values()]
        speed = [f"{row.speed:.0f}", f"{row.of_ceiling:.0%}"]
        lines.append(_line([f"{row.value:,}", *times, *speed, *sizes]))
    return lines


def _study(rows: list[StudyRow]) -> list[str]:
    head = [rows[0].x, *[f"{name}, µs" for name in rows[0].times]]
    lines = [_line(head), _aligned("r" * len(head))]
    for row in rows:
        lines.append(_line([_number(row.value), *[f"{time:.1f}" for time in row.times.values()]]))
    return lines


def _traffic(rows: list[TrafficRow]) -> list[str]:
    head = [rows[0].x, "", "kernels", "read, MB", "written, MB", "µs"]
    lines = [_line(head), _aligned("rlrrrr")]
    for row in rows:
        numbers = [str(row.kernels), f"{row.read:.0f}", f"{row.written:.0f}", f"{row.time:.1f}"]
        lines.append(_line([_number(row.value), row.candidate, *numbers]))
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _aligned(sides: str) -> str:
    """The line under a table's head; a side is l or r."""
    return "|" + "".join("--:|" if side == "r" else ":--|" for side in sides)


def _number(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text


def refreshed(page: str) -> str:
    """The page's text with every marked part written anew. Raises ValueError for a function without
    results.
    """

    def part(match: re.Match) -> str:
        paths = tables.recorded(match.group(1))
        if not paths:
            raise ValueError(f"nothing is recorded for {match.group(1)}")
        shown = "\n\n".join(table(path) for path in paths)
        return f"<!-- measured: {match.group(1)} -->\n{shown}\n<!-- end -->"

    return _PART.sub(part, page)


def refresh_all() -> list[Path]:
    """Bring every lesson's page up to date; returns the pages that changed. Raises ValueError, with
    the page's name, for a function without results.
    """
    changed = []
    for path in sorted(layout.LESSONS.glob("*/README.md")):
        text = path.read_text(encoding="utf-8")
        try:
            fresh = refreshed(text)
        except ValueError as error:
            raise ValueError(f"{path.relative_to(layout.ROOT)}: {error}") from None
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            changed.append(path)
    return changed
