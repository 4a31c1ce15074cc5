"""The self-check of lesson 06, as data. Run by itself it is ./run.sh 06_fused_activation."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, F, Function, Mistake, Solved, Study, Todo, one_read_one_write,
    run_by_itself,
)
from shared.lesson.cases import elementwise_cases
from shared.lesson.mistakes import float32_output, narrow_offsets

ROWS = (64, 512, 4096, 8192, 16384)


def silu_gate_residual(x, gate, residual):
    return F.silu(x) * gate + residual


def erf_gelu(x):
    return F.gelu(x)


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


def fusion(name, script, reference):
    """What one kernel saves: kernels launched and bytes moved, beside PyTorch."""
    return Study(
        name="fusion",
        x="rows of 8192",
        values=(16384,),
        shape=rows_of_8192,
        candidates={
            "eager": reference,
            "torch.compile": "compile",
            name: Solved(script, name),
        },
        traffic=True,
    )


def others_that_do_not_fit(*names):
    """Refusals of arguments that do not fit x."""
    for name in names:
        yield Case((3, 5), refuses=name, misfit="one element longer", why="shapes must fit")
        yield Case((3, 5), refuses=name, misfit="of another dtype", why="one dtype for all")
        yield Case((3, 5), gpu_only=True, refuses=name, misfit="on the CPU", why="one device")


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
                Case((6, 40), layout={"gate": "transposed"}, why="a view among contiguous tensors"),
                Case((6, 40), layout={"residual": "expanded"}, why="one row for all"),
                *others_that_do_not_fit("gate", "residual"),
            ),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(silu_gate_residual),
            studies=[fusion("fused_activation", "fused_activation.py", silu_gate_residual)],
        )
    ],
    todos=[
        Todo(1, hints=(
            "Three tensors, three loads, each with its own pointers and the same mask.",
            "tl.load(pointers, mask=mask, other=0.0).to(tl.float32).",
            "x = tl.load(x_ptrs, mask=..., other=0.0).to(...), and gate and residual likewise",
        ), mistakes=[
            Mistake("no mask on a load", "x_ptrs, mask=mask, other=0.0", "x_ptrs",
                    says="the load of x has no mask: the last block reads past the end",
                    look="the mask of the three loads."),
        ]),
        Todo(2, hints=(
            "silu(x) is x times sigmoid(x).",
            "tl.sigmoid(block) wants float32, and does not overflow.",
            "silu = x * tl.sigmoid(...)",
        ), mistakes=[
            Mistake("silu of the gate",
                    "silu = x * tl.sigmoid(x)", "silu = gate * tl.sigmoid(gate)",
                    also=[("silu * gate", "silu * x")],
                    says="x and gate have changed places: silu is taken of the gate",
                    look="what silu is taken of."),
            Mistake("silu of the product",
                    "silu = x * tl.sigmoid(x)", "silu = x * gate * tl.sigmoid(x * gate)",
                    also=[("out = silu * gate +", "out = silu +")],
                    says="silu is taken of x * gate; it belongs to x alone",
                    look="the order: first silu(x), then times gate."),
            Mistake("sigmoid in place of silu", "silu = x * tl", "silu = tl",
                    says="this is sigmoid(x); silu(x) is x times that",
                    look="silu(x) = x * sigmoid(x)."),
            Mistake("exp overflows",
                    "silu = x * tl.sigmoid(x)", "silu = x * tl.exp(x) / (1.0 + tl.exp(x))",
                    says="exp(x) / (1 + exp(x)) is inf / inf from x = 89 on, which is NaN",
                    look="tl.sigmoid, or 1 / (1 + exp(-x))."),
        ]),
        Todo(3, hints=(
            "What PyTorch does in three kernels is one line here: the blocks are in registers.",
            "* and + work element by element.",
            "out = silu * ... + ...",
        ), mistakes=[
            Mistake("the residual inside the product", "gate + residual", "(gate + residual)",
                    says="the residual is multiplied by silu(x) too",
                    look="the brackets: silu * gate first, then + residual."),
            Mistake("no residual", " + residual", "",
                    says="the residual is left out",
                    look="the last addition."),
            Mistake("no gate", "* gate ", "",
                    says="the gate is left out",
                    look="the product with gate."),
        ]),
        Todo(4, hints=(
            """out is new and contiguous: element [row, col] lies row * n_cols + col after its
            first.""",
            "tl.store(pointers, values, mask=mask).",
            "tl.store(out_ptr + row * ... + cols, out, mask=...)",
        ), mistakes=[
            Mistake("no mask on the store", ", mask=mask", "",
                    says="the store has no mask: it writes past the end of out",
                    look="the mask of the store."),
            Mistake("stored with the strides of x",
                    "n_cols + cols", "stride_x_row + cols * stride_x_col",
                    says="the result is stored with the strides of x, and out is contiguous",
                    look="the rows of out: row * n_cols."),
        ]),
        Todo(5, hints=(
            """A row of n_cols columns takes n_cols / BLOCK_SIZE blocks, rounded up, and there
            are n_rows rows.""",
            "triton.cdiv(n, block); a grid is a tuple.",
            "blocks_per_row = triton.cdiv(...)   and   grid = (n_rows * ...,)",
        ), mistakes=[
            Mistake("one block in each row", "triton.cdiv(n_cols, BLOCK_SIZE)", "1",
                    says="each row has one program, and a row longer than a block needs more",
                    look="blocks_per_row."),
            Mistake("the number of blocks rounded down",
                    "blocks_per_row = triton.cdiv(n_cols, BLOCK_SIZE)",
                    "blocks_per_row = max(n_cols // BLOCK_SIZE, 1)",
                    says="the last block of a row, which is not full, has no program",
                    look="triton.cdiv rounds up."),
        ]),
    ],
    given=[
        narrow_offsets(),
        Mistake("always contiguous", "all(t.is_contiguous() for t in tensors)", "True",
                says="views are taken to be contiguous",
                look="as_rows, which was given."),
        float32_output(),
    ],
)

TANH_LAST = "y = x * tl.sigmoid(2.0 * u)"
TANH_U = "u = 0.7978845608028654 * (x + 0.044715 * x * x * x)"
approx_activation = Exercise(
    script="approx_activation.py",
    functions=[
        Function(
            name="gelu_exact",
            arguments=lambda shape: {"x": shape},
            reference=erf_gelu,
            cases=elementwise_cases(),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(erf_gelu),
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
                Case((6, 40), layout={"residual": "transposed"},
                     why="a view among contiguous tensors"),
                Case((6, 40), layout={"bias": "every other element"},
                     why="a bias with a stride of 2"),
                *others_that_do_not_fit("residual", "bias"),
            ),
            traffic=one_read_one_write,
            memory=(16, 1000),
            typical=(4096, 4096),
            picture=(6, 700),
            benchmark=compared(residual_bias_gelu),
            studies=[
                fusion("fused_residual_bias_gelu", "approx_activation.py", residual_bias_gelu)
            ],
        ),
    ],
    todos=[
        Todo(1, hints=(
            """Half of x, times 1 plus erf of x over the root of 2. Division is slow, so
            multiply by 1 / sqrt(2).""",
            "erf_of(block) is defined above; tl.erf(block) does as well.",
            "y = 0.5 * x * (1.0 + erf_of(x * ...))",
        ), mistakes=[
            Mistake("erf without 1 / sqrt(2)", " * 0.7071067811865476", "",
                    says="erf is taken of x; GELU takes it of x / sqrt(2)",
                    look="the argument of erf."),
            Mistake("exact without 1/2", "0.5 * ", "",
                    says="the factor 1/2 is missing: the exact GELU comes out twice as large",
                    look="x / 2."),
            Mistake("exact without x", "0.5 * x", "0.5",
                    says="this is the share of x that passes; GELU is x times that",
                    look="the factor x."),
            Mistake("tanh for exact", "= gelu_exact_of", "= gelu_tanh_of",
                    says="gelu_exact gives the tanh formula, which is off by up to 0.0005",
                    look="the formula in gelu_exact_of(x): erf, not tanh."),
        ]),
        Todo(2, hints=(
            "x³ is x * x * x.",
            "Constants are ordinary Python numbers.",
            "u = 0.7978845608028654 * (x + ... * x * x * x)",
        ), mistakes=[
            Mistake("x without its cube", " * x * x", "",
                    says="u has 0.044715 x in place of 0.044715 x³. At x = 1 the two agree",
                    look="x * x * x."),
            Mistake("the square in place of the cube", "* x * x", "* x",
                    says="u has x² in place of x³. At x = 1 the two agree",
                    look="x * x * x."),
            Mistake("sqrt(2) / pi", "7978845608028654", "4501581580785531",
                    says="the factor is sqrt(2) / pi in place of sqrt(2 / pi)",
                    look="the factor: 0.7979."),
            Mistake("2 / pi", "7978845608028654", "6366197723675814",
                    says="the factor is 2 / pi in place of its root",
                    look="the factor: 0.7979."),
            Mistake("the coefficients exchanged",
                    "u = 0.7978845608028654 * (x + 0.044715 * x * x * x)",
                    "u = 0.044715 * (x + 0.7978845608028654 * x * x * x)",
                    says="0.044715 and sqrt(2 / pi) have changed places",
                    look="which of them stands before x³: the small one."),
        ]),
        Todo(3, hints=(
            """tanh(u) = 2 sigmoid(2u) - 1, so x / 2 * (1 + tanh(u)) = x sigmoid(2u). sigmoid
            cannot overflow.""",
            "tl.sigmoid(block).",
            "y = x * tl.sigmoid(...)",
        ), mistakes=[
            Mistake("exact for tanh", "else gelu_tanh_of", "else gelu_exact_of",
                    says="""gelu_tanh gives the exact formula. It is off by up to 0.0005 from
                        what a model that was trained with tanh computes""",
                    look="the formula in gelu_tanh_of(x)."),
            Mistake("tanh through exp",
                    "y = x * tl.sigmoid(2.0 * u)",
                    "y = 0.5 * x * (1.0 + (tl.exp(2.0 * u) - 1.0) / (tl.exp(2.0 * u) + 1.0))",
                    says="(exp(2u) - 1) / (exp(2u) + 1) is inf / inf for x above 10, which is NaN",
                    look="a form that does not overflow: (1 + tanh(u)) / 2 is sigmoid(2u)."),
            Mistake("sigmoid of u", "2.0 * ", "",
                    says="(1 + tanh(u)) / 2 is sigmoid(2u), and this is sigmoid(u)",
                    look="the factor 2."),
            Mistake("tanh without x", "y = x * tl", "y = tl",
                    says="this is the share of x that passes; GELU is x times that",
                    look="the factor x."),
            Mistake("tanh without 1/2", "y = x *", "y = 2.0 * x *",
                    says="the factor 1/2 is missing: the tanh GELU comes out twice as large",
                    look="1 + tanh(u) is 2 sigmoid(2u), and GELU has x / 2."),
            Mistake("sigmoid(1.702 x)", "2.0 * u", "1.702 * x",
                    says="x sigmoid(1.702 x) is another approximation, off by up to 0.02",
                    look="u, which TODO 2 made."),
        ]),
        Todo(4, hints=(
            "The sum is made in float32, before GELU. The bias has no row.",
            "residual_ptrs is there; the bias lies at bias_ptr + cols * stride_bias.",
            """residual = tl.load(residual_ptrs, ...).to(tl.float32), bias = tl.load(bias_ptr +
            ...).to(tl.float32), x = x + ... + ...""",
        ), mistakes=[
            Mistake("no bias", " + bias", "",
                    says="the bias is left out",
                    look="the sum before GELU."),
            Mistake("no residual", "residual + ", "",
                    says="the residual is left out",
                    look="the sum before GELU."),
            Mistake("residual and bias after GELU", "x = x +", "after =",
                    also=[
                        ("gelu_tanh_of(x)\n\n", "gelu_tanh_of(x) + (after if FUSED else 0.0)\n\n"),
                    ],
                    says="residual and bias are added after GELU; they belong inside",
                    look="the order: first the sum, then GELU."),
            Mistake("residual after GELU", "residual + ", "",
                    also=[
                        ("gelu_tanh_of(x)\n\n", "gelu_tanh_of(x) + (residual if FUSED else 0)\n\n"),
                    ],
                    says="the residual is added after GELU; it belongs inside",
                    look="the order: first the sum, then GELU."),
            Mistake("a contiguous bias taken for granted", " * stride_bias", "",
                    says="the bias is read without its stride",
                    look="stride_bias."),
        ]),
        Todo(5, hints=(
            """out is new and contiguous: element [row, col] lies row * n_cols + col after its
            first.""",
            "tl.store(pointers, values, mask=mask).",
            "tl.store(out_ptr + row * ... + cols, y, mask=...)",
        ), mistakes=[
            Mistake("no mask on the store", ", mask=mask", "",
                    says="the store has no mask: it writes past the end of out",
                    look="the mask of the store."),
            Mistake("stored with the strides of x",
                    "n_cols + cols", "stride_x_row + cols * stride_x_col",
                    says="the result is stored with the strides of x, and out is contiguous",
                    look="the rows of out: row * n_cols."),
        ]),
    ],
    given=[
        narrow_offsets(),
        float32_output(),
    ],
)

if __name__ == "__main__":
    run_by_itself()
