"""Every solution passes its own self-check, and compiles for GPUs that are not here."""

from shared.check import stages
from shared.course import source
from shared.facts.findings import Status
from shared.facts.verdict import Ruling

TARGETS = ("sm_80", "sm_90", "gfx942")


def test_passes_and_compiles(script, exercise):
    verdict = stages.run(script, script.solution, stages.Options(device="cpu", targets=TARGETS))
    failed = [case for case in verdict.cases if case.status is not Status.OK]
    assert not failed, failed
    assert verdict.status is Ruling.PASSED, verdict.message
    assert not verdict.notes, verdict.notes
    expected = sum(not case.gpu_only for function in exercise.functions for case in function.cases)
    assert len(verdict.cases) == expected
    assert not verdict.compile_errors
    kernels = {(row.function, row.kernel) for row in verdict.compiled}
    assert {row.function for row in verdict.compiled} == {
        function.name for function in exercise.functions
    }
    assert {(*kernel, target) for kernel in kernels for target in TARGETS} == {
        (row.function, row.kernel, row.target) for row in verdict.compiled
    }
    # Before Hopper a descriptor is taken apart into pointers, which take registers.
    descriptors = "TensorDescriptor" in script.solution.read_text()
    for row in verdict.compiled:
        assert row.registers, row
        assert row.spilled == 0 or (descriptors and row.target == "sm_80"), row
    assert {row.function for row in verdict.memory} == {
        function.name for function in exercise.functions
    }
    for row in verdict.memory:
        assert row.moved.written >= row.least_written > 0
        assert row.moved.read >= row.least_read > 0


def test_has_the_same_todos_as_its_skeleton(script):
    assert [t.title for t in source.read(script.solution).gaps] == [
        t.title for t in source.read(script.path).gaps
    ]
