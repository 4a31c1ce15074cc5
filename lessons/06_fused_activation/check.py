"""The self-check of lesson 06, as data."""

if __name__ == "__main__":  # the same as ./run.sh 06_fused_activation
    import os
    import sys

    os.environ.setdefault("COURSE_PYTHON", sys.executable)
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run.sh")
    os.execv(run, [run, os.path.abspath(__file__), *sys.argv[1:]])

import torch.nn.functional as F

from shared.cases import elementwise_cases
from shared.exercise import Benchmark, Case, Exercise, Function, Mistake, Study, one_read_one_write

ROWS = (64, 512, 4096, 8192, 16384)


def silu_gate_residual(x, gate, residual):
    return F.silu(x) * gate + residual


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def residual_bias_gelu(x, residual, bias):
    return F.gelu(x + residual + bias, approximate="tanh")


def rows_of_8192(n_rows):
    return n_rows, 8192


def compared(reference):
    """The benchmark of an element-wise function over rows of 8192 columns."""
    return Benchmark(
        x="rows of 8192",
        values=ROWS,
        shape=rows_of_8192,
        baselines={"eager": reference, "torch.compile": "compile"},
    )


def fusion(name, reference):
    """What one kernel saves: kernels launched and bytes moved, beside PyTorch."""
    return Study(
        name="fusion",
        x="rows of 8192",
        values=(16384,),
        shape=rows_of_8192,
        candidates={
            "eager": lambda script, *tensors: reference(*tensors),
            "torch.compile": "compile",
            name: lambda script, *tensors: getattr(script, name)(*tensors),
        },
        traffic=True,
    )


def others_that_do_not_fit(*names):
    """Refusals of arguments that do not fit x."""
    for name in names:
        yield Case((3, 5), values="one element longer", refuses=name, why="shapes must fit")
        yield Case((3, 5), values="of another dtype", refuses=name, why="one dtype for all")
        yield Case((3, 5), values="on the CPU", refuses=name, gpu_only=True, why="one device")


fused_activation = Exercise(
    script="fused_activation.py",
    functions=[
        Function(
            name="fused_activation",
            arguments=lambda shape: {"x": shape, "gate": shape, "residual": shape},
            reference=silu_gate_residual,
            magnitude=lambda x, gate, residual: (F.silu(x) * gate).abs() + residual.abs(),
            cases=(
                *elementwise_cases(),
                Case((6, 40), layout="gate: transposed", why="a view among contiguous tensors"),
                Case((6, 40), layout="residual: expanded", why="one row for all"),
                *others_that_do_not_fit("gate", "residual"),
            ),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(silu_gate_residual),
            studies=[fusion("fused_activation", silu_gate_residual)],
        )
    ],
    mistakes=[
        Mistake(
            "no mask on a load",
            todo=1,
            edits=(("x = tl.load(x_ptrs, mask=mask, other=0.0)", "x = tl.load(x_ptrs)"),),
            says="the load of x has no mask: the last block reads past the end",
            look="the mask of the three loads.",
        ),
        Mistake(
            "silu of the gate",
            todo=2,
            edits=(
                ("silu = x * tl.sigmoid(x)", "silu = gate * tl.sigmoid(gate)"),
                ("out = silu * gate + residual", "out = silu * x + residual"),
            ),
            says="x and gate have changed places: silu is taken of the gate",
            look="what silu is taken of.",
        ),
        Mistake(
            "silu of the product",
            todo=2,
            edits=(
                ("silu = x * tl.sigmoid(x)", "silu = x * gate * tl.sigmoid(x * gate)"),
                ("out = silu * gate + residual", "out = silu + residual"),
            ),
            says="silu is taken of x * gate; it belongs to x alone",
            look="the order: first silu(x), then times gate.",
        ),
        Mistake(
            "sigmoid in place of silu",
            todo=2,
            edits=(("silu = x * tl.sigmoid(x)", "silu = tl.sigmoid(x)"),),
            says="this is sigmoid(x); silu(x) is x times that",
            look="silu(x) = x * sigmoid(x).",
        ),
        Mistake(
            "exp overflows",
            todo=2,
            edits=(("silu = x * tl.sigmoid(x)", "silu = x * tl.exp(x) / (1.0 + tl.exp(x))"),),
            says="exp(x) / (1 + exp(x)) is inf / inf from x = 89 on, which is NaN",
            look="tl.sigmoid, or 1 / (1 + exp(-x)).",
        ),
        Mistake(
            "the residual inside the product",
            todo=3,
            edits=(("out = silu * gate + residual", "out = silu * (gate + residual)"),),
            says="the residual is multiplied by silu(x) too",
            look="the brackets: silu * gate first, then + residual.",
        ),
        Mistake(
            "no residual",
            todo=3,
            edits=(("out = silu * gate + residual", "out = silu * gate"),),
            says="the residual is left out",
            look="the last addition.",
        ),
        Mistake(
            "no gate",
            todo=3,
            edits=(("out = silu * gate + residual", "out = silu + residual"),),
            says="the gate is left out",
            look="the product with gate.",
        ),
        Mistake(
            "no mask on the store",
            todo=4,
            edits=(("cols, out, mask=mask)", "cols, out)"),),
            says="the store has no mask: it writes past the end of out",
            look="the mask of the store.",
        ),
        Mistake(
            "stored with the strides of x",
            todo=4,
            edits=(
                (
                    "tl.store(out_ptr + row * n_cols + cols, out",
                    "tl.store(out_ptr + row * stride_x_row + cols * stride_x_col, out",
                ),
            ),
            says="the result is stored with the strides of x, and out is contiguous",
            look="the rows of out: row * n_cols.",
        ),
        Mistake(
            "one block in each row",
            todo=5,
            edits=(
                (
                    "blocks_per_row = triton.cdiv(n_cols, BLOCK_SIZE)",
                    "blocks_per_row = 1",
                ),
            ),
            says="each row has one program, and a row longer than a block needs more",
            look="blocks_per_row.",
        ),
        Mistake(
            "the number of blocks rounded down",
            todo=5,
            edits=(
                (
                    "blocks_per_row = triton.cdiv(n_cols, BLOCK_SIZE)",
                    "blocks_per_row = max(n_cols // BLOCK_SIZE, 1)",
                ),
            ),
            says="the last block of a row, which is not full, has no program",
            look="triton.cdiv rounds up.",
        ),
        Mistake(
            "32-bit offsets",
            edits=(("pid = tl.program_id(0).to(tl.int64)", "pid = tl.program_id(0)"),),
            says="a row's number times its stride passes 2**31 and wraps around in 32 bits",
            look="the program id, which was given in 64 bits.",
        ),
        Mistake(
            "always contiguous",
            edits=(("if all(t.is_contiguous() for t in tensors):", "if True:"),),
            says="views are taken to be contiguous",
            look="as_rows, which was given.",
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
            "Three tensors, three loads, each with its own pointers and the same mask.",
            "tl.load(pointers, mask=mask, other=0.0).to(tl.float32).",
            "x = tl.load(x_ptrs, mask=..., other=0.0).to(...), and gate and residual likewise",
        ),
        2: (
            "silu(x) is x times sigmoid(x).",
            "tl.sigmoid(block) wants float32, and does not overflow.",
            "silu = x * tl.sigmoid(...)",
        ),
        3: (
            "What PyTorch does in three kernels is one line here: the blocks are in registers.",
            "* and + work element by element.",
            "out = silu * ... + ...",
        ),
        4: (
            "out is new and contiguous: element [row, col] lies row * n_cols + col after its "
            "first.",
            "tl.store(pointers, values, mask=mask).",
            "tl.store(out_ptr + row * ... + cols, out, mask=...)",
        ),
        5: (
            "A row of n_cols columns takes n_cols / BLOCK_SIZE blocks, rounded up, and there are "
            "n_rows rows.",
            "triton.cdiv(n, block); a grid is a tuple.",
            "blocks_per_row = triton.cdiv(...)   and   grid = (n_rows * ...,)",
        ),
    },
)

TANH_LAST = "y = x * tl.sigmoid(2.0 * u)"
TANH_U = "u = 0.7978845608028654 * (x + 0.044715 * x * x * x)"
EXACT_LAST = "y = 0.5 * x * (1.0 + erf(x * 0.7071067811865476))"
CHOICE = "y = exact(x) if EXACT else with_tanh(x)"

approx_activation = Exercise(
    script="approx_activation.py",
    functions=[
        Function(
            name="gelu_exact",
            arguments=lambda shape: {"x": shape},
            reference=F.gelu,
            cases=elementwise_cases(),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(F.gelu),
        ),
        Function(
            name="gelu_tanh",
            arguments=lambda shape: {"x": shape},
            reference=tanh_gelu,
            cases=elementwise_cases(),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(tanh_gelu),
        ),
        Function(
            name="fused_residual_bias_gelu",
            arguments=lambda shape: {"x": shape, "residual": shape, "bias": shape[-1:]},
            reference=residual_bias_gelu,
            magnitude=lambda x, residual, bias: x.abs() + residual.abs() + bias.abs(),
            cases=(
                *elementwise_cases(),
                Case((6, 40), layout="residual: transposed", why="a view among contiguous tensors"),
                Case((6, 40), layout="bias: every other element", why="a bias with a stride of 2"),
                *others_that_do_not_fit("residual", "bias"),
            ),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(residual_bias_gelu),
            studies=[fusion("fused_residual_bias_gelu", residual_bias_gelu)],
        ),
    ],
    mistakes=[
        Mistake(
            "erf without 1 / sqrt(2)",
            todo=1,
            edits=((EXACT_LAST, "y = 0.5 * x * (1.0 + erf(x))"),),
            says="erf is taken of x; GELU takes it of x / sqrt(2)",
            look="the argument of erf.",
        ),
        Mistake(
            "exact without 1/2",
            todo=1,
            edits=((EXACT_LAST, "y = x * (1.0 + erf(x * 0.7071067811865476))"),),
            says="the factor 1/2 is missing: the exact GELU comes out twice as large",
            look="x / 2.",
        ),
        Mistake(
            "exact without x",
            todo=1,
            edits=((EXACT_LAST, "y = 0.5 * (1.0 + erf(x * 0.7071067811865476))"),),
            says="this is the share of x that passes; GELU is x times that",
            look="the factor x.",
        ),
        Mistake(
            "tanh for exact",
            todo=1,
            edits=((CHOICE, "y = with_tanh(x) if EXACT else with_tanh(x)"),),
            says="gelu_exact gives the tanh formula, which is off by up to 0.0005",
            look="the formula in exact(x): erf, not tanh.",
        ),
        Mistake(
            "exact for tanh",
            todo=3,
            edits=((CHOICE, "y = exact(x) if EXACT else exact(x)"),),
            says="gelu_tanh gives the exact formula. It is off by up to 0.0005 from what a model "
            "that was trained with tanh computes",
            look="the formula in with_tanh(x).",
        ),
        Mistake(
            "x without its cube",
            todo=2,
            edits=((TANH_U, "u = 0.7978845608028654 * (x + 0.044715 * x)"),),
            says="u has 0.044715 x in place of 0.044715 x³. At x = 1 the two agree",
            look="x * x * x.",
        ),
        Mistake(
            "the square in place of the cube",
            todo=2,
            edits=((TANH_U, "u = 0.7978845608028654 * (x + 0.044715 * x * x)"),),
            says="u has x² in place of x³. At x = 1 the two agree",
            look="x * x * x.",
        ),
        Mistake(
            "sqrt(2) / pi",
            todo=2,
            edits=((TANH_U, "u = 0.4501581580785531 * (x + 0.044715 * x * x * x)"),),
            says="the factor is sqrt(2) / pi in place of sqrt(2 / pi)",
            look="the factor: 0.7979.",
        ),
        Mistake(
            "2 / pi",
            todo=2,
            edits=((TANH_U, "u = 0.6366197723675814 * (x + 0.044715 * x * x * x)"),),
            says="the factor is 2 / pi in place of its root",
            look="the factor: 0.7979.",
        ),
        Mistake(
            "the coefficients exchanged",
            todo=2,
            edits=((TANH_U, "u = 0.044715 * (x + 0.7978845608028654 * x * x * x)"),),
            says="0.044715 and sqrt(2 / pi) have changed places",
            look="which of them stands before x³: the small one.",
        ),
        Mistake(
            "tanh through exp",
            todo=3,
            edits=(
                (
                    TANH_LAST,
                    "y = 0.5 * x * (1.0 + (tl.exp(2.0 * u) - 1.0) / (tl.exp(2.0 * u) + 1.0))",
                ),
            ),
            says="(exp(2u) - 1) / (exp(2u) + 1) is inf / inf for x above 10, which is NaN",
            look="a form that does not overflow: (1 + tanh(u)) / 2 is sigmoid(2u).",
        ),
        Mistake(
            "sigmoid of u",
            todo=3,
            edits=((TANH_LAST, "y = x * tl.sigmoid(u)"),),
            says="(1 + tanh(u)) / 2 is sigmoid(2u), and this is sigmoid(u)",
            look="the factor 2.",
        ),
        Mistake(
            "tanh without x",
            todo=3,
            edits=((TANH_LAST, "y = tl.sigmoid(2.0 * u)"),),
            says="this is the share of x that passes; GELU is x times that",
            look="the factor x.",
        ),
        Mistake(
            "tanh without 1/2",
            todo=3,
            edits=((TANH_LAST, "y = 2.0 * x * tl.sigmoid(2.0 * u)"),),
            says="the factor 1/2 is missing: the tanh GELU comes out twice as large",
            look="1 + tanh(u) is 2 sigmoid(2u), and GELU has x / 2.",
        ),
        Mistake(
            "sigmoid(1.702 x)",
            todo=3,
            edits=((TANH_LAST, "y = x * tl.sigmoid(1.702 * x)"),),
            says="x sigmoid(1.702 x) is another approximation, off by up to 0.02",
            look="u, which TODO 2 made.",
        ),
        Mistake(
            "no bias",
            todo=4,
            edits=(("x = x + residual + bias", "x = x + residual"),),
            says="the bias is left out",
            look="the sum before GELU.",
        ),
        Mistake(
            "no residual",
            todo=4,
            edits=(("x = x + residual + bias", "x = x + bias"),),
            says="the residual is left out",
            look="the sum before GELU.",
        ),
        Mistake(
            "residual and bias after GELU",
            todo=4,
            edits=(
                ("x = x + residual + bias", "after = residual + bias"),
                (CHOICE, "y = (exact(x) if EXACT else with_tanh(x)) + (after if FUSED else 0.0)"),
            ),
            says="residual and bias are added after GELU; they belong inside",
            look="the order: first the sum, then GELU.",
        ),
        Mistake(
            "residual after GELU",
            todo=4,
            edits=(
                ("x = x + residual + bias", "x = x + bias"),
                (
                    CHOICE,
                    "y = (exact(x) if EXACT else with_tanh(x)) + (residual if FUSED else 0.0)",
                ),
            ),
            says="the residual is added after GELU; it belongs inside",
            look="the order: first the sum, then GELU.",
        ),
        Mistake(
            "a contiguous bias taken for granted",
            todo=4,
            edits=(("bias_ptr + cols * stride_bias", "bias_ptr + cols"),),
            says="the bias is read without its stride",
            look="stride_bias.",
        ),
        Mistake(
            "no mask on the store",
            todo=5,
            edits=(("cols, y, mask=mask)", "cols, y)"),),
            says="the store has no mask: it writes past the end of out",
            look="the mask of the store.",
        ),
        Mistake(
            "stored with the strides of x",
            todo=5,
            edits=(
                (
                    "tl.store(out_ptr + row * n_cols + cols, y",
                    "tl.store(out_ptr + row * stride_x_row + cols * stride_x_col, y",
                ),
            ),
            says="the result is stored with the strides of x, and out is contiguous",
            look="the rows of out: row * n_cols.",
        ),
        Mistake(
            "32-bit offsets",
            edits=(("pid = tl.program_id(0).to(tl.int64)", "pid = tl.program_id(0)"),),
            says="a row's number times its stride passes 2**31 and wraps around in 32 bits",
            look="the program id, which was given in 64 bits.",
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
            "Half of x, times 1 plus erf of x over the root of 2. Division is slow, so multiply by "
            "1 / sqrt(2).",
            "erf(block) is defined above; tl.erf(block) does as well.",
            "y = 0.5 * x * (1.0 + erf(x * ...))",
        ),
        2: (
            "x³ is x * x * x.",
            "Constants are ordinary Python numbers.",
            "u = 0.7978845608028654 * (x + ... * x * x * x)",
        ),
        3: (
            "tanh(u) = 2 sigmoid(2u) - 1, so x / 2 * (1 + tanh(u)) = x sigmoid(2u). sigmoid cannot "
            "overflow.",
            "tl.sigmoid(block).",
            "y = x * tl.sigmoid(...)",
        ),
        4: (
            "The sum is made in float32, before GELU. The bias has no row.",
            "residual_ptrs is there; the bias lies at bias_ptr + cols * stride_bias.",
            "residual = tl.load(residual_ptrs, ...).to(tl.float32), bias = tl.load(bias_ptr + ...)"
            ".to(tl.float32), x = x + ... + ...",
        ),
        5: (
            "out is new and contiguous: element [row, col] lies row * n_cols + col after its "
            "first.",
            "tl.store(pointers, values, mask=mask).",
            "tl.store(out_ptr + row * ... + cols, y, mask=...)",
        ),
    },
)
