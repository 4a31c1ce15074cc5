"""A TODO as a lesson declares it: its hints, and the mistakes that people make in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.lesson.prose import unbreak, unbroken


@dataclass(frozen=True)
class Mistake:
    """A known wrong kernel, written as a small edit of the lesson's own solution.

    The edit serves twice. When a learner's case fails, the edited solution runs on the same input:
    equal outputs name the cause. In the tests, each edited solution must be rejected and named as
    itself, which shows that the cases can see it.

    name: a few words, unique within the exercise.
    old, new: `old` becomes `new`. It is looked up in the answer of the TODO that owns the mistake
          and occurs there once; where it is not there, or the mistake is one in given code, it
          occurs once in the whole solution. A `new` that begins with an empty line is a block of
          lines, which takes the indent of the line that it is put on.
    says: what happens and why, for a learner whose output matches.
    look: where to look.
    also: further edits, ((old, new), ...), looked up in the same way.
    todo: the number of the TODO that owns it, 0 for given code. An Exercise fills it in.
    """

    name: str
    old: str
    new: str
    says: str
    look: str = ""
    also: Sequence[tuple[str, str]] = ()
    todo: int = 0

    def __post_init__(self) -> None:
        unbreak(self, "says", "look")

    @property
    def edits(self) -> tuple[tuple[str, str], ...]:
        return ((self.old, self.new), *self.also)


@dataclass(frozen=True)
class Todo:
    """One numbered TODO of a script.

    hints:    the idea, the call, almost the line.
    mistakes: see `Mistake`.
    """

    number: int
    hints: tuple[str, str, str]
    mistakes: Sequence[Mistake] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hints", tuple(unbroken(hint) for hint in self.hints))
