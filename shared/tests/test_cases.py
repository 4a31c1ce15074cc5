"""Every case rejects what is surely wrong: zeros, ones, NaN, the input itself, the right result in
the wrong type.
"""

import torch

from shared import correctness
from shared.correctness import as_tuple
from shared.exercise import Case


def judged(function, case, make):
    """The outcome for a fake kernel: `make(inputs, truth)` returns what it returns."""

    def fake(*inputs):
        truth = as_tuple(function.reference(*[t.double() for t in inputs]))
        return make(inputs, truth)

    return correctness.run_case(function, fake, case, "cpu", 0)


def cases_of(exercise):
    return [(f, c) for f in exercise.functions for c in f.cases if not c.gpu_only and not c.refuses]


def constant(value):
    def make(inputs, truth):
        results = tuple(torch.full(t.shape, value, dtype=inputs[0].dtype) for t in truth)
        return results if len(results) > 1 else results[0]

    return make


def test_every_case_accepts_the_rounded_truth(exercise):
    for function, case in cases_of(exercise):
        outcome = judged(function, case, lambda inputs, truth: truth[0].to(inputs[0].dtype))
        assert outcome.kind == "ok", (function.name, case.label, outcome.text)


def test_every_case_rejects_constants(exercise):
    for function, case in cases_of(exercise):
        for value in (0.0, 1.0, float("nan"), float("inf")):
            excused = []

            def make(inputs, truth, value=value, excused=excused):
                # A constant is right where the truth is that constant: softmax of one column is 1.
                if truth[0].numel() == 0 or bool((truth[0] == value).all()):
                    excused.append(case)
                return constant(value)(inputs, truth)

            outcome = judged(function, case, make)
            if excused:
                assert 0 in case.shape or case.shape[-1] == 1, case.label
            else:
                assert outcome.kind == "wrong", (function.name, case.label, value)


def test_every_case_rejects_the_input_itself(exercise):
    excused = 0
    for function, case in cases_of(exercise):
        if 0 in case.shape:
            continue
        outcome = judged(function, case, lambda inputs, truth: inputs[0])
        assert outcome.kind == "contract", (function.name, case.label)

        def copied(inputs, truth):
            flat = inputs[0].contiguous().clone().flatten()
            result = flat[: truth[0].numel()].reshape(truth[0].shape).clone()
            same.append(torch.equal(result.double(), truth[0]))
            return result

        same = []
        outcome = judged(function, case, copied)
        if same[0]:  # the sum and the maximum of one column are the column
            excused += 1
        else:
            assert outcome.kind == "wrong", (function.name, case.label)
    assert excused < len(cases_of(exercise)) / 2


def test_every_case_rejects_a_wrong_type(exercise):
    for function, case in cases_of(exercise):
        for make in (
            lambda inputs, truth: None,
            lambda inputs, truth: [],
            lambda inputs, truth: truth[0].to(torch.float64),
            lambda inputs, truth: truth[0].to(inputs[0].dtype)[None],
        ):
            assert judged(function, case, make).kind == "contract", (function.name, case.label)


def test_every_case_rejects_one_wrong_element(exercise):
    for function, case in cases_of(exercise):
        if 0 in case.shape:
            continue

        def make(inputs, truth):
            result = truth[0].to(inputs[0].dtype)
            last = (-1,) * result.dim()
            result[last] = 1.05 * result[last] + 0.07 if torch.isfinite(result[last]) else 3.0
            return result

        assert judged(function, case, make).kind == "wrong", (function.name, case.label)


def test_float32_cases_reject_half_precision(exercise):
    """A float32 task computed in float16 is wrong somewhere, in every function."""
    for function in exercise.functions:
        kinds = {
            judged(function, case, lambda inputs, truth: truth[0].half().to(inputs[0].dtype)).kind
            for f, case in cases_of(exercise)
            if f is function and case.dtype == "float32"
        }
        assert "wrong" in kinds, function.name


def test_changed_inputs_and_guard_zones_are_seen(exercise):
    for function in exercise.functions:
        case = next(c for c in function.cases if not c.refuses and 0 not in c.shape)

        def changes_the_input(inputs, truth):
            inputs[0][(0,) * inputs[0].dim()] += 1
            return truth[0].to(inputs[0].dtype)

        outcome = judged(function, case, changes_the_input)
        assert outcome.kind == "contract" and "must stay as they are" in outcome.text

        def writes_past_the_end(inputs, truth):
            result = torch.empty(truth[0].shape, dtype=inputs[0].dtype)
            result.copy_(truth[0])
            result.as_strided((result.numel() + 1,), (1,), result.storage_offset())[-1] = 7
            return result

        outcome = judged(function, case, writes_past_the_end)
        assert outcome.kind == "contract" and "past the end of the output" in outcome.text


def test_new_tensors_hold_nan(exercise):
    for function in exercise.functions:
        case = next(c for c in function.cases if not c.refuses and 0 not in c.shape)
        for make in (
            lambda inputs, truth: torch.empty(truth[0].shape, dtype=inputs[0].dtype),
            lambda inputs, truth: torch.empty_like(truth[0], dtype=inputs[0].dtype),
            lambda inputs, truth: inputs[0].new_empty(truth[0].shape),
        ):
            outcome = judged(function, case, make)
            assert outcome.kind == "wrong"
            assert outcome.comparison.unexpected_nan == outcome.comparison.total


def test_a_result_that_a_second_call_overwrites_is_seen(exercise):
    for function in exercise.functions:
        again = [case for case in function.cases if case.again]
        assert again, function.name
        kept = {}

        def shares_its_output(inputs, truth, kept=kept):
            result = kept.setdefault(
                truth[0].shape, torch.zeros(truth[0].shape, dtype=inputs[0].dtype)
            )
            return result.copy_(truth[0])

        outcome = judged(function, again[0], shares_its_output)
        assert outcome.kind == "contract" and "second call" in outcome.text


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

                return correctness.run_case(function, fake, case, "cpu", 0).kind

            assert run(ValueError(f"{case.refuses} does not fit")) == "ok"
            assert run(ValueError("something does not fit")) == "contract"
            assert run(AssertionError(case.refuses)) == "contract"
            assert run(None) == "contract"


def test_labels_tell_cases_apart(exercise):
    for function in exercise.functions:
        labels = [case.label for case in function.cases]
        assert len(labels) == len(set(labels)), function.name
        assert all(case.why or case.refuses for case in function.cases)
        assert all(isinstance(case, Case) for case in function.cases)
