"""Every case rejects what is surely wrong: zeros, ones, NaN, the input itself, the right result in
the wrong type.

A fake kernel is made from a function of (inputs, right), `right` being the results that it should
give, as a tuple.
"""

import math

import torch

from shared.execution import correctness
from shared.execution.correctness import as_tuple
from shared.facts.findings import Status
from shared.lesson.exercise import Case


def judged(function, case, fake):
    """The outcome of a case for a fake kernel."""

    def call(*inputs, **options):
        doubles = [t.double() for t in inputs]
        truth = as_tuple(function.reference(*doubles, **options))
        results = fake(inputs, tuple(t.to(inputs[0].dtype) for t in truth))
        one = isinstance(results, tuple) and len(results) == 1
        return results[0] if one else results

    return correctness.run_case(function, call, case, "cpu", 0)


def cases_of(exercise):
    return [(f, c) for f in exercise.functions for c in f.cases if not c.gpu_only and not c.refuses]


def ordinary(function):
    """A case of the function with something in it."""
    return next(c for c in function.cases if not c.refuses and 0 not in c.shape)


def n_results(function):
    tensors = [torch.ones(shape) for shape in function.arguments(function.memory).values()]
    return len(as_tuple(function.reference(*tensors)))


def replaced(right, number, result):
    """The right results with one of them replaced."""
    return tuple(result if n == number else t for n, t in enumerate(right))


def test_every_case_accepts_the_rounded_truth(exercise):
    for function, case in cases_of(exercise):
        outcome = judged(function, case, lambda inputs, right: right)
        assert outcome.status is Status.OK, (function.name, case.label, outcome.text)


def test_every_case_rejects_constants(exercise):
    excused = []
    for function, case in cases_of(exercise):
        for number in range(n_results(function)):
            for value in (0.0, 1.0, float("nan"), float("inf")):
                same = []

                def fake(inputs, right, number=number, value=value, same=same):
                    result = torch.full_like(right[number], value)
                    same.append(bool((result == right[number]).all()))
                    return replaced(right, number, result)

                outcome = judged(function, case, fake)
                if same[0]:  # softmax of one column is 1, nothing at all is anything
                    excused.append((function.name, case.label, value))
                else:
                    assert outcome.status is Status.WRONG, (function.name, case.label, value)
    ordinary_ones = [label for _, label, _ in excused if "0" not in label.split(",")[0].split()]
    assert len(ordinary_ones) <= len(cases_of(exercise)) / 5, ordinary_ones


def test_every_case_rejects_the_input_itself(exercise):
    excused = 0
    for function, case in cases_of(exercise):
        if 0 in case.shape:
            continue
        for number in range(n_results(function)):
            outcome = judged(
                function, case, lambda inputs, right, n=number: replaced(right, n, inputs[0])
            )
            assert outcome.status is Status.CONTRACT, (function.name, case.label)
            same = []

            def copied(inputs, right, number=number, same=same):
                flat = inputs[0].contiguous().flatten()
                wanted = right[number]
                times = math.ceil(wanted.numel() / flat.numel())
                result = flat.repeat(times)[: wanted.numel()].reshape(wanted.shape).clone()
                same.append(torch.equal(result, wanted))
                return replaced(right, number, result)

            outcome = judged(function, case, copied)
            if same[0]:  # the sum and the maximum of one column are the column
                excused += 1
            else:
                assert outcome.status is Status.WRONG, (function.name, case.label)
    assert excused < len(cases_of(exercise)) / 2


def test_every_case_rejects_a_wrong_type(exercise):
    for function, case in cases_of(exercise):
        for fake in (
            lambda inputs, right: None,
            lambda inputs, right: [],
            lambda inputs, right: tuple(t.to(torch.float64) for t in right),
            lambda inputs, right: tuple(t[None] for t in right),
        ):
            assert judged(function, case, fake).status is Status.CONTRACT, (
                function.name,
                case.label,
            )


def test_every_case_rejects_one_wrong_element(exercise):
    for function, case in cases_of(exercise):
        if 0 in case.shape:
            continue
        for number in range(n_results(function)):

            def fake(inputs, right, number=number):
                result = right[number].clone()
                finite = result[torch.isfinite(result)]
                largest = float(finite.abs().max()) if finite.numel() else 0.0
                last = (-1,) * result.dim()
                ordinary = bool(torch.isfinite(result[last]))
                result[last] = result[last] + 0.07 + 0.2 * largest if ordinary else 3.0
                return replaced(right, number, result)

            assert judged(function, case, fake).status is Status.WRONG, (function.name, case.label)


def test_float32_cases_reject_half_precision(exercise):
    """A float32 task computed in float16 is wrong somewhere, in every function and result."""
    for function in exercise.functions:
        for number in range(n_results(function)):
            kinds = {
                judged(
                    function,
                    case,
                    lambda inputs, right, n=number: replaced(right, n, right[n].half().float()),
                ).status
                for f, case in cases_of(exercise)
                if f is function and case.dtype == "float32"
            }
            assert Status.WRONG in kinds, function.name


def test_changed_inputs_and_guard_zones_are_seen(exercise):
    for function in exercise.functions:
        case = ordinary(function)

        def changes_the_input(inputs, right):
            inputs[0][(0,) * inputs[0].dim()] += 1
            return right

        outcome = judged(function, case, changes_the_input)
        assert outcome.status is Status.CONTRACT and "must stay as they are" in outcome.text

        def writes_past_the_end(inputs, right):
            results = tuple(torch.empty(t.shape, dtype=t.dtype) for t in right)
            for result, value in zip(results, right, strict=True):
                result.copy_(value)
            last = results[-1]
            last.as_strided((last.numel() + 1,), (1,), last.storage_offset())[-1] = 7
            return results

        outcome = judged(function, case, writes_past_the_end)
        assert outcome.status is Status.CONTRACT and "past the end of the output" in outcome.text


def test_new_tensors_hold_nan(exercise):
    for function in exercise.functions:
        case = ordinary(function)
        for new in (
            lambda inputs, t: torch.empty(t.shape, dtype=t.dtype),
            lambda inputs, t: torch.empty_like(t),
            lambda inputs, t: inputs[0].new_empty(t.shape),
        ):
            outcome = judged(
                function, case, lambda inputs, right, new=new: tuple(new(inputs, t) for t in right)
            )
            assert outcome.status is Status.WRONG
            assert outcome.comparison.unexpected_nan == outcome.comparison.total


def test_a_result_that_a_second_call_overwrites_is_seen(exercise):
    for function in exercise.functions:
        again = [case for case in function.cases if case.again]
        assert again, function.name
        kept = {}

        def shares_its_output(inputs, right, kept=kept):
            shared = kept.setdefault(right[0].shape, torch.zeros_like(right[0]))
            return (shared.copy_(right[0]), *right[1:])

        outcome = judged(function, again[0], shares_its_output)
        assert outcome.status is Status.CONTRACT and "second call" in outcome.text


def test_refusals_want_the_right_error_with_the_name(exercise):
    for function in exercise.functions:
        for case in function.cases:
            if not case.refuses or case.gpu_only:
                continue

            def run(error, case=case, function=function):
                def fake(*inputs):
                    if error is not None:
                        raise error
                    return inputs[0]

                return correctness.run_case(function, fake, case, "cpu", 0).status

            assert run(ValueError(f"{case.refuses} does not fit")) is Status.OK
            assert run(ValueError("something does not fit")) is Status.CONTRACT
            assert run(AssertionError(case.refuses)) is Status.CONTRACT
            assert run(None) is Status.CONTRACT


def test_labels_tell_cases_apart(exercise):
    for function in exercise.functions:
        labels = [case.label for case in function.cases]
        assert len(labels) == len(set(labels)), function.name
        assert all(case.why or case.refuses for case in function.cases)
        assert all(isinstance(case, Case) for case in function.cases)
