"""Timings on a GPU: do_bench medians, the ceiling measured in the same run, baselines, a DataFrame.

Two things about triton.testing.do_bench are set here:

- Its default is the mean; it is asked for the median and the 20 % and 80 % quantiles.
- Before each call it writes zeros to a buffer larger than the L2 cache. The zeros stay in the
  cache, and the timed kernel has to write them back: about 9 µs on an H200, a fifth of the time
  of a reduction of 134 MB. So the buffer is read in place of written, which empties the cache too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import torch
import triton

from shared.backend import Machine
from shared.exercise import Function

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


def microseconds(call: Callable[[], object]) -> tuple[float, float, float]:
    """Median, 20 % and 80 % quantile of a call's time in µs."""
    with clean_cache():
        median, low, high = triton.testing.do_bench(
            call, warmup=_WARMUP_MS, rep=_REP_MS, quantiles=[0.5, 0.2, 0.8]
        )
    return 1e3 * median, 1e3 * low, 1e3 * high


def sweep(
    function: Function, call: Callable, device: str, tell: Callable[..., None] = lambda **row: None
) -> pd.DataFrame:
    """Time `call`, the baselines and a copy over the benchmark's sizes.

    Every candidate is timed twice, in turn with the others, and its better median counts. Columns,
    times in µs: `<name>_us` for each baseline, `yours_us` with the quantiles `yours_low` and
    `yours_high`, `copy_us` for a copy of as many bytes, `least_bytes`, `gbps` (those over the time)
    and `of_ceiling`: the time that a copy of the bytes the algorithm has to move would take, over
    the time it took. Sizes that do not fit in memory are left out.
    """
    benchmark = function.benchmark
    rows = []
    for value in benchmark.values:
        try:
            row = _time_one(function, call, device, value)
        except torch.OutOfMemoryError:
            continue
        finally:
            getattr(torch, device).empty_cache()
        rows.append(row)
        tell(**row)
    return pd.DataFrame(rows)


def _time_one(function: Function, call: Callable, device: str, value: int) -> dict:
    benchmark = function.benchmark
    dtype = getattr(torch, benchmark.dtype)
    inputs = [
        torch.randn(shape, dtype=dtype, device=device)
        for shape in function.arguments(benchmark.shape(value)).values()
    ]
    least = function.traffic(*inputs).total
    candidates = {"yours": lambda: call(*inputs)}
    first = next(iter(benchmark.baselines.values()))
    for name, baseline in benchmark.baselines.items():
        if baseline == "compile":
            torch._dynamo.reset()
            baseline = torch.compile(first, dynamic=False)
        candidates[name] = lambda baseline=baseline: baseline(*inputs)
    source = torch.randn(max(least // 8, 1), device=device)
    target = torch.empty_like(source)
    candidates["copy"] = lambda: target.copy_(source)
    best: dict[str, tuple[float, float, float]] = {}
    for _ in range(_ROUNDS):
        for name, candidate in candidates.items():
            best[name] = min(best.get(name, (float("inf"),)), microseconds(candidate))
    row = {"function": function.name, "x": benchmark.x, "value": value, "dtype": benchmark.dtype}
    row |= {f"{name}_us": best[name][0] for name in benchmark.baselines}
    yours, low, high = best["yours"]
    row |= {
        "copy_us": best["copy"][0],
        "yours_us": yours,
        "gbps": least / yours / 1e3,
        "of_ceiling": benchmark.passes * best["copy"][0] / yours,
        "yours_low": low,
        "yours_high": high,
        "least_bytes": least,
    }
    return row


def save(table: pd.DataFrame, path: Path, machine: Machine) -> None:
    """Write the table as CSV, with the machine in its first line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# {machine.summary}\n")
        table.drop(columns=["function"]).to_csv(file, index=False, float_format="%.4g")
