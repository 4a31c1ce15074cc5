"""What a failed case looks like, without any knowledge of the lesson."""

from __future__ import annotations

from dataclasses import replace

import torch

from shared.diagnosis.messages import explain_error
from shared.diagnosis.run import Run
from shared.execution import correctness
from shared.execution.correctness import Expectation, Outcome, compare
from shared.execution.inputs import make_inputs
from shared.facts.findings import Cause, Fault, Finding, Kind, Status
from shared.lesson.prose import unbroken

_WRAPPED = (1 << 31) - (1 << 20)  # an offset this far before a tensor wrapped around in 32 bits


def patterns(run: Run) -> list[Cause]:
    """The causes that the outcome of a failed case speaks for."""
    outcome = run.outcome
    if outcome.status is Status.RAISED:
        return explain_error(outcome.error, outcome.line)
    if outcome.status is Status.MEMORY and outcome.finding.kind is Fault.OUT_OF_BOUNDS:
        return [_out_of_bounds(outcome)]
    if outcome.status is not Status.WRONG:
        return []
    undefined = _undefined_lanes(run)
    return [undefined] if undefined else _shape_of_error(run)


def far_before(finding: Finding) -> bool:
    """Whether an access is as far before its tensor as only a 32-bit overflow leads."""
    return finding.offset <= -_WRAPPED


def _out_of_bounds(outcome: Outcome) -> Cause:
    finding = outcome.finding
    if far_before(finding):
        return Cause(
            Kind.PATTERN, "32-bit offset",
            unbroken("""The offset is off by about 2**32: a product of a row number and a stride
                passed 2**31 in 32 bits and wrapped around."""),
            "Make the program id 64-bit before it is multiplied: tl.program_id(0).to(tl.int64).",
            line=finding.line,
        )  # fmt: skip
    article, word = ("An", "update") if finding.access == "atomic" else ("A", finding.access)
    return Cause(
        Kind.PATTERN, "no mask",
        unbroken(f"""{article} {word} goes past its tensor. Lanes without an element need a mask
            that is False for them."""),
        f"Check the mask of this {word}, and the offsets that it is made from.",
        line=finding.line,
    )  # fmt: skip


def _undefined_lanes(run: Run) -> Cause | None:
    recorder = run.recorder(fill_undefined=False)
    if recorder is None or run.again(recorder).status.failed:
        return None
    watched = run.recorder()
    run.again(watched)
    line = watched.undefined_lines.most_common(1)[0][0] if watched.undefined_lines else 0
    return replace(_UNDEFINED, line=line)


_UNDEFINED = Cause(
    Kind.PATTERN, "load without other",
    unbroken("""A masked load without `other` leaves the masked lanes undefined, and here they reach
        the result. Today's GPUs happen to put 0 there; nothing promises it. The check puts NaN
        there."""),
    "Give the load the `other` that does not change the result.",
    hidden_on_gpu=True,
)  # fmt: skip


def _shape_of_error(run: Run) -> list[Cause]:
    """What the wrong result looks like beside the right one."""
    number = max(run.outcome.comparison.result - 1, 0)
    guarded = make_inputs(run.function, run.case, run.device, run.seed)
    inputs = {name: g.view for name, g in guarded.items()}
    doubles = [view.double() for view in inputs.values()]
    truth = correctness.as_tuple(run.function.reference(*doubles, **run.case.options))[number]
    bound = Expectation(run.function, inputs, run.case.options).bounds()[number]
    got = run.outcome.outputs[number].double()

    def same(a: torch.Tensor, b: torch.Tensor) -> bool:
        allowed = bound.expand_as(b) if b.shape == bound.shape else 0 * b
        return a.shape == b.shape and compare(a, b, allowed) is None

    if bool(torch.isnan(got).all()) and not bool(torch.isnan(truth).all()):
        return [_ALL_NAN]
    found = []
    for name, view in inputs.items():
        if view.shape == got.shape and same(got, view.double()):
            says = f"The result equals {name}."
            look = "Check what is stored, and what is returned."
            found.append(Cause(Kind.PATTERN, "the input returned", says, look))
    if got.dim() == 2 and got.shape[0] == got.shape[1] and same(got, truth.T):
        found.append(_TRANSPOSED)
    wrong = ~((got - truth).abs() <= bound) & ~(
        (got == truth) | (torch.isnan(got) & torch.isnan(truth))
    )
    if _only_row_0_is_right(wrong):
        found.append(_ROW_0)
    if wrong.dim() and (first := _first_column_of_a_block(wrong)):
        says = unbroken(f"""Elements 0 to {first - 1} are right, all from {first} on are wrong:
            what lies past a full block is missing.""")
        look = "Check the number of programs or of loop steps: it must round up."
        found.append(Cause(Kind.PATTERN, "wrong past the last full block", says, look))
    if not found and (ratio := _constant_ratio(got, truth)):
        says = f"Every element is {ratio:.4g} times what it should be."
        look = "Look for a missing or doubled factor, or a sum with too many terms."
        found.append(Cause(Kind.PATTERN, "constant ratio", says, look))
    return found


_ALL_NAN = Cause(
    Kind.PATTERN, "all NaN",
    unbroken("""Every element is NaN. Either nothing was stored (outputs start as NaN), or a NaN
        entered every sum: (-inf) - (-inf), 0 / 0 and inf / inf are NaN."""),
    "Whether the store is reached, and what the first operation with a possible inf holds.",
)  # fmt: skip
_TRANSPOSED = Cause(
    Kind.PATTERN, "transposed",
    "The result is the transpose of the right one.",
    "Check which stride belongs to rows and which to columns.",
)  # fmt: skip
_ROW_0 = Cause(
    Kind.PATTERN, "only row 0 is right",
    unbroken("""Row 0 is right and every other row is wrong: the step from row to row is not the
        tensor's."""),
    "Check the row stride: x.stride(0), and the output's own.",
)  # fmt: skip


def _only_row_0_is_right(wrong: torch.Tensor) -> bool:
    if wrong.dim() != 2 or wrong.shape[0] < 2:
        return False
    return not bool(wrong[0].any()) and bool(wrong[1:].any(dim=1).all())


def _first_column_of_a_block(wrong: torch.Tensor) -> int:
    """The first wrong column, if all from it on are wrong and a block may begin there; else 0."""
    n = wrong.shape[-1]
    columns = torch.nonzero(wrong.reshape(-1, n).any(dim=0)).flatten()
    if not columns.numel():
        return 0
    first = int(columns[0])
    begins_a_block = first >= 16 and first % 16 == 0
    return first if begins_a_block and columns.numel() == n - first else 0


def _constant_ratio(got: torch.Tensor, truth: torch.Tensor) -> float:
    """The factor between two results, if it is the same everywhere and not 1; else 0."""
    usable = torch.isfinite(truth) & (truth.abs() > 1e-3) & torch.isfinite(got)
    if int(usable.sum()) <= 3:
        return 0.0
    ratio, right = got[usable] / truth[usable], truth[usable]
    mean, spread = float(ratio.mean()), float(ratio.max() - ratio.min())
    varies = float(right.max() - right.min()) > 0.1 * float(right.abs().max())
    constant = varies and spread < 1e-3 * abs(mean) and abs(mean - 1) > 1e-2
    return mean if constant else 0.0
