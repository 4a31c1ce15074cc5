"""What a wrong result looks like, what messages mean, and the lesson's mistakes as edits."""

import math

import pytest
import torch

from shared.diagnosis.edits import edited
from shared.diagnosis.messages import MESSAGES, explain_error, known_problem
from shared.diagnosis.patterns import patterns
from shared.diagnosis.run import Run
from shared.execution.correctness import Outcome, compare
from shared.execution.inputs import make_inputs
from shared.facts.findings import Fault, Finding, Status
from shared.lesson.exercise import Case, Function, Traffic
from shared.lesson.todo import Mistake

SQUARED = Function(
    name="squared",
    arguments=lambda shape: {"x": shape},
    reference=lambda x: x * x,
    cases=(),
    traffic=lambda x: Traffic(x.nbytes, x.nbytes),
    memory=(4, 4),
    typical=(4, 4),
    picture=(4, 4),
)


def run_of(make_wrong, shape=(6, 6)):
    """A case whose result is `make_wrong` of (x, the right result)."""
    case = Case(shape)
    x = make_inputs(SQUARED, case, "cpu", 0)["x"].view
    right = (x.double() ** 2).float()
    got = make_wrong(x, right.clone())
    comparison = compare(got, right.double(), torch.full(shape, 1e-6, dtype=torch.float64))
    outcome = Outcome(Status.WRONG, comparison.text, (got,), comparison)
    return Run(SQUARED, lambda x: got, case, 0, outcome, 0, "cpu", __file__)


def only_row_0(x, right):
    right[1:] += 1
    return right


def past_a_block(x, right):
    right[:, 32:] = 0
    return right


def scattered(x, right):
    right[::2, 1::3] += 1
    return right


def last_column(x, right):
    right[:, -1] = 0
    return right


@pytest.mark.parametrize(
    ("make_wrong", "shape", "names"),
    [
        (lambda x, right: torch.full_like(x, math.nan), (6, 6), ["all NaN"]),
        (lambda x, right: x.clone(), (6, 6), ["the input returned"]),
        (lambda x, right: right.T.contiguous(), (6, 6), ["transposed"]),
        (only_row_0, (6, 6), ["only row 0 is right"]),
        (past_a_block, (3, 50), ["wrong past the last full block"]),
        (lambda x, right: 0.75 * right, (6, 6), ["constant ratio"]),
        (scattered, (6, 6), []),
        (last_column, (3, 50), []),
    ],
)
def test_the_shape_of_an_error(make_wrong, shape, names):
    assert [cause.name for cause in patterns(run_of(make_wrong, shape))] == names


def test_the_shape_of_an_error_comes_with_its_numbers():
    (ratio,) = patterns(run_of(lambda x, right: 0.75 * right))
    assert "0.75 times" in ratio.says
    (block,) = patterns(run_of(past_a_block, (3, 50)))
    assert "0 to 31 are right" in block.says and "from 32 on" in block.says


@pytest.mark.parametrize(
    ("offset", "access", "name", "words"),
    [
        (5, "store", "no mask", "A store goes past"),
        (-3, "load", "no mask", "A load goes past"),
        (-(2**31), "load", "32-bit offset", "wrapped around"),
        (7, "atomic", "no mask", "An update goes past"),
    ],
)
def test_an_access_out_of_bounds(offset, access, name, words):
    finding = Finding(Fault.OUT_OF_BOUNDS, "", access, "x_ptr", offset, (0, 0, 0), "k", 12)
    outcome = Outcome(Status.MEMORY, "", finding=finding)
    (cause,) = patterns(Run(SQUARED, None, Case((1,)), 0, outcome, 0, "cpu", ""))
    assert (cause.name, cause.line) == (name, 12)
    assert words in cause.says


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("RuntimeError: Failed to find C compiler. Please specify via CC", "install gcc"),
        ("fatal error: Python.h: No such file or directory", "Python's headers"),
        ("AssertionError: libcuda.so cannot found!", "TRITON_LIBCUDA_PATH"),
        ("/usr/bin/ld: cannot find -lcuda", "TRITON_LIBCUDA_PATH"),
        ("Triton Error [CUDA]: device kernel image is invalid", "update the driver"),
        ("ptxas fatal: Value 'sm_120' is not defined for option 'gpu-name'", "newer torch"),
        ("which is too old to be supported by the triton GPU compiler", "--device cpu"),
        ("out of resource: shared memory, Required: 131072", "smaller blocks"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "memory is full"),
        ("PermissionError: [Errno 13] Permission denied: '/.triton'", "TRITON_CACHE_DIR"),
        ("/lib/libstdc++.so.6: version `GLIBCXX_3.4.26' not found", "libstdcxx-ng"),
        ("RuntimeError: 0 active drivers ([]). There should only be one.", "No GPU driver"),
        ("ModuleNotFoundError: No module named 'numpy'", "pip install numpy"),
        ("ValueError: something quite different", ""),
    ],
)
def test_known_problems_of_the_machine(message, words):
    told = known_problem(message)
    assert words in told and bool(told) == bool(words)
    assert not told or not explain_error(message), "it is not the kernel's"


def test_messages_are_whole_sentences_and_each_can_be_found():
    for known in MESSAGES:
        assert known.says.endswith(".") and "\n" not in known.says, known
        assert not known.look or known.look.endswith((".", ")")), known
        assert not (known.machine and known.look), "one sentence says all of it"


TEXT = """def f():
    # TODO 1: a thing
    a = g(1)

    # TODO 2: another
    b = g(1) + g(2)

    return a + b
"""


def mistake(old, new, todo=0, also=()):
    return Mistake("a name", old, new, "what happens", also=also, todo=todo)


def test_an_edit_is_looked_up_in_the_answer_of_its_todo():
    assert "b = h(1) + g(2)" in edited(TEXT, mistake("g(1)", "h(1)", todo=2))
    assert "a = h(1)" in edited(TEXT, mistake("g(1)", "h(1)", todo=1))
    assert "return a - b" in edited(TEXT, mistake("a + b", "a - b", todo=1))  # not in the answer
    both = edited(TEXT, mistake("g(1)", "h(1)", todo=1, also=[("g(2)", "h(2)")]))
    assert "a = h(1)" in both and "b = g(1) + h(2)" in both
    with pytest.raises(ValueError, match="is there 2 times"):
        edited(TEXT, mistake("g(1)", "h(1)"))
    with pytest.raises(ValueError, match="is there 0 times"):
        edited(TEXT, mistake("g(3)", "h(3)", todo=1))


def test_a_block_takes_the_indent_of_its_line():
    block = """
                c = 1
                if c:
                    a = g(c)"""
    assert "\n    c = 1\n    if c:\n        a = g(c)\n\n" in edited(
        TEXT, mistake("a = g(1)", block)
    )
