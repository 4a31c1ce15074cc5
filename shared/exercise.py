"""What a lesson's check.py declares: exercises, cases, mistakes, benchmarks. Data only.

Nothing in this file runs a kernel or touches a device. The modules that do
(`correctness`, `memory`, `diagnosis`, `timing`) read what is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One call of the function under test, chosen because a known mistake hides on the others.

    shape:    what `Function.arguments` turns into one shape for each argument.
    dtype:    "float32", "float16", "bfloat16" (bfloat16 runs on a GPU only).
    layout:   how the tensors lie in memory, a name from `buffers.LAYOUTS`; "y: sliced" is for
              the argument y alone.
    values:   what they hold, a name from `inputs.VALUES`; "a: zeros; b: all 1" is for a and for b
              alone, and the others hold "normal".
    options:  arguments passed by keyword, as {"eps": 0.1}; to the reference too. One that names a
              tensor takes its place: {"bias": None}.
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
    options: Mapping[str, object] = field(default_factory=dict)
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
        parts += [f"{name}={value}" for name, value in self.options.items()]
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
class Study:
    """Candidates side by side, timed when the solutions are recorded: what one choice is worth.

    name:       of the table, `<function>.<name>` on a page.
    x, values, shape, dtype: as in `Benchmark`; a value may be a text ("4096 × 11008 × 4096").
    candidates: name -> function of (the script's module, then the tensors). The module gives
                access to the solution's own parts. "compile" is torch.compile of the first.
    traffic:    also count the kernels that each candidate launches and the bytes that it moves
                between the GPU and its memory (with Nsight Compute, where it is installed).
    """

    name: str
    x: str
    values: Sequence[int | str]
    shape: Callable[[int | str], tuple[int, ...]]
    candidates: Mapping[str, Callable | str]
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
