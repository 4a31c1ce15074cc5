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
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from shared import process
from shared.exercise import Function, Study

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


def counted(job: dict, function: Function, study: Study) -> dict[tuple[str, str], Moved]:
    """Each candidate at each value of a study: (value, candidate) -> what it moved.

    job: of the worker that asks. Raises RuntimeError if ncu is missing or fails.
    """
    if not counter():
        raise RuntimeError(f"{study.name}: ncu (NVIDIA Nsight Compute) counts it, and is not here")
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        log = Path(folder) / "ncu.csv"
        under = [counter(), "--csv", "--log-file", str(log), "--print-units", "base"]
        under += ["--metrics", f"{_READ},{_WRITTEN}", "--profile-from-start", "off"]
        under += ["--cache-control", "none", "--clock-control", "none"]
        asked = {**job, "kind": "traffic", "function": function.name, "study": study.name}
        worker = process.Worker(asked, 300, under)
        for _ in worker.events():
            pass
        if worker.end.kind != "done":
            raise RuntimeError(f"{study.name}: {worker.end.text} {worker.end.output[-500:]}")
        moved = parse(log.read_text(encoding="utf-8"))
    calls = [(str(value), name) for value in study.values for name in study.candidates]
    return dict(zip(calls, moved, strict=True))


def call_each(study: Study, function: Function, module: ModuleType, device: str) -> None:
    """Call every candidate at every value, warmed up, a marker before each. Runs under ncu."""
    import torch

    from shared import timing

    runtime = torch.cuda.cudart()
    for value in study.values:
        inputs = timing.inputs_for(function, study, device, value)
        for candidate in timing.study_candidates(study, module, inputs).values():
            candidate()
            torch.cuda.synchronize()
            runtime.cudaProfilerStart()
            torch.cuda._sleep(1)
            candidate()
            torch.cuda.synchronize()
            runtime.cudaProfilerStop()


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
