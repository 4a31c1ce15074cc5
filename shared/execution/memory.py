"""The interpreter's loads and stores, observed.

Triton's interpreter performs every access through three methods of its builder, with real
addresses and masks. `Recorder` stands in front of them and finds, exactly and before anything is
touched: accesses outside every argument, elements written by two programs, values read from
another program of the same launch, lanes that a masked load leaves undefined, bytes and sectors
moved. It only works in a process with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from shared.execution.buffers import element_index, span_of
from shared.facts.findings import Fault, Finding, Totals
from shared.lesson.prose import unbroken

SECTOR_BYTES = 32  # what a GPU moves between L2 and DRAM at the least
_TRACKED_ELEMENTS = 1 << 22  # who wrote what is kept for tensors up to this span
_NOBODY, _SEVERAL = -1, -2  # in place of a program's number


_READS_ANOTHERS = unbroken("""reads what another program of the same launch wrote: programs run in
    any order, so on a GPU it may not be there yet""")
_WRITES_ANOTHERS = unbroken("""writes an element that another program wrote with another value:
    which one stays is chance""")
_WRITES_WHAT_IS_READ = unbroken("""writes an element that another program of the same launch reads:
    programs run in any order""")


class AccessError(Exception):
    """A lane touched memory it must not touch. `finding` says which and where."""

    def __init__(self, finding: Finding):
        super().__init__(finding.text)
        self.finding = finding


class TooManyPrograms(Exception):
    """A launch has more programs than `Recorder.most_programs`."""


@dataclass
class Region:
    """The memory of one tensor argument during one launch."""

    name: str
    tensor: torch.Tensor
    low: int
    high: int
    writer: np.ndarray | None = None
    reader: np.ndarray | None = None
    value: np.ndarray | None = None
    atomic: bool = False

    @property
    def itemsize(self) -> int:
        return self.tensor.element_size()

    def describe(self, offset: int) -> str:
        """Where an offset lies, as a reader of the kernel would say it."""
        span = (self.high - self.low) // self.itemsize
        if offset >= span:
            return f"{offset - span + 1} past its last element"
        if offset < 0:
            return f"{-offset} before its first element"
        index = element_index(offset, self.tensor)
        return f"element {list(index)}" if index is not None else f"offset {offset}"


@dataclass
class Launch:
    """One kernel launch as it was seen."""

    kernel: str
    grid: tuple[int, int, int] = (0, 0, 0)
    regions: list[Region] = field(default_factory=list)


@dataclass
class Access:
    """One load or store of one program, kept only while `Recorder.keep_accesses` is true."""

    kind: str
    launch: int
    tensor: str
    program: tuple[int, int, int]
    offsets: np.ndarray
    masked: int


class Recorder:
    """Observes every launch inside `with recorder.watching():`.

    source:         the file whose lines are reported.
    count_sectors:  also count sectors, which costs a sort for every access.
    keep_accesses:  also keep every access, to draw a picture of them.
    fill_undefined: give lanes that a masked load without `other` leaves undefined the value NaN.
                    The language promises nothing for them; today's GPUs happen to give 0.
    most_programs:  a launch of more raises TooManyPrograms at its first access.
    """

    def __init__(
        self,
        source: str,
        count_sectors: bool = False,
        keep_accesses: bool = False,
        fill_undefined: bool = True,
        most_programs: int = 1 << 40,
    ):
        self.source = source
        self.most_programs = most_programs
        self.count_sectors = count_sectors
        self.keep_accesses = keep_accesses
        self.fill_undefined = fill_undefined
        self.totals = Totals()
        self.launches: list[Launch] = []
        self.accesses: list[Access] = []
        self.findings: list[Finding] = []
        self.undefined_lines: Counter[int] = Counter()
        self._launch: Launch | None = None
        self._atomics = False
        self._busy: set[int] = set()

    # What happens around a launch

    @contextmanager
    def watching(self):
        """Put the recorder in front of the interpreter's builder until the block ends."""
        from triton.runtime import interpreter

        builder = interpreter.InterpreterBuilder
        executor = interpreter.GridExecutor
        replaced = {
            (builder, "create_masked_load"): self._load(
                builder.create_masked_load, interpreter.TensorHandle
            ),
            (builder, "create_masked_store"): self._store(builder.create_masked_store),
            (builder, "create_atomic_rmw"): self._atomic_rmw(builder.create_atomic_rmw),
            (builder, "create_atomic_cas"): self._atomic_cas(builder.create_atomic_cas),
            (executor, "__call__"): self._run(executor.__call__),
        }
        originals = {key: getattr(*key) for key in replaced}
        for (owner, name), method in replaced.items():
            setattr(owner, name, method)
        try:
            yield self
        finally:
            for (owner, name), method in originals.items():
                setattr(owner, name, method)

    def _run(self, run):
        def observed(executor, *args, **kwargs):
            names = executor.arg_names
            bound = {
                **dict(zip(names, args, strict=False)),
                **{k: v for k, v in kwargs.items() if k in names},
            }
            launch = Launch(kernel=executor.fn.__name__)
            for name, value in bound.items():
                tensor = getattr(value, "base", value)  # a TensorDescriptor has its tensor in .base
                if isinstance(tensor, torch.Tensor):
                    launch.regions.append(_region(name, tensor, launch.regions))
            self._launch, self._atomics, self._busy = launch, False, set()
            self.launches.append(launch)
            self.totals.launches += 1
            try:
                return run(executor, *args, **kwargs)
            finally:
                from triton.runtime import interpreter

                launch.grid = tuple(getattr(interpreter.interpreter_builder, "grid_dim", (0, 0, 0)))
                self.totals.programs += int(np.prod(launch.grid))
                self.totals.idle_programs += int(np.prod(launch.grid)) - len(self._busy)
                self._launch = None

        return observed

    # What happens at an access

    def _load(self, load, handle_type):
        def observed(builder, ptrs, mask, other, *args, **kwargs):
            region, offsets, _ = self._visit(builder, "load", ptrs, mask)
            self.totals.read += offsets.size * (region.itemsize if region else 0)
            if region is not None:
                self._check_read(builder, region, offsets)
            if other is None and self.fill_undefined and not mask.data.all():
                other = handle_type(_undefined(ptrs, mask), ptrs.get_element_ty())
                self.undefined_lines[self._line()] += 1
            return load(builder, ptrs, mask, other, *args, **kwargs)

        return observed

    def _store(self, store):
        def observed(builder, ptrs, value, mask, *args, **kwargs):
            region, offsets, active = self._visit(builder, "store", ptrs, mask)
            self.totals.written += offsets.size * (region.itemsize if region else 0)
            if region is not None:
                self._check_write(
                    builder, region, offsets, np.broadcast_to(value.data, ptrs.data.shape)[active]
                )
            return store(builder, ptrs, value, mask, *args, **kwargs)

        return observed

    def _atomic_rmw(self, atomic):
        def observed(builder, op, ptr, value, mask, *args, **kwargs):
            self._count_atomic(builder, ptr, mask)
            return atomic(builder, op, ptr, value, mask, *args, **kwargs)

        return observed

    def _atomic_cas(self, atomic):
        def observed(builder, ptr, *args, **kwargs):
            self._count_atomic(builder, ptr, None)
            return atomic(builder, ptr, *args, **kwargs)

        return observed

    def _count_atomic(self, builder, ptr, mask) -> None:
        self._atomics = True
        region, offsets, _ = self._visit(builder, "atomic", ptr, mask)
        if region is not None:
            region.atomic = True
            self.totals.read += offsets.size * region.itemsize
            self.totals.written += offsets.size * region.itemsize

    def _visit(self, builder, kind: str, ptrs, mask):
        """Check the active lanes' addresses; returns the region, their offsets in elements, and the
        lanes.
        """
        addresses = ptrs.data
        active = (
            np.ones(addresses.shape, bool)
            if mask is None
            else np.broadcast_to(mask.data, addresses.shape)
        )
        active = active.astype(bool)
        addresses = addresses[active].astype(np.int64)
        if self._launch is None:
            return None, addresses, active
        if int(np.prod(builder.grid_dim)) > self.most_programs:
            raise TooManyPrograms
        if addresses.size == 0:
            return None, addresses, active
        self._busy.add(_linear(builder))
        low, high = int(addresses.min()), int(addresses.max())
        itemsize = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        region = next(
            (r for r in self._launch.regions if r.low <= low and high + itemsize <= r.high), None
        )
        if region is None:
            raise AccessError(self._out_of_bounds(builder, kind, addresses, itemsize))
        if self.count_sectors and kind != "atomic":
            sectors = len(np.unique(addresses // SECTOR_BYTES))
            if kind == "load":
                self.totals.read_sectors += sectors
            else:
                self.totals.written_sectors += sectors
        offsets = (addresses - region.low) // region.itemsize
        if self.keep_accesses:
            self.accesses.append(
                Access(
                    kind,
                    len(self.launches) - 1,
                    region.name,
                    tuple(builder.grid_idx),
                    offsets,
                    int(active.size - offsets.size),
                )
            )
        return region, offsets, active

    def _out_of_bounds(self, builder, kind, addresses, itemsize) -> Finding:
        regions = self._launch.regions
        candidates = [r for r in regions if r.tensor.element_size() == itemsize] or regions

        # The argument meant is the one that most of the access's lanes lie in, else the nearest
        # one.
        def lanes_inside(region: Region) -> np.ndarray:
            return (addresses >= region.low) & (addresses + itemsize <= region.high)

        def closeness(region: Region) -> tuple[int, int]:
            gap = min(abs(addresses - region.low).min(), abs(addresses - region.high).min())
            return int(lanes_inside(region).sum()), -int(gap)

        line, program, kernel = self._line(), tuple(builder.grid_idx), self._launch.kernel
        if not candidates:
            return Finding(
                Fault.OUT_OF_BOUNDS,
                f"{kernel} makes a {kind} and has no tensor argument",
                kind,
                "",
                0,
                program,
                kernel,
                line,
            )
        region = max(candidates, key=closeness)
        outside = addresses[~lanes_inside(region)]
        offset = int((outside[0] - region.low) // region.itemsize)
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[kind]
        lanes = f", {len(outside)} lanes in all" if len(outside) > 1 else ""
        where = f"{region.name} at offset {offset:,}: {region.describe(offset)}{lanes}"
        text = f"program {program_number(program)} {verb} {where}"
        return Finding(
            Fault.OUT_OF_BOUNDS,
            text,
            kind,
            region.name,
            offset,
            program,
            kernel,
            line,
            len(outside),
        )

    def _check_read(self, builder, region: Region, offsets) -> None:
        if region.writer is None or self._atomics:
            return
        me = _linear(builder)
        writers = region.writer[offsets]
        foreign = (writers != _NOBODY) & (writers != me)
        if foreign.any():
            self._race(
                builder,
                region,
                int(offsets[foreign][0]),
                "load",
                _READS_ANOTHERS,
            )
        readers = region.reader[offsets]
        region.reader[offsets] = np.where((readers == _NOBODY) | (readers == me), me, _SEVERAL)

    def _check_write(self, builder, region: Region, offsets, values) -> None:
        if region.writer is None:
            return
        me = _linear(builder)
        writers = region.writer[offsets]
        foreign = (writers != _NOBODY) & (writers != me)
        if foreign.any() and not self._atomics:
            bits = np.ascontiguousarray(values).view(f"u{region.itemsize}")
            differs = foreign & (region.value[offsets] != bits)
            if differs.any():
                self._race(
                    builder,
                    region,
                    int(offsets[differs][0]),
                    "store",
                    _WRITES_ANOTHERS,
                )
        readers = region.reader[offsets]
        foreign = (readers != _NOBODY) & (readers != me)
        if foreign.any() and not self._atomics:
            self._race(
                builder,
                region,
                int(offsets[foreign][0]),
                "store",
                _WRITES_WHAT_IS_READ,
            )
        region.writer[offsets] = me
        region.value[offsets] = (
            np.ascontiguousarray(values).astype(values.dtype).view(f"u{region.itemsize}")
        )

    def _race(self, builder, region: Region, offset: int, kind: str, what: str) -> None:
        if any(f.kind is Fault.RACE and f.tensor == region.name for f in self.findings):
            return
        program = tuple(builder.grid_idx)
        text = (
            f"program {program_number(program)} {what} ({region.name}, {region.describe(offset)})"
        )
        self.findings.append(
            Finding(
                Fault.RACE,
                text,
                kind,
                region.name,
                offset,
                program,
                self._launch.kernel,
                self._line(),
            )
        )

    def _line(self) -> int:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.source:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    # What is asked afterwards

    def never_written(self, output: torch.Tensor) -> int:
        """How many elements of `output` no store reached; 0 where that is not known."""
        if not output.is_contiguous():
            return 0
        low, known = output.data_ptr(), False
        written = np.zeros(output.numel(), bool)
        for launch in self.launches:
            for region in launch.regions:
                if region.low == low and region.tensor.dtype == output.dtype:
                    if region.atomic or region.writer is None:
                        return 0
                    part = region.writer[: output.numel()] != _NOBODY
                    written[: part.size] |= part
                    known = True
        return int((~written).sum()) if known else 0


def _region(name: str, tensor: torch.Tensor, others: Sequence[Region]) -> Region:
    low = tensor.data_ptr()
    span = span_of(tensor.shape, tensor.stride())
    region = Region(name, tensor, low, low + span * tensor.element_size())
    for other in others:  # the same memory under two names has one history
        if (other.low, other.high) == (region.low, region.high):
            region.writer, region.reader, region.value = other.writer, other.reader, other.value
            return region
    if 0 < span <= _TRACKED_ELEMENTS:
        region.writer = np.full(span, _NOBODY, np.int64)
        region.reader = np.full(span, _NOBODY, np.int64)
        region.value = np.zeros(span, f"u{tensor.element_size()}")
    return region


def _linear(builder) -> int:
    x, y, z = builder.grid_idx
    _, ny, nz = builder.grid_dim
    return (x * ny + y) * nz + z


def program_number(program: tuple[int, int, int]) -> str:
    """A program id as it is spoken of: trailing zeros left out."""
    used = list(program)
    while len(used) > 1 and used[-1] == 0:
        used.pop()
    return ", ".join(map(str, used))


def _undefined(ptrs, mask) -> np.ndarray:
    """NaN for floats and a large number for integers, shaped like the load."""
    from triton.runtime.interpreter import _get_np_dtype

    dtype = np.dtype(_get_np_dtype(ptrs.get_element_ty()))
    if dtype.kind == "f":
        return np.full(ptrs.data.shape, np.nan, dtype)
    if dtype.kind == "b":
        return np.ones(ptrs.data.shape, dtype)
    if ptrs.get_element_ty().is_bf16():
        return np.full(ptrs.data.shape, 0x7FC0, dtype)
    return np.full(ptrs.data.shape, np.iinfo(dtype).max // 2, dtype)
