"""From failed cases to the likely cause.

Each of a lesson's mistakes is a small edit of its solution. The edited solutions run on the cases
that failed: if one gives what the learner's kernel gave, and does not fail a case that the
learner's kernel passed, it is the cause. Where none fits, general patterns are tried. Where
nothing fits, nothing is said: a guess would send a learner the wrong way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from shared.course import source
from shared.diagnosis.edits import edited
from shared.diagnosis.patterns import far_before, patterns
from shared.diagnosis.run import Run
from shared.execution import correctness
from shared.execution.correctness import Expectation, Outcome, compare
from shared.execution.inputs import make_inputs
from shared.facts.findings import Cause, Finding, Kind, Status
from shared.lesson.exercise import Exercise
from shared.lesson.todo import Mistake

_MOST_CASES = 4  # failed cases on which the edited solutions are tried
_MOST_CONTRADICTIONS = 8  # passed cases on which a likely mistake is tried
_ENOUGH_FAILURES = 8  # after so many, no further cases are run
_NAN_MATCH = 0.1  # what a match of nothing but NaN counts


class Trial:
    """Collects the outcomes of a check and finds what they have in common.

    solution: the text of the lesson's solution. path: the file under test. folder: for edited
    copies.
    """

    def __init__(self, exercise: Exercise, solution: str, path: str, folder: str):
        self.exercise = exercise
        self.solution = solution
        self.path = path
        self.folder = Path(folder)
        self.runs: list[Run] = []
        self._modules: dict[str, object] = {}
        self._tick: Callable[[], None] = lambda: None

    def add(self, run: Run) -> None:
        """Take in a case's outcome."""
        self.runs.append(run)

    @property
    def hopeless(self) -> bool:
        """Whether more failed cases would say nothing new."""
        return len(self.failed) >= _ENOUGH_FAILURES

    @property
    def failed(self) -> list[Run]:
        return [run for run in self.runs if run.outcome.status.failed]

    def causes(self, tick: Callable[[], None] = lambda: None) -> list[Cause]:
        """The mistakes that explain most failed cases; if none does, the patterns that fit.

        tick: called now and then, to show that work goes on.
        """
        if not self.failed:
            return []
        self._tick = tick
        named = [self._cause(mistake) for mistake in self._matching()]
        return named or self._patterns()

    def _patterns(self) -> list[Cause]:
        """What the failed cases of one kind of failure have in common; an error explains itself."""
        kinds: dict[Status, list[list[Cause]]] = {}
        for run in self._sample():
            kinds.setdefault(run.outcome.status, []).append(patterns(run))
        shared_by_all = []
        for found in kinds.values():
            for cause in found[0]:
                if all(cause.name in [c.name for c in others] for others in found):
                    shared_by_all.append(cause)
        return shared_by_all[:2]

    def _sample(self) -> list[Run]:
        """Failed cases to look at: some of each function and kind of failure, mostly small ones."""
        kinds: dict[tuple[str, Status], list[Run]] = {}
        for run in sorted(self.failed, key=lambda run: run.size):
            kinds.setdefault((run.function.name, run.outcome.status), []).append(run)
        sample: list[Run] = []
        while len(sample) < _MOST_CASES and any(kinds.values()):
            # Two small ones, then a large one: some mistakes only differ where a loop turns twice.
            end = -1 if len(sample) % 3 == 2 else 0
            sample += [group.pop(end) for group in kinds.values() if group]
        return sample[:_MOST_CASES]

    def _matching(self) -> list[Mistake]:
        """The mistakes that do what the code under test does, on the most of the failed cases
        tried.
        """
        sample = self._sample()
        for position, first in enumerate(sample):
            scores = {m.name: self._same(m, first) for m in self.exercise.mistakes}
            likely = [m for m in self.exercise.mistakes if scores[m.name]]
            for mistake in likely:
                scores[mistake.name] += sum(
                    self._same(mistake, run) for run in sample[position + 1 :]
                )
            # Rows of NaN alone look like many things: such a match has to explain every case.
            all_nan = _NAN_MATCH * len(sample) if position == 0 else math.inf
            likely = [m for m in likely if not scores[m.name] < min(0.5, all_nan)]
            likely = [m for m in likely if not self._contradicted(m)]
            if likely:
                best = max(scores[m.name] for m in likely)
                return [m for m in likely if scores[m.name] == best]
        return []

    def _contradicted(self, mistake: Mistake) -> bool:
        """Whether the mistake breaks a case that the code under test passes. Some small ones are
        tried.
        """
        passed = [run for run in self.runs if run.outcome.status is Status.OK]
        kinds: dict[tuple[str, str], list[Run]] = {}
        for run in sorted(passed, key=lambda run: run.size):
            kinds.setdefault((run.function.name, str(run.case.values)), []).append(run)
        chosen = []  # the smallest of each kind of values, then the next ones
        while len(chosen) < _MOST_CONTRADICTIONS and any(kinds.values()):
            chosen += [group.pop(0) for group in kinds.values() if group]
        return any(self._run_mistake(mistake, run).status.failed for run in chosen)

    def _run_mistake(self, mistake: Mistake, run: Run) -> Outcome:
        self._tick()
        path, module = self._edited(mistake)
        if isinstance(module, Exception):
            return correctness.outcome_of_error(module, path)
        recorder = run.recorder(path, most_programs=4 * run.programs + 100)
        return run.by(getattr(module, run.function.name), path, recorder)

    def _same(self, mistake: Mistake, run: Run) -> float:
        """1 if the edited solution does the same here, 0 if not, 1/2 for an access alike, less if
        both give nothing but NaN.
        """
        theirs, ours = self._run_mistake(mistake, run), run.outcome
        if theirs.status is not ours.status:
            return 0
        if ours.status is Status.MEMORY:
            return _same_access(theirs.finding, ours.finding)
        if ours.status is Status.RAISED:
            return theirs.error[:80] == ours.error[:80]
        if ours.status is Status.CONTRACT:
            return theirs.text == ours.text
        if not self._equal_outputs(theirs, run):
            return 0
        wrong = ours.outputs[max(ours.comparison.result - 1, 0)]
        return _NAN_MATCH if bool(torch.isnan(wrong).all()) else 1

    def _equal_outputs(self, theirs: Outcome, run: Run) -> bool:
        guarded = make_inputs(run.function, run.case, run.device, run.seed)
        inputs = {name: g.view for name, g in guarded.items()}
        bounds = Expectation(run.function, inputs, run.case.options).bounds()
        for output, other, bound in zip(run.outcome.outputs, theirs.outputs, bounds, strict=True):
            roundoff = 8 * torch.finfo(output.dtype).eps
            if compare(output, other.double(), bound + roundoff * other.double().abs()) is not None:
                return False
        return True

    def _edited(self, mistake: Mistake):
        if mistake.name not in self._modules:
            path = self.folder / f"mistake_{len(self._modules)}.py"
            path.write_text(edited(self.solution, mistake), encoding="utf-8")
            try:
                module = source.load_module(path, path.stem)
            except Exception as error:
                module = error
            self._modules[mistake.name] = (str(path), module)
        return self._modules[mistake.name]

    def _cause(self, mistake: Mistake) -> Cause:
        try:
            line = source.read(Path(self.path)).line_of(mistake.todo) if mistake.todo else 0
        except (OSError, UnicodeDecodeError):
            line = 0
        seen = next((run.outcome.line for run in self.failed if run.outcome.line), 0)
        return Cause(
            Kind.MISTAKE, mistake.name, mistake.says, mistake.look, mistake.todo, seen or line
        )


def _same_access(a: Finding, b: Finding) -> float:
    if (a.kind, a.access) != (b.kind, b.access):
        return 0
    if far_before(a) and far_before(b):
        return 1
    if a.offset != b.offset:
        return 0
    # Where the kernel is written another way, other programs and lanes may come first.
    return 1 if (a.program, a.lanes) == (b.program, b.lanes) else 0.5
