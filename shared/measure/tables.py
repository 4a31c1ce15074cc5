"""Measured tables as CSV files, the machine in their first line."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.course import layout
from shared.facts.machine import Machine
from shared.facts.rows import Row, StudyRow, TrafficRow, rows_from


@dataclass(frozen=True)
class Table:
    """A recorded table. machine: one line that says what it was measured on."""

    machine: str
    rows: list[Row] | list[StudyRow] | list[TrafficRow]


def folder_for(results: Path, machine: Machine | None) -> Path:
    """The folder for tables, made if it is not there; that of the GPU's model, if one is given."""
    folder = results / machine.name.replace(" ", "_") if machine else results
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save(rows: Sequence[Row | StudyRow | TrafficRow], path: Path, machine: Machine) -> None:
    """Write rows of one kind."""
    import pandas as pd

    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# {machine.summary}\n")
        table = pd.DataFrame([row.cells() for row in rows])
        table.to_csv(file, index=False, float_format="%.4g")


def read(path: Path) -> Table:
    """What `save` wrote."""
    with open(path, encoding="utf-8") as file:
        machine = file.readline().lstrip("# ").strip()
        return Table(machine, rows_from(path.stem, csv.DictReader(file)))


def recorded(name: str) -> list[Path]:
    """The recorded tables of one function or `<function>.<study>`, one for each GPU model."""
    return sorted(layout.RESULTS.glob(f"*/{name}.csv"))


def pinned_otherwise(machine: str) -> list[str]:
    """The packages, as "torch 2.13.0", that requirements.txt pins to another version than the one
    that a table was measured with.
    """
    measured = dict(part.rsplit(" ", 1) for part in machine.split(", ")[1:])
    pins = (layout.ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in pins if "==" in line)
    return [f"{name} {pinned[name]}" for name, at in measured.items() if pinned.get(name, at) != at]
