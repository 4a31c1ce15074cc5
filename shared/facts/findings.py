"""What a check finds out about a kernel: how a case came out, accesses, a cause, a compilation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How one case came out.

    CONTRACT: a wrong type, shape, dtype or device, a changed input, an argument not refused.
    MEMORY:   an access out of bounds, or a race.
    SKIPPED:  this machine cannot run the case.
    """

    OK = "ok"
    WRONG = "wrong"
    RAISED = "raised"
    CONTRACT = "contract"
    MEMORY = "memory"
    SKIPPED = "skipped"

    @property
    def failed(self) -> bool:
        return self not in (Status.OK, Status.SKIPPED)


@dataclass(frozen=True)
class Comparison:
    """How far a result is from the truth. index: of the first wrong element; counts: elements.

    result: which of several results, from 1; 0 if there is only one.
    """

    wrong: int
    total: int
    index: tuple[int, ...]
    got: float
    expected: float
    error: float
    allowed: float
    unexpected_nan: int
    missing_nan: int
    result: int = 0

    @property
    def text(self) -> str:
        """One sentence with the numbers."""
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        which = f"result {self.result}: " if self.result else ""
        head = f"{which}{self.wrong:,} of {self.total:,} elements wrong; "
        head += f"out{where} is {self.got:.6g}, should be {self.expected:.6g}"
        if math.isfinite(self.error):
            return f"{head} (error {self.error:.1e}, allowed {self.allowed:.1e})"
        if self.unexpected_nan:
            return f"{head}; {self.unexpected_nan:,} are NaN and should not be"
        return head


class Fault(Enum):
    """What can be wrong with an access."""

    OUT_OF_BOUNDS = "out of bounds"
    RACE = "race"


@dataclass(frozen=True)
class Finding:
    """Something wrong with an access.

    text:    one sentence for a person.
    access:  "load", "store" or "atomic".
    tensor:  the kernel's name for the argument, as `out_ptr`.
    offset:  elements from the argument's first element.
    program: the program id, three numbers.
    kernel:  the kernel's name.
    line:    line of the source file, 0 if unknown.
    lanes:   how many lanes of the access are concerned.
    """

    kind: Fault
    text: str
    access: str
    tensor: str
    offset: int
    program: tuple[int, int, int]
    kernel: str
    line: int
    lanes: int = 1


@dataclass(frozen=True)
class CaseResult:
    """One case of one function, and how it came out.

    label, why: as the lesson says them.
    message: one sentence, empty if all is well.
    line: of the file under test, 0 if none is known.
    in_interpreter: beside a GPU, for what only the interpreter saw.
    """

    function: str
    label: str
    why: str
    status: Status
    message: str = ""
    numbers: Comparison | None = None
    finding: Finding | None = None
    line: int = 0
    in_interpreter: bool = False


class Kind(Enum):
    """How a cause was found: an edited solution gave the same, or the failure looks like it."""

    MISTAKE = "mistake"
    PATTERN = "pattern"


@dataclass(frozen=True)
class Cause:
    """A likely cause, ready to be told.

    todo, line: 0 if it belongs to none, or the place is not known.
    hidden_on_gpu: whether values that it spoils may be right on today's GPUs all the same.
    """

    kind: Kind
    name: str
    says: str
    look: str = ""
    todo: int = 0
    line: int = 0
    hidden_on_gpu: bool = False


@dataclass
class Totals:
    """What one call moved, counted while it runs.

    read, written: bytes of the lanes that were not masked out.
    idle_programs: programs without a single lane that read or wrote.
    read_sectors, written_sectors: distinct 32-byte sectors, counted for each access of each
    program.
    """

    read: int = 0
    written: int = 0
    read_sectors: int = 0
    written_sectors: int = 0
    programs: int = 0
    idle_programs: int = 0
    launches: int = 0


@dataclass(frozen=True)
class MemoryUse:
    """What a function moved, beside the least possible, and what it allocated. In bytes."""

    function: str
    label: str
    moved: Totals
    least_read: int
    least_written: int
    allocated: int
    returned: int


@dataclass(frozen=True)
class Compiled:
    """One kernel of one function compiled for one target.

    registers:    per thread. None if they could not be read.
    spilled:      bytes per thread that did not fit in registers.
    shared:       bytes of shared memory per program.
    occupancy:    resident warps over the most the multiprocessor holds, 0 to 1; None if unknown.
    load_bytes:   the widest load from global memory, bytes per thread and instruction; 0 if the
                  TMA unit does all of them.
    instructions: those that matter, as "wgmma" or "cp.async".
    """

    function: str
    kernel: str
    target: str
    num_warps: int
    registers: int | None
    spilled: int | None
    shared: int
    occupancy: float | None
    load_bytes: int
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompileError:
    """Triton's message boiled down. line: in the learner's file, 0 if unknown."""

    function: str
    kernel: str
    target: str
    message: str
    line: int
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Files that were written. csv, png: paths, empty if there is none."""

    csv: str = ""
    png: str = ""
