"""Finds lessons and scripts, and resolves what a person types."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shared.course import layout
from shared.course.source import load_module
from shared.lesson.exercise import Exercise


class UnknownName(ValueError):
    """Nothing in the course has that name. The message suggests the nearest."""


@dataclass(frozen=True)
class Script:
    """One script of one lesson, with what its check.py says of it."""

    lesson: str
    exercise: Exercise

    @property
    def file(self) -> str:
        return self.exercise.script

    @property
    def name(self) -> str:
        return self.exercise.name

    @property
    def optional(self) -> bool:
        return self.exercise.optional

    @property
    def to_read(self) -> bool:
        """Whether it is finished and there to be read: nothing is filled in."""
        return not self.exercise.todos

    @property
    def path(self) -> Path:
        """The file that a learner works on."""
        return self.solution if self.to_read else layout.LESSONS / self.lesson / self.file

    @property
    def solution(self) -> Path:
        return layout.SOLUTIONS / self.lesson / self.file

    @property
    def check(self) -> Path:
        return layout.LESSONS / self.lesson / "check.py"

    @property
    def page(self) -> Path:
        return layout.LESSONS / self.lesson / "README.md"

    @property
    def results(self) -> Path:
        """Where a learner's own tables and plots go."""
        return layout.LESSONS / self.lesson / "results"

    @property
    def shares_its_lesson(self) -> bool:
        """Whether the lesson's name alone means other scripts too."""
        mine = [s for s in scripts() if s.lesson == self.lesson and not s.optional]
        return len(mine) > 1

    @property
    def command_name(self) -> str:
        """What to type after ./run.sh to check it."""
        return self.name if self.shares_its_lesson or self.optional else self.lesson

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Script) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str]:
        return self.lesson, self.file


@cache
def scripts() -> tuple[Script, ...]:
    """All scripts, in the order of the course. Imports every check.py, and not torch."""
    found = []
    for check in sorted(layout.LESSONS.glob("[0-9][0-9]_*/check.py")):
        lesson = check.parent.name
        module = load_module(check, f"check_{lesson}")
        exercises = [value for value in vars(module).values() if isinstance(value, Exercise)]
        found += [Script(lesson, exercise) for exercise in exercises]
    return tuple(found)


def script_of(lesson: str, file: str) -> Script:
    """The script of that lesson. Raises StopIteration if there is none."""
    return next(s for s in scripts() if (s.lesson, s.file) == (lesson, file))


def resolve(name: str) -> tuple[Script, ...]:
    """The scripts that a name stands for: `07`, `7`, `layernorm`, `07_layernorm`, a script, a path.

    Raises UnknownName with a suggestion.
    """
    everything = scripts()
    path = Path(name.rstrip("/")).expanduser()
    word = path.name.removesuffix(".py")
    for matches in (
        _at(path),
        [s for s in everything if word == s.lesson],
        [s for s in everything if word.isdigit() and int(s.lesson[:2]) == int(word)],
        [s for s in everything if word == s.lesson[3:]],
        [s for s in everything if word == s.name],
    ):
        if matches:
            return tuple(matches)
    names = {name for s in everything for name in (s.lesson, s.lesson[3:], s.name)}
    near = difflib.get_close_matches(word.lower(), sorted(names), n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UnknownName(f"There is no lesson or script called {name!r}.{hint}  ./run.sh  lists them.")


def _at(path: Path) -> list[Script]:
    """The scripts at a path, from where the person is or from the course's folder."""
    for base in (Path.cwd(), layout.ROOT):
        full = (base / path).resolve()
        if full.exists():
            chosen = [s for s in scripts() if full in (s.path, s.solution)]
            chosen = chosen or [
                s for s in scripts() if full in (s.check.parent, s.check, s.solution.parent)
            ]
            if chosen:
                return chosen
    return []
