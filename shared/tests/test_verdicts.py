"""What becomes of files that are unfinished, broken, unruly, wrong in ways nobody listed, or right
in another style.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.check import process, stages
from shared.commands import report
from shared.course import layout
from shared.course.scripts import resolve
from shared.facts.findings import Fault, Kind
from shared.facts.plain import from_plain, to_plain
from shared.facts.verdict import Ruling, Stage, Verdict

HEAD = """import torch
import triton
import triton.language as tl
"""
SOFTMAX = resolve("lessons/02_softmax/softmax.py")[0]
VECTOR_ADD = resolve("00")[0]
ROW_MAX = resolve("row_wise_max")[0]
ROW_SUM = resolve("row_wise_sum")[0]


def checked(script, text, tmp_path, **options):
    path = tmp_path / script.file
    path.write_text(text)
    verdict = stages.run(script, path, stages.Options(device="cpu", **options))
    data = json.loads(json.dumps(to_plain(verdict), allow_nan=False))
    assert to_plain(from_plain(Verdict, data)) == data
    told = report.told(verdict, script)
    assert "Traceback" not in told, told
    return verdict, " ".join(told.split())


def solution_with(script, *edits):
    text = script.solution.read_text()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


# Files that do not get as far as a case


def test_syntax_error(tmp_path):
    verdict, told = checked(
        VECTOR_ADD,
        solution_with(VECTOR_ADD, ("mask = offsets < n_elements", "mask = offsets <")),
        tmp_path,
    )
    assert (verdict.status, verdict.stage) == (Ruling.NOT_YET, Stage.SYNTAX)
    assert f"vector_add.py:{verdict.line}" in told


def test_import_that_fails(tmp_path):
    verdict, told = checked(
        VECTOR_ADD, "import no_such_package\n" + VECTOR_ADD.solution.read_text(), tmp_path
    )
    assert verdict.stage is Stage.IMPORT and verdict.line == 1
    assert "no_such_package" in told


def test_missing_function_lists_what_is_there(tmp_path):
    text = VECTOR_ADD.solution.read_text().replace("def vector_add(", "def add_vectors(")
    verdict, told = checked(VECTOR_ADD, text, tmp_path)
    assert verdict.stage is Stage.CONTRACT
    assert "no function vector_add" in told and "add_vectors" in told


def test_wrong_signature(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        ("def vector_add(x: torch.Tensor, y: torch.Tensor)", "def vector_add(x: torch.Tensor)"),
    )
    verdict, told = checked(VECTOR_ADD, text, tmp_path)
    assert verdict.stage is Stage.CONTRACT
    assert "called as vector_add(x, y)" in told


def test_forgotten_return(tmp_path):
    text = solution_with(VECTOR_ADD, ("    )\n    return out\n", "    )\n"))
    _, told = checked(VECTOR_ADD, text, tmp_path)
    assert "returned None. Is its `return` missing?" in told


# Files that do not behave


def test_a_script_that_never_ends_is_stopped(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        ("    BLOCK_SIZE = 1024\n", "    BLOCK_SIZE = 1024\n    while True:\n        pass\n"),
    )
    verdict, told = checked(VECTOR_ADD, text, tmp_path, seconds=12)
    assert verdict.stage is Stage.CRASH
    assert "no answer for 12 seconds" in told and "3, float32" in told
    assert text.splitlines()[verdict.line - 1].strip() in ("while True:", "pass")


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    loop = ("    BLOCK_SIZE = 1024\n", "    BLOCK_SIZE = 1024\n    while True:\n        pass\n")
    path = tmp_path / "vector_add.py"
    path.write_text(solution_with(VECTOR_ADD, loop))
    command = [sys.executable, "-m", "shared", "vector_add", "--file", str(path), "--device", "cpu"]
    parent = subprocess.Popen(
        command, cwd=layout.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def workers():
        found = []
        for entry in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                if f"PPid:\t{parent.pid}\n" in entry.read_text():
                    found.append(int(entry.parent.name))
        return found

    while len(children := workers()) < 2:
        time.sleep(0.1)
    time.sleep(1)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() < deadline, children
        time.sleep(0.1)


def test_a_script_that_prints_without_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_MOST_OUTPUT", 200_000)
    verdict, told = checked(VECTOR_ADD, "while True:\n    print('again and again')\n", tmp_path)
    assert verdict.stage is Stage.CRASH and "it printed without end" in told
    assert len(verdict.output) == process._OUTPUT_LIMIT and "more lines]" in told


def test_a_script_that_writes_into_the_report_is_stopped(tmp_path):
    line = "import sys; open(sys.argv[2], 'a').write('no event\\n'); import time; time.sleep(60)\n"
    verdict, told = checked(VECTOR_ADD, line + VECTOR_ADD.solution.read_text(), tmp_path)
    assert verdict.stage is Stage.CRASH and "wrote into the check's own report" in told
    assert verdict.seconds < 30


def test_a_segmentation_fault_is_told(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        (
            "    BLOCK_SIZE = 1024\n",
            "    BLOCK_SIZE = 1024\n    import ctypes; ctypes.string_at(0)\n",
        ),
    )
    verdict, told = checked(VECTOR_ADD, text, tmp_path)
    assert verdict.stage is Stage.CRASH and "segmentation fault" in told


def test_a_kill_is_told(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        (
            "    BLOCK_SIZE = 1024\n",
            "    BLOCK_SIZE = 1024\n    import os; os.kill(os.getpid(), 9)\n",
        ),
    )
    _, told = checked(VECTOR_ADD, text, tmp_path)
    assert "killed from outside" in told and "memory" in told


def test_an_exit_is_told(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        ("    BLOCK_SIZE = 1024\n", "    BLOCK_SIZE = 1024\n    import os; os._exit(0)\n"),
    )
    _, told = checked(VECTOR_ADD, text, tmp_path)
    assert "ended the process before the check was over" in told


def test_what_a_script_prints_is_shown(tmp_path):
    verdict, told = checked(
        VECTOR_ADD,
        VECTOR_ADD.solution.read_text().replace(
            "import torch\n", "import torch\nprint('hello there')\n", 1
        ),
        tmp_path,
    )
    assert verdict.status is Ruling.PASSED
    assert "hello there" in told


def test_a_wild_store_is_found_before_it_crashes(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        (
            "tl.store(out_ptr + offsets, x + y, mask=mask)",
            "tl.store(out_ptr + offsets + (1 << 40), x + y, mask=mask)",
        ),
    )
    verdict, _ = checked(VECTOR_ADD, text, tmp_path)
    assert verdict.stage is Stage.CORRECTNESS
    finding = verdict.cases[0].finding
    assert (
        finding.kind is Fault.OUT_OF_BOUNDS
        and finding.access == "store"
        and finding.tensor == "out_ptr"
    )
    line = text.splitlines()[finding.line - 1]
    assert "1 << 40" in line


def test_prints_of_a_kernel_are_labelled_and_the_first_are_kept(tmp_path):
    edit = (
        "    mask = offsets < n_elements\n",
        "    mask = offsets < n_elements\n    print('mask', mask)\n",
    )
    _, told = checked(VECTOR_ADD, solution_with(VECTOR_ADD, edit), tmp_path)
    assert "What it printed: [vector_add: 3, float32, normal] mask [ True" in told, told


def test_a_result_without_a_kernel_is_refused(tmp_path):
    text = solution_with(
        VECTOR_ADD, ("    BLOCK_SIZE = 1024\n", "    return x + y\n    BLOCK_SIZE = 1024\n")
    )
    verdict, told = checked(VECTOR_ADD, text, tmp_path)
    assert verdict.status is Ruling.NOT_YET
    assert "vector_add launched no kernel" in told


def test_programs_that_do_nothing_are_told(tmp_path):
    text = solution_with(
        VECTOR_ADD,
        ("triton.cdiv(n_elements, BLOCK_SIZE)", "triton.cdiv(n_elements, BLOCK_SIZE) + 7"),
    )
    verdict, told = checked(VECTOR_ADD, text, tmp_path)
    assert verdict.status is Ruling.PASSED
    assert "10 programs (7 of them did nothing)" in told


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("x = x_ptr[offsets]", "A pointer or a block was used like a Python list"),
        ("x = torch.add(offsets, 1)", "Inside a kernel only tl. functions and operators work"),
        ("x = tl.max(offsets, axis=1)", "axis 0 only"),
        ("x = None", "holds None where a block is expected"),
        ("x = undefined_name", "Check the spelling"),
    ],
)
def test_common_slips_are_explained_with_their_line(new, words, tmp_path):
    old = "x = tl.load(x_ptr + offsets * stride_x, mask=mask)"
    text = solution_with(VECTOR_ADD, (old, new))
    verdict, told = checked(VECTOR_ADD, text, tmp_path)
    assert words in told, told
    assert verdict.causes[0].line or verdict.cases[0].line, told


# Kernels that only the interpreter accepts

GLOBAL = ("mask = offsets < n_elements", "mask = offsets < n_elements + SLACK")


@pytest.mark.parametrize(
    ("of", "edits", "words"),
    [
        (
            VECTOR_ADD,
            [
                ("import triton.language as tl\n", "import triton.language as tl\n\nSLACK = 0\n"),
                GLOBAL,
            ],
            "global",
        ),
        (
            VECTOR_ADD,
            [("    mask = offsets < n_elements\n", "    mask = 0 <= offsets < n_elements\n")],
            "a < b < c",
        ),
        (
            ROW_SUM,
            [
                (
                    "        sums += values.to(tl.float32)\n",
                    """        sums += values.to(tl.float32)
        if start > 1 << 30:
            break
""",
                )
            ],
            "leave a loop early",
        ),
        (
            ROW_SUM,
            [
                ("sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)", "sums = 0"),
                (
                    "total = tl.sum(sums, axis=0)",
                    "total = tl.sum(sums + tl.zeros((BLOCK_SIZE,), tl.float32), axis=0)",
                ),
            ],
            "one type and leaves it with another",
        ),
    ],
)
def test_what_only_the_interpreter_accepts_fails_in_compilation(of, edits, words, tmp_path):
    text = solution_with(of, *edits)
    verdict, told = checked(of, text, tmp_path)
    assert verdict.status is Ruling.NOT_YET
    assert re.search(words, told), told
    assert verdict.line, told


# Wrong in ways that no list has


@pytest.mark.parametrize(
    ("of", "edits"),
    [
        (VECTOR_ADD, [("x + y, mask=mask)", "x + y * 1.001, mask=mask)")]),
        (VECTOR_ADD, [("x + y, mask=mask)", "tl.where(offsets == 1024, x, x + y), mask=mask)")]),
        (
            ROW_SUM,
            [
                (
                    "total = tl.sum(sums, axis=0)",
                    "total = tl.sum(tl.where(lanes == 64, 0.0, sums), axis=0)",
                )
            ],
        ),
        (
            ROW_MAX,
            [
                (
                    "largest = tl.max(maxima, axis=0)",
                    "largest = tl.max(tl.where(lanes == 126, -1e4, maxima), axis=0)",
                )
            ],
        ),
        (SOFTMAX, [("tl.exp(shifted)", "tl.exp2(shifted)")]),
        (
            SOFTMAX,
            [
                (
                    "numerator / denominator, mask=mask)",
                    "numerator / (denominator + 1e-3), mask=mask)",
                )
            ],
        ),
    ],
)
def test_an_unlisted_mistake_is_rejected(of, edits, tmp_path):
    verdict, told = checked(of, solution_with(of, *edits), tmp_path)
    assert verdict.status is Ruling.NOT_YET
    assert not [cause for cause in verdict.causes if cause.kind is Kind.MISTAKE], told
    assert "No known mistake" in told or verdict.causes


# Right in another style

PERSISTENT_ADD = (
    HEAD
    + """

@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, sx, sy, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0).to(tl.int64), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        offsets = block * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets * sx, mask)
        tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets * sy, mask), mask)


def vector_add(x, y):
    if x.shape != y.shape or x.dtype != y.dtype or x.device != y.device:
        raise ValueError("y must be like x")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        add[(2,)](x, y, out, x.numel(), x.stride(0), y.stride(0), BLOCK=256)
    return out
"""
)

AUTOTUNED_ADD = PERSISTENT_ADD.replace(
    "@triton.jit",
    """@triton.autotune(
    [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 512}, num_warps=8)], key=["n"])
@triton.jit""",
).replace(", BLOCK=256)", ")")

CONTIGUOUS_ROWS = (
    HEAD
    + """

@triton.jit
def rows_kernel(x_ptr, out_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    best = tl.full((ROWS, BLOCK), float("-inf"), tl.float32)
    while n_cols > 0:
        x = tl.load(x_ptr + rows * n_cols + cols, mask=mask, other=float("-inf"))
        best = tl.maximum(best, x.to(tl.float32))
        n_cols = 0
    tl.store(out_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.max(best, axis=1),
             mask=tl.program_id(0) * ROWS + tl.arange(0, ROWS) < n_rows)


def row_wise_max(x):
    if x.shape[1] == 0:
        raise ValueError("x has no columns")
    x = x.contiguous()
    out = x.new_empty(x.shape[0])
    if out.numel():
        rows_kernel[(triton.cdiv(x.shape[0], 2),)](x, out, x.shape[0], x.shape[1], ROWS=2,
                                                   BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""
)

THREE_KERNELS = (
    HEAD
    + """

@triton.jit
def row_max(x_ptr, m_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
    tl.store(m_ptr + row, tl.max(x.to(tl.float32), axis=0))


@triton.jit
def row_exp(x_ptr, e_ptr, m_ptr, d_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32)
    e = tl.exp2((x - tl.load(m_ptr + row)) * 1.4426950408889634)
    tl.store(e_ptr + row * n_cols + cols, e, mask=cols < n_cols)
    tl.store(d_ptr + row, tl.sum(e, axis=0))


@triton.jit
def divide(e_ptr, d_ptr, out_ptr, n, n_cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.load(e_ptr + i, mask=i < n)
    tl.store(out_ptr + i, e / tl.load(d_ptr + i // n_cols, mask=i < n), mask=i < n)


def softmax(x):
    if x.shape[1] > 65536:
        raise ValueError("x is too long")
    x = x.contiguous()
    out = torch.empty_like(x)
    if out.numel() == 0:
        return out
    n_rows, n_cols = x.shape
    m, d = torch.empty(n_rows), torch.empty(n_rows)
    e = torch.empty(n_rows, n_cols)
    block = triton.next_power_of_2(n_cols)
    row_max[(n_rows,)](x, m, n_cols, BLOCK=block)
    row_exp[(n_rows,)](x, e, m, d, n_cols, BLOCK=block)
    divide[(triton.cdiv(x.numel(), 128),)](e, d, out, x.numel(), n_cols, BLOCK=128)
    return out


stable_softmax = softmax
"""
)

DESCRIPTORS = (
    HEAD
    + """from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def sums(x_desc, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((1, BLOCK), tl.float32)
    for start in range(0, n_cols, BLOCK):
        total += x_desc.load([row, start]).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total))


def row_wise_sum(x):
    n_rows, n_cols = x.shape
    out = torch.zeros(n_rows, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return out
    padded = torch.zeros(n_rows, -(-n_cols // 16) * 16, dtype=x.dtype, device=x.device)
    padded[:, :n_cols] = x
    sums[(n_rows,)](TensorDescriptor.from_tensor(padded, [1, 64]), out, n_cols, BLOCK=64)
    return out
"""
)

ATOMIC_SUM = (
    HEAD
    + """

@triton.jit
def add_up(x_ptr, out_ptr, n_cols, sr, sc, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    x = tl.load(x_ptr + row * sr + cols * sc, mask=cols < n_cols, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x.to(tl.float32), axis=0))


def row_wise_sum(x):
    out = torch.zeros(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        add_up[(x.shape[0], triton.cdiv(x.shape[1], 512))](x, out, x.shape[1], x.stride(0),
        x.stride(1), BLOCK=512)
    return out.to(x.dtype)
"""
)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (VECTOR_ADD, PERSISTENT_ADD),
        (VECTOR_ADD, AUTOTUNED_ADD),
        (ROW_MAX, CONTIGUOUS_ROWS),
        (SOFTMAX, THREE_KERNELS),
        (ROW_SUM, DESCRIPTORS),
        (ROW_SUM, ATOMIC_SUM),
    ],
    ids=[
        "persistent loop",
        "autotuned",
        "two rows a program",
        "three kernels",
        "descriptors",
        "atomics",
    ],
)
def test_another_style_passes(of, text, tmp_path):
    verdict, told = checked(of, text, tmp_path)
    assert verdict.status is Ruling.PASSED, told
    assert verdict.compiled, told
