"""Runs one case of an exercise and says whether the result is right.

The truth is the function's PyTorch reference in float64. What is allowed is

    4 * (the largest error of the same reference in the case's dtype, on the same input)
    + 4 * u(dtype) * |truth| + 16 * u(float32) * magnitude

with u the unit roundoff: a result may be rounded a few times in its dtype and a dozen times in
float32 on the way. `magnitude` is |truth|, or, for sums, the sum of what is added in absolute
value, since rounding in any order of summation is proportional to that (N. Higham, "The accuracy
of floating point summation", SIAM J. Sci. Comput. 14, 1993). Where a GPU's tensor cores may take
part, the error of float32 inputs cut to TF32 counts as PyTorch's own, whether PyTorch is set to
use TF32 or not. Nothing is tuned by hand.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch

from shared.execution.buffers import Guarded, GuardedAllocations
from shared.execution.inputs import make_inputs
from shared.execution.memory import AccessError, Recorder
from shared.facts.findings import CaseResult, Comparison, Finding, Status
from shared.lesson.exercise import Case, Function
from shared.lesson.prose import unbroken

_SLICE = 1 << 24  # outputs larger than this are compared in slices along the first axis


@dataclass
class Outcome:
    """What one case came to.

    text:     one sentence for a person.
    outputs:  what the function returned, as a tuple, if it returned tensors.
    error:    an exception in full.
    line:     of the file under test, 0 if none is known.
    """

    status: Status
    text: str = ""
    outputs: tuple[torch.Tensor, ...] = ()
    comparison: Comparison | None = None
    finding: Finding | None = None
    error: str = ""
    line: int = 0

    def result(self, function: Function, case: Case) -> CaseResult:
        """The facts of it, without tensors."""
        return CaseResult(
            function.name, case.label, case.why,
            self.status, self.text, self.comparison, self.finding, self.line,
        )  # fmt: skip


class Expectation:
    """The truth for one case's inputs, kept so that several candidates can be held against it.

    options: what the case passes by keyword, to the reference too.
    """

    def __init__(
        self,
        function: Function,
        inputs: Mapping[str, torch.Tensor],
        options: Mapping[str, object],
    ):
        self.function = function
        self.inputs = inputs
        self.options = options
        self._kept = None
        self._shapes = ()

    def judge(self, outputs: tuple[torch.Tensor, ...]) -> Comparison | None:
        """Compare all outputs; returns the first one's comparison that is wrong, or None.

        Raises ValueError if an output's shape is not the expected one.
        """
        rows = outputs[0].shape[0] if outputs[0].dim() else 1
        step = rows if outputs[0].numel() <= _SLICE else max(1, _SLICE * rows // outputs[0].numel())
        for start in range(0, max(rows, 1), max(step, 1)):
            part = (
                self.inputs
                if step >= rows
                else {
                    name: tensor[start : start + step]
                    if step < rows and tensor.dim() and tensor.shape[0] == rows
                    else tensor
                    for name, tensor in self.inputs.items()
                }
            )
            whole = step >= rows
            truths, allowed = self._bounds(part)
            several = len(outputs) > 1
            for number, (output, truth, bound) in enumerate(
                zip(outputs, truths, allowed, strict=True), 1
            ):
                piece = output if whole else output[start : start + step]
                comparison = compare(piece, truth, bound, start=0 if whole else start)
                if comparison is not None:
                    return replace(comparison, result=number) if several else comparison
        return None

    def _bounds(self, inputs):
        """Truth and allowed error of each output; kept, as long as the inputs are of a moderate
        size.
        """
        whole = inputs is self.inputs
        if whole and self._kept is not None:
            return self._kept
        doubles = [t.double() for t in inputs.values()]
        truths = self._reference(doubles)
        own = self._reference(inputs.values())
        magnitudes = [truth.abs() for truth in truths]
        if self.function.magnitude is not None:
            magnitudes = as_tuple(self.function.magnitude(*doubles, **self.options))
        errors = [_largest_error(rounded, truth) for rounded, truth in zip(own, truths)]
        if self.function.tensor_cores and own[0].dtype == torch.float32 and own[0].is_cuda:
            coarse = self._reference([_tf32(t).double() for t in inputs.values()])
            errors = [max(e, _largest_error(c, t)) for e, c, t in zip(errors, coarse, truths)]
        allowed = [
            4 * error
            + 4 * torch.finfo(rounded.dtype).eps / 2 * truth.abs()
            + 16 * 2.0**-24 * magnitude
            for error, rounded, truth, magnitude in zip(errors, own, truths, magnitudes)
        ]
        truths = [
            t.to(r.dtype).double() if not _all_fit(t, r.dtype) else t
            for t, r in zip(truths, own, strict=True)
        ]
        if whole:
            self._kept = truths, allowed
            self._shapes = tuple((o.shape, o.dtype) for o in own)
        return truths, allowed

    def _reference(self, tensors) -> tuple[torch.Tensor, ...]:
        return as_tuple(self.function.reference(*tensors, **self.options))

    def bounds(self) -> list[torch.Tensor]:
        """What is allowed around the truth, for each output."""
        return self._bounds(self.inputs)[1]

    def shapes(self) -> tuple[tuple[torch.Size, torch.dtype], ...]:
        """Shape and dtype of each expected output."""
        if max((t.numel() for t in self.inputs.values()), default=0) > _SLICE:
            metas = [t.to("meta") for t in self.inputs.values()]
            return tuple((o.shape, o.dtype) for o in self._reference(metas))
        self._bounds(self.inputs)
        return self._shapes


def _largest_error(rounded: torch.Tensor, truth: torch.Tensor) -> float:
    difference = (rounded.double() - truth).abs()
    difference = difference[torch.isfinite(difference)]
    return float(difference.max()) if difference.numel() else 0.0


def _tf32(t: torch.Tensor) -> torch.Tensor:
    """float32 cut to TF32's 10 bits of mantissa, as the tensor cores read it, and made smaller by
    half a unit of that: what is computed on the way, as attention's weights, may be cut as well.
    """
    return (t.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32) * (1 - 2.0**-11)


def _all_fit(truth: torch.Tensor, dtype: torch.dtype) -> bool:
    finite = truth[torch.isfinite(truth)]
    return finite.numel() == 0 or float(finite.abs().max()) < torch.finfo(dtype).max


def compare(
    got: torch.Tensor, truth: torch.Tensor, allowed: torch.Tensor, start: int = 0
) -> Comparison | None:
    """None if every element of `got` is within `allowed` of `truth`, else what is wrong.

    NaN must stand exactly where the truth has NaN, infinities must be equal.
    start: the first row's number, for an output compared in slices.
    """
    got = got.detach().double()
    error = (got - truth).abs()
    right = (
        (torch.isfinite(error) & (error <= allowed))
        | (got == truth)
        | (torch.isnan(got) & torch.isnan(truth))
    )
    if bool(right.all()):
        return None
    wrong = torch.nonzero(~right)
    index = tuple(int(i) for i in wrong[0])
    worst = tuple(index) if index else ()
    shown = (worst[0] + start, *worst[1:]) if worst else ()
    bound = allowed.expand_as(truth)
    return Comparison(
        wrong=wrong.shape[0] if index else 1,
        total=got.numel(),
        index=shown,
        got=float(got[worst]),
        expected=float(truth[worst]),
        error=float(error[worst]),
        allowed=float(bound[worst]),
        unexpected_nan=int((torch.isnan(got) & ~torch.isnan(truth)).sum()),
        missing_nan=int((~torch.isnan(got) & torch.isnan(truth)).sum()),
    )


def as_tuple(result) -> tuple:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def run_case(
    function: Function,
    call: Callable,
    case: Case,
    device: str,
    seed: int,
    source: str = "",
    recorder: Recorder | None = None,
) -> Outcome:
    """Call `call` on the case's inputs and judge what comes back.

    source:   the file under test, to find the line of an error.
    recorder: given in the interpreter; its findings become the outcome's.
    """
    try:
        guarded = make_inputs(function, case, device, seed)
    except (RuntimeError, MemoryError) as error:
        if not _out_of_memory(error):
            return outcome_of_error(error, source)
        return Outcome(
            Status.SKIPPED, f"this machine has too little memory for it ({first_line(error)})"
        )
    inputs = {name: g.view for name, g in guarded.items()}
    if case.refuses:
        return _run_refusal(call, case, inputs)

    expectation = Expectation(function, inputs, case.options)
    outcome = _call_and_judge(call, guarded, expectation, source, recorder)
    if outcome.status is Status.OK and case.again:
        kept = [t.clone() for t in outcome.outputs]
        others = make_inputs(function, case, device, seed + 1)
        second = _call_and_judge(
            call,
            others,
            Expectation(function, {n: g.view for n, g in others.items()}, case.options),
            source,
            recorder,
        )
        if second.status is not Status.OK:
            second.text = f"a second call, with other values: {second.text}"
            return second
        if not all(torch.equal(a, b) for a, b in zip(kept, outcome.outputs, strict=True)):
            return _broken(
                unbroken("""the second call changed what the first call had returned: each call
                    needs an output of its own""")
            )
    return outcome


def _out_of_memory(error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or "allocate memory" in str(error) or "out of memory" in str(error)


def call_observed(
    call: Callable,
    inputs: list[torch.Tensor],
    recorder: Recorder | None,
    options: Mapping[str, object] | None = None,
):
    """Call with guarded allocations and, in the interpreter, observed accesses.

    Returns (result, the allocations made).
    """
    allocations = GuardedAllocations()
    with recorder.watching() if recorder is not None else nullcontext(), allocations:
        result = call(*inputs, **(options or {}))
    if inputs and inputs[0].device.type != "cpu":
        getattr(torch, inputs[0].device.type).synchronize()
    return result, allocations.made


def _call_and_judge(
    call,
    guarded: Mapping[str, Guarded],
    expectation: Expectation,
    source: str,
    recorder: Recorder | None,
) -> Outcome:
    inputs = [g.view for g in guarded.values()]
    try:
        result, made = call_observed(call, inputs, recorder, expectation.options)
    except Exception as error:  # whatever a learner's code raises is a verdict, not our failure
        return outcome_of_error(error, source)
    outcome = _check_contract(result, inputs, expectation)
    if outcome is None:
        outputs = as_tuple(result)
        damage = next((text for g in [*guarded.values(), *made] if (text := g.damage())), "")
        if damage:
            outcome = Outcome(Status.CONTRACT, damage, outputs)
        elif recorder is not None and recorder.findings:
            finding = recorder.findings[0]
            outcome = Outcome(
                Status.MEMORY, finding.text, outputs, finding=finding, line=finding.line
            )
        else:
            comparison = expectation.judge(outputs) if outputs[0].numel() else None
            if comparison is None:
                return Outcome(Status.OK, outputs=outputs)
            outcome = Outcome(Status.WRONG, comparison.text, outputs, comparison)
            wrong = outputs[max(comparison.result - 1, 0)]
            missing = recorder.never_written(wrong) if recorder is not None else 0
            if missing:
                outcome.text = (
                    f"{missing:,} of {wrong.numel():,} elements were never written. " + outcome.text
                )
    return outcome


def _broken(text: str) -> Outcome:
    """What the lesson's contract asks for is not kept."""
    return Outcome(Status.CONTRACT, text)


def _check_contract(result, inputs, expectation: Expectation) -> Outcome | None:
    expected = expectation.shapes()
    name = expectation.function.name
    if result is None:
        return _broken(f"{name} returned None. Is its `return` missing?")
    if result is Ellipsis:
        return _broken(f"{name} returned `...`.")
    results = as_tuple(result)
    if len(results) != len(expected):
        return _broken(f"{name} returned {len(results)} values, {len(expected)} are expected.")
    for position, (value, (shape, dtype)) in enumerate(zip(results, expected, strict=True)):
        what = f"{name} returned" if len(expected) == 1 else f"result {position + 1} of {name} is"
        if type(value) is not torch.Tensor:
            return _broken(f"{what} a {type(value).__name__}, a tensor is expected.")
        if value.shape != shape:
            shapes = f"{tuple(value.shape)}, {tuple(shape)} is expected."
            return _broken(f"{what} a tensor of shape {shapes}")
        if value.dtype != dtype:
            return _broken(
                unbroken(f"""{what} {_plain(value.dtype)}, {_plain(dtype)} is expected: the result
                    has the input's dtype.""")
            )
        if value.device != inputs[0].device:
            devices = f"{value.device}, the inputs are on {inputs[0].device}."
            return _broken(f"{what} a tensor on {devices}")
        for tensor in inputs:
            if (
                value.numel()
                and value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
            ):
                return _broken(f"{what} an input, or a view of one: it needs memory of its own.")
    return None


def _run_refusal(call, case: Case, inputs) -> Outcome:
    try:
        call(*inputs.values(), **case.options)
    except (ValueError, TypeError) as error:
        if re.search(rf"\b{case.refuses}\b", str(error)):
            return Outcome(Status.OK)
        return _broken(
            unbroken(f"""{type(error).__name__} is right for {case.refuses} {case.misfit}, but its
                message does not name {case.refuses}: {first_line(error)}""")
        )
    except Exception as error:
        return _broken(
            unbroken(f"""{case.refuses} {case.misfit} must raise ValueError or TypeError, it raised
                {type(error).__name__}: {first_line(error)}""")
        )
    return _broken(
        unbroken(f"""{case.refuses} {case.misfit} does not fit: the call must raise ValueError or
            TypeError and name {case.refuses}, and it returned""")
    )


def outcome_of_error(error: BaseException, source: str) -> Outcome:
    """An exception as an outcome, with the last line of `source` that it passed through."""
    line, link = 0, error
    while link is not None and not line:
        frames = [f for f in traceback.extract_tb(link.__traceback__) if f.filename == source]
        line = frames[-1].lineno or 0 if frames else 0
        link = link.__cause__ or link.__context__
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, AccessError):
        return Outcome(
            Status.MEMORY, error.finding.text, finding=error.finding, line=error.finding.line
        )
    return Outcome(
        Status.RAISED,
        f"{type(error).__name__}: {first_line(error)}",
        error=f"{type(error).__name__}: {error}",
        line=line,
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "(no message)"


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
