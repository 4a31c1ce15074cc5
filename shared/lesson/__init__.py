"""What a lesson declares, as data. Nothing in this room runs a kernel or imports torch."""

from typing import Any

from shared.lesson import later
from shared.lesson.cases import with_cases
from shared.lesson.exercise import (
    Benchmark,
    Case,
    Exercise,
    Function,
    Solved,
    Study,
    Traffic,
    one_read_one_write,
)
from shared.lesson.standalone import run_by_itself
from shared.lesson.todo import Mistake, Todo

__all__ = [
    "Benchmark",
    "Case",
    "Exercise",
    "Function",
    "Mistake",
    "Solved",
    "Study",
    "Todo",
    "Traffic",
    "one_read_one_write",
    "run_by_itself",
    "with_cases",
]


def __getattr__(name: str) -> Any:
    """`torch` and `F`, the latter for torch.nn.functional. See `later`."""
    if name in later.MODULES:
        return later.module(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
