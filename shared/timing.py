"""Timings on a GPU: do_bench medians, the ceiling measured in the same run, baselines, a DataFrame.

Two things about triton.testing.do_bench are set here:

- Its default is the mean; it is asked for the median and the 20 % and 80 % quantiles.
- Before each call it writes zeros to a buffer larger than the L2 cache. The zeros stay in the
  cache, and the timed kernel has to write them back: about 9 µs on an H200, a fifth of the time
  of a reduction of 134 MB. So the buffer is read in place of written, which empties the cache too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pandas as pd
import torch
import triton

from shared.backend import Machine
from shared.exercise import Benchmark, Function, Study
from shared.traffic import Moved

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


def best_of(candidates: Mapping[str, Callable]) -> dict[str, tuple[float, float, float]]:
    """Each candidate's better median of two, with its quantiles; timed in turn with the others."""
    best: dict[str, tuple[float, float, float]] = {}
    for _ in range(_ROUNDS):
        for name, candidate in candidates.items():
            best[name] = min(best.get(name, (float("inf"),)), microseconds(candidate))
    return best


def sweep(
    function: Function, call: Callable, device: str, tell: Callable[..., None] = lambda **row: None
) -> pd.DataFrame:
    """Time `call`, the baselines and the ceiling over the benchmark's sizes.

    Columns, times in µs: `<name>_us` for each baseline, `yours_us` with the quantiles `yours_low`
    and `yours_high`. Where bytes are the limit: `copy_us` for a copy of as many bytes,
    `least_bytes`, `gbps` (those over the time) and `of_ceiling`: the time that a copy of the bytes
    the algorithm has to move would take, over the time it took. Where arithmetic is: `product_us`
    for a cuBLAS product of as many operations, `flops`, `tflops` and `of_ceiling`. Where memory is
    asked for: `<name>_mb` and `yours_mb`. Sizes that do not fit in memory are left out.
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
        tell(**row)
    return pd.DataFrame(rows)


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


def _time_one(function: Function, call: Callable, device: str, value: int) -> dict:
    benchmark = function.benchmark
    inputs = inputs_for(function, benchmark, device, value)
    candidates = {"yours": lambda: call(*inputs)}
    first = next(iter(benchmark.baselines.values()))
    for name, baseline in benchmark.baselines.items():
        if baseline == "compile":
            baseline = compiled(first)
        candidates[name] = lambda baseline=baseline: baseline(*inputs)
    least = function.traffic(*inputs).total
    if benchmark.flops is None:
        candidates["copy"] = _copy(least, device)
    else:
        flops = benchmark.flops(benchmark.shape(value))
        candidates["product"], scale = _product(flops, inputs[0].dtype, device)
    best = best_of(candidates)
    row = {"function": function.name, "x": benchmark.x, "value": value, "dtype": benchmark.dtype}
    row |= {f"{name}_us": best[name][0] for name in benchmark.baselines}
    yours, low, high = best["yours"]
    if benchmark.flops is None:
        row |= {
            "copy_us": best["copy"][0],
            "yours_us": yours,
            "gbps": least / yours / 1e3,
            "of_ceiling": benchmark.passes * best["copy"][0] / yours,
        }
    else:
        row |= {
            "product_us": scale * best["product"][0],
            "yours_us": yours,
            "tflops": flops / yours / 1e6,
            "of_ceiling": scale * best["product"][0] / yours,
        }
    if benchmark.memory:
        for name in (*benchmark.baselines, "yours"):
            row[f"{name}_mb"] = _peak_megabytes(candidates[name], device)
    row |= {"yours_low": low, "yours_high": high}
    row |= {"least_bytes": least} if benchmark.flops is None else {"flops": flops}
    return row


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


def study_candidates(study: Study, module: ModuleType, inputs: list) -> dict[str, Callable]:
    """The study's candidates, ready to be called without arguments."""
    first = next(iter(study.candidates.values()))
    ready = {}
    for name, candidate in study.candidates.items():
        if candidate == "compile":
            on_module = compiled(lambda *tensors: first(module, *tensors))
            ready[name] = lambda on_module=on_module: on_module(*inputs)
        else:
            ready[name] = lambda candidate=candidate: candidate(module, *inputs)
    return ready


def compare(function: Function, study: Study, module: ModuleType, device: str) -> pd.DataFrame:
    """Time a study's candidates. Columns: x, value, dtype and `<name>_us` for each candidate."""
    rows = []
    for value in study.values:
        candidates = study_candidates(study, module, inputs_for(function, study, device, value))
        row = {"function": function.name, "x": study.x, "value": value, "dtype": study.dtype}
        rows.append(row | {f"{name}_us": time[0] for name, time in best_of(candidates).items()})
        getattr(torch, device).empty_cache()
    return pd.DataFrame(rows)


def with_traffic(table: pd.DataFrame, moved: Mapping[tuple[str, str], Moved]) -> pd.DataFrame:
    """A study's table with one row for each candidate: its kernels, MB read and written, and µs."""
    rows = []
    for _, row in table.iterrows():
        head = {name: row[name] for name in ("function", "x", "value", "dtype")}
        for (value, candidate), what in moved.items():
            if value == str(row["value"]):
                rows.append(
                    head
                    | {
                        "candidate": candidate,
                        "kernels": what.kernels,
                        "read_mb": what.read / 1e6,
                        "written_mb": what.written / 1e6,
                        "us": row[f"{candidate}_us"],
                    }
                )
    return pd.DataFrame(rows)


def save(table: pd.DataFrame, path: Path, machine: Machine) -> None:
    """Write the table as CSV, with the machine in its first line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# {machine.summary}\n")
        table.drop(columns=["function"]).to_csv(file, index=False, float_format="%.4g")
