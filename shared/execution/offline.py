"""Compiles kernels for GPUs that are not there, and reads what the compiler made of them.

Works in a process without TRITON_INTERPRET. The launcher under test is called as usual; in place
of each launch its kernel is compiled for every target, from the very arguments of the launch, and
nothing runs. Registers and stack come from the cubin (cuobjdump, shipped with Triton) or from the
AMD assembly, occupancy from NVIDIA's published limits per multiprocessor.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from shared.facts.findings import Compiled, CompileError


@dataclass
class Compilation:
    """What a call's launches compiled to. One entry for each kernel and target."""

    compiled: list[Compiled] = field(default_factory=list)
    errors: list[CompileError] = field(default_factory=list)


class _Stop(Exception):
    """Leaves the launcher after a kernel that compiles for no target."""


class _OfflineDriver:
    """Stands where Triton expects a GPU driver, and knows only what to compile for."""

    def __init__(self, target, device: int):
        self.target = target
        self.device = device

    def get_current_target(self):
        return self.target

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device) -> int:
        return 0


def gpu_target(name: str):
    """Triton's GPUTarget for "sm_90" or "gfx942". Raises ValueError for anything else."""
    from triton.backends.compiler import GPUTarget

    if match := re.fullmatch(r"sm_(\d+)", name):
        return GPUTarget("cuda", int(match.group(1)), 32)
    if re.fullmatch(r"gfx9\w+", name):
        return GPUTarget("hip", name, 64)
    if re.fullmatch(r"gfx1\w+", name):
        return GPUTarget("hip", name, 32)
    raise ValueError(f"target: {name!r} is neither sm_NN nor gfxNNN")


@contextmanager
def _compiling(function: str, targets: Iterable[str], result: Compilation, source: str):
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    run = JITFunction.run
    previous = driver._active if hasattr(driver, "_active") else None
    seen: set[tuple[str, str]] = set()

    def compile_instead(fn, *args, grid, warmup, **kwargs):
        refused = 0
        for number, name in enumerate(targets):
            if (fn.fn.__name__, name) in seen:
                continue
            seen.add((fn.fn.__name__, name))
            driver.set_active(_OfflineDriver(gpu_target(name), 1000 + number))
            try:
                kernel = run(fn, *args, grid=grid, warmup=True, **kwargs)
            except Exception as refusal:  # it comes in many ways, all of them are the verdict
                message, line = boil_down(refusal, source)
                error = CompileError(function, fn.fn.__name__, name, message, line)
                result.errors.append(error)
                refused += 1
                continue
            result.compiled.append(_read(function, fn.fn.__name__, name, kernel))
        if refused == len(targets):
            raise _Stop

    JITFunction.run = compile_instead
    try:
        yield
    finally:
        JITFunction.run = run
        if previous is not None:
            driver.set_active(previous)


def compile_call(
    function: str, call: Callable, inputs: list, targets: Iterable[str], source: str
) -> Compilation:
    """Compile every kernel that `call(*inputs)` launches, for each target.

    function: what it is called. inputs: CPU tensors. source: the file whose lines are reported.
    Whatever else the launcher raises is passed on.
    """
    result = Compilation()
    with _compiling(function, tuple(targets), result, source), suppress(_Stop):
        call(*inputs)
    return result


def boil_down(error: BaseException, source: str) -> tuple[str, int]:
    """The one sentence of a compiler error, and its line in `source` (0 if it is not there)."""
    line, message = 0, ""
    link: BaseException | None = error
    while link is not None:
        node, text = getattr(link, "node", None), getattr(link, "src", None)
        if node is not None and text and not line:
            line = _line_in(source, text, node.lineno)
        # Outer links only repeat that something inside failed; the innermost message is the cause.
        said = getattr(link, "error_message", None) if node is not None else str(link)
        if said and said.strip():
            message = said
        link = link.__cause__
    if quoted := re.fullmatch(r"\w+\((['\"])(.*)\1\)", message.strip(), re.DOTALL):
        message = quoted.group(2)  # an exception shown as Python would write it
    lines = [part.strip() for part in message.splitlines() if part.strip()]
    return (lines[0] if lines else type(error).__name__), line


def _line_in(source: str, text: str, lineno: int) -> int:
    """Where the function with this text starts in the file, plus `lineno` - 1."""
    with open(source, encoding="utf-8") as file:
        whole = file.read()
    head = text.splitlines()[0]
    for number, line in enumerate(whole.splitlines(), 1):
        if line.strip() == head.strip():
            return number + lineno - 1
    return 0


def _read(function: str, name: str, target: str, kernel) -> Compiled:
    shared, num_warps = kernel.metadata.shared, kernel.metadata.num_warps
    if target.startswith("sm_"):
        registers, spilled = _cubin_resources(kernel.asm["cubin"])
        ptx = kernel.asm["ptx"]
        occupancy = (
            None if registers is None else nvidia_occupancy(target, registers, shared, num_warps)
        )
        return Compiled(
            function,
            name,
            target,
            num_warps,
            registers,
            spilled,
            shared,
            occupancy,
            _widest_ptx_load(ptx),
            _ptx_instructions(ptx),
        )
    asm = kernel.asm["amdgcn"]
    registers, spilled = (
        _number(asm, r"\.vgpr_count:\s+(\d+)"),
        _number(asm, r"\.vgpr_spill_count:\s+(\d+)"),
    )
    widest = max(
        (4 * int(n or 1) for n in re.findall(r"(?:global|buffer)_load_dword(?:x(\d))?", asm)),
        default=0,
    )
    matrix = ("mfma",) if "v_mfma" in asm else ()
    return Compiled(
        function,
        name,
        target,
        num_warps,
        registers,
        None if spilled is None else 4 * spilled,
        shared,
        None,
        widest,
        matrix,
    )


def _number(text: str, pattern: str) -> int | None:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else None


def _cubin_resources(cubin: bytes) -> tuple[int | None, int | None]:
    from triton import knobs

    try:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            text = subprocess.run(
                [knobs.nvidia.cuobjdump.path, "-res-usage", file.name],
                capture_output=True,
                text=True,
                timeout=60,
            ).stdout
    except (OSError, subprocess.SubprocessError, AttributeError, RuntimeError):
        return None, None
    return _number(text, r"REG:(\d+)"), _number(text, r"STACK:(\d+)")


def _widest_ptx_load(ptx: str) -> int:
    widths = [
        int(v or 1) * int(bits) // 8
        for v, bits in re.findall(r"ld\.global(?:\.\w+|::\w+)*?(?:\.v(\d))?\.[bfsu](\d+)", ptx)
    ]
    copies = re.findall(r"cp\.async\.c[ag]\.shared\.global .*?, 0x(\w+)", ptx)
    return max([*widths, *[int(size, 16) for size in copies]], default=0)


def _ptx_instructions(ptx: str) -> tuple[str, ...]:
    known = {
        "wgmma": r"\bwgmma\.mma_async",
        "mma": r"\bmma\.sync",
        "TMA": r"\bcp\.async\.bulk\.tensor",
        "cp.async": r"\bcp\.async\.c[ag]",
        "atomics": r"\b(?:atom|red)\.",
    }
    return tuple(name for name, pattern in known.items() if re.search(pattern, ptx))


# Per multiprocessor: shared memory in bytes, warps, programs. From the table of technical
# specifications per compute capability in NVIDIA's CUDA C++ Programming Guide.
_NVIDIA_LIMITS = {
    75: (65536, 32, 16),
    80: (167936, 64, 32),
    86: (102400, 48, 16),
    87: (167936, 48, 16),
    89: (102400, 48, 24),
    90: (233472, 64, 32),
    100: (233472, 64, 32),
    120: (102400, 48, 24),
}
_REGISTERS, _PARTITIONS, _UNIT, _RESERVED = 65536, 4, 256, 1024


def nvidia_occupancy(target: str, registers: int, shared: int, num_warps: int) -> float | None:
    """Resident warps over the most a multiprocessor holds; None for a GPU that is not in the table.

    A warp takes its registers in units of 256 from one of four equal partitions; a program takes
    1 KiB of shared memory more than it asks for from sm_80 on.
    """
    limits = _NVIDIA_LIMITS.get(int(target.removeprefix("sm_")))
    if limits is None:
        return None
    memory, most_warps, most_programs = limits
    per_warp = -(-max(registers, 1) * 32 // _UNIT) * _UNIT
    warps_by_registers = _PARTITIONS * (_REGISTERS // _PARTITIONS // per_warp)
    programs = min(
        most_programs,
        most_warps // num_warps,
        warps_by_registers // num_warps,
        memory // (shared + _RESERVED),
    )
    return programs * num_warps / most_warps
