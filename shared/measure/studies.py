"""A study's candidates: found, called side by side, and timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

import torch

from shared.course import source
from shared.course.scripts import scripts
from shared.facts.rows import StudyRow
from shared.lesson.exercise import Function, Solved, Study
from shared.measure import traffic
from shared.measure.timing import best_of, compiled, inputs_for


def candidates(study: Study, inputs: list) -> dict[str, Callable]:
    """The study's candidates, ready to be called without arguments."""
    first = _function(next(iter(study.candidates.values())))
    ready = {}
    for name, candidate in study.candidates.items():
        call = compiled(first) if candidate == "compile" else _function(candidate)
        ready[name] = lambda call=call: call(*inputs)
    return ready


def compare(function: Function, study: Study, device: str) -> list[StudyRow]:
    """Time a study's candidates at each of its sizes."""
    rows = []
    for value in study.values:
        inputs = inputs_for(function, study, device, value)
        best = best_of(candidates(study, inputs))
        times = {name: time.median for name, time in best.items()}
        rows.append(StudyRow(study.x, str(value), study.dtype, times))
        getattr(torch, device).empty_cache()
    return rows


def call_each(study: Study, function: Function, device: str) -> None:
    """Call every candidate at every value, warmed up, a marker before each. Runs under ncu."""
    runtime = torch.cuda.cudart()
    for value in study.values:
        inputs = inputs_for(function, study, device, value)
        for candidate in candidates(study, inputs).values():
            candidate()
            torch.cuda.synchronize()
            runtime.cudaProfilerStart()
            traffic.mark()
            candidate()
            torch.cuda.synchronize()
            runtime.cudaProfilerStop()


def _function(candidate: Callable | Solved) -> Callable:
    """A candidate as a function of the tensors alone."""
    if not isinstance(candidate, Solved):
        return candidate
    module = _solution(candidate.script)
    if isinstance(candidate.call, str):
        return getattr(module, candidate.call)
    return lambda *tensors: candidate.call(module, *tensors)


@cache
def _solution(file: str) -> ModuleType:
    path = next(script.solution for script in scripts() if script.file == file)
    return source.load_module(path, f"solution_{path.stem}")
