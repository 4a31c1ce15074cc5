"""The self-check of lesson 08, as data."""

if __name__ == "__main__":  # the same as ./run.sh 08_rmsnorm
    import os
    import sys

    os.environ.setdefault("COURSE_PYTHON", sys.executable)
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run.sh")
    os.execv(run, [run, os.path.abspath(__file__), *sys.argv[1:]])

import torch.nn.functional as F

from shared.cases import norm_cases
from shared.exercise import Benchmark, Exercise, Function, Mistake, one_read_one_write

COLUMNS = (256, 512, 768, 1024, 2048, 4096, 5120, 8192, 12000, 16384, 32768, 65536)


def rms_norm(x, weight, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def rows_for(n_cols):
    """16,384 rows, or fewer, but 4,096 at least, where that would be more than 2**28 elements."""
    return max(min(16384, 2**28 // n_cols), 4096), n_cols


RRMS = "rrms = tl.rsqrt(mean_square + eps)"
MEAN = "mean_square = squares / n_cols"
TAIL_SQUARES = "squares += tl.sum(tail * tail, axis=1, keep_dims=True)"
HEAD_STORE = "tl.store(out_rows + head_cols, head * rrms * weight)"
TAIL_STORE = "tl.store(out_rows + tail_cols, tail * rrms * weight, mask=mask)"

rmsnorm = Exercise(
    script="rmsnorm.py",
    functions=[
        Function(
            name="rmsnorm",
            arguments=lambda shape: {"x": shape, "weight": shape[-1:]},
            reference=rms_norm,
            cases=norm_cases(),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(64, 4096),
            picture=(6, 700),
            benchmark=Benchmark(
                x="columns",
                values=COLUMNS,
                shape=rows_for,
                baselines={"F.rms_norm": rms_norm, "torch.compile": "compile"},
            ),
        )
    ],
    mistakes=[
        Mistake(
            "no other in the tail",
            todo=1,
            edits=(
                (
                    "tail = tl.load(x_rows + tail_cols * stride_x_col, mask=mask, other=0.0)",
                    "tail = tl.load(x_rows + tail_cols * stride_x_col, mask=mask)",
                ),
            ),
            says="the masked lanes of the tail were given no value, and their squares count. They "
            "hold whatever the hardware likes (often 0, which nothing promises)",
            look="`other` of the tail's load.",
        ),
        Mistake(
            "padding of 1",
            todo=1,
            edits=(
                (
                    "tail = tl.load(x_rows + tail_cols * stride_x_col, mask=mask, other=0.0)",
                    "tail = tl.load(x_rows + tail_cols * stride_x_col, mask=mask, other=1.0)",
                ),
            ),
            says="the masked lanes of the tail hold 1, and each adds 1 to the sum of squares",
            look="`other` of the tail's load: what adds nothing to a sum.",
        ),
        Mistake(
            "no mask on the tail's load",
            todo=1,
            edits=(
                (
                    "tail = tl.load(x_rows + tail_cols * stride_x_col, mask=mask, other=0.0)",
                    "tail = tl.load(x_rows + tail_cols * stride_x_col)",
                ),
            ),
            says="the load of the tail has no mask: it runs on into the next row, or past the end "
            "of x",
            look="the mask of the tail's load.",
        ),
        Mistake(
            "a column stride taken for granted",
            todo=1,
            edits=(
                (
                    "head = tl.load(x_rows + head_cols * stride_x_col)",
                    "head = tl.load(x_rows + head_cols)",
                ),
                (
                    "tail = tl.load(x_rows + tail_cols * stride_x_col, mask",
                    "tail = tl.load(x_rows + tail_cols, mask",
                ),
            ),
            says="neighbours in a row are taken to be neighbours in memory, which is not so in a "
            "transposed view",
            look="stride_x_col.",
        ),
        Mistake(
            "the sum in place of the mean",
            todo=2,
            edits=((MEAN, "mean_square = squares"),),
            says="this is the root of the sum of squares; RMS has their mean",
            look="/ n_cols.",
        ),
        Mistake(
            "the mean over all lanes",
            todo=2,
            edits=((MEAN, "mean_square = squares / (HEAD + TAIL)"),),
            says="the squares are divided by the number of lanes, and some of them are padding",
            look="how many columns a row has: n_cols.",
        ),
        Mistake(
            "the mean with n - 1",
            todo=2,
            edits=((MEAN, "mean_square = squares / (n_cols - 1)"),),
            says="the squares are divided by n_cols - 1; a mean divides by n_cols",
            look="what the sum is divided by.",
        ),
        Mistake(
            "the tail is left out of the mean",
            todo=2,
            edits=((TAIL_SQUARES, "squares += 0.0"),),
            says="the mean of the squares is the head's alone: the tail is missing",
            look="the sum of both blocks.",
        ),
        Mistake(
            "the values in place of their squares",
            todo=2,
            edits=(
                (
                    "squares = tl.sum(head * head, axis=1, keep_dims=True)",
                    "squares = tl.sum(tl.abs(head), axis=1, keep_dims=True)",
                ),
                (TAIL_SQUARES, "squares += tl.sum(tl.abs(tail), axis=1, keep_dims=True)"),
            ),
            says="the absolute values are averaged, not their squares",
            look="head * head.",
        ),
        Mistake(
            "squares in half precision",
            todo=2,
            edits=(
                (
                    "squares = tl.sum(head * head, axis=1, keep_dims=True)",
                    "squares = tl.sum((head * head).to(x_ptr.dtype.element_ty).to(tl.float32), "
                    "axis=1, keep_dims=True)",
                ),
                (
                    TAIL_SQUARES,
                    "squares += tl.sum((tail * tail).to(x_ptr.dtype.element_ty).to(tl.float32), "
                    "axis=1, keep_dims=True)",
                ),
            ),
            says="the squares are rounded to the input's dtype: 300² is more than float16 can "
            "hold, and 0.0001² is 0",
            look=".to(tl.float32) right after the load.",
        ),
        Mistake(
            "the mean subtracted",
            todo=2,
            edits=(
                (
                    "squares = tl.sum(head * head, axis=1, keep_dims=True)",
                    "mean = tl.sum(head, axis=1, keep_dims=True)\n"
                    "    mean = (mean + tl.sum(tail, axis=1, keep_dims=True)) / n_cols\n"
                    "    head = head - mean\n"
                    "    tail = tl.where(mask, tail - mean, 0.0)\n"
                    "    squares = tl.sum(head * head, axis=1, keep_dims=True)",
                ),
            ),
            says="the mean is subtracted: that is LayerNorm. RMSNorm leaves it in",
            look="whether anything is subtracted from x.",
        ),
        Mistake(
            "eps outside of the root",
            todo=3,
            edits=((RRMS, "rrms = 1.0 / (tl.sqrt(mean_square) + eps)"),),
            says="eps is added to the root mean square; it belongs under the root, to the mean "
            "square",
            look="where eps is added.",
        ),
        Mistake(
            "no eps",
            todo=3,
            edits=((RRMS, "rrms = tl.rsqrt(mean_square)"),),
            says="eps is missing: a row of zeros is 0 / 0, which is NaN",
            look="mean_square + eps.",
        ),
        Mistake(
            "eps is always 1e-6",
            todo=3,
            edits=((RRMS, "rrms = tl.rsqrt(mean_square + 1e-6)"),),
            says="eps is 1e-6 whatever the caller passes",
            look="the argument eps.",
        ),
        Mistake(
            "times the root mean square",
            todo=3,
            edits=((RRMS, "rrms = tl.sqrt(mean_square + eps)"),),
            says="the row is multiplied by its root mean square in place of divided",
            look="tl.rsqrt is 1 / sqrt.",
        ),
        Mistake(
            "no root",
            todo=3,
            edits=((RRMS, "rrms = 1.0 / (mean_square + eps)"),),
            says="the row is divided by the mean square; the root is missing",
            look="tl.rsqrt.",
        ),
        Mistake(
            "no weight",
            todo=4,
            edits=((HEAD_STORE, "tl.store(out_rows + head_cols, head * rrms)"),),
            says="the weight is missing in the head",
            look="* weight.",
        ),
        Mistake(
            "1 + weight",
            todo=4,
            edits=(
                (HEAD_STORE, "tl.store(out_rows + head_cols, head * rrms * (1.0 + weight))"),
                (
                    TAIL_STORE,
                    "tl.store(out_rows + tail_cols, tail * rrms * (1.0 + weight), mask=mask)",
                ),
            ),
            says="the row is multiplied by 1 + weight, as some models do; here it is the weight",
            look="the weight as it is.",
        ),
        Mistake(
            "a contiguous weight taken for granted",
            todo=4,
            edits=(
                ("weight_ptr + head_cols * stride_weight", "weight_ptr + head_cols"),
                ("weight_ptr + tail_cols * stride_weight", "weight_ptr + tail_cols"),
            ),
            says="the weight is read without its stride",
            look="stride_weight.",
        ),
        Mistake(
            "no mask on the tail's store",
            todo=5,
            edits=((TAIL_STORE, "tl.store(out_rows + tail_cols, tail * rrms * weight)"),),
            says="the store of the tail has no mask: it writes on into the next row, and past the "
            "end of out",
            look="the mask of the store.",
        ),
        Mistake(
            "the head's weight for the tail",
            todo=5,
            edits=(
                (
                    "weight_ptr + tail_cols * stride_weight",
                    "weight_ptr + (tail_cols - HEAD) * stride_weight",
                ),
            ),
            says="the tail is scaled with the weights of the first columns",
            look="tail_cols.",
        ),
        Mistake(
            "only the last block of a long row",
            todo=6,
            edits=(("squares += x * x", "squares = x * x"),),
            says="each block of a long row replaces the squares of those before it",
            look="+=.",
        ),
        Mistake(
            "a long row without its weight",
            todo=7,
            edits=(
                ("tl.store(out_row + cols, x * rrms * weight", "tl.store(out_row + cols, x * rrms"),
            ),
            says="the weight is missing in long rows",
            look="* weight.",
        ),
        Mistake(
            "a program for every row",
            todo=8,
            edits=(("grid = (triton.cdiv(n_rows, ROWS),)", "grid = (max(n_rows // ROWS, 1),)"),),
            says="the number of programs is rounded down: the last rows have none",
            look="triton.cdiv rounds up.",
        ),
        Mistake(
            "rows past the last one",
            edits=(("rows = tl.minimum(rows, n_rows - 1)[:, None]", "rows = rows[:, None]"),),
            says="the last program takes rows that do not exist",
            look="tl.minimum, which was given.",
        ),
        Mistake(
            "the output is always float32",
            edits=(("out = torch.empty(x.shape, dtype=x.dtype,", "out = torch.empty(x.shape,"),),
            says="the output is allocated without a dtype, which means float32",
            look="torch.empty, which was given with dtype=x.dtype.",
        ),
    ],
    hints={
        1: (
            "The head always exists, the tail's block is longer than what is left. A lane that "
            "holds 0 adds nothing to a sum of squares.",
            "tl.load(pointers, mask=mask, other=0.0).to(tl.float32).",
            "head = tl.load(x_rows + head_cols * ...).to(...)   and   tail = tl.load(x_rows + "
            "tail_cols * ..., mask=..., other=...).to(...)",
        ),
        2: (
            "The sum of the squares of both blocks, over the number of columns. 0 squared is 0, so "
            "nothing has to be masked here.",
            "tl.sum(block * block, axis=1, keep_dims=True) has shape (ROWS, 1).",
            "squares = tl.sum(head * head, ...), squares += ..., mean_square = squares / ...",
        ),
        3: (
            "eps keeps a row of zeros from 0 / 0. It belongs under the root.",
            "tl.rsqrt(v) is 1 / sqrt(v).",
            "rrms = tl.rsqrt(... + eps)",
        ),
        4: (
            "The row over its root mean square, times the weight of each column.",
            "The weight lies at weight_ptr + head_cols * stride_weight; convert it to float32.",
            "weight = tl.load(weight_ptr + ...).to(tl.float32)   and   tl.store(out_rows + "
            "head_cols, head * ... * ...)",
        ),
        5: (
            "As for the head, with the mask.",
            "tl.load and tl.store, both with mask=mask.",
            "weight = tl.load(weight_ptr + tail_cols * ..., mask=mask, other=0.0).to(tl.float32), "
            "then tl.store(out_rows + tail_cols, ..., mask=mask)",
        ),
        6: (
            "One sum for each lane. The row will be read again: ask the cache to keep it.",
            'tl.load(x_ptrs, mask=cols < n_cols, other=0.0, eviction_policy="evict_last").',
            "x = tl.load(x_ptrs, ...), x = x.to(tl.float32), squares += ...",
        ),
        7: (
            "As for a short row.",
            "tl.store(out_row + cols, ..., mask=mask).",
            "tl.store(out_row + cols, x * ... * weight, mask=...)",
        ),
        8: (
            "Each program takes ROWS rows, the last one perhaps fewer.",
            "triton.cdiv divides and rounds up; a grid is a tuple.",
            "grid = (triton.cdiv(..., ROWS),)",
        ),
    },
)
