"""The rows of measured tables, and how they stand in a CSV file.

A row knows the names of its columns; nothing else in the course does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_YOURS = "yours"
_CEILINGS = {"copy": ("gbps", "least_bytes"), "product": ("tflops", "flops")}
_UNITS = {"copy": ("GB/s", 1e3), "product": ("TFLOP/s", 1e6)}  # and how many a µs one of it is


def speed(ceiling: str, amount: float, microseconds: float) -> float:
    """An amount over its time, in the unit that goes with the ceiling."""
    return amount / microseconds / _UNITS[ceiling][1]


@dataclass(frozen=True)
class Row:
    """One size of a benchmark. Times are medians in µs.

    x, value:   what is swept and its value, as ("columns", 4096).
    baselines:  the time of each.
    yours, low, high: the time of the function under test, its 20 % and its 80 % quantile.
    ceiling:    what the speed is held against: "copy", a copy of as many bytes, or "product", a
                cuBLAS product of as many operations.
    ceiling_us: its time.
    amount:     the least bytes that have to be moved, or the floating-point operations.
    speed:      of yours, in `unit`.
    of_ceiling: the time at the ceiling of what the algorithm has to move or to compute, over yours.
    megabytes:  the most memory allocated at once, by candidate, "yours" among them; empty if that
                is not measured.
    """

    function: str
    x: str
    value: int
    dtype: str
    baselines: dict[str, float]
    yours: float
    low: float
    high: float
    ceiling: str
    ceiling_us: float
    amount: float
    speed: float
    of_ceiling: float
    megabytes: dict[str, float] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Of the speed: GB/s of the least traffic, or TFLOP/s."""
        return _UNITS[self.ceiling][0]

    def speed_at(self, microseconds: float) -> float:
        """The speed of what takes so long, in `unit`."""
        return speed(self.ceiling, self.amount, microseconds)

    def cells(self) -> dict[str, object]:
        """The row as it stands in a CSV file, by column."""
        speed, amount = _CEILINGS[self.ceiling]
        return {
            "x": self.x,
            "value": self.value,
            "dtype": self.dtype,
            **{f"{name}_us": time for name, time in self.baselines.items()},
            f"{self.ceiling}_us": self.ceiling_us,
            f"{_YOURS}_us": self.yours,
            speed: self.speed,
            "of_ceiling": self.of_ceiling,
            **{f"{name}_mb": size for name, size in self.megabytes.items()},
            f"{_YOURS}_low": self.low,
            f"{_YOURS}_high": self.high,
            amount: self.amount,
        }

    @classmethod
    def from_cells(cls, function: str, cells: Mapping[str, str]) -> Row:
        """The row from its cells, all of them text."""
        ceiling = next(name for name in _CEILINGS if f"{name}_us" in cells)
        times = _ending(cells, "_us")
        yours, ceiling_us = times.pop(_YOURS), times.pop(ceiling)
        return cls(
            function, cells["x"], int(cells["value"]), cells["dtype"], times, yours,
            float(cells[f"{_YOURS}_low"]), float(cells[f"{_YOURS}_high"]),
            ceiling, ceiling_us, float(cells[_CEILINGS[ceiling][1]]),
            float(cells[_CEILINGS[ceiling][0]]), float(cells["of_ceiling"]), _ending(cells, "_mb"),
        )  # fmt: skip


@dataclass(frozen=True)
class StudyRow:
    """One size of a study: the median time of each candidate in µs."""

    x: str
    value: str
    dtype: str
    times: dict[str, float]

    def cells(self) -> dict[str, object]:
        head = {"x": self.x, "value": self.value, "dtype": self.dtype}
        return head | {f"{name}_us": time for name, time in self.times.items()}

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> StudyRow:
        return cls(cells["x"], cells["value"], cells["dtype"], _ending(cells, "_us"))


@dataclass(frozen=True)
class TrafficRow:
    """One candidate of a study at one size: its kernels, what they moved, and its time in µs.

    read, written: MB (10**6 bytes) between the GPU and its memory.
    """

    x: str
    value: str
    dtype: str
    candidate: str
    kernels: int
    read: float
    written: float
    time: float

    def cells(self) -> dict[str, object]:
        head = {"x": self.x, "value": self.value, "dtype": self.dtype, "candidate": self.candidate}
        moved = {"read_mb": self.read, "written_mb": self.written}
        return head | {"kernels": self.kernels, **moved, "us": self.time}

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> TrafficRow:
        numbers = [float(cells[name]) for name in ("read_mb", "written_mb", "us")]
        head = [cells[name] for name in ("x", "value", "dtype", "candidate")]
        return cls(*head, int(cells["kernels"]), *numbers)


def rows_from(function: str, cells: Iterable[Mapping[str, str]]) -> list:
    """The rows of a CSV file, whichever of the three they are."""
    cells = list(cells)
    if cells and "kernels" in cells[0]:
        return [TrafficRow.from_cells(one) for one in cells]
    if cells and f"{_YOURS}_us" in cells[0]:
        return [Row.from_cells(function, one) for one in cells]
    return [StudyRow.from_cells(one) for one in cells]


def _ending(cells: Mapping[str, str], ending: str) -> dict[str, float]:
    """The cells of the columns with that ending, by what stands before it."""
    return {
        name.removesuffix(ending): float(cell)
        for name, cell in cells.items()
        if name.endswith(ending)
    }
