"""Facts on their way to JSON and back, and what is no event."""

import math

import pytest

from shared.facts import events
from shared.facts.findings import CaseResult, Comparison, Fault, Finding, Status
from shared.facts.jobs import Job, Task
from shared.facts.plain import from_plain, to_plain
from shared.facts.verdict import Ruling, Stage, Verdict

FINDING = Finding(Fault.RACE, "a race", "store", "out_ptr", 3, (1, 2, 0), "kernel", 7)
NUMBERS = Comparison(1, 4, (0, 2), math.nan, -math.inf, math.inf, 1e-6, 1, 0)
CASE = CaseResult("f", "3, float32", "why", Status.WRONG, "wrong", NUMBERS, FINDING, 12)


def test_an_event_comes_back_as_it_was():
    line = events.encoded(events.CaseDone(CASE))
    assert "\n" not in line and "NaN" not in line and "Infinity" not in line
    back = events.decoded(line).case
    assert to_plain(back) == to_plain(CASE) and math.isnan(back.numbers.got)
    assert (back.numbers.expected, back.finding.program) == (-math.inf, (1, 2, 0))
    assert events.decoded(events.encoded(events.End())) == events.End()


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[]",
        "3",
        "null",
        "{}",
        '{"event": "no such event"}',
        '{"event": ["CaseDone"]}',
        '{"event": "CaseDone"}',
        '{"event": "CaseDone", "case": "ok"}',
        '{"event": "Busy", "what": 3}',
        '{"event": "Busy", "what": "a", "more": "b"}',
        '{"event": "GaveUp", "number": 1}',
        '{"event": "ImportFailed", "message": "a", "line": "b"}',
        '{"event": "ImportFailed", "message": "a", "line": true}',
        events.encoded(events.CaseDone(CASE)).replace('"wrong"', '"right"', 1),
    ],
)
def test_what_is_no_event_is_refused(line):
    with pytest.raises(ValueError):
        events.decoded(line)


def test_a_job_comes_back_as_it_was():
    job = Job(Task.COMPILE, "00_vector_add", "vector_add.py", "/x.py", targets=("sm_80", "gfx942"))
    assert from_plain(Job, to_plain(job)) == job


def test_a_verdict_knows_what_failed():
    verdict = Verdict("00_vector_add", "vector_add.py", "/x.py")
    verdict.cases = [CaseResult("f", "a", "", status) for status in Status]
    assert [case.status for case in verdict.skipped_cases] == [Status.SKIPPED]
    assert len(verdict.failed_cases) == 4 and verdict.n_passed == 1
    assert not verdict.passed and not verdict.at_fault
    verdict.fault("no memory")
    assert verdict.at_fault and verdict.status is Ruling.FAULT and verdict.stage is Stage.SOURCE
    verdict.note("twice")
    verdict.note("twice")
    assert verdict.notes == ["twice"]
