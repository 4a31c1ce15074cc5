"""Timings and figures, with a stand-in for the clock and for the GPU."""

import types

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from shared.check import drawing, recording
from shared.course import layout
from shared.course.scripts import resolve, scripts
from shared.execution.correctness import call_observed
from shared.execution.memory import Recorder
from shared.facts.machine import Machine
from shared.facts.rows import Row, StudyRow, TrafficRow
from shared.lesson.exercise import Benchmark, Function, Solved, Study, Traffic
from shared.measure import pages, plots, studies, tables, timing, traffic

MACHINE = Machine("cuda", "NVIDIA Some GPU", "sm_90", "2.13", "3.7", "2.2", "3.11")


def doubled(**benchmark):
    """A function of one vector, with a benchmark."""
    plan = {"x": "elements", "values": (1024,), "shape": lambda n: (n,), "dtype": "float32"}
    plan |= {"baselines": {"torch": lambda x: x + x}}
    return Function(
        name="doubled",
        arguments=lambda shape: {"x": shape},
        reference=lambda x: 2 * x,
        cases=(),
        traffic=lambda x: Traffic(x.nbytes, x.nbytes),
        memory=(8,),
        typical=(8,),
        picture=(8,),
        benchmark=Benchmark(**{**plan, **benchmark}),
    )


@pytest.fixture
def clock(monkeypatch):
    """The times that calls take, in turn; the "GPU" is the CPU."""
    times = []

    def microseconds(call):
        call()
        time = times.pop(0)
        return timing.Time(time, time - 0.5, time + 0.5)

    peaks = iter(range(0, 100_000_000, 3_000_000))
    gpu = types.SimpleNamespace(
        empty_cache=lambda: None,
        synchronize=lambda: None,
        reset_peak_memory_stats=lambda: None,
        memory_allocated=lambda: 0,
        max_memory_allocated=lambda: next(peaks),
    )
    monkeypatch.setattr(timing, "microseconds", microseconds)
    monkeypatch.setattr(torch, "cpu", gpu)
    return times


def test_a_sweep_against_a_copy(clock):
    clock += [8.0, 4.0, 3.0, 9.0, 5.0, 2.0]  # yours, torch, the copy, and all once more
    told = []
    (row,) = timing.sweep(doubled(passes=1.5), lambda x: 2 * x, "cpu", told.append)
    assert told == [row]
    assert (row.yours, row.low, row.high) == (8.0, 7.5, 8.5)
    assert (row.baselines, row.ceiling_us) == ({"torch": 4.0}, 2.0)
    assert row.amount == 8192 and row.speed == pytest.approx(8192 / 8.0 / 1e3)
    assert row.of_ceiling == 1.5 * 2.0 / 8.0 and row.unit == "GB/s" and not row.megabytes


def test_a_sweep_against_a_product(clock):
    flops = 2.0 * 256**3 * 3  # not a cube: the product that is timed is a smaller one
    clock += [10.0, 20.0, 1.0] * 2
    function = doubled(flops=lambda shape: flops, memory=True)
    (row,) = timing.sweep(function, lambda x: 2 * x, "cpu")
    scale = flops / (2 * 384**3)
    assert row.ceiling_us == pytest.approx(scale) and row.of_ceiling == pytest.approx(scale / 10)
    assert row.speed == pytest.approx(flops / 10 / 1e6) and row.unit == "TFLOP/s"
    assert row.megabytes == {"torch": 0.0, "yours": 3.0}


def test_a_sweep_leaves_out_what_does_not_fit(clock):
    clock += [1.0] * 6

    def call(x):
        if len(x) > 2000:
            raise torch.OutOfMemoryError
        return 2 * x

    rows = timing.sweep(doubled(values=(1024, 4096)), call, "cpu")
    assert [row.value for row in rows] == [1024]


def test_compile_stands_for_the_first_baseline_compiled(clock, monkeypatch):
    clock += [1.0] * 8
    monkeypatch.setattr(timing, "compiled", lambda eager: lambda x: seen.append(eager) or x)
    seen = []
    eager = doubled().benchmark.baselines["torch"]
    function = doubled(baselines={"torch": eager, "torch.compile": "compile"})
    timing.sweep(function, lambda x: x, "cpu")
    assert seen == [eager, eager]


def test_what_is_compiled_is_compiled_whole():
    """torch.compile runs what it cannot trace as it is. Each reference becomes one graph."""
    compiled = 0
    for script in scripts():
        for function in script.exercise.functions:
            plans = [function.benchmark.baselines] if function.benchmark else []
            plans += [study.candidates for study in function.studies]
            for plan in plans:
                if "compile" in plan.values():
                    compiled += 1
                    assert graphs_of(next(iter(plan.values())), function) == 1, function.name
    assert compiled >= 10


def graphs_of(reference, function):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    inputs = [torch.randn(shape) for shape in function.arguments(function.memory).values()]
    torch.compile(reference, backend=backend, dynamic=False)(*inputs)
    return len(graphs)


def test_a_study_calls_solutions_and_their_parts(clock, monkeypatch):
    clock += [5.0, 6.0, 7.0, 4.0, 9.0, 3.0]
    module = types.SimpleNamespace(add=lambda x: x, factor=3)
    monkeypatch.setattr(studies, "_solution", lambda file: {"vector_add.py": module}[file])
    seen = []
    study = Study(
        name="s",
        x="elements",
        values=(64,),
        shape=lambda n: (n,),
        dtype="float32",
        candidates={
            "eager": lambda x: seen.append("eager"),
            "solved": Solved("vector_add.py", "add"),
            "parts": Solved("vector_add.py", lambda m, x: seen.append(m.factor)),
        },
    )
    (row,) = studies.compare(doubled(), study, "cpu")
    assert row == StudyRow("elements", "64", "float32", {"eager": 4.0, "solved": 6.0, "parts": 3.0})
    assert seen == ["eager", 3, "eager", 3]


ROWS = [
    Row("doubled", "n", 2**k, "float32", {"torch": 4.0}, 2.0, 1.0, 4.0, "copy", 1.0, 8e3, 4.0, 0.5)
    for k in (4, 5)
]


def test_tables_come_back_as_they_were_saved(tmp_path):
    product = Row("f", "T, head_dim 64", 512, "float16", {"a": 1.5, "b": 2.5}, 0.5, 0.25, 0.75,
                  "product", 0.125, 6e9, 12.0, 0.25, {"a": 10.0, "yours": 5.0})  # fmt: skip
    study = StudyRow("M × N × K", "4096 × 11008 × 4096", "bfloat16", {"a @ b": 20.5, "mine": 10.25})
    counted = TrafficRow("columns", "4096", "bfloat16", "eager", 2, 1.5, 0.5, 9.25)
    for name, rows in (("doubled", ROWS), ("f", [product]), ("g.s", [study]), ("g.t", [counted])):
        path = tmp_path / f"{name}.csv"
        tables.save(rows, path, MACHINE)
        table = tables.read(path)
        assert table.rows == rows
        assert table.machine == "NVIDIA Some GPU, torch 2.13, triton 3.7"


def test_other_versions_than_the_pinned_ones_are_said(monkeypatch, tmp_path):
    (tmp_path / "requirements.txt").write_text("# pins\ntorch==2.13\ntriton==3.7.1\nnumpy==2.2\n")
    monkeypatch.setattr(layout, "ROOT", tmp_path)
    assert tables.pinned_otherwise("NVIDIA H200, torch 2.13, triton 3.7.1") == []
    assert tables.pinned_otherwise("NVIDIA H200, torch 2.11, triton 3.7.1") == ["torch 2.13"]
    path = tmp_path / "doubled.csv"
    tables.save(ROWS, path, MACHINE)
    told = pages.table(path).splitlines()
    assert told[-1].endswith("medians. The course's own environment has triton 3.7.1.*")
    assert told[0] == "| n | torch, µs | doubled, µs | GB/s | of the ceiling |"
    assert told[2] == "| 16 | 4.0 | 2.0 | 4 | 50% |"


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were drawn, kept open."""
    figures = []
    monkeypatch.setattr(plots.plt, "close", figures.append)
    return figures


def test_the_plot_of_speeds(drawn, tmp_path):
    plots.speed(ROWS, 1.5, "some GPU", tmp_path / "speed.png")
    assert (tmp_path / "speed.png").stat().st_size > 10_000
    (axes,) = drawn[0].axes
    lines = {line.get_label().replace("\n", " "): line.get_ydata() for line in axes.get_lines()}
    assert list(lines["doubled"]) == [4.0, 4.0] and list(lines["torch"]) == [2.0, 2.0]
    assert list(lines["a copy of as many bytes"]) == [8.0, 8.0]
    assert list(lines["a copy of 1.5× as many bytes"]) == pytest.approx([8 / 1.5] * 2)
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (2.0, 8.0)  # at the slow and the fast quantile
    assert axes.get_ylabel() == "GB/s of the least traffic" and axes.get_xlabel() == "n"
    assert axes.get_title("right") == "some GPU"


@triton.jit
def halves_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(x_ptr)  # every program
    x = tl.load(x_ptr + i, mask=i < 6, other=0.0)
    tl.store(out_ptr + i, x + first, mask=i < 6)


def test_the_picture_of_accesses(drawn, tmp_path):
    x, out = torch.zeros(6), torch.empty(7)
    recorder = Recorder(__file__, keep_accesses=True)
    call_observed(lambda: halves_kernel[(2,)](x, out, BLOCK=4), [], recorder)
    plots.accesses(recorder, "halves", tmp_path / "accesses.png")
    read, written = drawn[0].axes
    assert read.get_title("left").endswith("each element 1–3×, 2 lanes masked")
    assert written.get_title("left") == "halves_kernel writes out_ptr (7,), 2 lanes masked"
    image = np.asarray(read.images[0].get_array())[0]
    assert (image[0] == plots._SHARED).all() and not (image[1:] == plots._SHARED).all(axis=1).any()
    image = np.asarray(written.images[0].get_array())[0]
    colours = [tuple(pixel) for pixel in image]
    assert colours[0] == colours[3] != colours[4] == colours[5] and colours[6] == (1, 1, 1)
    assert {text.get_text() for text in written.texts} == {"program 0", "program 1"}


def test_the_picture_job(tmp_path):
    (script,) = resolve("00")
    drawn_now, problems = drawing.picture(script, script.solution, tmp_path)
    assert not problems and drawn_now == [str(tmp_path / "vector_add_accesses.png")]
    assert plots.plt.imread(drawn_now[0]).std() > 0.05
    broken = tmp_path / "vector_add.py"
    broken.write_text(script.solution.read_text().replace("x + y, mask", "x + nothing, mask"))
    drawn_now, problems = drawing.picture(script, broken, tmp_path / "other")
    assert not drawn_now and "nothing" in problems[0]


def test_traffic_is_put_beside_the_times():
    rows = [StudyRow("n", str(n), "float16", {"a": 1.0 * n, "b": 2.0 * n}) for n in (1, 2)]
    moved = [traffic.Moved(k, 1e6 * k, 2e6 * k) for k in (1, 2, 3, 4)]
    merged = traffic.with_moved(rows, moved)
    assert merged[1] == TrafficRow("n", "1", "float16", "b", 2, 2.0, 4.0, 2.0)
    assert [(row.value, row.candidate) for row in merged][2:] == [("2", "a"), ("2", "b")]
    with pytest.raises(RuntimeError, match="3 calls"):
        traffic.with_moved(rows, moved[:3])


def test_recording_without_a_gpu_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "RESULTS", tmp_path)
    verdict = recording.record(resolve("00")[0], lambda text: None)
    assert "no GPU here" in verdict.message and not verdict.passed and not list(tmp_path.iterdir())
