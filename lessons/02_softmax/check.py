"""The self-check of lesson 02, as data. Run by itself it is ./run.sh 02_softmax."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, Function, Mistake, Todo, one_read_one_write, run_by_itself,
    torch, with_cases,
)
from shared.lesson.cases import row_cases
from shared.lesson.mistakes import float32_output, rows_past_the_last

# Powers of two, and what lies between them.
POWERS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
BETWEEN = (768, 1536, 3072, 5120, 6144, 12000, 24576)
CASES = with_cases(
    row_cases(),
    Case((4, 0), why="no columns: an empty result"),
    Case((1, 65537), refuses="x", misfit="with 65,537 columns",
         why="a row that no block serves is refused, in words"),
    Case((32769, 65536), "float16", layout="expanded", gpu_only=True,
         why="more than 2**31 elements"),
)


def rows_softmax(x):
    return torch.softmax(x, -1)


def rows_for(n_cols):
    """16,384 rows, or fewer where that would be more than 2**28 elements."""
    return min(16384, 2**28 // n_cols), n_cols


def rows_function(name):
    """softmax, stable_softmax and fast_softmax have one contract."""
    return Function(
        name=name,
        arguments=lambda shape: {"x": shape},
        reference=rows_softmax,
        traffic=one_read_one_write,
        memory=(16, 1000),
        typical=(64, 4096),
        picture=(6, 700),
        cases=CASES,
        benchmark=Benchmark(
            x="columns",
            values=sorted(POWERS + BETWEEN),
            shape=rows_for,
            baselines={"torch.softmax": rows_softmax, "torch.compile": "compile"},
        ),
    )


softmax = Exercise(
    script="softmax.py",
    functions=[rows_function("softmax"), rows_function("stable_softmax")],
    todos=[
        Todo(1, hints=(
            """The block is longer than the row, unless n_cols is a power of two. A lane that
            holds 0 counts in the sum: exp(0) is 1.""",
            """exp(-inf) is 0, and -inf never is the maximum. tl.load(..., other=...), then
            .to(tl.float32).""",
            "x = tl.load(x_ptrs, mask=..., other=-float(...)).to(...)",
        ), mistakes=[
            Mistake("padding of 0 in softmax", '-float("inf")', "0.0",
                    says="""the masked lanes hold 0: each of them is the maximum of a negative
                        row, and adds exp(0 - max) to the sum. A row of zeros sums to n_cols /
                        BLOCK_SIZE""",
                    look="`other` of the load: exp() of it must be 0."),
            Mistake("no other in softmax", ', other=-float("inf")', "",
                    says="""the masked lanes were given no value. They hold whatever the
                        hardware likes (often 0, which nothing promises), and they take part in
                        the maximum and the sum""",
                    look="`other` of the load."),
            Mistake("no mask on the load in softmax", ', mask=mask, other=-float("inf")', "",
                    says="""the load in softmax_kernel has no mask: it runs on into the next
                        row, or past the end of x""",
                    look="the mask of the load."),
        ]),
        Todo(2, hints=(
            "Triton's library has it. It subtracts the maximum itself.",
            "tl.softmax(block) gives a block of the same shape.",
            "y = tl.softmax(...)",
        )),
        Todo(3, hints=(
            "Only lanes that are columns of the row may be written.",
            "tl.store(pointers, values, mask=...).",
            "tl.store(out_ptrs, ..., mask=...)",
        ), mistakes=[
            Mistake("no mask on the store in softmax", ", mask=mask", "",
                    says="""the store in softmax_kernel has no mask: it writes past the end of
                        the row""",
                    look="the mask of the store."),
        ]),
        Todo(4, hints=(
            "The same line as in TODO 1, for the same reason.",
            "tl.load with mask and other, then .to(tl.float32).",
            "x = tl.load(x_ptrs, mask=..., other=-float(...)).to(...)",
        ), mistakes=[
            Mistake("padding of 0 in stable_softmax", '-float("inf")', "0.0",
                    says="""the masked lanes hold 0: each of them is the maximum of a negative
                        row, and adds exp(0 - max) to the sum. A row of zeros sums to n_cols /
                        BLOCK_SIZE""",
                    look="`other` of the load: exp() of it must be 0."),
            Mistake("no other in stable_softmax", ', other=-float("inf")', "",
                    says="""the masked lanes were given no value. They hold whatever the
                        hardware likes (often 0, which nothing promises), and they take part in
                        the maximum and the sum""",
                    look="`other` of the load."),
            Mistake("no mask on the load in stable_softmax", ', mask=mask, other=-float("inf")', "",
                    says="""the load in stable_softmax_kernel has no mask: it runs on into the
                        next row, or past the end of x""",
                    look="the mask of the load."),
        ]),
        Todo(5, hints=(
            """exp(89) overflows float32. Subtracting one number from all exponents changes no
            quotient: choose it so that the largest exponent is 0.""",
            """tl.max(block, axis=0) is the row's maximum, a scalar. A block minus a scalar is a
            block.""",
            "shifted = x - tl.max(..., axis=0)",
        ), mistakes=[
            Mistake("the maximum is not subtracted", " - tl.max(x, axis=0)", "",
                    says="""the maximum is not subtracted: exp(100) is inf in float32, and inf /
                        inf is NaN. For -200 every exp() is 0, and 0 / 0 is NaN too""",
                    look="what the largest exponent is."),
            Mistake("a constant is subtracted", "tl.max(x, axis=0)", "10.0",
                    says="""a constant is subtracted in place of the row's maximum: too little
                        for large values, too much for very negative ones""",
                    look="tl.max(x, axis=0)."),
            Mistake("the minimum is subtracted",
                    "shifted = x - tl.max(x, axis=0)",
                    'shifted = x - tl.min(tl.where(mask, x, float("inf")), axis=0)',
                    says="""the minimum is subtracted: the largest exponent is then max - min,
                        and exp() overflows""",
                    look="which end of the row must become 0."),
        ]),
        Todo(6, hints=(
            """First every exp(x - m), then the sum of them. The masked lanes hold exp(-inf) = 0
            and add nothing.""",
            "tl.exp(block) and tl.sum(block, axis=0).",
            "numerator = tl.exp(...)   and   denominator = tl.sum(..., axis=0)",
        ), mistakes=[
            Mistake("the sum taken before exp",
                    "denominator = tl.sum(numerator, axis=0)",
                    "denominator = tl.sum(tl.where(mask, shifted, 0.0), axis=0)",
                    says="the denominator sums x - max, not exp(x - max)",
                    look="what is summed."),
            Mistake("the maximum as denominator", "tl.sum", "tl.max",
                    says="""the denominator is the largest numerator, which is always 1: nothing
                        is divided""",
                    look="the reduction."),
        ]),
        Todo(7, hints=(
            "A block divided by a scalar is a block. Store it as in TODO 3.",
            "tl.store(pointers, values, mask=...).",
            "tl.store(out_ptrs, numerator / ..., mask=...)",
        ), mistakes=[
            Mistake("no mask on the store in stable_softmax", ", mask=mask", "",
                    says="""the store in stable_softmax_kernel has no mask: it writes past the
                        end of the row""",
                    look="the mask of the store."),
            Mistake("not divided", " / denominator", "",
                    says="the numerator is stored without dividing: rows do not sum to 1",
                    look="what is stored."),
        ]),
        Todo(8, hints=(
            "The whole row has to fit in one block, and a block's length is a power of two.",
            "triton.next_power_of_2(n) rounds up to one.",
            "BLOCK_SIZE = triton.next_power_of_2(...)",
        ), mistakes=[
            Mistake("the block as long as the row", "triton.next_power_of_2(n_cols)", "n_cols",
                    says="""BLOCK_SIZE is the number of columns, and blocks have a length that
                        is a power of two""",
                    look="triton.next_power_of_2(n)."),
            Mistake("a fixed block", "triton.next_power_of_2(n_cols)", "128",
                    says="""the block has a fixed length: in longer rows the columns past it are
                        neither read nor written""",
                    look="what the length of the block has to depend on."),
        ]),
    ],
    given=[
        Mistake("rows assumed contiguous", "x.stride(0)", "n_cols",
                says="""rows of x are taken to be n_cols elements apart: right for a contiguous
                    matrix, and on a view only row 0 is""",
                look="the strides at the launch, which were given."),
        Mistake("column stride ignored", "x.stride(1)", "1",
                says="""neighbours in a row are taken to be neighbours in memory: not so in a
                    transposed or strided view""",
                look="the strides at the launch, which were given."),
        Mistake("the output gets the strides of x", "(1), out", "(1), x",
                says="""the result is stored with the row stride of x, and out is a tensor of
                    its own""",
                look="the strides at the launch, which were given."),
        float32_output(),
        Mistake("any length accepted",
                "n_cols > MAX_COLS", "n_cols > 16 * MAX_COLS",
                says="""a row that is too long for one block is taken all the same: slow at
                    first, then an error nobody can read""",
                look="the check of n_cols, which was given."),
    ],
)

fast_softmax = Exercise(
    script="fast_softmax.py",
    optional=True,
    functions=[rows_function("fast_softmax")],
    todos=[
        Todo(1, hints=(
            """The rows are a column of the tile, the columns a row of it: shapes (ROWS, 1) and
            (1, HEAD) broadcast to (ROWS, HEAD).""",
            """tl.arange(0, HEAD).to(tl.int64)[None, :] has shape (1, HEAD). x_row_ptrs has shape
            (ROWS, 1) already.""",
            "head_cols = ..., then head = tl.load(x_row_ptrs + head_cols * ...).to(tl.float32)",
        )),
        Todo(2, hints=(
            "The tail's first column is HEAD. Its block is longer than what is left, as always.",
            "tail_cols < n_cols is the mask, with shape (1, TAIL).",
            """tail_cols = HEAD + tl.arange(0, TAIL).to(tl.int64)[None, :], then the mask, then
            the load.""",
        ), mistakes=[
            Mistake("no column mask on the tail", "< n_cols", ">= 0",
                    says="the tail's block goes past the end of the row: its columns need a mask",
                    look="tail_mask."),
            Mistake("padding of 0 in the tail", '-float("inf")', "0.0",
                    says="""the masked lanes of the tail hold 0 and take part in the maximum and
                        the sum""",
                    look="`other` of the tail's load."),
            Mistake("the tail begins at column 0", "HEAD + ", "",
                    says="the tail reads and writes the first columns again",
                    look="where the tail begins."),
        ]),
        Todo(3, hints=(
            "One maximum for each row of the tile.",
            "tl.max(tile, axis=1) has shape (ROWS,).",
            "row_max = tl.max(head, axis=...)",
        ), mistakes=[
            Mistake("the maximum of the whole tile",
                    "row_max = tl.max(head, axis=1)", """
                    largest = tl.max(tl.max(head, axis=1), axis=0)
                    row_max = tl.full((ROWS,), largest, tl.float32)""",
                    says="""all rows of a program share one maximum: a row far below it becomes
                        0 / 0""",
                    look="the axis of the reduction."),
        ]),
        Todo(4, hints=(
            "The larger of two maxima, row by row.",
            "tl.maximum(a, b).",
            "row_max = tl.maximum(row_max, tl.max(..., axis=1))",
        ), mistakes=[
            Mistake("the tail is left out of the maximum",
                    "tl.maximum(row_max, tl.max(tail, axis=1))", "row_max",
                    says="""the maximum is the head's alone: where the tail holds more, exp()
                        gets a positive exponent""",
                    look="tl.maximum of both maxima."),
        ]),
        Todo(5, hints=(
            "row_max has shape (ROWS,); to subtract it from a tile it must be a column.",
            "v[:, None] makes a column of v; tl.exp, tl.sum(..., axis=1).",
            """head_numerator = tl.exp(head - row_max[:, ...])   and   denominator = tl.sum(...,
            axis=1)""",
        ), mistakes=[
            Mistake("the maximum is not subtracted", " - row_max[:, None]", "",
                    also=[(" - row_max[:, None]", "")],
                    says="the maximum is not subtracted: exp(100) is inf, and inf / inf is NaN",
                    look="the exponents."),
        ]),
        Todo(6, hints=(
            "The tail's numerator is made like the head's. Only then is the denominator complete.",
            "denominator += ..., then tl.store with tail_mask.",
            "tl.store(out_row_ptrs + tail_cols, tail_numerator / denominator[:, ...], mask=...)",
        ), mistakes=[
            Mistake("the tail is left out of the sum", "tl.sum(tail_numerator, axis=1)", "0.0",
                    says="the sum is the head's alone: rows sum to more than 1",
                    look="the denominator."),
        ]),
        Todo(7, hints=(
            "The head's part, divided by the complete denominator.",
            "tl.store; every column of the head exists.",
            "tl.store(out_row_ptrs + head_cols, head_numerator / denominator[:, ...])",
        )),
        Todo(8, hints=(
            """12000 is between 8192 and 16384: half of the next power of two. 8192 has to stay
            8192, so look at the next power of two of n_cols + 1.""",
            "triton.next_power_of_2(n) rounds up; max(..., 1) where there is no other column.",
            """HEAD = triton.next_power_of_2(n_cols + ...) // 2   and   TAIL =
            triton.next_power_of_2(max(n_cols - ..., 1))""",
        ), mistakes=[
            Mistake("the head rounded up",
                    "HEAD = triton.next_power_of_2(n_cols + 1) // 2",
                    "HEAD = triton.next_power_of_2(n_cols)",
                    says="HEAD is rounded up: the head goes past the end of the row",
                    look="HEAD must not be above n_cols."),
        ]),
    ],
    given=[
        rows_past_the_last(),
    ],
)

if __name__ == "__main__":
    run_by_itself()
