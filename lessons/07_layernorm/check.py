"""The self-check of lesson 07, as data. Run by itself it is ./run.sh 07_layernorm."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, F, Function, Mistake, Solved, Study, Todo, Traffic,
    one_read_one_write, run_by_itself, torch,
)
from shared.lesson.cases import norm_cases
from shared.lesson.mistakes import (
    float32_output, lanes_counted, last_block_only, rows_past_the_last, tail_store_unmasked,
)
from shared.lesson.sweeps import NORM_COLUMNS, norm_shape, product_flops, sides


def layer_norm(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def magnitude(x, weight, bias, eps=1e-5):
    """x - mean cancels: its rounding is that of x and of the mean, times their scale."""
    variance = (x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)
    rstd = (variance + eps).rsqrt()
    terms = x.abs() + x.abs().mean(-1, keepdim=True)
    return terms * rstd * weight.abs() + bias.abs()


layernorm = Exercise(
    script="layernorm.py",
    functions=[
        Function(
            name="layernorm",
            arguments=lambda shape: {"x": shape, "weight": shape[-1:], "bias": shape[-1:]},
            reference=layer_norm,
            magnitude=magnitude,
            cases=(
                *norm_cases(),
                Case((3, 4), refuses="bias", misfit="one element longer", why="a bias must fit"),
                Case((3, 4), refuses="bias", misfit="of another dtype", why="one dtype for all"),
            ),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(64, 4096),
            picture=(6, 700),
            benchmark=Benchmark(
                x="columns",
                values=NORM_COLUMNS,
                shape=norm_shape,
                baselines={"F.layer_norm": layer_norm, "torch.compile": "compile"},
            ),
        )
    ],
    todos=[
        Todo(1, hints=(
            """The masked lanes hold 0 and add nothing to the sum. But they are not columns, so
            they must not be counted either.""",
            "tl.sum(block, axis=1, keep_dims=True) has shape (ROWS, 1).",
            "total = tl.sum(head, ...) + tl.sum(tail, ...)   and   mean = total / ...",
        ), mistakes=[
            Mistake("the mean over all lanes", "n_cols", "(HEAD + TAIL)",
                    says="the sum is divided by the number of lanes, and some of them are padding",
                    look="how many columns a row has: n_cols."),
            Mistake("the tail is left out of the mean",
                    " + tl.sum(tail, axis=1, keep_dims=True)", "",
                    says="the mean is the head's sum over n_cols: the tail is missing",
                    look="the sum of both blocks."),
            Mistake("one mean for all rows of a program",
                    "mean = total / n_cols", """
                    total = tl.sum(total, axis=0, keep_dims=True) / ROWS
                    mean = total / n_cols""",
                    says="all rows of a program share one mean",
                    look="the axis of the reduction: 1 is along a row."),
        ]),
        Todo(2, hints=(
            "A masked lane holds 0 before the subtraction, -mean after it. Its square would count.",
            "tl.where(condition, a, b) takes a where the condition holds, b elsewhere.",
            "head = head - mean   and   tail = tl.where(mask, ..., 0.0)",
        ), mistakes=[
            Mistake("padding in the variance", "tl.where(mask, tail - mean, 0.0)", "tail - mean",
                    says="""lanes past n_cols count in the variance: a masked lane holds 0, and
                        (0 - mean)² is not 0""",
                    look="what `tail` holds where mask is false."),
            Mistake("padding in the variance, in one block",
                    "mask, tail", "mask | (n_cols > HEAD), tail",
                    also=[("triton.next_power_of_2(max(n_cols - HEAD, 1))", "HEAD")],
                    says="""lanes past n_cols count in the variance of a row in one block: a
                        masked lane holds 0, and (0 - mean)² is not 0""",
                    look="tl.where after the mean is subtracted."),
            Mistake("the mean is not subtracted", "head = head - mean", "head = head - 0.0 * mean",
                    also=[("tl.where(mask, tail - mean, 0.0)", "tail - 0.0 * mean")],
                    says="the mean is not subtracted: this is RMSNorm with a bias",
                    look="head - mean and tail - mean."),
        ]),
        Todo(3, hints=(
            """The variance is the mean of the squares of what is now centred. eps belongs under
            the root.""",
            "tl.rsqrt(v) is 1 / sqrt(v).",
            """squares = tl.sum(head * head, ...), squares += tl.sum(...), rstd =
            tl.rsqrt(squares / ... + eps)""",
        ), mistakes=[
            Mistake("the variance with n - 1", "n_cols", "(n_cols - 1)",
                    says="""the squares are divided by n_cols - 1. LayerNorm divides by n_cols;
                        a row of one column would be 0 / 0""",
                    look="what the variance is divided by."),
            lanes_counted("the variance over all lanes"),
            Mistake("the tail is left out of the variance",
                    "tl.sum(tail * tail, axis=1, keep_dims=True)", "0.0",
                    says="the variance is the head's alone: the tail is missing",
                    look="the sum of both blocks."),
            Mistake("E[x²] - E[x]²",
                    "rstd = tl.rsqrt(squares / n_cols + eps)",
                    """
                    raw = tl.sum((head + mean) * (head + mean), axis=1, keep_dims=True)
                    x = tl.where(mask, tail + mean, 0.0)
                    raw += tl.sum(x * x, axis=1, keep_dims=True)
                    rstd = tl.rsqrt(raw / n_cols - mean * mean + eps)""",
                    says="""the variance is computed as E[x²] - E[x]². For a large mean both are
                        huge and nearly equal, and float32 keeps nothing of the difference""",
                    look="the squares of the centred values, which do not cancel."),
            Mistake("eps outside of the root",
                    "rstd = tl.rsqrt(squares / n_cols + eps)",
                    "rstd = 1.0 / (tl.sqrt(squares / n_cols) + eps)",
                    says="""eps is added to the standard deviation; it belongs under the root,
                        to the variance""",
                    look="where eps is added."),
            Mistake("no eps", " + eps", "",
                    says="eps is missing: a constant row is 0 / 0, which is NaN",
                    look="variance + eps."),
            Mistake("eps is always 1e-5", "n_cols + eps", "n_cols + 1e-5",
                    says="eps is 1e-5 whatever the caller passes",
                    look="the argument eps."),
            Mistake("times the standard deviation", ".rsqrt", ".sqrt",
                    says="the row is multiplied by its standard deviation in place of divided",
                    look="tl.rsqrt is 1 / sqrt."),
        ]),
        Todo(4, hints=(
            "The centred head times rstd has mean 0 and variance 1; then weight and bias.",
            "(ROWS, HEAD) * (ROWS, 1) * (1, HEAD) broadcasts. Every column of the head exists.",
            "tl.store(out_ptr + rows * stride_out_row + head_cols, head * rstd * ... + ...)",
        ), mistakes=[
            Mistake("the head without its bias", " + bias", "",
                    says="the bias is missing in the head",
                    look="+ bias."),
            Mistake("the head without its weight", "* weight ", "",
                    says="the weight is missing in the head",
                    look="* weight."),
            Mistake("the weight after the bias",
                    "head * rstd * weight + bias", "(head * rstd + bias) * weight",
                    also=[("tail * rstd * weight + bias", "(tail * rstd + bias) * weight")],
                    says="the bias is multiplied by the weight too",
                    look="the brackets: times weight first, then + bias."),
        ]),
        Todo(5, hints=(
            "The same with the tail, whose block is longer than what is left.",
            "tl.store(pointers, values, mask=mask).",
            """out_ptrs = out_ptr + rows * ... + tail_cols, then tl.store(out_ptrs, tail * ...,
            mask=...)""",
        ), mistakes=[
            Mistake("the bias without the weight", "* weight ", "",
                    says="the weight is missing in the tail",
                    look="* weight."),
            tail_store_unmasked(),
            Mistake("the tail stored at the head",
                    "tl.store(out_ptrs, tail * rstd", "tl.store(out_ptrs - HEAD, tail * rstd",
                    says="the tail is stored from column 0 on, over the head",
                    look="tail_cols."),
        ]),
        Todo(6, hints=(
            "One sum for each lane, as in row_wise_sum; one reduction after the loop.",
            'tl.load(..., mask=cols < n_cols, other=0.0, eviction_policy="evict_last").',
            """total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32), then for start in range(0,
            n_cols, BLOCK_SIZE): ..., then mean = tl.sum(total, axis=0) / ...""",
        ), mistakes=[
            Mistake("the mean of a long row over all lanes", "/ n_cols", "/ BLOCK_SIZE",
                    says="the sum of a long row is divided by the length of a block",
                    look="how many columns a row has: n_cols."),
        ]),
        Todo(7, hints=(
            "As in TODO 2: in a lane that is no column, x - mean is -mean.",
            "tl.where(cols < n_cols, ..., 0.0).",
            "centered = tl.where(cols < n_cols, x.to(tl.float32) - ..., 0.0), then squares += ...",
        ), mistakes=[
            Mistake("padding in the variance of a long row",
                    "tl.where(cols < n_cols, x.to(tl.float32) - mean, 0.0)",
                    "x.to(tl.float32) - mean",
                    says="""in a long row, lanes past n_cols count in the variance: a masked
                        lane holds 0, and (0 - mean)² is not 0""",
                    look="what `centered` holds where cols < n_cols is false."),
            last_block_only("only the last block in the variance"),
        ]),
        Todo(8, hints=(
            "Centre, scale, weight, bias: as for the short row.",
            "tl.store(out_row_ptr + cols, ..., mask=mask).",
            "tl.store(out_row_ptr + cols, (x - ...) * rstd * weight + ..., mask=mask)",
        ), mistakes=[
            Mistake("a long row not centred", "(x - mean)", "x",
                    says="""in a long row the mean is subtracted for the variance only, not in
                        the result""",
                    look="x - mean."),
        ]),
        Todo(9, hints=(
            """For 12,000, the next power of two is 16,384, and half of it is 8,192. 8,192 itself
            has to stay 8,192: look at the next power of two of n_cols + 1.""",
            "triton.next_power_of_2(n) rounds up; max(..., 1) where there is no other column.",
            """HEAD = triton.next_power_of_2(n_cols + ...) // 2   and   TAIL =
            triton.next_power_of_2(max(n_cols - ..., 1))""",
        ), mistakes=[
            Mistake("the head of one row rounded up",
                    "HEAD = triton.next_power_of_2(n_cols + 1) // 2",
                    "HEAD = triton.next_power_of_2(n_cols)",
                    says="""HEAD is rounded up: the head, which has no mask, goes past the end
                        of the row""",
                    look="HEAD must not be above n_cols."),
            Mistake("the tail too short",
                    "TAIL = triton.next_power_of_2(max(n_cols - HEAD, 1))",
                    "TAIL = max(triton.next_power_of_2(max(n_cols - HEAD, 1)) // 2, 1)",
                    says="""the tail does not hold the rest of the row: the last columns are
                        neither read nor written""",
                    look="TAIL is rounded up."),
        ]),
    ],
    given=[
        rows_past_the_last(),
        Mistake("a contiguous x taken for granted", "rows * stride_x_row", "rows * n_cols",
                says="the rows of x are taken to follow each other, which is not so in a view",
                look="stride_x_row, which was given."),
        float32_output(),
    ],
)


def layernorm_linear_gelu(x, weight):
    return F.gelu(F.layer_norm(x, x.shape[-1:]) @ weight)


def linear_magnitude(x, weight):
    """The rounding of the normed x, times the weights it is multiplied with."""
    ones = torch.ones_like(x[:1]).squeeze(0)
    return magnitude(x, ones, 0 * ones) @ weight.abs()


fused_layernorm_linear_gelu = Exercise(
    script="fused_layernorm_linear_gelu.py",
    optional=True,
    functions=[
        Function(
            name="fused_layernorm_linear_gelu",
            arguments=lambda shape: {"x": (shape[0], shape[2]), "weight": (shape[2], shape[1])},
            reference=layernorm_linear_gelu,
            magnitude=linear_magnitude,
            tensor_cores=True,
            cases=(
                Case((2, 3, 5), again=True, why="smaller than any tile"),
                Case((5, 3, 1), why="one column: its variance is 0"),
                Case((16, 48, 17), values={"x": "around 10"}, why="padding in mean and variance"),
                Case((33, 65, 129), why="one more than a power of two in every direction"),
                Case((130, 140, 100), values={"x": "around 10"}, why="several tiles, all ragged"),
                Case((5, 7, 512), values={"x": "around 10"}, why="many full blocks along K"),
                Case((4, 6, 600), values={"x": "last column 100"},
                     why="each block has its own mean"),
                Case((4, 6, 300), values={"x": "rows 200 apart"}, why="each row has its own mean"),
                Case((5, 9, 70), values={"x": "zeros"},
                     why="rows without variance: without eps, 0 / 0"),
                Case((20, 30, 333), "float16", why="half precision"),
                Case((40, 24, 70), layout={"x": "transposed"}, why="strides of x"),
                Case((24, 40, 70), layout={"weight": "transposed"},
                     why="a weight stored as (N, K)"),
                Case((9, 20, 70), layout="every other element", why="column strides of 2"),
                Case((3, 5, 8), "float16", layout={"x": "rows 2**30 apart"},
                     why="row times stride passes 2**31: it needs 64-bit offsets"),
                Case((0, 5, 7), why="no rows: an empty result"),
                Case((3, 4, 5), refuses="x", misfit="one element longer", why="K must be one"),
                Case((3, 4, 5), refuses="weight", misfit="of another dtype", why="two dtypes"),
                Case((300, 520, 333), "bfloat16", gpu_only=True, why="bfloat16"),
                Case((1000, 1111, 4096), gpu_only=True, why="a long sum in float32, or in TF32"),
                Case((8_388_616, 16, 16), "float16", gpu_only=True,
                     why="65,537 tiles along M: the second axis of a grid ends at 65,535"),
            ),
            traffic=lambda x, weight: Traffic(
                reads=x.nbytes + weight.nbytes,
                writes=x.shape[0] * weight.shape[1] * x.element_size(),
            ),
            memory=(128, 256, 128),
            typical=(1024, 1024, 1024),
            picture=(256, 256, 128),
            benchmark=Benchmark(
                x="rows of 1024, to 1024",
                values=(1024, 4096, 16384, 65536),
                shape=lambda rows: (rows, 1024, 1024),
                baselines={"eager": layernorm_linear_gelu, "torch.compile": "compile"},
                flops=product_flops,
            ),
            studies=[
                Study(
                    name="fusion",
                    x="M × N × K",
                    values=("65536 × 1024 × 1024", "16384 × 4096 × 4096"),
                    shape=sides,
                    candidates={
                        "three kernels": layernorm_linear_gelu,
                        "torch.compile": "compile",
                        "fused": Solved(
                            "fused_layernorm_linear_gelu.py", "fused_layernorm_linear_gelu"
                        ),
                    },
                    traffic=True,
                )
            ],
        )
    ],
    todos=[
        Todo(1, hints=(
            """The masked lanes add nothing to the sum. They are no columns, so divide by count,
            and keep them out of the squares.""",
            "tl.sum(block, axis=1) has shape (BLOCK_M,); v[:, None] makes a column of it.",
            """block_mean = tl.sum(x, axis=1) / ..., centered = tl.where(k_mask, ..., 0.0),
            block_squares = tl.sum(...)""",
        ), mistakes=[
            Mistake("the block's mean over all lanes", "/ count", "/ BLOCK_K",
                    says="the last block's sum is divided by BLOCK_K, and it has fewer columns",
                    look="count."),
            Mistake("padding in the variance",
                    "tl.where(k_mask, x - block_mean[:, None], 0.0)", "x - block_mean[:, None]",
                    says="""lanes past K count in the variance: a masked lane holds 0, and (0 -
                        mean)² is not 0""",
                    look="what `centered` holds where k_mask is false."),
        ]),
        Todo(2, hints=(
            """Two groups of numbers with means that differ by d: the squares around the common
            mean are the squares of both, and something for the distance.""",
            "k columns came before, count columns are new.",
            """d = block_mean - mean, squares += block_squares + d * d * k * ... / (k + count),
            mean += d * ... / (k + count)""",
        ), mistakes=[
            Mistake("the squares only added", " + d * d * k * count / (k + count)", "",
                    says="""the blocks' squares are added, and each is measured from its own
                        block's mean: the distance between the means is missing""",
                    look="d * d * k * count / (k + count)."),
            Mistake("the mean of the last block", "d * count / (k + count)", "d",
                    says="the mean jumps to that of the latest block",
                    look="the share of the block in all columns so far: count / (k + count)."),
            Mistake("the mean of the means",
                    "mean += d * count / (k + count)", "mean += d / (k // BLOCK_K + 1)",
                    says="""every block has the same weight in the mean, and the last one has
                        fewer columns""",
                    look="count / (k + count)."),
        ]),
        Todo(3, hints=(
            "Centre with the mean of each row, scale with rstd of each row.",
            "mean[:, None] is a column.",
            "normed = (x.to(tl.float32) - mean[:, None]) * ...",
        ), mistakes=[
            Mistake("not centred",
                    "normed = (x.to(tl.float32) - mean[:, None])", "normed = x.to(tl.float32)",
                    says="the mean is not subtracted before the product",
                    look="x - mean."),
            Mistake("not scaled",
                    "(x.to(tl.float32) - mean[:, None]) * rstd", "x.to(tl.float32) - mean",
                    says="the rows are centred, and not divided by their standard deviation",
                    look="rstd."),
        ]),
        Todo(4, hints=(
            "normed is float32; the tensor cores want the weight's dtype.",
            "block.to(weight.dtype); tl.dot(a, b, accumulator, INPUT_PRECISION).",
            "accumulator = tl.dot(normed.to(...), weight, ..., INPUT_PRECISION)",
        ), mistakes=[
            Mistake("the accumulator overwritten", ", accumulator, INPUT_PRECISION", "",
                    says="only the last block along K counts: the product replaces the accumulator",
                    look="the third argument of tl.dot."),
        ]),
        Todo(5, hints=(
            "As in lesson 06, on the accumulator.",
            "tl.erf(block).",
            "out = 0.5 * accumulator * (1.0 + tl.erf(accumulator * ...))",
        ), mistakes=[
            Mistake("no GELU",
                    "0.5 * accumulator * (1.0 + tl.erf(accumulator * 0.7071067811865476))",
                    "accumulator",
                    says="GELU is missing: this is the linear layer alone",
                    look="what is done to the accumulator after the loop."),
            Mistake("tanh in place of erf",
                    "out = 0.5 * accumulator * (1.0 + tl.erf(accumulator * 0.7071067811865476))",
                    """
                    u = accumulator + 0.044715 * accumulator * accumulator * accumulator
                    out = accumulator * tl.sigmoid(1.5957691216057308 * u)""",
                    says="""this is the tanh GELU; the exact one is asked for. They differ by up
                        to 0.0005""",
                    look="tl.erf."),
        ]),
        Todo(6, hints=(
            "As in lesson 04; the columns of out are side by side.",
            "row_mask & col_mask; .to(out_ptr.dtype.element_ty).",
            """out_ptrs = out_ptr + rows[:, None] * stride_om + ..., then tl.store(out_ptrs,
            ..., mask=...)""",
        ), mistakes=[
            Mistake("no column mask on the store", " & col_mask", "",
                    says="""the store has no mask for its columns: it writes on into the next
                        row, and past the end of out""",
                    look="the mask of the store: rows and columns."),
        ]),
    ],
)

if __name__ == "__main__":
    run_by_itself()
