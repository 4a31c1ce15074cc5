"""What a person reads: the verdict's tables, ratios and places, and how they are laid out."""

import pytest

from shared.commands import report
from shared.course import layout
from shared.course.scripts import resolve
from shared.facts.findings import (
    CaseResult,
    Cause,
    Compiled,
    Kind,
    MemoryUse,
    Plot,
    Status,
    Totals,
)
from shared.facts.machine import Machine
from shared.facts.rows import Row
from shared.facts.verdict import Ruling, Stage, Verdict

(SCRIPT,) = resolve("00")
CPU = Machine("cpu", "CPU, Triton interpreter", "", "2.13", "3.7", "2.2", "3.11")
GPU = Machine("cuda", "NVIDIA H200", "sm_90", "2.13", "3.7", "2.2", "3.11")


@pytest.fixture
def verdict():
    """One that passed, on a CPU."""
    made = Verdict(SCRIPT.lesson, SCRIPT.file, str(SCRIPT.path), Ruling.PASSED, Stage.DONE)
    made.machine, made.seconds = CPU, 1.25
    made.cases = [CaseResult("vector_add", "3, float32", "", Status.OK)]
    return made


def lines(verdict):
    return report.told(verdict, SCRIPT).splitlines()


def test_memory_is_told_as_ratios_of_the_least(verdict):
    moved = Totals(1500, 400, 100, 25, programs=8, idle_programs=3, launches=2)
    verdict.memory = [MemoryUse("vector_add", "n", moved, 1000, 400, 900, 400)]
    told = "\n".join(lines(verdict))
    assert "vector_add, n: 8 programs (3 of them did nothing), 2 launches" in told
    assert "reads 1,500 B (1.50× of the least), writes 400 B (1.00×)" in told
    assert "in sectors 4,000 B (2.11×)" in told  # 125 sectors of 32 bytes for 1,900 bytes
    assert "allocates 900 B, of which 400 B are the result" in told
    nothing = Totals(0, 0, programs=1, launches=1)
    verdict.memory = [MemoryUse("vector_add", "n", nothing, 0, 0, 4, 4)]
    told = "\n".join(lines(verdict))
    assert "reads 0 B (- of the least)" in told and "sectors" not in told
    assert "1 launch\n" in told and "allocates" not in told


def test_timings_are_a_table(verdict):
    def row(value, times):
        torch, yours = times
        return Row("vector_add", "elements", value, "float32", {"torch.add": torch}, yours, 1.0,
                   2.0, "copy", 1.0, 8e3, 123.4, 0.456)  # fmt: skip

    verdict.machine = GPU
    verdict.timings = [row(1024, (4.25, 3.5)), row(1 << 20, (80.0, 1234.56))]
    verdict.plots = [Plot(str(layout.ROOT / "a.csv"), str(layout.ROOT / "a.png"))]
    told = lines(verdict)
    start = told.index("  vector_add, float32: median time in µs; GB/s of the least traffic")
    head, first, second = (line.split() for line in told[start + 1 : start + 4])
    assert head == ["elements", "torch.add", "yours", "GB/s", "of", "the", "ceiling"]
    assert first == ["1,024", "4.2", "3.5", "123", "45.6%"]
    assert second == ["1,048,576", "80.0", "1234.6", "123", "45.6%"]
    assert len({len(line) for line in told[start + 1 : start + 4]}) == 1, "columns end together"
    assert "  a.csv" in told and "  a.png" in told and "Timings need a GPU" not in "".join(told)


def test_without_a_gpu_the_recorded_times_are_said_to_be_recorded(verdict):
    verdict.memory = [MemoryUse("vector_add", "n", Totals(launches=1), 1, 1, 4, 4)]
    told = " ".join(" ".join(lines(verdict)).split())
    assert "Recorded for the solution's vector_add, not on this machine (NVIDIA H200" in told


def test_compiled_kernels_are_told_with_what_matters(verdict):
    verdict.compiled = [
        Compiled("f", "add", "sm_90", 4, 40, 8, 1024, 0.75, 16, ("mma", "cp.async")),
        Compiled("f", "other", "gfx942", 4, None, None, 0, None, 0),
        Compiled("g", "other", "gfx942", 4, 12, 0, 0, None, 0),
    ]
    told = [" ".join(line.split()) for line in lines(verdict)]
    spilled = "40 registers, 8 B spilled to memory, 1,024 B shared, occupancy 75%"
    assert f"add sm_90 4 warps, {spilled}, loads up to 16 B a thread, mma, cp.async" in told
    assert "other, f gfx942 4 warps" in told and "other, g gfx942 4 warps, 12 registers" in told


def test_failures_say_what_happened_where_and_what_to_do(verdict):
    verdict.status, verdict.stage, verdict.n_todos = Ruling.NOT_YET, Stage.CORRECTNESS, 5
    failed = [CaseResult("vector_add", f"{n}", "it is so", Status.WRONG, "off") for n in range(5)]
    verdict.cases += [*failed, CaseResult("vector_add", "big", "", Status.SKIPPED, "no memory")]
    told = "\n".join(lines(verdict))
    assert "✓ 1 of 7 cases   ✗ 5" in told and "and 2 more cases." in told
    assert "No known mistake gives these numbers" in told
    assert "vector_add big was left out: no memory" in told
    verdict.causes = [Cause(Kind.MISTAKE, "a name", "there is no mask", "the mask.", 4, 37)]
    told = "\n".join(lines(verdict))
    assert "This is what comes out when there is no mask." in told and "Look at: the mask." in told
    assert "TODO 4  lessons/00_vector_add/vector_add.py:37" in told
    verdict.causes *= 2
    assert "2 causes fit equally well" in "\n".join(lines(verdict))
    assert lines(verdict)[-1].startswith("Edit it and run  ./run.sh 00_vector_add  again.")


def test_equal_messages_are_told_once(verdict):
    verdict.status = Ruling.NOT_YET
    verdict.cases = [
        CaseResult("vector_add", f"{n}", "", Status.RAISED, "the same", line=12) for n in range(4)
    ]
    told = lines(verdict)
    assert sum("the same" in line for line in told) == 1
    assert "    lessons/00_vector_add/vector_add.py:12" in told
    assert "    and 3 more cases." in told


def test_a_fault_is_not_about_the_kernel(verdict):
    verdict.cases = []
    verdict.fault("there is no room left")
    told = lines(verdict)
    assert told == ["✗ there is no room left", "This is not about the kernel. Nothing was judged."]
