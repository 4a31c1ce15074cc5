"""The self-check of lesson 08, as data. Run by itself it is ./run.sh 08_rmsnorm."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Exercise, F, Function, Mistake, Todo, one_read_one_write, run_by_itself,
)
from shared.lesson.cases import norm_cases
from shared.lesson.mistakes import (
    float32_output, lanes_counted, last_block_only, rows_past_the_last, tail_store_unmasked,
)
from shared.lesson.sweeps import NORM_COLUMNS, norm_shape


def rms_norm(x, weight, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


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
                values=NORM_COLUMNS,
                shape=norm_shape,
                baselines={"F.rms_norm": rms_norm, "torch.compile": "compile"},
            ),
        )
    ],
    todos=[
        Todo(1, hints=(
            """The head always exists, the tail's block is longer than what is left. A lane that
            holds 0 adds nothing to a sum of squares.""",
            "tl.load(pointers, mask=mask, other=0.0).to(tl.float32).",
            """head = tl.load(x_row_ptrs + head_cols * ...).to(...)   and   tail =
            tl.load(x_row_ptrs + tail_cols * ..., mask=..., other=...).to(...)""",
        ), mistakes=[
            Mistake("no other in the tail", ", other=0.0", "",
                    says="""the masked lanes of the tail were given no value, and their squares
                        count. They hold whatever the hardware likes (often 0, which nothing
                        promises)""",
                    look="`other` of the tail's load."),
            Mistake("padding of 1", "other=0", "other=1",
                    says="""the masked lanes of the tail hold 1, and each adds 1 to the sum of
                        squares""",
                    look="`other` of the tail's load: what adds nothing to a sum."),
            Mistake("no mask on the tail's load", ", mask=mask, other=0.0", "",
                    says="""the load of the tail has no mask: it runs on into the next row, or
                        past the end of x""",
                    look="the mask of the tail's load."),
            Mistake("a column stride taken for granted", "head_cols * stride_x_col", "head_cols",
                    also=[(" * stride_x_col", "")],
                    says="""neighbours in a row are taken to be neighbours in memory, which is
                        not so in a transposed view""",
                    look="stride_x_col."),
        ]),
        Todo(2, hints=(
            """The sum of the squares of both blocks, over the number of columns. 0 squared is
            0, so nothing has to be masked here.""",
            "tl.sum(block * block, axis=1, keep_dims=True) has shape (ROWS, 1).",
            "squares = tl.sum(head * head, ...), squares += ..., mean_square = squares / ...",
        ), mistakes=[
            Mistake("the sum in place of the mean", " / n_cols", "",
                    says="this is the root of the sum of squares; RMS has their mean",
                    look="/ n_cols."),
            lanes_counted("the mean over all lanes"),
            Mistake("the mean with n - 1", "n_cols", "(n_cols - 1)",
                    says="the squares are divided by n_cols - 1; a mean divides by n_cols",
                    look="what the sum is divided by."),
            Mistake("the tail is left out of the mean",
                    "tl.sum(tail * tail, axis=1, keep_dims=True)", "0.0",
                    says="the mean of the squares is the head's alone: the tail is missing",
                    look="the sum of both blocks."),
            Mistake("the values in place of their squares", "head * head", "tl.abs(head)",
                    also=[("tail * tail", "tl.abs(tail)")],
                    says="the absolute values are averaged, not their squares",
                    look="head * head."),
            Mistake("squares in half precision",
                    "head * head", "(head * head).to(x_ptr.dtype.element_ty).to(tl.float32)",
                    also=[
                        ("tail * tail", "(tail * tail).to(x_ptr.dtype.element_ty).to(tl.float32)"),
                    ],
                    says="""the squares are rounded to the input's dtype: 300² is more than
                        float16 can hold, and 0.0001² is 0""",
                    look=".to(tl.float32) right after the load."),
            Mistake("the mean subtracted",
                    "squares =",
                    """
                    mean = tl.sum(head, axis=1, keep_dims=True)
                    mean = (mean + tl.sum(tail, axis=1, keep_dims=True)) / n_cols
                    head = head - mean
                    tail = tl.where(mask, tail - mean, 0.0)
                    squares =""",
                    says="the mean is subtracted: that is LayerNorm. RMSNorm leaves it in",
                    look="whether anything is subtracted from x."),
        ]),
        Todo(3, hints=(
            "eps keeps a row of zeros from 0 / 0. It belongs under the root.",
            "tl.rsqrt(v) is 1 / sqrt(v).",
            "rrms = tl.rsqrt(... + eps)",
        ), mistakes=[
            Mistake("eps outside of the root",
                    "rrms = tl.rsqrt(mean_square + eps)",
                    "rrms = 1.0 / (tl.sqrt(mean_square) + eps)",
                    says="""eps is added to the root mean square; it belongs under the root, to
                        the mean square""",
                    look="where eps is added."),
            Mistake("no eps", " + eps", "",
                    says="eps is missing: a row of zeros is 0 / 0, which is NaN",
                    look="mean_square + eps."),
            Mistake("eps is always 1e-6", "mean_square + eps", "mean_square + 1e-6",
                    says="eps is 1e-6 whatever the caller passes",
                    look="the argument eps."),
            Mistake("times the root mean square", ".rsqrt", ".sqrt",
                    says="the row is multiplied by its root mean square in place of divided",
                    look="tl.rsqrt is 1 / sqrt."),
            Mistake("no root",
                    "rrms = tl.rsqrt(mean_square + eps)", "rrms = 1.0 / (mean_square + eps)",
                    says="the row is divided by the mean square; the root is missing",
                    look="tl.rsqrt."),
        ]),
        Todo(4, hints=(
            "The row over its root mean square, times the weight of each column.",
            "The weight lies at weight_ptr + tail_cols * stride_weight, and needs the mask too.",
            """weight = tl.load(weight_ptr + tail_cols * ..., mask=mask,
            other=0.0).to(tl.float32), then tl.store(out_row_ptrs + tail_cols, ..., mask=mask)""",
        ), mistakes=[
            tail_store_unmasked(),
            Mistake("the head's weight for the tail",
                    "weight_ptr + tail_cols", "weight_ptr + (tail_cols - HEAD)",
                    says="the tail is scaled with the weights of the first columns",
                    look="tail_cols."),
        ]),
        Todo(5, hints=(
            "As for the tail, without the mask.",
            "The weight lies at weight_ptr + head_cols * stride_weight; convert it to float32.",
            """weight = tl.load(weight_ptr + ...).to(tl.float32)   and   tl.store(out_row_ptrs +
            head_cols, head * ... * ...)""",
        ), mistakes=[
            Mistake("no weight", " * weight", "",
                    says="the weight is missing in the head",
                    look="* weight."),
            Mistake("1 + weight", "* weight", "* (1.0 + weight)",
                    also=[("tail * rrms * weight", "tail * rrms * (1.0 + weight)")],
                    says="""the row is multiplied by 1 + weight, as some models do; here it is
                        the weight""",
                    look="the weight as it is."),
            Mistake("a contiguous weight taken for granted", " * stride_weight", "",
                    also=[("tail_cols * stride_weight", "tail_cols")],
                    says="the weight is read without its stride",
                    look="stride_weight."),
        ]),
        Todo(6, hints=(
            "One sum for each lane. The row will be read again: ask the cache to keep it.",
            'tl.load(x_ptrs, mask=cols < n_cols, other=0.0, eviction_policy="evict_last").',
            "x = tl.load(x_ptrs, ...), x = x.to(tl.float32), squares += ...",
        ), mistakes=[
            last_block_only("only the last block of a long row"),
        ]),
        Todo(7, hints=(
            "As for a short row.",
            "tl.store(out_row_ptr + cols, ..., mask=mask).",
            "tl.store(out_row_ptr + cols, x * ... * weight, mask=...)",
        ), mistakes=[
            Mistake("a long row without its weight", " * weight", "",
                    says="the weight is missing in long rows",
                    look="* weight."),
        ]),
        Todo(8, hints=(
            "Each program takes ROWS rows, the last one perhaps fewer.",
            "triton.cdiv divides and rounds up; a grid is a tuple.",
            "grid = (triton.cdiv(..., ROWS),)",
        ), mistakes=[
            Mistake("a program for every row",
                    "grid = (triton.cdiv(n_rows, ROWS),)", "grid = (max(n_rows // ROWS, 1),)",
                    says="the number of programs is rounded down: the last rows have none",
                    look="triton.cdiv rounds up."),
        ]),
    ],
    given=[
        rows_past_the_last(),
        float32_output(),
    ],
)

if __name__ == "__main__":
    run_by_itself()
