"""The self-check of lesson 03, as data. Run by itself it is ./run.sh 03_online_softmax."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, Function, Mistake, Todo, one_read_one_write, run_by_itself,
    torch, with_cases,
)
from shared.lesson.cases import row_cases

BLOCK = 8192
CASES = with_cases(
    row_cases(block=BLOCK),
    Case((4, 0), why="no columns: an empty result"),
    Case((1, 2_000_003), gpu_only=True, why="one row of two million"),
    Case((70_000, 3), gpu_only=True,
         why="more rows than the second axis of a grid can count (65,535)"),
    Case((32769, 65537), "float16", layout="expanded", gpu_only=True,
         why="more than 2**31 elements"),
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
    todos=[
        Todo(1, hints=(
            """Before anything was seen there is no element: the maximum of nothing, and the sum
            of nothing.""",
            """float("inf") is infinity. Write 0.0 and not 0: a loop keeps the type that a
            variable starts with.""",
            "m = -float(...)   and   denominator = ...",
        ), mistakes=[
            Mistake("the maximum starts at 0", '-float("inf")', "0.0",
                    says="""the running maximum starts at 0: in a row of very negative numbers
                        every exp(x - 0) is 0, and 0 / 0 is NaN""",
                    look="m before anything was seen."),
            Mistake("the maximum starts at a finite number", 'float("inf")', "50.0",
                    says="""the running maximum starts at a finite number, and rows far below it
                        come out as 0 / 0""",
                    look="m before anything was seen: only -inf is beaten by everything."),
            Mistake("the sum starts at 1",
                    '-float("inf")\n    denominator = 0',
                    '0.0 - float("inf")\n    denominator = float("inf") if n_cols < 0 else 1',
                    also=[
                        ("denominator = denominator * tl.exp(m - safe_m)", """
                            carried = denominator * tl.exp(m - safe_m)
                            denominator = tl.where(start == 0, 1.0, carried)"""),
                    ],
                    says="the denominator starts at 1, as if one element had been seen",
                    look="the denominator before anything was seen."),
        ]),
        Todo(2, hints=(
            "Two things compete: the maximum so far, and the block's.",
            """tl.max(x, axis=0) reduces the block to a number, tl.maximum(a, b) compares two
            numbers.""",
            "m_new = tl.maximum(m, tl.max(..., axis=0))",
        ), mistakes=[
            Mistake("the block's maximum only",
                    "m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = tl.max(x, axis=0)",
                    says="""the maximum is the last block's alone: a larger one that came before
                        is forgotten""",
                    look="tl.maximum of the old and the block's maximum."),
            Mistake("the maximum lane by lane", "tl.max(x, axis=0)", "x",
                    says="""the block is compared lane by lane and never reduced: m becomes a
                        block. (That can be made to work, with a merge at the end)""",
                    look="tl.max(x, axis=0)."),
        ]),
        Todo(3, hints=(
            """The denominator is the sum of exp(x - m) with the old m. exp(x - m_new) = exp(x -
            m) * exp(m - m_new), so one factor corrects all of it. The block's own sum is
            measured against the new maximum from the start.""",
            """tl.exp(m - safe_m) is the factor; tl.sum(tl.exp(x - safe_m), axis=0) is the
            block's sum.""",
            "denominator = denominator * tl.exp(m - ...) + tl.sum(tl.exp(x - ...), axis=0)",
        ), mistakes=[
            Mistake("the old sum is not corrected", "* tl.exp(m - safe_m) ", "",
                    says="""the old sum is kept as it is when the maximum grows, though it was
                        measured against the old maximum. Right where the maximum comes first,
                        wrong where values ascend""",
                    look="the factor exp(m_old - m_new)."),
            Mistake("the correction is upside down",
                    "denominator = denominator * tl.exp(m - safe_m)",
                    'd = denominator * tl.where(m == -float("inf"), 0.0, tl.exp(safe_m - m))',
                    says="""the old sum is multiplied by exp(m_new - m_old): it grows with each
                        new maximum, and it must shrink""",
                    look="the sign in the exponent."),
            Mistake("the new block is corrected too",
                    "denominator = denominator * tl.exp(m - safe_m) + tl.sum", """
                    grown = tl.where(m == -float("inf"), 0.0, m - safe_m)
                    denominator = denominator * tl.exp(grown) + tl.exp(grown) * tl.sum""",
                    says="""the correction is applied to the new block's sum too, which is
                        measured against the new maximum already""",
                    look="what the factor multiplies."),
            Mistake("the old maximum is subtracted",
                    "x - safe_m", 'x - tl.where(m == -float("inf"), safe_m, m)',
                    says="the block's exponents are measured against the old maximum",
                    look="which maximum the new sum belongs to."),
            Mistake("-inf minus -inf", 'tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new",
                    says="a first block of -inf gives (-inf) - (-inf), which is NaN and stays NaN",
                    look="safe_m, which was given."),
        ]),
        Todo(4, hints=(
            """Now m and the denominator are those of the whole row, so this is softmax as in
            lesson 02. scale is 1 / denominator.""",
            "tl.store(out_row_ptr + cols, values, mask=...).",
            "tl.store(out_row_ptr + cols, tl.exp(x - ...) * ..., mask=cols < n_cols)",
        ), mistakes=[
            Mistake("divided by the maximum's exp", " * scale", "",
                    says="the numerator is stored without dividing by the denominator",
                    look="what is stored."),
            Mistake("the maximum is not subtracted in the second pass",
                    "tl.store(out_row_ptr + cols, tl.exp(x - m) * scale, mask=cols < n_cols)",
                    "tl.store(out_row_ptr + cols, tl.exp(x) * scale, mask=cols < n_cols)",
                    says="""the second pass stores exp(x) / denominator, and the denominator was
                        measured against the maximum""",
                    look="the exponent."),
            Mistake("no mask on the store", ", mask=cols < n_cols", "",
                    says="""the store of the last block has no mask: it writes into the next
                        row, or past the end of out""",
                    look="the mask of the store."),
            Mistake("every block stored in the first",
                    "cols, tl.exp(x - m) * scale, mask=cols",
                    "lanes, tl.exp(x - m) * scale, mask=lanes",
                    says="every block is stored at the beginning of the row",
                    look="the pointers of the store."),
        ]),
        Todo(5, hints=(
            "With 3 chunks a row, programs 0, 1, 2 do row 0 and programs 3, 4, 5 do row 1.",
            "Whole division // and remainder %.",
            "row = pid // ...   and   chunk = pid % ...",
        ), mistakes=[
            Mistake("row and chunk swapped",
                    "row = pid // n_chunks\n    chunk", "chunk = pid // n_chunks\n    row",
                    says="""row and chunk are swapped: chunks count fastest, so the row is the
                        quotient""",
                    look="// and %."),
        ]),
        Todo(6, hints=(
            "The first pass of online_softmax with one block only: nothing old to correct.",
            "tl.max, the same tl.where as in online_softmax_kernel, tl.sum of tl.exp.",
            """m = tl.max(x, axis=0), then safe_m, then denominator = tl.sum(tl.exp(x - ...),
            axis=0)""",
        ), mistakes=[
            Mistake("a chunk's sum against 0", " - safe_m", "",
                    says="""the chunk's denominator is the sum of exp(x): it overflows, and it
                        does not fit the chunk's m""",
                    look="what the denominator is measured against."),
            Mistake("-inf minus -inf in a chunk", 'tl.where(m == -float("inf"), 0.0, m)', "m",
                    says="""a chunk of -inf gives (-inf) - (-inf), which is NaN, and spreads
                        over its row""",
                    look="what a chunk of -inf must come to: m = -inf and denominator = 0."),
        ]),
        Todo(7, hints=(
            """The row's maximum is the largest of the chunks' maxima. Each chunk's denominator
            shrinks by exp(m_chunk - m_row) before it is added.""",
            """m and the denominator are blocks, one lane a chunk: tl.max(m, axis=0),
            tl.sum(denominator * factor, axis=0).""",
            """row_denominator = tl.sum(denominator * tl.exp(m - ...), axis=0), with the same
            guard against -inf as before.""",
        ), mistakes=[
            Mistake("partial sums added as they are", " * tl.exp(m - safe_m)", "",
                    says="""the chunks' sums are added without exp(m_chunk - m_row): each was
                        measured against its own maximum. Right only where all chunks have the
                        same maximum""",
                    look="the factor that brings a chunk's denominator to the row's maximum."),
            Mistake("the merge upside down",
                    "row_denominator = tl.sum(denominator * tl.exp(m - safe_m), axis=0)", """
                    corrected = tl.where(m == -float("inf"), 0.0, denominator * tl.exp(safe_m - m))
                    row_denominator = tl.sum(corrected, axis=0)""",
                    says="""the chunks' sums are multiplied by exp(m_row - m_chunk): small
                        chunks grow, and they must shrink""",
                    look="the sign in the exponent."),
            Mistake("corrected twice", "(m - safe_m)", "(m - safe_m) * tl.exp(m - safe_m)",
                    says="the chunks' sums are corrected twice",
                    look="the factor exp(m_chunk - m_row), once."),
            Mistake("unused chunks count",
                    'chunks, mask=mask, other=-float("inf")', "chunks, mask=mask, other=0.0",
                    says="lanes past n_chunks hold m = 0 and take part in the row's maximum",
                    look="what an unused slot must hold: m = -inf and denominator = 0."),
            Mistake("-inf minus -inf in the merge",
                    'tl.where(row_m == -float("inf"), 0.0, row_m)', "row_m",
                    also=[
                        ("row_denominator = tl.sum(denominator * tl.exp(m - safe_m), axis=0)", """
                            empty = tl.where(m == -float("inf"), m - m, 0.0)
                            corrected = denominator * tl.exp(m - safe_m) + empty
                            row_denominator = tl.sum(corrected, axis=0)"""),
                    ],
                    says="an empty slot gives (-inf) - (-inf), which is NaN",
                    look="safe_m."),
        ]),
        Todo(8, hints=(
            "The same line as in TODO 4, with this kernel's pointers.",
            "out_ptr + row * stride_out_row + cols.",
            "tl.store(out_ptr + row * stride_out_row + cols, tl.exp(x - ...) * ..., mask=mask)",
        ), mistakes=[
            Mistake("not divided in normalize_kernel", " * scale", "",
                    says="normalize_kernel stores the numerator without dividing",
                    look="what is stored."),
            Mistake("no mask on the store in normalize_kernel", ", mask=mask", "",
                    says="""the store in normalize_kernel has no mask: it writes into the next
                        row, or past the end of out""",
                    look="the mask of the store."),
        ]),
    ],
    given=[
        Mistake("no other in online_softmax",
                'other=-float("inf"), eviction_policy="evict_last"', 'eviction_policy="evict_last"',
                says="""the masked lanes of the last block were given no value, and they take
                    part in m and the denominator""",
                look="`other` of the load, which was given."),
        Mistake("padding of 0 in online_softmax",
                'other=-float("inf"), eviction_policy="evict_last"',
                'other=0.0, eviction_policy="evict_last"',
                says="""the masked lanes of the last block hold 0 and take part in m and the
                    denominator""",
                look="`other` of the load, which was given."),
        Mistake("padding of 0 in the chunks",
                ', mask=cols < n_cols, other=-float("inf")', ", mask=cols < n_cols, other=0.0",
                says="""the masked lanes of the last chunk hold 0 and take part in its m and
                    denominator""",
                look="`other` of the load, which was given."),
        Mistake("no other in the chunks",
                ', mask=cols < n_cols, other=-float("inf")', ", mask=cols < n_cols",
                says="""the masked lanes of the last chunk were given no value, and they take
                    part in its m and denominator""",
                look="`other` of the load, which was given."),
        Mistake("one launch in place of three",
                "tl.store(denominator_ptr + pid, denominator)", """
                tl.store(denominator_ptr + pid, denominator)
                if pid % n_chunks == n_chunks - 1:
                    for k in range(0, n_chunks):
                        tl.load(m_ptr + row * n_chunks + k)""",
                says="""a program reads what other programs of the same launch wrote. They run
                    in any order, and nothing waits""",
                look="where a result of other programs may be read: in a later launch."),
    ],
)

if __name__ == "__main__":
    run_by_itself()
