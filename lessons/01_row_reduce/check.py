"""The self-check of lesson 01, as data. Run by itself it is ./run.sh 01_row_reduce."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, Function, Mistake, Todo, Traffic, run_by_itself, with_cases,
)
from shared.lesson.cases import row_cases
from shared.lesson.mistakes import float32_output

BLOCK = 1024
COLUMNS = (256, 768, 1024, 2048, 4096, 5120, 8192, 12000, 16384, 32768, 65536)


def traffic(x):
    return Traffic(reads=x.nbytes, writes=x.shape[0] * x.element_size())


def rows_for(n_cols):
    """16,384 rows, or fewer where that would be more than 2**28 elements."""
    return min(16384, 2**28 // n_cols), n_cols


row_wise_sum = Exercise(
    script="row_wise_sum.py",
    functions=[
        Function(
            name="row_wise_sum",
            arguments=lambda shape: {"x": shape},
            reference=lambda x: x.sum(-1),
            magnitude=lambda x: x.abs().sum(-1),
            traffic=traffic,
            memory=(16, 1000),
            typical=(64, 4096),
            picture=(6, 2500),
            cases=with_cases(
                row_cases(block=BLOCK, minus_inf=False),
                Case((4, 0), why="the sum of nothing is 0"),
                Case((1, 4 * BLOCK), "float16",
                     values=("2048, ones, -2048 in blocks of {n}", BLOCK),
                     why="float16 cannot tell 2049 from 2048: the ones are lost in a float16 sum"),
                Case((3, 40), values="some -inf", why="a sum with -inf in it is -inf"),
                Case((2, 200_003), gpu_only=True, why="a row far longer than any block"),
                Case((32769, 65537), "float16", layout="expanded", gpu_only=True,
                     why="more than 2**31 elements"),
                without=lambda case: case.values == "one 100 per row",
            ),
            benchmark=Benchmark(
                x="columns",
                values=COLUMNS,
                shape=rows_for,
                baselines={"x.sum(-1)": lambda x: x.sum(-1), "torch.compile": "compile"},
            ),
        )
    ],
    todos=[
        Todo(1, hints=(
            """A 2-D tensor is a long line of elements. The stride says how many of them lie
            between two rows.""",
            "Program `row` wants row `row`: x_ptr is where row 0 begins.",
            "x_row_ptr = x_ptr + row * ...",
        ), mistakes=[
            Mistake("rows assumed contiguous", "stride_row", "n_cols",
                    says="""rows are taken to be n_cols elements apart: right for a contiguous
                        matrix, and on a view only row 0 is""",
                    look="which of the kernel's parameters says how far apart rows are."),
            Mistake("every program sums row 0", " + row * stride_row", "",
                    says="every program reads the first row",
                    look="what moves the pointer from row to row."),
            Mistake("one element from row to row", " * stride_row", "",
                    says="row r begins r elements after row 0, so rows overlap",
                    look="how many elements lie between the starts of two rows."),
        ]),
        Todo(2, hints=(
            """The loop goes through the row in steps of BLOCK_SIZE, and `start` is where this
            step begins. The last step may stick out past the row.""",
            """`lanes` is 0, 1, ..., BLOCK_SIZE - 1. A number plus a block is a block; so is a
            comparison.""",
            "cols = start + ...   and   mask = cols < ...",
        ), mistakes=[
            Mistake("only the first block of columns", "start + ", "",
                    says="every turn of the loop reads the first block of the row again",
                    look="what `start` is for."),
            Mistake("start counted in blocks", "cols = start +", "cols = start * BLOCK_SIZE +",
                    says="""`start` is multiplied by BLOCK_SIZE, and it counts columns already:
                        the loop goes in steps of BLOCK_SIZE""",
                    look="the values that `start` takes."),
            Mistake("the mask lets one column too many through", "cols <", "cols <=",
                    says="the mask is True for column n_cols, which is one past the last",
                    look="the comparison."),
        ]),
        Todo(3, hints=(
            """Lanes past the end of the row still take part in the sum. Give them the number
            that changes no sum.""",
            "tl.load(pointers, mask=..., other=...) puts `other` where the mask is False.",
            "values = tl.load(x_row_ptr + cols * ..., mask=..., other=...)",
        ), mistakes=[
            Mistake("column stride ignored", " * stride_col", "",
                    says="""neighbours in a row are taken to be neighbours in memory: not so in
                        a transposed or strided view""",
                    look="stride_col."),
            Mistake("no mask on the load", ", mask=mask, other=0.0", "",
                    says="the load has no mask: it runs on into the next row, or past the end of x",
                    look="the mask of the load."),
            Mistake("no other", ", other=0.0", "",
                    says="""the masked lanes were given no value. They hold whatever the
                        hardware likes (often 0, which nothing promises), and they are summed.
                        The check puts NaN there""",
                    look="`other` of the load."),
            Mistake("the padding counts", "other=0", "other=1",
                    says="every masked lane adds 1 to the sum",
                    look="`other` of the load: the value that leaves a sum as it is."),
        ]),
        Todo(4, hints=(
            """Lane j adds up columns j, BLOCK_SIZE + j, 2 * BLOCK_SIZE + j, and so on. float16
            would lose small values beside a large sum.""",
            ".to(tl.float32) converts a block.",
            "sums += values.to(...)",
        ), mistakes=[
            Mistake("the last block only", "sums +=", "sums =",
                    says="each block replaces the running sums: only the last one counts",
                    look="what becomes of the sums of the blocks before."),
            Mistake("accumulated in half precision", "=tl.float32", "=x_ptr.dtype.element_ty",
                    also=[(".to(tl.float32)", "")],
                    says="""the sum is kept in float16, which has 11 bits: small values vanish
                        beside a large sum""",
                    look="the dtype of what is added up."),
        ]),
        Todo(5, hints=(
            """BLOCK_SIZE partial sums are left. The lanes of one program can be added to each
            other.""",
            "tl.sum(block, axis=0) turns a block into one number.",
            "total = tl.sum(..., axis=0)",
        ), mistakes=[
            Mistake("not reduced", "tl.sum(sums, axis=0)", "sums",
                    says="a whole block of sums is stored where one number belongs",
                    look="what turns a block into one number."),
            Mistake("the maximum", "tl.sum", "tl.max",
                    says="the running sums are reduced with a maximum",
                    look="tl.sum."),
        ]),
        Todo(6, hints=(
            "In the kernel the program id is the row number.",
            "A grid is a tuple, even with one number in it.",
            "grid = (...,)",
        ), mistakes=[
            Mistake("too few programs", "n_rows", "max(n_rows - 1, 1)",
                    says="there are fewer programs than rows: the last rows have none",
                    look="the grid: one program for each row."),
            Mistake("a program for each block of columns",
                    "n_rows", "triton.cdiv(n_cols, BLOCK_SIZE)",
                    says="the grid counts blocks of columns, and each program is a row",
                    look="what the program id is used for in the kernel."),
            Mistake("a program for each column", "n_rows", "n_cols",
                    says="the grid counts columns, and each program is a row",
                    look="what the program id is used for in the kernel."),
        ]),
    ],
    given=[
        Mistake("strides swapped", "x.stride(0), x.stride(1)", "x.stride(1), x.stride(0)",
                says="""the row stride is used for columns and the other way round: the kernel
                    walks along columns""",
                look="the order of the strides, at the launch and in the kernel."),
        Mistake("columns summed", "x.stride(0), x.stride(1)", "x.stride(1), x.stride(0)",
                also=[("n_rows, n_cols =", "n_cols, n_rows =")],
                says="the sum runs down the columns",
                look="which axis a program keeps and which it sums away."),
        Mistake("32-bit row offsets", "(0).to(tl.int64)", "(0)",
                says="row times stride_row passes 2**31 in 32 bits and wraps around",
                look="the .to(tl.int64) after tl.program_id, which was given."),
        Mistake("32-bit column offsets", "(0, BLOCK_SIZE).to(tl.int64)", "(0, BLOCK_SIZE)",
                says="column times stride_col passes 2**31 in 32 bits and wraps around",
                look="the .to(tl.int64) after tl.arange, which was given."),
        Mistake("arange over a run-time length", "0, BLOCK_SIZE", "0, n_cols",
                says="""tl.arange is asked for n_cols lanes: a block's length has to be known
                    when the kernel is compiled""",
                look="tl.arange, which was given with BLOCK_SIZE."),
        Mistake("the block as long as the row",
                "min(triton.next_power_of_2(max(n_cols, 1)), 1024)", "max(n_cols, 1)",
                says="""BLOCK_SIZE is the number of columns, and blocks have a length that is a
                    power of two""",
                look="triton.next_power_of_2, which was given."),
        float32_output(),
    ],
)

row_wise_max = Exercise(
    script="row_wise_max.py",
    functions=[
        Function(
            name="row_wise_max",
            arguments=lambda shape: {"x": shape},
            reference=lambda x: x.amax(-1),
            traffic=traffic,
            memory=(16, 1000),
            typical=(64, 4096),
            picture=(6, 2500),
            cases=with_cases(
                row_cases(block=BLOCK),
                Case((130, 130), values="diagonal large",
                     why="each row's largest value is in another lane: none may be lost"),
                Case((3, 0), refuses="x", misfit="with no columns", why="nothing has no maximum"),
                Case((2, 200_003), gpu_only=True, why="a row far longer than any block"),
                Case((32769, 65537), "float16", layout="expanded", gpu_only=True,
                     why="more than 2**31 elements"),
            ),
            benchmark=Benchmark(
                x="columns",
                values=COLUMNS,
                shape=rows_for,
                baselines={"x.amax(-1)": lambda x: x.amax(-1), "torch.compile": "compile"},
            ),
        )
    ],
    todos=[
        Todo(1, hints=(
            "A maximum needs a start that loses against every number, also against -1e30.",
            'tl.full(shape, value, dtype=...) makes a block; float("inf") is infinity.',
            "maxima = tl.full((BLOCK_SIZE,), ..., dtype=tl.float32)",
        ), mistakes=[
            Mistake("the maximum starts at 0",
                    'tl.full((BLOCK_SIZE,), -float("inf"), dtype=tl.float32)',
                    "tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
                    says="the running maximum starts at 0, and no negative value beats that",
                    look="the value before anything was seen."),
            Mistake("the maximum starts at a finite number", 'float("inf")', "100.0",
                    says="the running maximum starts at a finite number, and rows below it lose",
                    look="the value before anything was seen: only -inf is beaten by everything."),
        ]),
        Todo(2, hints=(
            """Lanes past the end of the row take part in the maximum. With 0 there, a row of
            negative numbers gets 0.""",
            "The same load as for the sum, with another `other`.",
            "values = tl.load(x_row_ptr + cols * stride_col, mask=..., other=...)",
        ), mistakes=[
            Mistake("padding of 0", '-float("inf")', "0.0",
                    says="""the masked lanes hold 0 and take part in the maximum: every row
                        without a positive value gets 0""",
                    look="`other` of the load: the value that every other value beats."),
            Mistake("no other", ', other=-float("inf")', "",
                    says="""the masked lanes were given no value. They hold whatever the
                        hardware likes (often 0, which nothing promises), and they take part in
                        the maximum""",
                    look="`other` of the load."),
            Mistake("no mask on the load", ', mask=mask, other=-float("inf")', "",
                    says="the load has no mask: it runs on into the next row, or past the end of x",
                    look="the mask of the load."),
        ]),
        Todo(3, hints=(
            "Two blocks are compared lane by lane; nothing is reduced yet.",
            """tl.maximum(a, b) works lane by lane, tl.max(a, axis) reduces. float32 keeps the
            loop's type the same.""",
            "maxima = tl.maximum(maxima, values.to(...))",
        ), mistakes=[
            Mistake("the last block only",
                    "maxima = tl.maximum(maxima, values.to(tl.float32))",
                    "maxima = values.to(tl.float32)",
                    says="each block replaces the running maxima: only the last one counts",
                    look="what becomes of the maxima of the blocks before."),
            Mistake("the sum",
                    "maxima = tl.maximum(maxima, values.to(tl.float32))",
                    "maxima = maxima + values.to(tl.float32)",
                    says="blocks are added, and a maximum compares",
                    look="tl.maximum(a, b)."),
            Mistake("tl.max for tl.maximum", "maximum", "max",
                    says="""tl.max was given two blocks. It reduces one block along an axis;
                        tl.maximum compares two""",
                    look="the name of the function."),
        ]),
        Todo(4, hints=(
            """BLOCK_SIZE maxima are left, and the row's maximum is the largest of them. out has
            one element a row.""",
            """tl.max(block, axis=0) turns a block into one number; tl.store takes a pointer and
            a number.""",
            "largest = tl.max(..., axis=0)   and   tl.store(out_ptr + ..., largest)",
        ), mistakes=[
            Mistake("the minimum", "tl.max", "tl.min",
                    says="the running maxima are reduced with a minimum",
                    look="the last reduction."),
            Mistake("a block indexed like an array", "tl.max(maxima, axis=0)", "maxima[0]",
                    says="a block is indexed with a number, and blocks cannot be",
                    look="what turns a block into one number."),
            Mistake("stored at the program's own column",
                    "out_ptr + row", "out_ptr + row * stride_row",
                    says="""the result is stored as far apart as the rows of x are, and out has
                        one element a row""",
                    look="where element `row` of a contiguous vector lies."),
            Mistake("everything stored in the first element", " + row", "",
                    says="every program stores its result in the first element",
                    look="the pointer of the store."),
        ]),
    ],
    given=[
        Mistake("rows assumed contiguous", "* stride_row", "* n_cols",
                says="""rows are taken to be n_cols elements apart: right for a contiguous
                    matrix, and on a view only row 0 is""",
                look="the row's pointer, which was given with stride_row."),
        Mistake("32-bit row offsets", "(0).to(tl.int64)", "(0)",
                says="row times stride_row passes 2**31 in 32 bits and wraps around",
                look="the .to(tl.int64) after tl.program_id, which was given."),
    ],
)

if __name__ == "__main__":
    run_by_itself()
