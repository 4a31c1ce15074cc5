"""The self-check of lesson 03, as data."""

if __name__ == "__main__":  # the same as ./run.sh 03_online_softmax
    import os
    import sys

    os.environ.setdefault("COURSE_PYTHON", sys.executable)
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run.sh")
    os.execv(run, [run, os.path.abspath(__file__), *sys.argv[1:]])

import torch

from shared.cases import row_cases, with_cases
from shared.exercise import Benchmark, Case, Exercise, Function, Mistake, one_read_one_write

BLOCK = 8192
CASES = with_cases(
    row_cases(block=BLOCK),
    Case((4, 0), why="no columns: an empty result"),
    Case((1, 2_000_003), gpu_only=True, why="one row of two million"),
    Case(
        (70_000, 3),
        gpu_only=True,
        why="more rows than the second axis of a grid can count (65,535)",
    ),
    Case(
        (32769, 65537), "float16", layout="expanded", gpu_only=True, why="more than 2**31 elements"
    ),
)


def rows_softmax(x):
    return torch.softmax(x, -1)


def rows_function(name, benchmark):
    """Both functions have one contract."""
    return Function(
        name=name,
        arguments=lambda shape: {"x": shape},
        reference=rows_softmax,
        traffic=one_read_one_write,
        memory=(4, 3 * BLOCK),
        typical=(4, 1 << 17),
        picture=(3, 5 * BLOCK),
        cases=CASES,
        benchmark=benchmark,
    )


ONLINE_LOAD = """other=-float("inf"), eviction_policy="evict_last\""""
CHUNK_LOAD = """cols * stride_x_col, mask=cols < n_cols, other=-float("inf")
    ).to(tl.float32)

    # TODO 6"""
UPDATE = "d = d * tl.exp(m - safe_m) + tl.sum(tl.exp(x - safe_m), axis=0)"
MERGE = "row_d = tl.sum(d * tl.exp(m - safe_m), axis=0)"

online_softmax = Exercise(
    script="online_softmax.py",
    functions=[
        rows_function(
            "online_softmax",
            Benchmark(
                x="columns",
                values=(4096, 8192, 16384, 32768, 50304, 65536, 131072, 262144),
                shape=lambda n_cols: (min(16384, 2**29 // n_cols), n_cols),
                baselines={"torch.softmax": rows_softmax, "torch.compile": "compile"},
                passes=1.5,
                # two reads and one write
            ),
        ),
        rows_function(
            "split_online_softmax",
            Benchmark(
                x="columns",
                values=tuple(2**n for n in range(18, 25)),
                shape=lambda n_cols: (16, n_cols),
                baselines={"torch.softmax": rows_softmax, "torch.compile": "compile"},
                passes=1.5,
                # two reads and one write
            ),
        ),
    ],
    mistakes=[
        Mistake(
            "the maximum starts at 0",
            todo=1,
            edits=(('m = -float("inf")\n    d = 0.0', "m = 0.0\n    d = 0.0"),),
            says="the running maximum starts at 0: in a row of very negative numbers every exp(x "
            "- 0) is 0, and 0 / 0 is "
            "NaN",
            look="m before anything was seen.",
        ),
        Mistake(
            "the maximum starts at a finite number",
            todo=1,
            edits=(('m = -float("inf")\n    d = 0.0', "m = -50.0\n    d = 0.0"),),
            says="the running maximum starts at a finite number, and rows far below it come out "
            "as 0 / 0",
            look="m before anything was seen: only -inf is beaten by everything.",
        ),
        Mistake(
            "the sum starts at 1",
            todo=1,
            edits=(
                (
                    'm = -float("inf")\n    d = 0.0',
                    'm = 0.0 - float("inf")\n    d = float("inf") if n_cols < 0 else 1.0',
                ),
                (
                    "d = d * tl.exp(m - safe_m) + ",
                    "d = tl.where(start == 0, 1.0, d * tl.exp(m - safe_m)) + ",
                ),
            ),
            says="d starts at 1, as if one element had been seen",
            look="d before anything was seen.",
        ),
        Mistake(
            "the old sum is not corrected",
            todo=3,
            edits=((UPDATE, UPDATE.replace("d * tl.exp(m - safe_m)", "d")),),
            says="the old sum is kept as it is when the maximum grows, though it was measured "
            "against the old maximum. "
            "Right where the maximum comes first, wrong where values ascend",
            look="the factor exp(m_old - m_new).",
        ),
        Mistake(
            "the correction is upside down",
            todo=3,
            edits=(
                (
                    UPDATE,
                    UPDATE.replace(
                        "tl.exp(m - safe_m)",
                        'tl.where(m == -float("inf"), 0.0, tl.exp(safe_m - m))',
                    ),
                ),
            ),
            says="the old sum is multiplied by exp(m_new - m_old): it grows with each new "
            "maximum, and it must shrink",
            look="the sign in the exponent.",
        ),
        Mistake(
            "the new block is corrected too",
            todo=3,
            edits=(
                (
                    UPDATE,
                    "d = (d + tl.sum(tl.exp(x - safe_m), axis=0)) * "
                    'tl.exp(tl.where(m == -float("inf"), 0.0, m - safe_m))',
                ),
            ),
            says="the correction is applied to the new block's sum too, which is measured against "
            "the new maximum already",
            look="what the factor multiplies.",
        ),
        Mistake(
            "the old maximum is subtracted",
            todo=3,
            edits=(
                (
                    UPDATE,
                    UPDATE.replace(
                        "tl.exp(x - safe_m)", 'tl.exp(x - tl.where(m == -float("inf"), safe_m, m))'
                    ),
                ),
            ),
            says="the block's exponents are measured against the old maximum",
            look="which maximum the new sum belongs to.",
        ),
        Mistake(
            "the block's maximum only",
            todo=2,
            edits=(("m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = tl.max(x, axis=0)"),),
            says="the maximum is the last block's alone: a larger one that came before is "
            "forgotten",
            look="tl.maximum of the old and the block's maximum.",
        ),
        Mistake(
            "the maximum lane by lane",
            todo=2,
            edits=(("m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = tl.maximum(m, x)"),),
            says="the block is compared lane by lane and never reduced: m becomes a block. (That "
            "can be made to work, "
            "with a merge at the end)",
            look="tl.max(x, axis=0).",
        ),
        Mistake(
            "-inf minus -inf",
            todo=3,
            edits=(
                (
                    'safe_m = tl.where(m_new == -float("inf"), 0.0, m_new)\n\n        # TODO 3',
                    "safe_m = m_new\n\n        # TODO 3",
                ),
            ),
            says="a first block of -inf gives (-inf) - (-inf), which is NaN and stays NaN",
            look="safe_m, which was given.",
        ),
        Mistake(
            "no other in online_softmax",
            edits=((ONLINE_LOAD, 'eviction_policy="evict_last"'),),
            says="the masked lanes of the last block were given no value, and they take part in m "
            "and d",
            look="`other` of the load, which was given.",
        ),
        Mistake(
            "padding of 0 in online_softmax",
            edits=((ONLINE_LOAD, ONLINE_LOAD.replace('-float("inf")', "0.0")),),
            says="the masked lanes of the last block hold 0 and take part in m and d",
            look="`other` of the load, which was given.",
        ),
        Mistake(
            "divided by the maximum's exp",
            todo=4,
            edits=(
                (
                    "tl.store(out_row + cols, tl.exp(x - m) * scale, mask=cols < n_cols)",
                    "tl.store(out_row + cols, tl.exp(x - m), mask=cols < n_cols)",
                ),
            ),
            says="the numerator is stored without dividing by d",
            look="what is stored.",
        ),
        Mistake(
            "the maximum is not subtracted in the second pass",
            todo=4,
            edits=(
                (
                    "tl.store(out_row + cols, tl.exp(x - m) * scale, mask=cols < n_cols)",
                    "tl.store(out_row + cols, tl.exp(x) * scale, mask=cols < n_cols)",
                ),
            ),
            says="the second pass stores exp(x) / d, and d was measured against the maximum",
            look="the exponent.",
        ),
        Mistake(
            "no mask on the store",
            todo=4,
            edits=(
                (
                    "tl.store(out_row + cols, tl.exp(x - m) * scale, mask=cols < n_cols)",
                    "tl.store(out_row + cols, tl.exp(x - m) * scale)",
                ),
            ),
            says="the store of the last block has no mask: it writes into the next row, or past "
            "the end of out",
            look="the mask of the store.",
        ),
        Mistake(
            "every block stored in the first",
            todo=4,
            edits=(
                (
                    "tl.store(out_row + cols, tl.exp(x - m) * scale, mask=cols < n_cols)",
                    "tl.store(out_row + lanes, tl.exp(x - m) * scale, mask=lanes < n_cols)",
                ),
            ),
            says="every block is stored at the beginning of the row",
            look="the pointers of the store.",
        ),
        Mistake(
            "row and chunk swapped",
            todo=5,
            edits=(
                (
                    "row = pid // n_chunks\n    chunk = pid % n_chunks",
                    "chunk = pid // n_chunks\n    row = pid % n_chunks",
                ),
            ),
            says="row and chunk are swapped: chunks count fastest, so the row is the quotient",
            look="// and %.",
        ),
        Mistake(
            "a chunk's sum against 0",
            todo=6,
            edits=(
                (
                    "d = tl.sum(tl.exp(x - safe_m), axis=0)\n\n    tl.store(m_ptr",
                    "d = tl.sum(tl.exp(x), axis=0)\n\n    tl.store(m_ptr",
                ),
            ),
            says="the chunk's d is the sum of exp(x): it overflows, and it does not fit the "
            "chunk's m",
            look="what d is measured against.",
        ),
        Mistake(
            "-inf minus -inf in a chunk",
            todo=6,
            edits=(('safe_m = tl.where(m == -float("inf"), 0.0, m)\n', "safe_m = m\n"),),
            says="a chunk of -inf gives (-inf) - (-inf), which is NaN, and spreads over its row",
            look="what a chunk of -inf must come to: m = -inf and d = 0.",
        ),
        Mistake(
            "padding of 0 in the chunks",
            edits=((CHUNK_LOAD, CHUNK_LOAD.replace('other=-float("inf")', "other=0.0")),),
            says="the masked lanes of the last chunk hold 0 and take part in its m and d",
            look="`other` of the load, which was given.",
        ),
        Mistake(
            "no other in the chunks",
            edits=((CHUNK_LOAD, CHUNK_LOAD.replace(', other=-float("inf")', "")),),
            says="the masked lanes of the last chunk were given no value, and they take part in "
            "its m and d",
            look="`other` of the load, which was given.",
        ),
        Mistake(
            "partial sums added as they are",
            todo=7,
            edits=((MERGE, "row_d = tl.sum(d, axis=0)"),),
            says="the chunks' sums are added without exp(m_chunk - m_row): each was measured "
            "against its own maximum. "
            "Right only where all chunks have the same maximum",
            look="the factor that brings a chunk's d to the row's maximum.",
        ),
        Mistake(
            "the merge upside down",
            todo=7,
            edits=(
                (
                    MERGE,
                    'row_d = tl.sum(tl.where(m == -float("inf"), 0.0, d * tl.exp(safe_m - m)), '
                    "axis=0)",
                ),
            ),
            says="the chunks' sums are multiplied by exp(m_row - m_chunk): small chunks grow, and "
            "they must shrink",
            look="the sign in the exponent.",
        ),
        Mistake(
            "corrected twice",
            todo=7,
            edits=((MERGE, "row_d = tl.sum(d * tl.exp(m - safe_m) * tl.exp(m - safe_m), axis=0)"),),
            says="the chunks' sums are corrected twice",
            look="the factor exp(m_chunk - m_row), once.",
        ),
        Mistake(
            "unused chunks count",
            todo=7,
            edits=(('chunks, mask=mask, other=-float("inf"))', "chunks, mask=mask, other=0.0)"),),
            says="lanes past n_chunks hold m = 0 and take part in the row's maximum",
            look="what an unused slot must hold: m = -inf and d = 0.",
        ),
        Mistake(
            "-inf minus -inf in the merge",
            todo=7,
            edits=(
                (
                    'safe_m = tl.where(row_m == -float("inf"), 0.0, row_m)\n    row_d',
                    "safe_m = row_m\n    row_d",
                ),
                (
                    "row_d = tl.sum(d * tl.exp(m - safe_m), axis=0)",
                    "row_d = tl.sum(d * tl.exp(m - safe_m), axis=0) + tl.sum(tl.where(m == "
                    '-float("inf"), m - m, 0.0), axis=0)',
                ),
            ),
            says="an empty slot gives (-inf) - (-inf), which is NaN",
            look="safe_m.",
        ),
        Mistake(
            "not divided in normalize_kernel",
            todo=8,
            edits=(
                (
                    "tl.store(out_ptr + row * stride_out_row + cols, tl.exp(x - m) * scale, "
                    "mask=mask)",
                    "tl.store(out_ptr + row * stride_out_row + cols, tl.exp(x - m), mask=mask)",
                ),
            ),
            says="normalize_kernel stores the numerator without dividing",
            look="what is stored.",
        ),
        Mistake(
            "no mask on the store in normalize_kernel",
            todo=8,
            edits=(("tl.exp(x - m) * scale, mask=mask)", "tl.exp(x - m) * scale)"),),
            says="the store in normalize_kernel has no mask: it writes into the next row, or past "
            "the end of out",
            look="the mask of the store.",
        ),
        Mistake(
            "one launch in place of three",
            edits=(
                (
                    "    tl.store(m_ptr + pid, m)\n    tl.store(d_ptr + pid, d)\n",
                    "    tl.store(m_ptr + pid, m)\n    tl.store(d_ptr + pid, d)\n    if pid % "
                    "n_chunks == n_chunks - 1:\n"
                    "        for k in range(0, n_chunks):\n            tl.load(m_ptr + row * "
                    "n_chunks + k)\n",
                ),
            ),
            says="a program reads what other programs of the same launch wrote. They run in any "
            "order, and nothing waits",
            look="where a result of other programs may be read: in a later launch.",
        ),
    ],
    hints={
        1: (
            "Before anything was seen there is no element: the maximum of nothing, and the sum of "
            "nothing.",
            'float("inf") is infinity. Write 0.0 and not 0: a loop keeps the type that a variable '
            "starts with.",
            "m = -float(...)   and   d = ...",
        ),
        2: (
            "Two things compete: the maximum so far, and the block's.",
            "tl.max(x, axis=0) reduces the block to a number, tl.maximum(a, b) compares two "
            "numbers.",
            "m_new = tl.maximum(m, tl.max(..., axis=0))",
        ),
        3: (
            "d holds the sum of exp(x - m) with the old m. exp(x - m_new) = exp(x - m) * exp(m - "
            "m_new), so one factor "
            "corrects all of it. The block's own sum is measured against the new maximum from the "
            "start.",
            "tl.exp(m - safe_m) is the factor; tl.sum(tl.exp(x - safe_m), axis=0) is the block's "
            "sum.",
            "d = d * tl.exp(m - ...) + tl.sum(tl.exp(x - ...), axis=0)",
        ),
        4: (
            "Now m and d are those of the whole row, so this is softmax as in lesson 02. scale is "
            "1 / d.",
            "tl.store(out_row + cols, values, mask=...).",
            "tl.store(out_row + cols, tl.exp(x - ...) * ..., mask=cols < n_cols)",
        ),
        5: (
            "With 3 chunks a row, programs 0, 1, 2 do row 0 and programs 3, 4, 5 do row 1.",
            "Whole division // and remainder %.",
            "row = pid // ...   and   chunk = pid % ...",
        ),
        6: (
            "The first pass of online_softmax with one block only: nothing old to correct.",
            "tl.max, the same tl.where as in online_softmax_kernel, tl.sum of tl.exp.",
            "m = tl.max(x, axis=0), then safe_m, then d = tl.sum(tl.exp(x - ...), axis=0)",
        ),
        7: (
            "The row's maximum is the largest of the chunks' maxima. Each chunk's d shrinks by "
            "exp(m_chunk - m_row) "
            "before it is added.",
            "m and d are blocks, one lane a chunk: tl.max(m, axis=0), tl.sum(d * factor, axis=0).",
            "row_d = tl.sum(d * tl.exp(m - ...), axis=0), with the same guard against -inf as "
            "before.",
        ),
        8: (
            "The same line as in TODO 4, with this kernel's pointers.",
            "out_ptr + row * stride_out_row + cols.",
            "tl.store(out_ptr + row * stride_out_row + cols, tl.exp(x - ...) * ..., mask=mask)",
        ),
    },
)
