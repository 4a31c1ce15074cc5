"""One case that was run, with what it came to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shared.execution import correctness
from shared.execution.correctness import Outcome
from shared.execution.memory import Recorder
from shared.lesson.exercise import Case, Function


@dataclass(frozen=True)
class Run:
    """A case of a function of the file under test.

    call:     the file's function.
    seed:     of the case's inputs.
    programs: how many it launched, if that was seen.
    path:     of the file under test.
    """

    function: Function
    call: Callable
    case: Case
    seed: int
    outcome: Outcome
    programs: int
    device: str
    path: str

    @property
    def size(self) -> int:
        return math.prod(self.case.shape)

    def again(self, recorder: Recorder | None) -> Outcome:
        """The same case once more, under another observer."""
        return self.by(self.call, self.path, recorder)

    def by(self, call: Callable, path: str, recorder: Recorder | None) -> Outcome:
        """The same case with another function, from the file at `path`."""
        return correctness.run_case(
            self.function, call, self.case, self.device, self.seed, path, recorder
        )

    def recorder(self, source: str = "", **options) -> Recorder | None:
        """An observer; None on a GPU, where accesses cannot be seen. source: a file's path."""
        return observer(self.device, source or self.path, **options)


def observer(device: str, source: str, **options) -> Recorder | None:
    """A Recorder for lines of `source`; None on a GPU, where accesses cannot be seen."""
    return Recorder(source, **options) if device == "cpu" else None
