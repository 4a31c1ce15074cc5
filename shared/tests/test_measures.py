"""What is measured without a GPU: accesses, races, sectors, occupancy, recorded tables."""

import pytest
import torch
import triton
import triton.language as tl

from shared.course import layout
from shared.course.scripts import resolve
from shared.execution import correctness, offline
from shared.execution.buffers import LAYOUTS, allocate, place
from shared.execution.correctness import Expectation, call_observed, outcome_of_error
from shared.execution.memory import Recorder
from shared.facts.findings import Fault
from shared.measure import pages, traffic


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, step, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (i * step), mask=i < n, other=0.0)
    tl.store(out_ptr + i + shift, x, mask=i < n)


@triton.jit
def all_to_one_kernel(out_ptr, same: tl.constexpr):
    tl.store(out_ptr, 1.0 if same else tl.program_id(0).to(tl.float32))


@triton.jit
def neighbour_kernel(x_ptr):
    pid = tl.program_id(0)
    tl.store(x_ptr + pid, tl.load(x_ptr + pid + 1) + 1)


def observed(launch, **options):
    recorder = Recorder(__file__, count_sectors=True, **options)
    try:
        call_observed(launch, [], recorder)
    except Exception as error:
        return recorder, outcome_of_error(error, __file__)
    return recorder, None


def test_bytes_and_sectors_of_a_copy():
    x, out = torch.randn(1000), torch.empty(1000)
    recorder, _ = observed(lambda: copy_kernel[(8,)](x, out, 1000, 1, 0, BLOCK=128))
    totals = recorder.totals
    assert (totals.read, totals.written, totals.programs, totals.launches) == (4000, 4000, 8, 1)
    assert abs(32 * totals.read_sectors - 4000) <= 32 * 8


def test_every_eighth_element_costs_eight_times_the_sectors():
    x, out = torch.randn(8000), torch.empty(1000)
    recorder, _ = observed(lambda: copy_kernel[(8,)](x, out, 1000, 8, 0, BLOCK=128))
    assert recorder.totals.read == 4000
    assert recorder.totals.read_sectors == 1000


@pytest.mark.parametrize(
    ("step", "shift", "access", "tensor", "offset"),
    [
        (1, 1, "store", "out_ptr", 100),
        (1, -3, "store", "out_ptr", -3),
        (2, 0, "load", "x_ptr", 100),
    ],
)
def test_out_of_bounds_is_placed_exactly(step, shift, access, tensor, offset):
    x = place(torch.randn(100), "contiguous", "x", "cpu", torch.float32).view
    out = allocate((100,), (1,), torch.float32, "cpu", "out").view
    _, outcome = observed(lambda: copy_kernel[(1,)](x, out, 100, step, shift, BLOCK=128))
    finding = outcome.finding
    assert (finding.kind, finding.access, finding.tensor, finding.offset) == (
        Fault.OUT_OF_BOUNDS,
        access,
        tensor,
        offset,
    )
    with open(__file__) as file:
        assert f"tl.{access}" in file.read().splitlines()[finding.line - 1]


def test_two_programs_that_write_different_values_race():
    out = torch.zeros(1)
    recorder, _ = observed(lambda: all_to_one_kernel[(3,)](out, same=False))
    assert [f.kind for f in recorder.findings] == [Fault.RACE]
    recorder, _ = observed(lambda: all_to_one_kernel[(3,)](out, same=True))
    assert not recorder.findings


def test_writing_what_another_program_reads_is_a_race():
    x = torch.zeros(8)
    recorder, _ = observed(lambda: neighbour_kernel[(4,)](x))
    assert [f.kind for f in recorder.findings] == [Fault.RACE]


@triton.jit
def first_reader_writes_kernel(x_ptr, out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(x_ptr))
    if pid == 1:
        tl.store(x_ptr, 5.0)


def test_an_earlier_reader_is_not_forgotten():
    x, out = torch.zeros(1), torch.zeros(2)
    recorder, _ = observed(lambda: first_reader_writes_kernel[(2,)](x, out))
    assert [f.kind for f in recorder.findings] == [Fault.RACE]


def test_what_two_launches_leave_unwritten_is_counted():
    x, out = torch.randn(300), torch.empty(300)
    recorder = Recorder(__file__)

    def launches():
        copy_kernel[(1,)](x, out[:100], 100, 1, 0, BLOCK=128)
        copy_kernel[(1,)](x, out, 120, 1, 0, BLOCK=128)

    call_observed(launches, [], recorder)
    assert recorder.never_written(out) == 180


def test_a_launch_of_too_many_programs_is_stopped():
    x, out = torch.randn(1000), torch.empty(1000)
    _, outcome = observed(lambda: copy_kernel[(8,)](x, out, 1000, 1, 0, BLOCK=128), most_programs=7)
    assert outcome.error.startswith("TooManyPrograms")


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "2**30" not in name])
def test_layouts_hold_the_values_and_notice_damage(layout):
    values = torch.randn(2, 3, 6, 5, dtype=torch.float64)
    guarded = place(values, layout, "x", "cpu", torch.float32)
    expected = values[:1].expand(values.shape) if layout == "expanded" else values
    assert torch.equal(guarded.view, expected.float())
    assert (layout == "contiguous") == guarded.view.is_contiguous()
    assert guarded.damage() == ""
    guarded.view[-1, -1, -1, -1] += 1
    assert "x itself was changed" in guarded.damage()


def test_damage_between_rows_and_before_the_start():
    sliced = place(torch.randn(3, 5), "sliced", "x", "cpu", torch.float32)
    sliced.view.as_strided((1,), (1,), sliced.view.storage_offset() + 6)[0] = 1
    assert "between the rows of x" in sliced.damage()
    output = allocate((4,), (1,), torch.float16, "cpu", "the output")
    output.view.as_strided((1,), (1,), output.view.storage_offset() - 2)[0] = 1
    assert "before the start of the output" in output.damage()


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "expected"),
    [
        ("sm_90", 32, 0, 8, 1.0),  # 64 warps of 32 registers a thread just fit
        ("sm_90", 33, 0, 4, 0.75),  # rounded up to 40 registers: 48 warps
        ("sm_80", 255, 0, 8, 0.125),  # 8 warps of 255 registers fit
        ("sm_90", 32, 100_000, 8, 0.25),  # two programs' shared memory fit
        ("sm_80", 16, 0, 1, 0.5),  # 32 programs of one warp
    ],
)
def test_occupancy(target, registers, shared, warps, expected):
    assert offline.nvidia_occupancy(target, registers, shared, warps) == expected


@pytest.mark.parametrize(
    ("ptx", "widest"),
    [
        ("ld.global.b16 %rs1, [%rd1];", 2),
        ("ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 ];\nld.global.b16 %rs1, [%rd2];", 16),
        ("@%p1 ld.global.L1::evict_last.v2.b64 {%rd1, %rd2}, [%rd3];", 16),
        ("ld.global.v8.b32 {%r1}, [%rd1];", 32),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;", 16),
        ("ld.shared.v4.b32 {%r1}, [%r2];\nst.global.v4.b32 [%rd1], {%r1};", 0),
    ],
)
def test_the_widest_load_of_ptx(ptx, widest):
    assert offline._widest_ptx_load(ptx) == widest


def test_the_instructions_of_ptx_that_matter():
    ptx = "wgmma.mma_async.sync.aligned.m64n64k16\ncp.async.bulk.tensor.2d\nred.global.add.f32"
    assert offline._ptx_instructions(ptx) == ("wgmma", "TMA", "atomics")
    assert offline._ptx_instructions("mma.sync.aligned\ncp.async.ca.shared") == ("mma", "cp.async")


@pytest.mark.parametrize(
    ("value", "cut"),
    [
        (1.0, 1.0),
        (1 + 2.0**-10, 1 + 2.0**-10),  # the last bit that TF32 has
        (1 + 2.0**-11, 1.0),  # the first that it has not: cut, not rounded
        (1 + 2.0**-10 + 2.0**-11, 1 + 2.0**-10),
        (-(3 + 2.0**-22), -3.0),
    ],
)
def test_tf32_keeps_ten_bits(value, cut):
    rounded = correctness._tf32(torch.tensor([value], dtype=torch.float32)).item()
    assert rounded == pytest.approx(cut * (1 - 2.0**-11), rel=1e-7)


def test_tf32_is_allowed_for_on_a_gpu_and_for_float32_only(monkeypatch):
    (script,) = resolve("04")
    (function,) = script.exercise.functions

    def allowed(dtype):
        a, b = torch.randn(8, 64, dtype=dtype), torch.randn(64, 8, dtype=dtype)
        return float(Expectation(function, {"a": a, "b": b}, {}).bounds()[0].max())

    torch.manual_seed(0)
    here, here_half = allowed(torch.float32), allowed(torch.float16)
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    torch.manual_seed(0)
    on_gpu, on_gpu_half = allowed(torch.float32), allowed(torch.float16)
    assert on_gpu > 50 * here and on_gpu < 0.2
    assert on_gpu_half == here_half


def test_occupancy_of_an_unknown_gpu_is_not_guessed():
    assert offline.nvidia_occupancy("sm_999", 32, 0, 4) is None
    with pytest.raises(ValueError, match="target"):
        offline.gpu_target("h100")


def test_what_the_profiler_counted_is_cut_at_the_markers():
    head = '"ID","Kernel Name","Metric Name","Metric Value"'
    rows = [(0, "spin_kernel(long)", 0, 0), (1, "add", 3000, 1000), (2, "mul", "1,500", 500)]
    rows += [(3, "spin_kernel(long)", 0, 0), (4, "fused", 2000, 700)]
    lines = [head]
    for number, kernel, read, written in rows:
        lines.append(f'"{number}","{kernel}","dram__bytes_read.sum","{read}"')
        lines.append(f'"{number}","{kernel}","dram__bytes_write.sum","{written}"')
    counted = traffic.parse("\n".join(["==PROF== Connected", *lines]))
    assert counted == [traffic.Moved(2, 4500.0, 1500.0), traffic.Moved(1, 2000.0, 700.0)]


def test_pages_show_what_was_recorded():
    for page in layout.LESSONS.glob("*/README.md"):
        text = page.read_text()
        assert pages.refreshed(text) == text, page
        assert "<!-- measured:" in text


def test_pages_have_the_outline():
    outline = [
        "What you build",
        "Why it matters",
        "The picture",
        "New here",
        "Your TODOs",
        "When it fails",
        "The floor",
        "Measured",
        "Go further",
        "Where it is used",
    ]
    for page in layout.LESSONS.glob("*/README.md"):
        headings = [line[3:] for line in page.read_text().splitlines() if line.startswith("## ")]
        assert headings == outline, page


def test_nothing_recorded_is_an_error():
    with pytest.raises(ValueError, match="nothing is recorded"):
        pages.refreshed("<!-- measured: no_such_function -->\n<!-- end -->")
