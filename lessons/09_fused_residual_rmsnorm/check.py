"""The self-check of lesson 09, as data."""

if __name__ == "__main__":  # the same as ./run.sh 09_fused_residual_rmsnorm
    import os
    import sys

    os.environ.setdefault("COURSE_PYTHON", sys.executable)
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run.sh")
    os.execv(run, [run, os.path.abspath(__file__), *sys.argv[1:]])

import torch.nn.functional as F

from shared.cases import norm_cases
from shared.exercise import Benchmark, Case, Exercise, Function, Mistake, Study, Traffic

COLUMNS = (256, 512, 768, 1024, 2048, 4096, 5120, 8192, 12000, 16384, 32768, 65536)


def residual_rms_norm(x, residual, weight, eps=1e-6):
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], weight, eps), total


def magnitude(x, residual, weight, eps=1e-6):
    """What the sum is made of, and the same times what it is scaled by."""
    terms = x.abs() + residual.abs()
    rrms = ((x + residual).square().mean(-1, keepdim=True) + eps).rsqrt()
    return terms * rrms * weight.abs(), terms


def rows_for(n_cols):
    """16,384 rows, or fewer, but 4,096 at least, where that would be more than 2**28 elements."""
    return max(min(16384, 2**28 // n_cols), 4096), n_cols


RRMS = "rrms = tl.rsqrt(squares / n_cols + eps)"
TAIL_SQUARES = "squares += tl.sum(tail * tail, axis=1, keep_dims=True)"
HEAD_SUM = "head += tl.load(residual_rows + head_cols * stride_residual_col).to(tl.float32)"
TAIL_SUM = "tail += tl.load(residual_ptrs, mask=mask, other=0.0).to(tl.float32)"
HEAD_KEPT = "tl.store(residual_out_ptr + rows * stride_out_row + head_cols, head)"
TAIL_KEPT = "tl.store(residual_out_ptr + rows * stride_out_row + tail_cols, tail, mask=mask)"
HEAD_STORE = "tl.store(out_rows + head_cols, head * rrms * weight)"
TAIL_STORE = "tl.store(out_rows + tail_cols, tail * rrms * weight, mask=mask)"

fused_residual_rmsnorm = Exercise(
    script="fused_residual_rmsnorm.py",
    functions=[
        Function(
            name="fused_residual_rmsnorm",
            arguments=lambda shape: {"x": shape, "residual": shape, "weight": shape[-1:]},
            reference=residual_rms_norm,
            magnitude=magnitude,
            cases=(
                *norm_cases(),
                Case((6, 40), layout="residual: transposed", why="x and residual lie differently"),
                Case((6, 40), values="residual: around 300", why="the sum is normed, not x"),
                Case((3, 4), values="one element longer", refuses="residual", why="it must fit x"),
                Case(
                    (3, 4), values="of another dtype", refuses="residual", why="one dtype for all"
                ),
            ),
            traffic=lambda x, residual, weight: Traffic(
                reads=x.numel() * 2 * x.element_size() + weight.nbytes,
                writes=x.numel() * 2 * x.element_size(),
            ),
            memory=(16, 1000),
            typical=(64, 4096),
            picture=(6, 700),
            benchmark=Benchmark(
                x="columns",
                values=COLUMNS,
                shape=rows_for,
                baselines={"eager": residual_rms_norm, "torch.compile": "compile"},
            ),
            studies=[
                Study(
                    name="fusion",
                    x="columns",
                    values=(4096, 16384),
                    shape=rows_for,
                    candidates={
                        "eager": lambda script, *tensors: residual_rms_norm(*tensors),
                        "torch.compile": "compile",
                        "fused_residual_rmsnorm": lambda script, *tensors: (
                            script.fused_residual_rmsnorm(*tensors)
                        ),
                    },
                    traffic=True,
                )
            ],
        )
    ],
    mistakes=[
        Mistake(
            "x alone",
            todo=1,
            edits=((HEAD_SUM, "head += 0.0"), (TAIL_SUM, "tail += 0.0")),
            says="the residual is not added: both results come from x alone",
            look="x plus residual.",
        ),
        Mistake(
            "residual read with the strides of x",
            todo=1,
            edits=(
                (
                    "residual_rows = residual_ptr + rows * stride_residual_row",
                    "residual_rows = residual_ptr + rows * stride_x_row",
                ),
                (HEAD_SUM, HEAD_SUM.replace("stride_residual_col", "stride_x_col")),
                (
                    "residual_ptrs = residual_rows + tail_cols * stride_residual_col",
                    "residual_ptrs = residual_rows + tail_cols * stride_x_col",
                ),
            ),
            says="the residual is read with the strides of x, and it has its own",
            look="stride_residual_row and stride_residual_col.",
        ),
        Mistake(
            "the tail without the residual",
            todo=2,
            edits=((TAIL_SUM, "tail += 0.0"),),
            says="the residual is not added in the tail",
            look="x plus residual, in both blocks.",
        ),
        Mistake(
            "no mask on the tail's load",
            todo=2,
            edits=(("tail = tl.load(x_ptrs, mask=mask, other=0.0)", "tail = tl.load(x_ptrs)"),),
            says="the load of the tail has no mask: it runs on into the next row, or past the end "
            "of x",
            look="the mask of both loads.",
        ),
        Mistake(
            "no other in the tail",
            todo=2,
            edits=((TAIL_SUM, TAIL_SUM.replace(", other=0.0", "")),),
            says="the masked lanes of the tail were given no value, and their squares count",
            look="`other` of both loads.",
        ),
        Mistake(
            "the old residual returned",
            todo=3,
            edits=(
                (
                    HEAD_KEPT,
                    HEAD_KEPT.replace(
                        "head)", "tl.load(residual_rows + head_cols * stride_residual_col))"
                    ),
                ),
                (
                    TAIL_KEPT,
                    TAIL_KEPT.replace(
                        "tail, mask", "tl.load(residual_ptrs, mask=mask, other=0.0), mask"
                    ),
                ),
            ),
            says="residual_out is the residual that came in; x + residual is meant",
            look="what is stored in residual_out.",
        ),
        Mistake(
            "residual_out without its tail",
            todo=3,
            edits=((TAIL_KEPT, "pass"),),
            says="the tail of residual_out is never written",
            look="both stores.",
        ),
        Mistake(
            "no mask on residual_out",
            todo=3,
            edits=((TAIL_KEPT, TAIL_KEPT.replace(", mask=mask", "")),),
            says="the tail of residual_out is stored without a mask: it goes past the end of the "
            "row",
            look="the mask of the store.",
        ),
        Mistake(
            "residual_out is the norm",
            todo=3,
            edits=(
                (HEAD_KEPT, "pass"),
                (TAIL_KEPT, "pass"),
                (HEAD_STORE, HEAD_STORE + "\n    " + HEAD_KEPT.replace("head)", "head * rrms)")),
                (
                    TAIL_STORE,
                    TAIL_STORE + "\n    " + TAIL_KEPT.replace("tail, mask", "tail * rrms, mask"),
                ),
            ),
            says="residual_out holds the normed values; the sum before the norm is meant",
            look="the place of the store: before the norm.",
        ),
        Mistake(
            "the input overwritten",
            todo=9,
            edits=(
                (
                    "    residual_out = torch.empty(x.shape, dtype=x.dtype, device=x.device)",
                    "    residual_out = residual",
                ),
            ),
            says="the sum is written into the residual that was passed. Inputs stay as they are: "
            "the caller may need it",
            look="memory for residual_out.",
        ),
        Mistake(
            "the sum in place of the mean",
            todo=4,
            edits=((RRMS, "rrms = tl.rsqrt(squares + eps)"),),
            says="this is the root of the sum of squares; RMS has their mean",
            look="/ n_cols.",
        ),
        Mistake(
            "the mean over all lanes",
            todo=4,
            edits=((RRMS, "rrms = tl.rsqrt(squares / (HEAD + TAIL) + eps)"),),
            says="the squares are divided by the number of lanes, and some of them are padding",
            look="how many columns a row has: n_cols.",
        ),
        Mistake(
            "the tail is left out of the mean",
            todo=4,
            edits=((TAIL_SQUARES, "squares += 0.0"),),
            says="the mean of the squares is the head's alone: the tail is missing",
            look="the sum of both blocks.",
        ),
        Mistake(
            "eps outside of the root",
            todo=4,
            edits=((RRMS, "rrms = 1.0 / (tl.sqrt(squares / n_cols) + eps)"),),
            says="eps is added to the root mean square; it belongs under the root, to the mean "
            "square",
            look="where eps is added.",
        ),
        Mistake(
            "no eps",
            todo=4,
            edits=((RRMS, "rrms = tl.rsqrt(squares / n_cols)"),),
            says="eps is missing: a row of zeros is 0 / 0, which is NaN",
            look="+ eps.",
        ),
        Mistake(
            "eps is always 1e-6",
            todo=4,
            edits=((RRMS, "rrms = tl.rsqrt(squares / n_cols + 1e-6)"),),
            says="eps is 1e-6 whatever the caller passes",
            look="the argument eps.",
        ),
        Mistake(
            "no weight",
            todo=5,
            edits=((HEAD_STORE, "tl.store(out_rows + head_cols, head * rrms)"),),
            says="the weight is missing in the head",
            look="* weight.",
        ),
        Mistake(
            "the head's weight for the tail",
            todo=6,
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
            "no mask on the tail's store",
            todo=6,
            edits=((TAIL_STORE, TAIL_STORE.replace(", mask=mask", "")),),
            says="the store of the tail has no mask: it writes on into the next row, and past the "
            "end of out",
            look="the mask of the store.",
        ),
        Mistake(
            "a long row without the residual",
            todo=7,
            edits=(
                (
                    "total += tl.load(residual_ptrs, mask=mask, other=0.0).to(tl.float32)",
                    "total += 0.0",
                ),
            ),
            says="in a long row the residual is not added",
            look="x plus residual.",
        ),
        Mistake(
            "only the last block of a long row",
            todo=7,
            edits=(("squares += total * total", "squares = total * total"),),
            says="each block of a long row replaces the squares of those before it",
            look="+=.",
        ),
        Mistake(
            "a long row without its weight",
            todo=8,
            edits=(("total * rrms * weight, mask", "total * rrms, mask"),),
            says="the weight is missing in long rows",
            look="* weight.",
        ),
        Mistake(
            "residual_out is always float32",
            todo=9,
            edits=(
                (
                    "residual_out = torch.empty(x.shape, dtype=x.dtype,",
                    "residual_out = torch.empty(x.shape,",
                ),
            ),
            says="residual_out is allocated without a dtype, which means float32",
            look="torch.empty(..., dtype=x.dtype).",
        ),
        Mistake(
            "one memory for both results",
            todo=9,
            edits=(
                (
                    "    residual_out = torch.empty(x.shape, dtype=x.dtype, device=x.device)",
                    "    residual_out = out",
                ),
            ),
            says="both results are one tensor: what is stored last overwrites the other",
            look="a tensor of its own for each result.",
        ),
        Mistake(
            "the results exchanged",
            edits=(
                (
                    "    return out, residual_out\n\n\nif",
                    "    return residual_out, out\n\n\nif",
                ),
            ),
            says="the two results are returned in the wrong order",
            look="the return, which was given: (output, residual_out).",
        ),
    ],
    hints={
        1: (
            "Both tensors have the same shape, and strides of their own. Convert each to float32, "
            "then add.",
            "head += tl.load(...).to(tl.float32) adds a second load to the first.",
            "head = tl.load(x_rows + head_cols * ...).to(tl.float32)   and   head += "
            "tl.load(residual_rows + head_cols * ...).to(...)",
        ),
        2: (
            "As for the head, with the mask. A masked lane that holds 0 + 0 adds nothing below.",
            "tl.load(pointers, mask=mask, other=0.0).to(tl.float32).",
            "x_ptrs = ..., residual_ptrs = ..., tail = tl.load(x_ptrs, ...).to(tl.float32), "
            "tail += tl.load(residual_ptrs, ...).to(tl.float32)",
        ),
        3: (
            "Its rows are those of out. A store rounds to the dtype of the tensor.",
            "tl.store(residual_out_ptr + rows * stride_out_row + cols, values, mask=...).",
            "tl.store(residual_out_ptr + rows * stride_out_row + head_cols, ...), and the tail "
            "with its mask",
        ),
        4: (
            "As in lesson 08, of the sum.",
            "tl.sum(block * block, axis=1, keep_dims=True); tl.rsqrt.",
            "squares = tl.sum(head * head, ...), squares += ..., rrms = tl.rsqrt(squares / ... + "
            "eps)",
        ),
        5: (
            "As in lesson 08.",
            "The weight lies at weight_ptr + head_cols * stride_weight.",
            "weight = tl.load(weight_ptr + ...).to(tl.float32)   and   tl.store(out_rows + "
            "head_cols, head * ... * ...)",
        ),
        6: (
            "As for the head, with the mask.",
            "tl.load and tl.store, both with mask=mask.",
            "weight = tl.load(weight_ptr + tail_cols * ..., mask=mask, other=0.0).to(tl.float32), "
            "then tl.store(out_rows + tail_cols, ..., mask=mask)",
        ),
        7: (
            "The sum of two loads, stored, and squared.",
            "tl.store(residual_out_row + cols, total, mask=mask).",
            "total = tl.load(x_ptrs, ...).to(tl.float32), total += ..., tl.store(...), squares += "
            "...",
        ),
        8: (
            "As for a short row.",
            "tl.store(out_row + cols, ..., mask=mask).",
            "tl.store(out_row + cols, total * ... * weight, mask=...)",
        ),
        9: (
            "Two results, each with memory of its own. Inputs stay as they are.",
            "torch.empty(shape, dtype=..., device=...).",
            "out = torch.empty(x.shape, dtype=..., device=...)   and   residual_out = ...",
        ),
    },
)
