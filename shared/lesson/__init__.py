"""What a lesson declares, as data. Nothing in this room runs a kernel or imports torch."""

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
from shared.lesson.later import F, torch
from shared.lesson.standalone import run_by_itself
from shared.lesson.todo import Mistake, Todo

__all__ = [
    "Benchmark",
    "Case",
    "Exercise",
    "F",
    "Function",
    "Mistake",
    "Solved",
    "Study",
    "Todo",
    "Traffic",
    "one_read_one_write",
    "run_by_itself",
    "torch",
    "with_cases",
]
