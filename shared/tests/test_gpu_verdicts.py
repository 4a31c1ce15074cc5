"""The verdict on a machine with a GPU, with stand-ins for the workers that would run on it."""

import pytest

from shared.check import stages
from shared.check.process import End, Ended
from shared.course.scripts import resolve
from shared.facts import events
from shared.facts.findings import (
    CaseResult,
    Cause,
    Compiled,
    CompileError,
    Fault,
    Finding,
    Kind,
    MemoryUse,
    Plot,
    Status,
    Totals,
)
from shared.facts.jobs import Task
from shared.facts.machine import Machine
from shared.facts.rows import Row
from shared.facts.verdict import Ruling, Stage

(SCRIPT,) = resolve("00")
DONE = End(Ended.DONE, "", "")
H200 = Machine("cuda", "NVIDIA H200", "sm_90", "2.13", "3.7", "2.2", "3.11")
CPU = Machine("cpu", "CPU, Triton interpreter", "", "2.13", "3.7", "2.2", "3.11")
MOVED = events.MemoryCounted(MemoryUse("vector_add", "n", Totals(launches=1), 1, 1, 4, 4))
COMPILED = events.KernelCompiled(Compiled("vector_add", "add", "sm_90", 4, 16, 0, 0, 1.0, 16))
OVERRUN = Finding(Fault.OUT_OF_BOUNDS, "reads too far", "load", "x_ptr", 9, (0, 0, 0), "add", 33)
NO_MASK = Cause(Kind.MISTAKE, "no mask", "there is no mask", todo=3, line=33)
NO_OTHER = Cause(Kind.PATTERN, "load without other", "...", hidden_on_gpu=True)
ROW = Row("vector_add", "elements", 1024, "float32", {}, 2.0, 1.9, 2.1, "copy", 1.0, 8e3, 4.0, 0.5)


def case(status=Status.OK, message="", **more):
    return events.CaseDone(CaseResult("vector_add", "a case", "", status, message, **more))


@pytest.fixture
def workers(monkeypatch):
    """What the workers report, by task and device; a test changes what it is about."""
    reports = {
        ("check", "cpu"): [events.OnMachine(CPU), case(), MOVED],
        ("check", "gpu"): [events.OnMachine(H200), case()],
        ("compile", "gpu"): [events.Targets(("sm_80", "sm_90"), "sm_90"), COMPILED],
        ("bench", "gpu"): [events.Timed(ROW), events.Saved(Plot("a.csv", "a.png"))],
    }
    ends = {}

    class Listener:
        def __init__(self, job, seconds, under=()):
            self.key = (job.task.value, job.device)
            if job.task is Task.COMPILE:
                self.key = ("compile", "gpu")

        def result(self):
            return reports[self.key], ends.get(self.key, DONE)

        def stop(self):
            pass

    monkeypatch.setattr(stages, "Listener", Listener)
    monkeypatch.setattr(stages.backend, "gpu_seen_by_driver", lambda: True)
    return reports, ends


def verdict(**options):
    return stages.run(SCRIPT, SCRIPT.solution, stages.Options(**options))


def test_right_on_both_is_timed(workers):
    found = verdict()
    assert found.passed and found.stage is Stage.DONE and not found.notes
    assert found.machine == H200 and len(found.cases) == 1
    assert found.timings == [ROW] and found.plots[0].png == "a.png"
    assert found.memory[0].moved.launches == 1 and found.compiled[0].registers == 16
    assert not verdict(bench=False).timings


def test_what_only_the_interpreter_saw_fails_and_is_marked(workers):
    reports, _ = workers
    wrong = case(Status.MEMORY, "reads too far", finding=OVERRUN, line=33)
    reports["check", "cpu"] = [events.OnMachine(CPU), wrong, MOVED, events.CauseFound(NO_MASK)]
    found = verdict()
    assert found.status is Ruling.NOT_YET and not found.timings
    assert [c.in_interpreter for c in found.failed_cases] == [True]
    assert found.causes == [NO_MASK]
    assert found.notes == [
        "The values are right on the GPU; the interpreter saw what will go wrong elsewhere."
    ]


def test_lanes_without_other_fail_although_a_gpu_puts_0_there(workers):
    reports, _ = workers
    reports["check", "cpu"] = [case(Status.WRONG, "NaN"), MOVED, events.CauseFound(NO_OTHER)]
    found = verdict()
    assert found.status is Ruling.NOT_YET and found.causes[0].name == NO_OTHER.name


def test_a_kernel_that_the_interpreter_cannot_follow_passes(workers):
    reports, _ = workers
    reports["check", "cpu"] = [case(Status.RAISED, "no inline assembly"), MOVED]
    found = verdict()
    assert found.passed and len(found.cases) == 1
    assert "could not follow this kernel (no inline assembly)" in found.notes[0]


def test_wrong_on_the_gpu_takes_the_causes_of_the_interpreter(workers):
    reports, _ = workers
    reports["check", "gpu"] = [events.OnMachine(H200), case(Status.RAISED, "illegal access")]
    reports["check", "gpu"].append(events.GpuLost())
    reports["check", "cpu"] = [case(Status.WRONG, "off"), MOVED, events.CauseFound(NO_MASK)]
    found = verdict()
    assert [c.message for c in found.failed_cases] == ["illegal access"]
    assert found.causes == [NO_MASK] and "does nothing more" in found.notes[0]


def test_a_driver_that_pytorch_cannot_use(workers):
    reports, _ = workers
    reports["check", "gpu"] = [events.NoGpu()]
    found = verdict()
    assert found.passed and found.machine == CPU and "So this is the interpreter" in found.notes[0]
    asked = verdict(device="gpu")
    assert asked.status is Ruling.FAULT and "--device cpu" in asked.message and not asked.cases


@pytest.mark.parametrize(("target", "passes"), [("sm_90", False), ("sm_80", True)])
def test_what_this_gpu_cannot_compile_fails_and_other_gpus_are_noted(workers, target, passes):
    reports, _ = workers
    error = CompileError("vector_add", "add", target, "no such thing", 12, (NO_MASK,))
    reports["compile", "gpu"].append(events.KernelRefused(error))
    found = verdict()
    assert found.passed is passes
    if passes:
        assert found.notes == ["add does not compile for sm_80: no such thing"]
    else:
        assert (found.stage, found.line, found.causes) == (Stage.COMPILE, 12, [NO_MASK])


def test_a_worker_that_dies_early_is_the_machines_fault_and_one_that_dies_late_is_not(workers):
    reports, ends = workers
    reports["check", "gpu"] = []
    ends["check", "gpu"] = End(Ended.FAILED, "it failed.", "RuntimeError: CUDA out of memory.")
    assert "The GPU's memory is full" in verdict().message
    reports["check", "gpu"] = [case(), events.CaseStarted("vector_add", "the second")]
    found = verdict()
    assert found.stage is Stage.CRASH and found.message.startswith(
        "In the case vector_add: the sec"
    )


def test_timing_that_stops_early_is_a_note(workers):
    _, ends = workers
    ends["bench", "gpu"] = End(Ended.KILLED, "it was killed.", "")
    found = verdict()
    assert found.passed and found.timings == [ROW] and "stopped early" in found.notes[0]
