"""The self-check of lesson 04, as data. Run by itself it is ./run.sh 04_matmul."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Exercise, Function, Mistake, Solved, Study, Todo, Traffic, run_by_itself, torch,
)
from shared.lesson.cases import matmul_cases
from shared.lesson.mistakes import float32_output, narrow_offsets
from shared.lesson.sweeps import CUBES, OBLONG, cube, product_flops, sides


def product(a, b):
    return a @ b


def with_precision(precision):
    """matmul with another INPUT_PRECISION."""

    def call(script, a, b):
        chosen, script.INPUT_PRECISION = script.INPUT_PRECISION, precision
        try:
            return script.matmul(a, b)
        finally:
            script.INPUT_PRECISION = chosen

    return Solved("matmul.py", call)


matmul = Exercise(
    script="matmul.py",
    functions=[
        Function(
            name="matmul",
            arguments=lambda shape: {"a": (shape[0], shape[2]), "b": (shape[2], shape[1])},
            reference=product,
            magnitude=lambda a, b: a.abs() @ b.abs(),
            tensor_cores=True,
            cases=matmul_cases(),
            traffic=lambda a, b: Traffic(
                reads=a.nbytes + b.nbytes, writes=a.shape[0] * b.shape[1] * a.element_size()
            ),
            memory=(256, 512, 128),
            typical=(1024, 1024, 1024),
            picture=(256, 512, 128),
            benchmark=Benchmark(
                x="M = N = K",
                values=(512, 1024, 2048, 3072, 4000, 4096, 6144, 8192),
                shape=cube,
                baselines={"torch.matmul": product},
                flops=product_flops,
            ),
            studies=[
                Study(
                    name="float16",
                    x="M × N × K",
                    values=(*CUBES, OBLONG),
                    shape=sides,
                    dtype="float16",
                    candidates={
                        "torch.matmul": product,
                        "matmul": Solved("matmul.py", "matmul"),
                    },
                ),
                Study(
                    name="float32",
                    x="M = N = K",
                    values=(2048, 4096),
                    shape=cube,
                    dtype="float32",
                    candidates={
                        "torch.matmul": product,
                        "tf32": with_precision("tf32"),
                        "ieee": with_precision("ieee"),
                    },
                ),
            ],
        )
    ],
    todos=[
        Todo(1, hints=(
            "Tile number tile_m starts at row tile_m * BLOCK_M.",
            "tl.arange(0, BLOCK_M) counts the rows of a tile.",
            "rows = tile_m * BLOCK_M + tl.arange(...)   and   cols = tile_n * ...",
        ), mistakes=[
            Mistake("the offset of the tile is missing", "* BLOCK_M", "* 0",
                    says="""every program computes the first rows of c, and the others are never
                        written""",
                    look="where a tile begins: tile_m * BLOCK_M."),
        ]),
        Todo(2, hints=(
            "Element [i, k] of a lies i * stride_am + k * stride_ak after its first one.",
            """rows[:, None] is a column of row numbers and ks[None, :] a row of column numbers;
            their sum has the shape of the block.""",
            """a_ptrs = a_ptr + rows[:, None] * ... + ks[None, :] * ..., and b_ptrs with ks[:,
            None] and cols[None, :]""",
        ), mistakes=[
            Mistake("the strides of a swapped",
                    "stride_am + ks[None, :] * stride_ak", "stride_ak + ks[None, :] * stride_am",
                    says="the two strides of a are swapped: a is read as its transpose",
                    look="stride_am goes from row to row, stride_ak from column to column."),
            Mistake("the strides of b swapped",
                    "stride_bk + cols[None, :] * stride_bn",
                    "stride_bn + cols[None, :] * stride_bk",
                    says="the two strides of b are swapped: b is read as its transpose",
                    look="stride_bk goes from row to row, stride_bn from column to column."),
            Mistake("contiguous rows taken for granted", " * stride_ak", "",
                    also=[(" * stride_bn", "")],
                    says="""neighbours in a row are taken to be neighbours in memory, which is
                        not so in a transposed view""",
                    look="stride_ak and stride_bn."),
        ]),
        Todo(3, hints=(
            """A lane that holds 0 in a or in b adds 0 to the sum. ks starts at 0 in every step:
            of K, only K - k are left.""",
            """tl.load(pointers, mask=..., other=0.0). Two masks of shapes (BLOCK_M, 1) and (1,
            BLOCK_K), joined with &, broadcast.""",
            """a = tl.load(a_ptrs, mask=row_mask & (ks[None, :] < ...), other=0.0), and b with
            ks[:, None] and col_mask""",
        ), mistakes=[
            Mistake("no mask along K", " & (ks[None, :] < K - k)", "",
                    also=[("(ks[:, None] < K - k) & ", "")],
                    says="""the last block along K goes on past K: into the next row of a, and
                        past the last row of b""",
                    look="how much of K is left at step k: K - k."),
            Mistake("no mask along K for a", " & (ks[None, :] < K - k)", "",
                    says="""the load of a goes on past the last column, into the next row and
                        past the end""",
                    look="the mask of a: its columns are ks."),
            Mistake("no mask along K for b", "(ks[:, None] < K - k) & ", "",
                    says="the load of b goes on past its last row",
                    look="the mask of b: its rows are ks."),
            Mistake("K is not what is left", "[None, :] < K - k", "[None, :] < K",
                    also=[("< K - k", "< K")],
                    says="""the masks compare with K, and from the second block on only K - k
                        are left""",
                    look="ks starts at 0 in every block."),
            Mistake("no row mask on the load", "row_mask & ", "",
                    says="the last tile reads rows of a that do not exist",
                    look="the mask of a needs both directions."),
            Mistake("no column mask on the load", " & col_mask", "",
                    says="the last tile reads columns of b that do not exist",
                    look="the mask of b needs both directions."),
            Mistake("no other", "(ks[None, :] < K - k), other=0.0", "(ks[None, :] < K - k)",
                    also=[(", other=0.0", "")],
                    says="""the masked lanes were given no value, and they take part in the
                        product. They hold whatever the hardware likes (often 0, which nothing
                        promises)""",
                    look="`other` of both loads."),
        ]),
        Todo(4, hints=(
            "The tile's sum grows by one product of blocks in every step.",
            "tl.dot(a, b, accumulator) is a @ b + accumulator, in float32.",
            "accumulator = tl.dot(a, b, ..., input_precision=INPUT_PRECISION)",
        ), mistakes=[
            Mistake("the accumulator overwritten", "accumulator, ", "",
                    says="only the last block along K counts: the product replaces the accumulator",
                    look="the third argument of tl.dot, or +=."),
            Mistake("a half-precision accumulator",
                    "input_precision=INPUT_PRECISION)",
                    "input_precision=INPUT_PRECISION).to(tl.float16).to(tl.float32)",
                    says="the sum is kept in float16: past 2048 it cannot count in ones any more",
                    look="the dtype of the accumulator: float32, for every input."),
        ]),
        Todo(5, hints=(
            """The next block of a lies BLOCK_K columns to the right, the next of b BLOCK_K rows
            down.""",
            "Adding a number to a block of pointers moves all of them.",
            "a_ptrs += step * ...   and   b_ptrs += step * ...",
        ), mistakes=[
            Mistake("the pointers do not move", "step * stride_ak", "0",
                    also=[("step * stride_bk", "0")],
                    says="every step of the loop multiplies the first blocks again",
                    look="the pointers at the end of the loop."),
            Mistake("the pointers move without the stride", " * stride_ak", "",
                    also=[(" * stride_bk", "")],
                    says="""the pointers move on by BLOCK_K elements, and BLOCK_K rows of b are
                        meant""",
                    look="the strides along K: stride_ak and stride_bk."),
        ]),
        Todo(6, hints=(
            "The pointers to c are made like those to a, with rows and cols.",
            "accumulator.to(c_ptr.dtype.element_ty) rounds to the dtype of c; row_mask & col_mask.",
            """c_ptrs = c_ptr + rows[:, None] * ... + cols[None, :] * ..., then tl.store(c_ptrs,
            ..., mask=...)""",
        ), mistakes=[
            Mistake("no column mask on the store", " & col_mask", "",
                    says="""the store has no mask for its columns: it writes on into the next
                        row, and past the end of c""",
                    look="the mask of the store: rows and columns."),
            Mistake("no row mask on the store", "row_mask & ", "",
                    says="the store has no mask for its rows: it writes past the end of c",
                    look="the mask of the store: rows and columns."),
            Mistake("the result transposed",
                    "stride_cm + cols[None, :] * stride_cn",
                    "stride_cn + cols[None, :] * stride_cm",
                    says="the strides of c are swapped: the tile is stored on its side",
                    look="stride_cm goes from row to row."),
        ]),
        Todo(7, hints=(
            "c has M rows and N columns; a tile that is not full needs a program too.",
            "triton.cdiv(n, block) divides and rounds up.",
            'grid = (triton.cdiv(M, tile["BLOCK_M"]) * ...,)',
        ), mistakes=[
            Mistake("the grid rounded down",
                    'triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"])',
                    'max(M // tile["BLOCK_M"], 1) * max(N // tile["BLOCK_N"], 1)',
                    says="""tiles that are not full are not counted, so the last tiles have no
                        program""",
                    look="triton.cdiv rounds up."),
            Mistake("a grid with two axes",
                    ' * triton.cdiv(N, tile["BLOCK_N"]),', ', triton.cdiv(N, tile["BLOCK_N"])',
                    says="""the grid has two axes, and the kernel finds its tile from axis 0
                        alone: the first tiles are computed many times, the others never""",
                    look="the grid: a tuple of one number."),
        ]),
    ],
    given=[
        narrow_offsets(),
        Mistake("K rounded down",
                "range(0, K, BLOCK_K)", "range(0, K // BLOCK_K * BLOCK_K, BLOCK_K)",
                says="the loop stops before the last block along K, which is not full",
                look="the loop's bounds, which were given."),
        float32_output(" dtype=a.dtype,"),
        Mistake("the inner sizes are not compared", "[1] !=", "[1] <",
                says="matrices that do not fit are multiplied all the same",
                look="the check of a.shape[1], which was given."),
    ],
)

if __name__ == "__main__":
    run_by_itself()
