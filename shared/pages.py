"""Puts the recorded measurements into the lessons' pages.

A page says `<!-- measured: row_wise_sum -->` and `<!-- end -->`; what stands between them is
written from solutions/results/, so no number on a page is typed by hand.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from shared import course

_PART = re.compile(r"<!-- measured: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def results_of(function: str) -> list[Path]:
    """The recorded tables of one function, one for each GPU model."""
    return sorted(course.RESULTS.glob(f"*/{function}.csv"))


def recorded(path: Path) -> tuple[str, list[dict[str, str]]]:
    """What `timing.save` wrote: the machine's line, and the rows as text by column."""
    with open(path, encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip(), list(csv.DictReader(file))


def table(path: Path) -> str:
    """A recorded table as Markdown, with the machine under it."""
    machine, rows = recorded(path)
    names = [
        k.removesuffix("_us")
        for k in rows[0]
        if k.endswith("_us") and k not in ("copy_us", "yours_us")
    ]
    head = [
        rows[0]["x"],
        *[f"{name}, µs" for name in names],
        f"{path.stem}, µs",
        "GB/s",
        "of the ceiling",
    ]
    lines = [f"| {' | '.join(head)} |", "|" + "--:|" * len(head)]
    for row in rows:
        cells = [
            f"{int(row['value']):,}",
            *[f"{float(row[name + '_us']):.1f}" for name in (*names, "yours")],
            f"{float(row['gbps']):.0f}",
            f"{float(row['of_ceiling']):.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"*{machine}, {rows[0]['dtype']}, medians.*"])


def refreshed(page: str) -> str:
    """The page's text with every marked part written anew. Raises ValueError for a function without
    results.
    """

    def part(match: re.Match) -> str:
        paths = results_of(match.group(1))
        if not paths:
            raise ValueError(f"nothing is recorded for {match.group(1)}")
        tables = "\n\n".join(table(path) for path in paths)
        return f"<!-- measured: {match.group(1)} -->\n{tables}\n<!-- end -->"

    return _PART.sub(part, page)


def refresh_all() -> list[Path]:
    """Bring every lesson's page up to date; returns the pages that changed."""
    changed = []
    for path in sorted(course.LESSONS.glob("*/README.md")):
        text = path.read_text(encoding="utf-8")
        fresh = refreshed(text)
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            changed.append(path)
    return changed
