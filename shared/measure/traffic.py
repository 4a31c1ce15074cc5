"""What calls launch and move on a GPU, counted by NVIDIA's Nsight Compute.

Only for recording the solutions' studies. The candidates run once each in a worker process under
`ncu`, a marker kernel before each of them, and ncu reports for every kernel the bytes that went
between the GPU and its memory.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.facts.rows import StudyRow, TrafficRow

_READ, _WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_MARKER = "spin_kernel"  # what torch.cuda._sleep launches


@dataclass(frozen=True)
class Moved:
    """What one call did. read, written: bytes between the GPU and its memory."""

    kernels: int
    read: float
    written: float


def counter() -> str:
    """The path of ncu, or "" where it is not installed."""
    return shutil.which("ncu", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin") or ""


@contextmanager
def counting() -> Iterator[tuple[tuple[str, ...], Path]]:
    """The command under which a worker is counted, and the file in which ncu then reports.

    Raises RuntimeError where ncu is not installed.
    """
    if not counter():
        raise RuntimeError("ncu (NVIDIA Nsight Compute) counts it, and is not here")
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        log = Path(folder) / "ncu.csv"
        under = [counter(), "--csv", "--log-file", str(log), "--print-units", "base"]
        under += ["--metrics", f"{_READ},{_WRITTEN}", "--profile-from-start", "off"]
        under += ["--cache-control", "none", "--clock-control", "none"]
        yield tuple(under), log


def mark() -> None:
    """Launch the kernel that stands before each call. In the worker."""
    import torch

    torch.cuda._sleep(1)


def parse(text: str) -> list[Moved]:
    """ncu's CSV cut at the markers: one entry for each marker."""
    rows = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    calls: list[dict[str, dict[str, float]]] = []
    for row in rows:
        if _MARKER in row["Kernel Name"]:
            if row["Metric Name"] == _READ:
                calls.append({})
            continue
        kernel = calls[-1].setdefault(row["ID"], {})
        kernel[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return [
        Moved(len(call), *(sum(k[m] for k in call.values()) for m in (_READ, _WRITTEN)))
        for call in calls
    ]


def with_moved(rows: list[StudyRow], moved: list[Moved]) -> list[TrafficRow]:
    """A study's rows, one for each candidate at each size, with what it moved.

    Raises RuntimeError if that was not counted for each of them.
    """
    calls = [(row, candidate) for row in rows for candidate in row.times]
    if len(calls) != len(moved):
        raise RuntimeError(f"ncu counted {len(moved)} calls, there were {len(calls)}")
    return [
        TrafficRow(
            x=row.x,
            value=row.value,
            dtype=row.dtype,
            candidate=candidate,
            kernels=one.kernels,
            read=one.read / 1e6,
            written=one.written / 1e6,
            time=row.times[candidate],
        )
        for (row, candidate), one in zip(calls, moved, strict=True)
    ]
