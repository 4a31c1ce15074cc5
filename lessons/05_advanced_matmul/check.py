"""The self-check of lesson 05, as data. Run by itself it is ./run.sh 05_advanced_matmul."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, Function, Mistake, Solved, Study, Todo, Traffic, run_by_itself,
    torch,
)
from shared.lesson.cases import matmul_cases
from shared.lesson.sweeps import CUBES, OBLONG, cube, product_flops, sides


def product(a, b, bias=None):
    return a @ b if bias is None else a @ b + bias


def magnitude(a, b, bias=None):
    """The sum of the absolute values of all terms."""
    return a.abs() @ b.abs() if bias is None else a.abs() @ b.abs() + bias.abs()


def addmm(a, b, bias):
    return torch.addmm(bias, a, b)


def without_bias(a, b, bias):
    return a @ b


solved = Solved("advanced_matmul.py", "advanced_matmul")
solved_without_bias = Solved(
    "advanced_matmul.py", lambda script, a, b, bias: script.advanced_matmul(a, b)
)


def in_groups(group_m):
    """The product with 128 × 256 tiles, visited in groups that are `group_m` tiles high."""

    def call(script, a, b, bias):
        chosen = script.config(128, 256, 64, group_m, num_warps=8, num_stages=3)
        M, K, N = *a.shape, b.shape[1]
        c = torch.empty((M, N), dtype=a.dtype, device=a.device)
        a_desc, b_desc = (script.TensorDescriptor.from_tensor(t, [1, 1]) for t in (a, b))
        transposed = {"A_TRANSPOSED": False, "B_TRANSPOSED": False}
        script.set_block_shapes(
            {"a_desc": a_desc, "b_desc": b_desc, **transposed, **chosen.kwargs}
        )
        script.advanced_matmul_kernel.fn[(-(-M // 128) * -(-N // 256),)](
            a_desc, b_desc, None, c, M, N, K, 0, 0, c.stride(0),
            **transposed, HAS_BIAS=False, INPUT_PRECISION="tf32", **chosen.all_kwargs(),
        )
        return c

    return Solved("advanced_matmul.py", call)


advanced_matmul = Exercise(
    script="advanced_matmul.py",
    functions=[
        Function(
            name="advanced_matmul",
            arguments=lambda shape: {
                "a": (shape[0], shape[2]),
                "b": (shape[2], shape[1]),
                "bias": (shape[1],),
            },
            reference=product,
            magnitude=magnitude,
            tensor_cores=True,
            cases=(
                *matmul_cases(),
                Case((20, 30, 40), options={"bias": None}, why="without a bias"),
                Case((130, 270, 70), "float16", options={"bias": None}, why="the same, many tiles"),
                Case((5, 7, 0), options={"bias": None}, why="nothing to add up, no bias: zeros"),
                Case((16, 16, 16), values={"a": "zeros"}, why="the bias alone, in a square result"),
                Case((700, 300, 40), why="more tiles than one group, the last group is lower"),
                Case((1200, 20, 40), "float16", why="a last group of one row of tiles"),
                Case((40, 24, 64), layout="transposed",
                     why="transposes that a descriptor can read"),
                Case((3, 4, 5), refuses="bias", misfit="one element longer", why="bias must fit N"),
                Case((3, 4, 5), refuses="bias", misfit="of another dtype", why="one dtype for all"),
            ),
            traffic=lambda a, b, bias=None: Traffic(
                reads=a.nbytes + b.nbytes + (0 if bias is None else bias.nbytes),
                writes=a.shape[0] * b.shape[1] * a.element_size(),
            ),
            memory=(256, 512, 128),
            typical=(1024, 1024, 1024),
            picture=(1536, 640, 64),
            benchmark=Benchmark(
                x="M = N = K",
                values=(512, 1024, 2048, 3072, 4000, 4096, 6144, 8192),
                shape=cube,
                baselines={"a @ b + bias": product, "torch.addmm": addmm},
                flops=product_flops,
            ),
            studies=[
                Study(
                    name="shapes",
                    x="M × N × K",
                    values=(*CUBES, "4000 × 4000 × 4000", OBLONG),
                    shape=sides,
                    candidates={
                        "a @ b": without_bias,
                        "advanced_matmul": solved_without_bias,
                        "with bias": solved,
                        "torch.addmm": addmm,
                        "a @ b + bias": product,
                    },
                ),
                Study(
                    name="float16",
                    x="M × N × K",
                    values=(*CUBES, OBLONG),
                    shape=sides,
                    dtype="float16",
                    candidates={
                        "a @ b": without_bias,
                        "advanced_matmul": solved_without_bias,
                    },
                ),
                Study(
                    name="traffic",
                    x="M = N = K",
                    values=(4096, 16384),
                    shape=cube,
                    candidates={
                        "row by row": in_groups(1),
                        "groups of 8": in_groups(8),
                        "advanced_matmul, with bias": solved,
                        "a @ b + bias": product,
                    },
                    traffic=True,
                ),
            ],
        )
    ],
    todos=[
        Todo(1, hints=(
            """The tile has BLOCK_M rows and BLOCK_N columns. In each step it needs BLOCK_K
            columns of a and BLOCK_K rows of b.""",
            "A block's shape is a list [rows, columns].",
            "a_block = [BLOCK_M, ...]   and   b_block = [..., BLOCK_N]",
        ), mistakes=[
            Mistake("the blocks exchanged", "BLOCK_M, BLOCK_K", "BLOCK_K, BLOCK_M",
                    also=[("BLOCK_K, BLOCK_N", "BLOCK_N, BLOCK_K")],
                    says="""the blocks of a and b lie on their side: a's rows are counted by
                        BLOCK_M, b's by BLOCK_K""",
                    look="the shapes [rows, columns] of both blocks."),
        ]),
        Todo(2, hints=(
            """Group number g begins at row of tiles g * GROUP_M. Its programs go down a column
            of `height` tiles, then on to the next column.""",
            """in_group % height is the place in the column, in_group // height the column.
            tl.minimum(a, b).""",
            """first_m = group * ..., height = tl.minimum(tiles_m - ..., GROUP_M), tile_m =
            first_m + ..., tile_n = in_group // ...""",
        ), mistakes=[
            Mistake("every group as high as the first",
                    "tl.minimum(tiles_m - first_m, GROUP_M)", "GROUP_M",
                    says="""the last group is taken to be GROUP_M tiles high when fewer rows of
                        tiles are left: some tiles are outside of c, and some of c have no
                        program""",
                    look="the height of the last group."),
            Mistake("the group's first row is missing", "first_m + ", "",
                    says="every group computes the tiles of the first group again",
                    look="where a group begins: first_m."),
            Mistake("the group's first row in programs", " * GROUP_M", "",
                    says="""groups begin one row of tiles after the other, and they are GROUP_M
                        rows high""",
                    look="first_m."),
            Mistake("one column for the whole group", "/ height", "/ (height * tiles_n)",
                    says="tile_n does not move on within a group",
                    look="tile_n: one step after `height` programs."),
        ]),
        Todo(3, hints=(
            """bias[j] is added to every element of column j. To start the sum with it costs
            nothing.""",
            """tl.load(bias_ptr + cols * stride_bias, mask=..., other=0.0).to(tl.float32);
            v[None, :] is a row.""",
            """bias = tl.load(..., mask=cols < N, other=0.0).to(tl.float32)   and   accumulator
            += bias[...]""",
        ), mistakes=[
            Mistake("bias along the rows",
                    "cols * stride_bias, mask=cols",
                    "(row + tl.arange(0, BLOCK_M)) * stride_bias, mask=row + tl.arange(0, BLOCK_M)",
                    also=[("None, :", ":, None")],
                    says="bias[i] is added to row i; it belongs to column i of the result",
                    look="bias[None, :] is a row, bias[:, None] a column."),
            Mistake("no bias", "bias[None, :]", "0.0",
                    says="the bias is loaded, and not added",
                    look="what the accumulator starts with."),
            Mistake("no mask for the bias", ", mask=cols < N, other=0.0", "",
                    says="the last tile reads past the end of the bias",
                    look="the mask of the load: cols < N."),
            Mistake("a contiguous bias taken for granted", " * stride_bias", "",
                    says="the bias is read without its stride",
                    look="stride_bias."),
        ]),
        Todo(4, hints=(
            "Along K both blocks start at k; across, at the tile's first row and column.",
            "load_block(desc, row, col, TRANSPOSED) counts elements, not tiles.",
            """a = load_block(a_desc, ..., k, A_TRANSPOSED)   and   b = load_block(b_desc, k,
            ..., B_TRANSPOSED)""",
        ), mistakes=[
            Mistake("k is missing for a", "row, k", "row, 0",
                    says="every step loads the first block of a again",
                    look="the column of a's block: k."),
            Mistake("k is missing for b", "b_desc, k", "b_desc, 0",
                    says="every step loads the first block of b again",
                    look="the row of b's block: k."),
            Mistake("tiles in place of elements", "a_desc, row", "a_desc, tile_m",
                    also=[("k, col", "k, tile_n * 8")],
                    says="a descriptor was given the number of a tile; it counts elements",
                    look="row and col, the first row and column of the tile."),
        ]),
        Todo(5, hints=(
            "The same line as in lesson 04.",
            "tl.dot(a, b, accumulator, input_precision=INPUT_PRECISION).",
            "accumulator = tl.dot(a, b, ..., input_precision=INPUT_PRECISION)",
        ), mistakes=[
            Mistake("the accumulator overwritten", "accumulator, ", "",
                    says="""only the last block along K counts: the product replaces the
                        accumulator, and the bias with it""",
                    look="the third argument of tl.dot."),
            Mistake("a half-precision accumulator",
                    "input_precision=INPUT_PRECISION)",
                    "input_precision=INPUT_PRECISION).to(tl.float16).to(tl.float32)",
                    says="the sum is kept in float16: past 2048 it cannot count in ones any more",
                    look="the dtype of the accumulator: float32, for every input."),
        ]),
        Todo(6, hints=(
            "As in lesson 04, with `row` for the first row. Row times stride may pass 2**31.",
            "row.to(tl.int64) + tl.arange(0, BLOCK_M); c's columns are side by side.",
            """c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :], a mask of both
            directions, then tl.store(c_ptrs, ..., mask=mask)""",
        ), mistakes=[
            Mistake("no column mask on the store",
                    "(rows[:, None] < M) & (cols[None, :] < N)", "rows[:, None] < M",
                    says="""the store has no mask for its columns: it writes on into the next
                        row, and past the end of c""",
                    look="the mask of the store: rows and columns."),
            Mistake("no row mask on the store",
                    "(rows[:, None] < M) & (cols[None, :] < N)", "cols[None, :] < N",
                    says="the store has no mask for its rows: it writes past the end of c",
                    look="the mask of the store: rows and columns."),
        ]),
        Todo(7, hints=(
            "The number of tiles along M times that along N, as a tuple of one number.",
            "lambda meta: (n_programs,) is called with the chosen configuration.",
            'grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * ...,)',
        ), mistakes=[
            Mistake("a grid of a fixed tile",
                    'triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])',
                    "triton.cdiv(M, 128) * triton.cdiv(N, 256)",
                    says="""the grid is computed for tiles of 128 × 256, and the configuration
                        that was chosen has others: tiles are left out, or computed in vain""",
                    look='meta["BLOCK_M"] and meta["BLOCK_N"].'),
            Mistake("the grid rounded down",
                    'triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])',
                    'max(M // meta["BLOCK_M"], 1) * max(N // meta["BLOCK_N"], 1)',
                    says="""the tiles at the right and at the bottom, which are not full, have
                        no program""",
                    look="triton.cdiv rounds up."),
        ]),
    ],
    given=[
        Mistake("K rounded down",
                "range(0, K, BLOCK_K)", "range(0, K // BLOCK_K * BLOCK_K, BLOCK_K)",
                says="the loop stops before the last block along K, which is not full",
                look="the loop's bounds, which were given."),
        Mistake("the transpose forgotten", "col, row", "row, col",
                says="""the descriptor describes the transpose, and is asked at the place in the
                    matrix""",
                look="load_block, which was given."),
        Mistake("any bias accepted", "shape != (N,)", "shape[0] < N",
                says="a bias that is too long is taken all the same",
                look="the check of bias.shape, which was given."),
    ],
)

if __name__ == "__main__":
    run_by_itself()
