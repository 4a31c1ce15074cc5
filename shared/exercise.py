"""What a lesson's check.py declares: exercises, cases, mistakes, benchmarks. Data only.

Nothing in this file runs a kernel or touches a device. The modules that do
(`correctness`, `memory`, `diagnosis`, `timing`) read what is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Case:
    """One call of the function under test, chosen because a known mistake hides on the others.

    shape:    what `Function.arguments` turns into one shape for each argument.
    dtype:    "float32", "float16", "bfloat16" (bfloat16 runs on a GPU only).
    layout:   how the tensors lie in memory, a name from `buffers.LAYOUTS`; "y: sliced" is for
              the argument y alone.
    values:   what they hold, a name from `inputs.VALUES`.
    why:      what would slip through without this case. Shown when it fails.
    gpu_only: True for what the interpreter cannot do (bfloat16) or could not do in time.
    refuses:  the name of an argument that does not fit. The call must raise ValueError or
              TypeError with that name in the message. `values` then says what is wrong with it.
    again:    call a second time with other values; the first result must not change.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = "contiguous"
    values: str = "normal"
    why: str = ""
    gpu_only: bool = False
    refuses: str = ""
    again: bool = False

    @property
    def label(self) -> str:
        """One line that tells this case from the others."""
        parts = [" × ".join(map(str, self.shape)), self.dtype]
        if self.layout != "contiguous":
            parts.append(self.layout)
        if self.refuses:
            return ", ".join(parts) + f", {self.refuses} {self.values}"
        return ", ".join([*parts, self.values])


@dataclass(frozen=True)
class Mistake:
    """A known wrong kernel, written as small edits of the lesson's own solution.

    The edits serve twice. When a learner's case fails, the edited solution runs on the same
    input: equal outputs name the cause. In the tests, each edited solution must be rejected
    and named as itself, which shows that the cases can see it.

    name:  a few words, unique within the exercise.
    edits: ((old, new), ...): `old` occurs exactly once in the solution's text.
    says:  what happens and why, for a learner whose output matches.
    look:  where to look.
    todo:  the number of the TODO it belongs to; 0 for code that was given.
    """

    name: str
    edits: tuple[tuple[str, str], ...]
    says: str
    look: str = ""
    todo: int = 0


@dataclass(frozen=True)
class Traffic:
    """The least that a kernel for this job can move: every input read once, every output written
    once.

    reads, writes: bytes.
    """

    reads: int
    writes: int

    @property
    def total(self) -> int:
        return self.reads + self.writes


@dataclass(frozen=True)
class Benchmark:
    """A sweep of sizes, timed on a GPU.

    x:         the name of what is swept, as the axis label reads ("columns").
    values:    the sweep.
    shape:     from a value of the sweep to a `Case.shape`.
    dtype:     of all tensors.
    baselines: what a person would call instead, name -> function of the same arguments.
               The special value "compile" stands for torch.compile of the first baseline.
    passes:    the bytes the algorithm has to move, over the least: 1.5 for two reads and a write.
    """

    x: str
    values: Sequence[int]
    shape: Callable[[int], tuple[int, ...]]
    baselines: Mapping[str, Callable | str]
    dtype: str = "bfloat16"
    passes: float = 1.0


@dataclass(frozen=True)
class Function:
    """One function that the script must define.

    name:      as the learner's file defines it.
    arguments: from `Case.shape` to {argument name: shape}.
    reference: the same result in plain PyTorch. Called in float64 it is the truth, called in the
               case's dtype it is the yardstick for rounding.
    cases:     see `Case`.
    traffic:   from the input tensors to the least possible bytes.
    magnitude: for sums: the sum of the absolute values of what is added into each output element,
               from float64 inputs. Rounding in any order of summation is proportional to it.
    memory:    the `Case.shape` whose traffic is reported, small enough for the interpreter.
    typical:   the `Case.shape` for which it is compiled and its registers are reported.
    picture:   the `Case.shape` for the figure of which program touches which elements.
    benchmark: None if it is not timed.
    """

    name: str
    arguments: Callable[[tuple[int, ...]], dict[str, tuple[int, ...]]]
    reference: Callable
    cases: Sequence[Case]
    traffic: Callable[..., Traffic]
    memory: tuple[int, ...]
    typical: tuple[int, ...]
    picture: tuple[int, ...]
    magnitude: Callable | None = None
    benchmark: Benchmark | None = None


@dataclass(frozen=True)
class Exercise:
    """One script of a lesson.

    script:    the file's name.
    functions: what it must define.
    mistakes:  see `Mistake`.
    hints:     TODO number -> (the idea, the call, almost the line).
    optional:  does not count towards "passed", and is marked in the list.
    """

    script: str
    functions: Sequence[Function]
    mistakes: Sequence[Mistake]
    hints: Mapping[int, tuple[str, str, str]] = field(default_factory=dict)
    optional: bool = False

    @property
    def name(self) -> str:
        return self.script.removesuffix(".py")


def one_read_one_write(x, *others) -> Traffic:
    """Every input is read once, and an output as large as the first input is written."""
    size = x.numel() * x.element_size()
    return Traffic(reads=size + sum(t.numel() * t.element_size() for t in others), writes=size)


def row_cases(block: int = 0, minus_inf: bool = True) -> tuple[Case, ...]:
    """The cases that every kernel over the rows of a 2-D x shares.

    block: for kernels that loop over a row, the block they are expected to use; sizes around it
           are added. 0 for kernels that hold a row in one block.
    minus_inf: add rows that hold −inf (for maximum and softmax; a sum of them is only −inf).
    """
    cases = [
        Case(
            (3, 5),
            why="fewer columns than any block: the padding lanes outnumber the row",
            again=True,
        ),
        Case((5, 1), why="a row of one column"),
        Case((1, 3), values="all -1", why="with no value above zero, padding of 0 shows"),
        Case((4, 127), why="one less than a power of two"),
        Case((4, 128), why="exactly a power of two"),
        Case((4, 129), why="one more than a power of two"),
        Case(
            (7, 781),
            values="around -2.3",
            why="a prime number of columns, far from zero on one side",
        ),
        Case(
            (7, 781), "float16", values="around -2.3", why="half precision: accumulate in float32"
        ),
        Case((3, 1000), "float16", why="half precision, many columns"),
        Case((3, 65), values="all -1", why="every value the same and negative"),
        Case((3, 65), values="all -200", why="a running maximum must not start at a finite number"),
        Case((3, 70), values="one 100 per row", why="exp(100) overflows float32"),
        Case((3, 70), values="constant 3", why="a constant row: padding in a sum shows as a ratio"),
        Case((2, 700), values="ascending", why="the maximum grows all along the row"),
        Case((2, 700), values="descending", why="the maximum comes first"),
        Case(
            (3, 70), values="last column 100", why="what is lost at the end of the row matters most"
        ),
        Case((5, 7), values="rows 200 apart", why="each row has a maximum of its own"),
        Case((4, 5), layout="sliced", why="the next row does not start where this one ends"),
        Case((6, 50), layout="transposed", why="neighbours in a row are far apart in memory"),
        Case((5, 33), layout="every other element", why="a column stride of 2"),
        Case((4, 37), layout="expanded", why="a row stride of 0"),
        Case((5, 33), "float16", layout="transposed", why="strides count elements, not bytes"),
        Case(
            (3, 8),
            "float16",
            layout="rows 2**30 apart",
            why="row times stride passes 2**31: it needs 64-bit offsets",
        ),
        Case(
            (8, 3),
            "float16",
            layout="columns 2**30 apart",
            why="column times stride passes 2**31: it needs 64-bit offsets",
        ),
        Case((0, 5), why="no rows: an empty result, not an error"),
        Case((7, 781), "bfloat16", values="around -2.3", gpu_only=True, why="bfloat16"),
        Case((3000, 17), gpu_only=True, why="many short rows"),
        Case((64, 12000), gpu_only=True, why="a long row that is not a power of two"),
        Case((2, 65536), "float16", gpu_only=True, why="the longest row that one block serves"),
    ]
    if minus_inf:
        cases += [
            Case(
                (3, 40), values="some -inf", why="-inf among ordinary values is an ordinary value"
            ),
            Case((3, 40), values="one row all -inf", why="a row of -inf only follows PyTorch"),
        ]
    if block:
        cases += [
            Case((2, block + 1), why="one column in the second block"),
            Case(
                (2, 2 * block + 781), values="around -2.3", why="three blocks, the last one ragged"
            ),
            Case((1, 3 * block), values="ascending", why="the maximum grows in every block"),
            Case((1, 3 * block), values="descending", why="the maximum is in the first block"),
            Case((1, 2 * block + 5), values="all -200", why="no value near zero in any block"),
            Case(
                (2, 2 * block + 5),
                "float16",
                layout="every other element",
                values="last column 100",
                why="the last element, in the last block, decides",
            ),
        ]
        if minus_inf:
            cases.append(
                Case(
                    (1, 3 * block),
                    values=f"first {block} columns -inf",
                    why="a whole block of -inf first: (-inf) - (-inf) is NaN",
                )
            )
    return tuple(cases)


def with_cases(
    cases: Sequence[Case], *more: Case, without: Callable[[Case], bool] | None = None
) -> tuple[Case, ...]:
    """`cases` less those for which `without` is true, then `more`."""
    kept = [case for case in cases if without is None or not without(case)]
    return (*kept, *more)


def on_gpu(case: Case) -> Case:
    """The same case, for a GPU only."""
    return replace(case, gpu_only=True)
