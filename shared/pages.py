"""Puts the recorded measurements into the lessons' pages.

A page says `<!-- measured: row_wise_sum -->` and `<!-- end -->`; what stands between them is
written from solutions/results/, so no number on a page is typed by hand.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from shared import course

_PART = re.compile(r"<!-- measured: ([\w.]+) -->\n.*?<!-- end -->", re.DOTALL)


def results_of(function: str) -> list[Path]:
    """The recorded tables of one function or `<function>.<study>`, one for each GPU model."""
    return sorted(course.RESULTS.glob(f"*/{function}.csv"))


def recorded(path: Path) -> tuple[str, list[dict[str, str]]]:
    """What `timing.save` wrote: the machine's line, and the rows as text by column."""
    with open(path, encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip(), list(csv.DictReader(file))


def baselines(row: dict) -> list[str]:
    """The names of the baselines, or of a study's candidates, from a row's columns."""
    own = ("copy_us", "product_us", "yours_us")
    return [name.removesuffix("_us") for name in row if name.endswith("_us") and name not in own]


def speed(row: dict) -> tuple[float, str]:
    """The speed in a row, and its unit."""
    if "gbps" in row:
        return float(row["gbps"]), "GB/s"
    return float(row["tflops"]), "TFLOP/s"


def table(path: Path) -> str:
    """A recorded table as Markdown, with the machine under it."""
    machine, rows = recorded(path)
    if "kernels" in rows[0]:
        lines = _traffic(rows)
    elif "yours_us" in rows[0]:
        lines = _benchmark(path.stem, rows)
    else:
        lines = _study(rows)
    return "\n".join([*lines, "", f"*{machine}, {rows[0]['dtype']}, medians.*"])


def _benchmark(function: str, rows: list[dict]) -> list[str]:
    names = baselines(rows[0])
    head = [
        rows[0]["x"],
        *[f"{name}, µs" for name in names],
        f"{function}, µs",
        speed(rows[0])[1],
        "of the ceiling",
    ]
    memory = [name for name in rows[0] if name.endswith("_mb")]
    head += [f"{name.removesuffix('_mb').replace('yours', function)}, MB" for name in memory]
    lines = [f"| {' | '.join(head)} |", "|" + "--:|" * len(head)]
    for row in rows:
        cells = [
            _number(row["value"]),
            *[f"{float(row[name + '_us']):.1f}" for name in (*names, "yours")],
            f"{speed(row)[0]:.0f}",
            f"{float(row['of_ceiling']):.0%}",
            *[f"{float(row[name]):,.0f}" for name in memory],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _study(rows: list[dict]) -> list[str]:
    names = baselines(rows[0])
    head = [rows[0]["x"], *[f"{name}, µs" for name in names]]
    lines = [f"| {' | '.join(head)} |", "|" + "--:|" * len(head)]
    for row in rows:
        cells = [_number(row["value"]), *[f"{float(row[name + '_us']):.1f}" for name in names]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _traffic(rows: list[dict]) -> list[str]:
    head = [rows[0]["x"], "", "kernels", "read, MB", "written, MB", "µs"]
    lines = [f"| {' | '.join(head)} |", "|--:|:--|" + "--:|" * (len(head) - 2)]
    for row in rows:
        moved = [f"{float(row[k]):.0f}" if row[k] else "-" for k in ("read_mb", "written_mb")]
        cells = [_number(row["value"]), row["candidate"], row["kernels"], *moved]
        lines.append(f"| {' | '.join(cells)} | {float(row['us']):.1f} |")
    return lines


def _number(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text


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
    """Bring every lesson's page up to date; returns the pages that changed. Raises ValueError, with
    the page's name, for a function without results.
    """
    changed = []
    for path in sorted(course.LESSONS.glob("*/README.md")):
        text = path.read_text(encoding="utf-8")
        try:
            fresh = refreshed(text)
        except ValueError as error:
            raise ValueError(f"{path.relative_to(course.ROOT)}: {error}") from None
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            changed.append(path)
    return changed
