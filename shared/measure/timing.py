"""Timings on a GPU: do_bench medians, the ceiling measured in the same run, baselines.

Two things about triton.testing.do_bench are set here:

- Its default is the mean; it is asked for the median and the 20 % and 80 % quantiles.
- Before each call it writes zeros to a buffer larger than the L2 cache. The zeros stay in the
  cache, and the timed kernel has to write them back: about 9 µs on an H200, a fifth of the time
  of a reduction of 134 MB. So the buffer is read in place of written, which empties the cache too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
import triton

from shared.facts.rows import Row, speed
from shared.lesson.exercise import Benchmark, Function, Study

_WARMUP_MS, _REP_MS, _ROUNDS = 10, 40, 2


@contextmanager
def clean_cache() -> Iterator[None]:
    """While active, do_bench empties the L2 cache by reading and leaves nothing in it to write
    back.
    """
    driver = triton.runtime.driver.active
    driver.clear_cache = lambda buffer: buffer.sum()
    try:
        yield
    finally:
        del driver.clear_cache


class Time(NamedTuple):
    """A call's time in µs: median, 20 % and 80 % quantile."""

    median: float
    low: float
    high: float


def microseconds(call: Callable[[], object]) -> Time:
    """How long a call takes."""
    with clean_cache():
        milliseconds = triton.testing.do_bench(
            call, warmup=_WARMUP_MS, rep=_REP_MS, quantiles=[0.5, 0.2, 0.8]
        )
    return Time(*(1e3 * ms for ms in milliseconds))


def best_of(candidates: Mapping[str, Callable]) -> dict[str, Time]:
    """Each candidate's better median of two, with its quantiles; timed in turn with the others."""
    best: dict[str, Time] = {}
    for _ in range(_ROUNDS):
        for name, candidate in candidates.items():
            time = microseconds(candidate)
            best[name] = min(best.get(name, time), time)
    return best


def sweep(
    function: Function, call: Callable, device: str, tell: Callable[[Row], None] = lambda row: None
) -> list[Row]:
    """Time `call`, the baselines and the ceiling over the benchmark's sizes.

    tell: called with each row as it comes. Sizes that do not fit in memory are left out.
    """
    rows = []
    for value in function.benchmark.values:
        try:
            row = _time_one(function, call, device, value)
        except torch.OutOfMemoryError:
            continue
        finally:
            getattr(torch, device).empty_cache()
        rows.append(row)
        tell(row)
    return rows


def inputs_for(function: Function, plan: Benchmark | Study, device: str, value) -> list:
    """Normal random tensors for one value of a sweep."""
    dtype = getattr(torch, plan.dtype)
    return [
        torch.randn(shape, dtype=dtype, device=device)
        for shape in function.arguments(plan.shape(value)).values()
    ]


def compiled(eager: Callable) -> Callable:
    """torch.compile for the very shapes of its first call."""
    torch._dynamo.reset()
    return torch.compile(eager, dynamic=False)


def _time_one(function: Function, call: Callable, device: str, value: int) -> Row:
    benchmark = function.benchmark
    inputs = inputs_for(function, benchmark, device, value)
    first = next(iter(benchmark.baselines.values()))
    candidates = {"yours": lambda: call(*inputs)}
    for name, baseline in benchmark.baselines.items():
        function_of = compiled(first) if baseline == "compile" else baseline
        candidates[name] = lambda function_of=function_of: function_of(*inputs)
    if benchmark.flops is None:
        ceiling, amount, scale = "copy", function.traffic(*inputs).total, 1.0
        candidates[ceiling] = _copy(amount, device)
    else:
        ceiling, amount = "product", benchmark.flops(benchmark.shape(value))
        candidates[ceiling], scale = _product(amount, inputs[0].dtype, device)
    best = best_of(candidates)
    yours, ceiling_us = best["yours"], scale * best[ceiling].median
    measured = (*benchmark.baselines, "yours") if benchmark.memory else ()
    return Row(
        function=function.name,
        x=benchmark.x,
        value=value,
        dtype=benchmark.dtype,
        baselines={name: best[name].median for name in benchmark.baselines},
        yours=yours.median,
        low=yours.low,
        high=yours.high,
        ceiling=ceiling,
        ceiling_us=ceiling_us,
        amount=amount,
        speed=speed(ceiling, amount, yours.median),
        of_ceiling=benchmark.passes * ceiling_us / yours.median,
        megabytes={name: _peak_megabytes(candidates[name], device) for name in measured},
    )


def _peak_megabytes(call: Callable[[], object], device: str) -> float:
    """The most memory that a call has allocated at once, in MB (10**6 bytes)."""
    memory = getattr(torch, device)
    memory.synchronize()
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated()
    call()
    memory.synchronize()
    return (memory.max_memory_allocated() - before) / 1e6


def _copy(n_bytes: int, device: str) -> Callable[[], object]:
    """A copy that reads and writes `n_bytes` in all."""
    source = torch.randn(max(n_bytes // 8, 1), device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _product(flops: float, dtype: torch.dtype, device: str) -> tuple[Callable[[], object], float]:
    """A cuBLAS product of square matrices, and what its time is to be multiplied by for `flops`."""
    n = max(128, round((flops / 2) ** (1 / 3) / 128) * 128)
    a = torch.randn(n, n, dtype=dtype, device=device)
    b = torch.randn_like(a)
    return (lambda: torch.matmul(a, b)), flops / (2 * n**3)
