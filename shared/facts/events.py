"""What a worker process reports, a line for each event. Both ends share this definition."""

from __future__ import annotations

import json
from dataclasses import dataclass

from shared.facts.findings import CaseResult, Cause, Compiled, CompileError, MemoryUse, Plot
from shared.facts.machine import Machine
from shared.facts.plain import from_plain, to_plain
from shared.facts.rows import Row, StudyRow


@dataclass(frozen=True)
class Busy:
    """Something began that may take a while: a sign of life."""

    what: str


@dataclass(frozen=True)
class OnMachine:
    machine: Machine


@dataclass(frozen=True)
class NoGpu:
    """PyTorch sees no GPU, although one was asked for."""


@dataclass(frozen=True)
class GpuLost:
    """The GPU does nothing more for this process, after an illegal access."""


@dataclass(frozen=True)
class ImportFailed:
    message: str
    line: int


@dataclass(frozen=True)
class ContractBroken:
    """A function is missing, or cannot be called as the lesson calls it."""

    message: str
    line: int


@dataclass(frozen=True)
class CaseStarted:
    function: str
    label: str


@dataclass(frozen=True)
class CaseDone:
    case: CaseResult


@dataclass(frozen=True)
class GaveUp:
    """Enough cases have failed: the others would say nothing new."""


@dataclass(frozen=True)
class CauseFound:
    cause: Cause


@dataclass(frozen=True)
class MemoryCounted:
    use: MemoryUse


@dataclass(frozen=True)
class Targets:
    """What kernels are compiled for. own: the GPU of this machine, empty if there is none."""

    targets: tuple[str, ...]
    own: str


@dataclass(frozen=True)
class KernelCompiled:
    compiled: Compiled


@dataclass(frozen=True)
class KernelRefused:
    error: CompileError


@dataclass(frozen=True)
class NotCompiled:
    """A launcher raised before its kernels could be compiled."""

    function: str
    message: str


@dataclass(frozen=True)
class Timed:
    row: Row


@dataclass(frozen=True)
class Saved:
    plot: Plot


@dataclass(frozen=True)
class StudyTimed:
    function: str
    study: str
    rows: tuple[StudyRow, ...]


@dataclass(frozen=True)
class NotDrawn:
    """A function's accesses could not be drawn."""

    function: str
    message: str


@dataclass(frozen=True)
class End:
    """The job is done."""


Event = (
    Busy | OnMachine | NoGpu | GpuLost | ImportFailed | ContractBroken | CaseStarted | CaseDone
    | GaveUp | CauseFound | MemoryCounted | Targets | KernelCompiled | KernelRefused | NotCompiled
    | Timed | Saved | StudyTimed | NotDrawn | End
)  # fmt: skip
_KINDS = {kind.__name__: kind for kind in Event.__args__}


def encoded(event: Event) -> str:
    """The event as one line."""
    return json.dumps({"event": type(event).__name__, **to_plain(event)}, allow_nan=False)


def decoded(line: str) -> Event:
    """The event that a line says. Raises ValueError if it says none."""
    data = json.loads(line)
    kind = _KINDS.get(str(data.pop("event", ""))) if isinstance(data, dict) else None
    if kind is None:
        raise ValueError(f"no event: {line:.100}")
    return from_plain(kind, data)
