"""What a lesson's check.py declares: an exercise, its functions, cases, benchmarks and studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from shared.lesson.prose import unbreak
from shared.lesson.todo import Mistake, Todo

# What tensors hold: a name from `inputs.VALUES`, or one with a number to be put in it, as
# ("first {n} columns -inf", 1024).
Values = str | tuple[str, int]


@dataclass(frozen=True)
class Case:
    """One call of the function under test, chosen because a known mistake hides on the others.

    shape:    what `Function.arguments` turns into one shape for each argument.
    dtype:    "float32", "float16", "bfloat16" (bfloat16 runs on a GPU only).
    layout:   how the tensors lie in memory, a name from `buffers.LAYOUTS`: of all of them, or
              {argument: layout}, the others being contiguous.
    values:   what they hold, see `Values`: all of them, or {argument: values}, the others being
              "normal".
    options:  arguments passed by keyword, as {"eps": 0.1}; to the reference too. One that names a
              tensor takes its place: {"bias": None}.
    why:      what would slip through without this case. Shown when it fails.
    gpu_only: True for what the interpreter cannot do (bfloat16) or could not do in time.
    refuses:  the name of an argument that does not fit. The call must raise ValueError or
              TypeError with that name in the message.
    misfit:   what is wrong with it, a name from `inputs.MISFITS`.
    again:    call a second time with other values; the first result must not change.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str | Mapping[str, str] = "contiguous"
    values: Values | Mapping[str, Values] = "normal"
    options: Mapping[str, object] = field(default_factory=dict)
    why: str = ""
    gpu_only: bool = False
    refuses: str = ""
    misfit: str = ""
    again: bool = False

    def __post_init__(self) -> None:
        unbreak(self, "why")

    def layout_of(self, argument: str) -> str:
        """How one argument lies in memory."""
        return _of(argument, self.layout, "contiguous")

    def values_of(self, argument: str) -> Values:
        """What one argument holds."""
        return _of(argument, self.values, "normal")

    @property
    def label(self) -> str:
        """One line that tells this case from the others."""
        parts = [" × ".join(map(str, self.shape)), self.dtype]
        if self.layout != "contiguous":
            parts.append(_told(self.layout))
        parts += [f"{name}={value}" for name, value in self.options.items()]
        if self.refuses:
            return ", ".join(parts) + f", {self.refuses} {self.misfit}"
        return ", ".join([*parts, _told(self.values)])


def _of(argument: str, choice, otherwise: str):
    return choice.get(argument, otherwise) if isinstance(choice, Mapping) else choice


def _told(choice) -> str:
    """A layout or values in words: one for all arguments, or one for each that is named."""
    if isinstance(choice, Mapping):
        return "; ".join(f"{name}: {_told(one)}" for name, one in choice.items())
    return choice if isinstance(choice, str) else choice[0].format(n=choice[1])


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
    flops:     from a `Case.shape` to the floating-point operations, for kernels that compute more
               than they move. The speed is then told in TFLOP/s, and the ceiling is a cuBLAS
               product of square matrices with as many operations.
    memory:    also measure the most memory that each candidate allocates at once, its result
               included.
    """

    x: str
    values: Sequence[int]
    shape: Callable[[int], tuple[int, ...]]
    baselines: Mapping[str, Callable | str]
    dtype: str = "bfloat16"
    passes: float = 1.0
    flops: Callable[[tuple[int, ...]], float] | None = None
    memory: bool = False


@dataclass(frozen=True)
class Solved:
    """A finished solution as a candidate of a study.

    script: the file's name, of this lesson or another one.
    call:   the name of its function; or a function of (its module, then the tensors), which can
            reach the solution's own parts.
    """

    script: str
    call: str | Callable


@dataclass(frozen=True)
class Study:
    """Candidates side by side, timed when the solutions are recorded: what one choice is worth.

    name:       of the table, `<function>.<name>` on a page.
    x, values, shape, dtype: as in `Benchmark`; a value may be a text ("4096 × 11008 × 4096").
    candidates: name -> function of the tensors, or a `Solved`. "compile" is torch.compile of the
                first.
    traffic:    also count the kernels that each candidate launches and the bytes that it moves
                between the GPU and its memory (with Nsight Compute, where it is installed).
    """

    name: str
    x: str
    values: Sequence[int | str]
    shape: Callable[[int | str], tuple[int, ...]]
    candidates: Mapping[str, Callable | Solved | str]
    dtype: str = "bfloat16"
    traffic: bool = False


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
               from float64 inputs and the case's options; a tuple for several outputs. Rounding in
               any order of summation is proportional to it.
    memory:    the `Case.shape` whose traffic is reported, small enough for the interpreter.
    typical:   the `Case.shape` for which it is compiled and its registers are reported.
    picture:   the `Case.shape` for the figure of which program touches which elements.
    benchmark: None if it is not timed.
    studies:   see `Study`.
    tensor_cores: the result may be a float32 product on a GPU's tensor cores, which round its
               inputs to TF32. The tolerance then allows for that.
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
    studies: Sequence[Study] = ()
    tensor_cores: bool = False


@dataclass(frozen=True)
class Exercise:
    """One script of a lesson.

    script:    the file's name.
    functions: what it must define.
    todos:     what a learner fills in. None for a script that is there to be read: it has no
               skeleton, and what is checked is the finished file.
    given:     mistakes in the code that is given.
    optional:  does not count towards "passed", and is marked in the list.
    target:    the GPU that the script's own kernels are for, as "sm_90", if they are for one only
               and it calls another script's elsewhere.
    """

    script: str
    functions: Sequence[Function]
    todos: Sequence[Todo] = ()
    given: Sequence[Mistake] = ()
    optional: bool = False
    target: str = ""

    @property
    def name(self) -> str:
        return self.script.removesuffix(".py")

    @cached_property
    def mistakes(self) -> tuple[Mistake, ...]:
        """All of them, each with the number of its TODO."""
        owned = [replace(m, todo=todo.number) for todo in self.todos for m in todo.mistakes]
        return (*owned, *self.given)

    @cached_property
    def hints(self) -> dict[int, tuple[str, str, str]]:
        """TODO number -> the idea, the call, almost the line."""
        return {todo.number: todo.hints for todo in self.todos}


def one_read_one_write(x, *others) -> Traffic:
    """Every input is read once, and an output as large as the first input is written."""
    size = x.numel() * x.element_size()
    return Traffic(reads=size + sum(t.numel() * t.element_size() for t in others), writes=size)
