"""From failed cases to the likely cause.

Each of a lesson's mistakes is a small edit of its solution. The edited solutions run on the cases
that failed: if one gives what the learner's kernel gave, and does not fail a case that the
learner's kernel passed, it is the cause. Where none fits, general patterns are tried. Where
nothing fits, nothing is said: a guess would send a learner the wrong way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from shared import correctness, source
from shared.buffers import Guarded
from shared.correctness import Expectation, Outcome, compare
from shared.exercise import Case, Exercise, Function, Mistake
from shared.inputs import make_inputs
from shared.memory import Recorder

_MOST_CASES = 4  # failed cases on which the edited solutions are tried
_MOST_CONTRADICTIONS = 8  # passed cases on which a likely mistake is tried
_ENOUGH_FAILURES = 8  # after so many, no further cases are run
_NAN_MATCH = 0.1  # what a match of nothing but NaN counts
_WRAPPED = (1 << 31) - (1 << 20)  # an offset this far before a tensor wrapped around in 32 bits


@dataclass(frozen=True)
class Cause:
    """A likely cause, ready to be told.

    kind: "mistake" (an edited solution gave the same) or "pattern" (the result looks like it).
    todo, line: 0 if it belongs to none, or the place is not known.
    """

    kind: str
    name: str
    says: str
    look: str = ""
    todo: int = 0
    line: int = 0

    def as_data(self) -> dict:
        return asdict(self)


@dataclass
class _Run:
    function: Function
    call: Callable
    number: int
    case: Case
    outcome: Outcome
    programs: int


def _size(run: _Run) -> int:
    return math.prod(run.case.shape)


class Trial:
    """Collects the outcomes of a check and finds what they have in common.

    solution: the text of the lesson's solution. path: the file under test. folder: for edited
    copies.
    """

    def __init__(self, exercise: Exercise, solution: str, path: str, device: str, folder: str):
        self.exercise = exercise
        self.solution = solution
        self.path = path
        self.device = device
        self.folder = Path(folder)
        self.runs: list[_Run] = []
        self._modules: dict[str, object] = {}
        self._tick: Callable[[], None] = lambda: None

    def recorder(self, **options) -> Recorder | None:
        """An observer for one case; None on a GPU, where accesses cannot be seen."""
        if self.device != "cpu":
            return None
        return Recorder(**{"source": self.path, **options})

    def add(
        self,
        function: Function,
        call: Callable,
        number: int,
        case: Case,
        outcome: Outcome,
        programs: int = 0,
    ) -> None:
        """Take in a case's outcome. programs: how many it launched, if that was seen."""
        self.runs.append(_Run(function, call, number, case, outcome, programs))

    @property
    def hopeless(self) -> bool:
        """Whether more failed cases would say nothing new."""
        return len(self.failed) >= _ENOUGH_FAILURES

    @property
    def failed(self) -> list[_Run]:
        return [run for run in self.runs if not run.outcome.passed]

    def causes(self, tick: Callable[[], None] = lambda: None) -> list[Cause]:
        """The mistakes that explain most failed cases; if none does, the patterns that fit.

        tick: called now and then, to show that work goes on.
        """
        if not self.failed:
            return []
        self._tick = tick
        named = [self._cause(mistake) for mistake in self._matching()]
        if named:
            return named
        return self._patterns()

    def _patterns(self) -> list[Cause]:
        """What the failed cases of one kind of failure have in common; an error explains itself."""
        sample = self._sample()
        kinds: dict[str, list[list[Cause]]] = {}
        for run in sample:
            kinds.setdefault(run.outcome.kind, []).append(patterns(run.outcome, run, self))
        shared_by_all = []
        for found in kinds.values():
            for cause in found[0]:
                if all(cause.name in [c.name for c in others] for others in found):
                    shared_by_all.append(cause)
        return shared_by_all[:2]

    def _sample(self) -> list[_Run]:
        """Failed cases to look at: some of each function and kind of failure, mostly small ones."""
        kinds: dict[tuple[str, str], list[_Run]] = {}
        for run in sorted(self.failed, key=_size):
            kinds.setdefault((run.function.name, run.outcome.kind), []).append(run)
        sample: list[_Run] = []
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
        passed = [run for run in self.runs if run.outcome.kind == "ok"]
        kinds: dict[tuple, list[_Run]] = {}
        for run in sorted(passed, key=_size):
            kinds.setdefault((run.function.name, run.case.values), []).append(run)
        chosen = []  # the smallest of each kind of values, then the next ones
        while len(chosen) < _MOST_CONTRADICTIONS and any(kinds.values()):
            chosen += [group.pop(0) for group in kinds.values() if group]
        return any(not self._run_mistake(mistake, run).passed for run in chosen)

    def _run_mistake(self, mistake: Mistake, run: _Run) -> Outcome:
        self._tick()
        path, module = self._edited(mistake)
        if isinstance(module, Exception):
            return correctness.outcome_of_error(module, path)
        call = getattr(module, run.function.name)
        return correctness.run_case(
            run.function,
            call,
            run.case,
            self.device,
            run.number,
            path,
            self.recorder(source=path, most_programs=4 * run.programs + 100),
        )

    def _same(self, mistake: Mistake, run: _Run) -> float:
        """1 if the edited solution does the same here, 0 if not, 1/2 for an access alike, less if
        both give nothing but NaN.
        """
        theirs, ours = self._run_mistake(mistake, run), run.outcome
        if theirs.kind != ours.kind:
            return 0
        if ours.kind == "memory":
            a, b = theirs.finding, ours.finding
            if (a.kind, a.access) != (b.kind, b.access):
                return 0
            if a.offset <= -_WRAPPED and b.offset <= -_WRAPPED:
                return 1
            # Where the kernel is written another way, other programs and lanes may come first.
            return (
                (1 if (a.program, a.lanes) == (b.program, b.lanes) else 0.5)
                if a.offset == b.offset
                else 0
            )
        if ours.kind == "raised":
            return theirs.error[:80] == ours.error[:80]
        if ours.kind == "contract":
            return theirs.text == ours.text
        if not self._equal_outputs(theirs, run):
            return 0
        wrong = ours.outputs[max(ours.comparison.result - 1, 0)]
        return _NAN_MATCH if bool(torch.isnan(wrong).all()) else 1

    def _equal_outputs(self, theirs: Outcome, run: _Run) -> bool:
        inputs = {
            n: g.view
            for n, g in make_inputs(run.function, run.case, self.device, run.number).items()
        }
        expectation = Expectation(run.function, inputs, run.case.options)
        for output, other, bound in zip(
            run.outcome.outputs, theirs.outputs, expectation.bounds(), strict=True
        ):
            roundoff = 8 * torch.finfo(output.dtype).eps
            if compare(output, other.double(), bound + roundoff * other.double().abs()) is not None:
                return False
        return True

    def _edited(self, mistake: Mistake):
        if mistake.name not in self._modules:
            path = self.folder / f"mistake_{len(self._modules)}.py"
            path.write_text(edited(self.solution, mistake), encoding="utf-8")
            try:
                module = source.load_module(str(path), path.stem)
            except Exception as error:
                module = error
            self._modules[mistake.name] = (str(path), module)
        return self._modules[mistake.name]

    def _cause(self, mistake: Mistake) -> Cause:
        try:
            line = source.read(Path(self.path)).todo_line(mistake.todo) if mistake.todo else 0
        except (OSError, UnicodeDecodeError):
            line = 0
        found = next((run.outcome.line for run in self.failed if run.outcome.line), 0)
        return Cause(
            "mistake", mistake.name, mistake.says, mistake.look, mistake.todo, found or line
        )


def edited(solution: str, mistake: Mistake) -> str:
    """The solution with the mistake in it. Raises ValueError if an edit does not fit once."""
    for old, new in mistake.edits:
        if solution.count(old) != 1:
            raise ValueError(
                f"mistake {mistake.name!r}: {old!r} occurs {solution.count(old)} times in the "
                f"solution"
            )
        solution = solution.replace(old, new)
    return solution


# General patterns


def patterns(outcome: Outcome, run: _Run, trial: Trial) -> list[Cause]:
    """What a failed case looks like, without any knowledge of the lesson."""
    if outcome.kind == "raised":
        return explain_error(outcome.error, outcome.line)
    if outcome.kind == "memory" and outcome.finding.kind == "out of bounds":
        return [_out_of_bounds(outcome)]
    if outcome.kind != "wrong":
        return []
    undefined = _undefined_lanes(run, trial)
    if undefined is not None:
        return [undefined]
    inputs = make_inputs(run.function, run.case, trial.device, run.number)
    number = max(outcome.comparison.result - 1, 0)
    return _shape_of_error(outcome.outputs[number], number, run, inputs)


def _out_of_bounds(outcome: Outcome) -> Cause:
    finding = outcome.finding
    if finding.offset <= -_WRAPPED:
        return Cause(
            "pattern",
            "32-bit offset",
            "The offset is off by about 2**32: a product of a row number and a "
            "stride passed 2**31 in 32 bits and wrapped around.",
            "Make the program id 64-bit before it is multiplied: tl.program_id(0).to(tl.int64).",
            line=finding.line,
        )
    word = {"load": "load", "store": "store"}.get(finding.access, "access")
    return Cause(
        "pattern",
        "no mask",
        f"A {word} goes past its tensor. Lanes without an element need a mask that "
        "is False for them.",
        f"Check the mask of this {word}, and the offsets that it is made from.",
        line=finding.line,
    )


def _undefined_lanes(run: _Run, trial: Trial) -> Cause | None:
    recorder = trial.recorder(fill_undefined=False)
    if recorder is None:
        return None
    again = correctness.run_case(
        run.function, run.call, run.case, trial.device, run.number, trial.path, recorder
    )
    if not again.passed:
        return None
    watched = trial.recorder()
    correctness.run_case(
        run.function, run.call, run.case, trial.device, run.number, trial.path, watched
    )
    line = watched.undefined_lines.most_common(1)[0][0] if watched.undefined_lines else 0
    return Cause(
        "pattern",
        "load without other",
        "A masked load without `other` leaves the masked lanes undefined, "
        "and here they reach the result. Today's GPUs happen to put 0 there; nothing promises it. "
        "The check "
        "puts NaN there.",
        "Give the load the `other` that does not change the result.",
        line=line,
    )


def _shape_of_error(
    output: torch.Tensor, number: int, run: _Run, inputs: dict[str, Guarded]
) -> list[Cause]:
    """What the wrong result, the `number`-th, looks like beside the right one."""
    views = {name: g.view for name, g in inputs.items()}
    doubles = [view.double() for view in views.values()]
    truth = correctness.as_tuple(run.function.reference(*doubles, **run.case.options))[number]
    bound = Expectation(run.function, views, run.case.options).bounds()[number]
    got = output.double()

    def same(a: torch.Tensor, b: torch.Tensor) -> bool:
        return (
            a.shape == b.shape
            and compare(a, b, bound.expand_as(b) if b.shape == bound.shape else 0 * b) is None
        )

    found = []
    if bool(torch.isnan(got).all()) and not bool(torch.isnan(truth).all()):
        return [
            Cause(
                "pattern",
                "all NaN",
                "Every element is NaN. Either nothing was stored (outputs start as NaN), "
                "or a NaN entered every sum: (-inf) - (-inf), 0 / 0 and inf / inf are NaN.",
                "Whether the store is reached, and what the first operation with a possible inf "
                "holds.",
            )
        ]
    for name, view in views.items():
        if view.shape == got.shape and same(got, view.double()):
            found.append(
                Cause(
                    "pattern",
                    "the input returned",
                    f"The result equals {name}.",
                    "Check what is stored, and what is returned.",
                )
            )
    if got.dim() == 2 and got.shape[0] == got.shape[1] and same(got, truth.T):
        found.append(
            Cause(
                "pattern",
                "transposed",
                "The result is the transpose of the right one.",
                "Check which stride belongs to rows and which to columns.",
            )
        )
    wrong = ~((got - truth).abs() <= bound) & ~(
        (got == truth) | (torch.isnan(got) & torch.isnan(truth))
    )
    if (
        got.dim() == 2
        and got.shape[0] > 1
        and not bool(wrong[0].any())
        and bool(wrong[1:].any(dim=1).all())
    ):
        found.append(
            Cause(
                "pattern",
                "only row 0 is right",
                "Row 0 is right and every other row is wrong: the step "
                "from row to row is not the tensor's.",
                "Check the row stride: x.stride(0), and the output's own.",
            )
        )
    columns = (
        torch.nonzero(wrong.reshape(-1, wrong.shape[-1]).any(dim=0)).flatten()
        if wrong.dim()
        else wrong
    )
    if columns.numel() and wrong.dim():
        first, n = int(columns[0]), wrong.shape[-1]
        if first >= 16 and first % 16 == 0 and columns.numel() == n - first:
            found.append(
                Cause(
                    "pattern",
                    "wrong past the last full block",
                    f"Elements 0 to {first - 1} are right, all "
                    f"from {first} on are wrong: what lies past a full block is missing.",
                    "Check the number of programs or of loop steps: it must round up.",
                )
            )
    usable = torch.isfinite(truth) & (truth.abs() > 1e-3) & torch.isfinite(got)
    if int(usable.sum()) > 3 and not found:
        ratio = got[usable] / truth[usable]
        spread = float(ratio.max() - ratio.min())
        varies = float(truth[usable].max() - truth[usable].min()) > 0.1 * float(
            truth[usable].abs().max()
        )
        if (
            varies
            and spread < 1e-3 * abs(float(ratio.mean()))
            and abs(float(ratio.mean()) - 1) > 1e-2
        ):
            found.append(
                Cause(
                    "pattern",
                    "constant ratio",
                    f"Every element is {float(ratio.mean()):.4g} times what it should be.",
                    "Look for a missing or doubled factor, or a sum with too many terms.",
                )
            )
    return found


# (pattern in the message, what happened, what to do). The messages are Triton's and Python's.
_ERRORS = (
    (
        r"range must be a power of 2",
        "tl.arange only makes blocks whose length is a power of two.",
        "Use BLOCK_SIZE = triton.next_power_of_2(n) and mask the lanes past n.",
    ),
    (
        r"arange's arguments must be of type tl.constexpr|arange.*constexpr",
        "tl.arange needs its length when the kernel "
        "is compiled, and an ordinary argument is only known when it runs.",
        "Pass the length as a parameter annotated tl.constexpr.",
    ),
    (
        r"object of type 'int' has no len",
        "The grid is a number; a launch wants a tuple.",
        "Write (n_programs,), with the comma.",
    ),
    (
        r"'int' object is not iterable|'tensor' object is not iterable|'pointer_type' object",
        "A pointer or a block was used like a Python list.",
        "Read through a pointer with tl.load(x_ptr + offsets); use tl.sum and tl.max in place of "
        "Python's sum() and max().",
    ),
    (
        r"must be Tensor, not tensor",
        "A torch function was called on a block. Inside a kernel only tl. functions and operators "
        "work.",
        "Take the function of the same kind from triton.language, as tl.exp for torch.exp.",
    ),
    (
        r"axis \d+ out of bounds|axis.*out of range|invalid axis",
        "A reduction along an axis that the block does not have: a block with one axis has axis 0 "
        "only.",
        "Use axis=0 for a 1-D block; in a 2-D block, axis 1 is along the row.",
    ),
    (
        r"is not string|cannot convert .*(constexpr|tuple).* to tensor",
        "A print() in the kernel: the interpreter shows anything, a GPU wants a text first.",
        'Take it out when you have seen enough, or write tl.device_print("x", x).',
    ),
    (
        r"'NoneType' object has no attribute",
        "A name holds None where a block is expected.",
        "Check what it was assigned: tl.store, for one, gives nothing back.",
    ),
    (
        r"'float' object cannot be interpreted as an integer",
        "The grid holds a float: `/` always makes one.",
        "Use triton.cdiv(n, BLOCK_SIZE), which divides and rounds up.",
    ),
    (
        r"Cannot call @triton.jit|'builtin_function_or_method' object has no attribute 'scalar'",
        "The kernel was called like a function.",
        "Launch it with a grid: kernel[grid](...).",
    ),
    (
        r"unsupported tensor index|Did you forget to add @triton.jit",
        "A block cannot be indexed like an array.",
        "Load the one element through its pointer, or sum the block with a mask that keeps one "
        "lane.",
    ),
    (
        r"Cannot access global variable",
        "A kernel cannot see an ordinary global of the file. The interpreter allows it, "
        "a GPU does not.",
        "Pass the value as an argument, or make the global a tl.constexpr.",
    ),
    (
        r"Loop-carried variable",
        "A variable enters the loop with one type and leaves it with another. The interpreter "
        "allows it, a GPU does not.",
        "Start it with the type it will have: tl.zeros(..., dtype=tl.float32), 0.0, or .to().",
    ),
    (
        r"unsupported AST node type: (Break|Continue)",
        "A kernel cannot leave a loop early. The interpreter allows it, a GPU does not.",
        "Choose the loop's bounds instead, or mask what should not happen.",
    ),
    (
        r"unsupported AST node|UnsupportedLanguageConstruct",
        "This piece of Python does not exist inside a kernel. The "
        "interpreter allows it, a GPU does not.",
        "Say it with tl. operations.",
    ),
    (
        r"Boolean value of Tensor with more than one value",
        "`if` wants one value and got a block.",
        "Choose element by element with tl.where(condition, a, b).",
    ),
    (
        r"simultaneous multiple comparison|chained comparison",
        "a < b < c works on numbers only.",
        "Write (a < b) & (b < c).",
    ),
    (
        r"Cannot make_shape_compatible|shape mismatch|could not be broadcast|Cannot broadcast",
        "Two blocks of different shapes meet.",
        "Give a vector its second axis: v[:, None] is a column, v[None, :] a row.",
    ),
    (
        r"Expected pointer argument to have shape|Mask argument cannot be block type|Value "
        r"argument cannot be block type",
        "The pointers, the mask and the value of a load or store must have one shape.",
        "Make offsets and mask from the same tl.arange.",
    ),
    (
        r"module 'triton.language(\.math)?' has no attribute",
        "There is no such function in triton.language.",
        "The lesson's page lists what it needs. tl.max reduces a block, tl.maximum compares two.",
    ),
    (
        r"Expected dtype \['fp32', 'fp64'\] but got (fp16|bf16)",
        "This function wants float32 and got half precision.",
        "Convert right after the load: .to(tl.float32).",
    ),
    (
        r"Both operands must be same dtype",
        "tl.dot wants both sides in one dtype.",
        "Convert one with .to(other.dtype).",
    ),
    (
        r"exceeds triton maximum tensor numel",
        "The block has more than 1,048,576 elements, the most that Triton allows.",
        "Loop over the row in smaller blocks.",
    ),
    (
        r"num_warps must be a power of 2",
        "num_warps is the number of groups of 32 threads: 1, 2, 4, 8, 16 or 32.",
        "",
    ),
    (
        r"Conflicting meta-parameters",
        "A parameter is both autotuned and passed at the launch.",
        "Leave it out of the launch.",
    ),
    (r"ellipsis|Ellipsis", "A `...` is still in use.", "Fill in the TODO that it belongs to."),
    (
        r"cpu tensor\?|cannot be accessed from Triton",
        "An argument is not in this GPU's memory.",
        "Allocate with device=x.device.",
    ),
    (
        r"UnboundLocalError|is not defined|referenced before assignment",
        "A name is used that was not assigned on the way here.",
        "Check the spelling, and whether a TODO above defines it.",
    ),
    (
        r"missing \d+ required positional argument|got an unexpected keyword|multiple values for "
        r"argument",
        "The launch does not pass what the kernel's parameters ask for.",
        "Compare the two lists, in order.",
    ),
)


def explain_error(message: str, line: int = 0) -> list[Cause]:
    """What a known error message means and what to do. Empty if it is not known."""
    for pattern, says, look in _ERRORS:
        if re.search(pattern, message):
            return [Cause("pattern", "error message", says, look, line=line)]
    return []
