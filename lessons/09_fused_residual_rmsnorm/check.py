"""The self-check of lesson 09, as data. Run by itself it is ./run.sh 09_fused_residual_rmsnorm."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, F, Function, Mistake, Solved, Study, Todo, Traffic,
    run_by_itself,
)
from shared.lesson.cases import norm_cases
from shared.lesson.mistakes import lanes_counted, last_block_only, tail_store_unmasked
from shared.lesson.sweeps import NORM_COLUMNS, norm_shape


def residual_rms_norm(x, residual, weight, eps=1e-6):
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], weight, eps), total


def magnitude(x, residual, weight, eps=1e-6):
    """What the sum is made of, and the same times what it is scaled by."""
    terms = x.abs() + residual.abs()
    rrms = ((x + residual).square().mean(-1, keepdim=True) + eps).rsqrt()
    return terms * rrms * weight.abs(), terms


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
                Case((6, 40), layout={"residual": "transposed"},
                     why="x and residual lie differently"),
                Case((6, 40), values={"residual": "around 300"}, why="the sum is normed, not x"),
                Case((3, 4), refuses="residual", misfit="one element longer", why="it must fit x"),
                Case((3, 4), refuses="residual", misfit="of another dtype",
                     why="one dtype for all"),
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
                values=NORM_COLUMNS,
                shape=norm_shape,
                baselines={"eager": residual_rms_norm, "torch.compile": "compile"},
            ),
            studies=[
                Study(
                    name="fusion",
                    x="columns",
                    values=(4096, 16384),
                    shape=norm_shape,
                    candidates={
                        "eager": residual_rms_norm,
                        "torch.compile": "compile",
                        "fused_residual_rmsnorm": Solved(
                            "fused_residual_rmsnorm.py", "fused_residual_rmsnorm"
                        ),
                    },
                    traffic=True,
                )
            ],
        )
    ],
    todos=[
        Todo(1, hints=(
            """Both tensors have the same shape, and strides of their own. Convert each to
            float32, then add.""",
            "head += tl.load(...).to(tl.float32) adds a second load to the first.",
            """head = tl.load(x_row_ptrs + head_cols * ...).to(tl.float32)   and   head +=
            tl.load(residual_row_ptrs + head_cols * ...).to(...)""",
        ), mistakes=[
            Mistake("x alone",
                    "tl.load(residual_row_ptrs + head_cols * stride_residual_col).to(tl.float32)",
                    "0.0",
                    also=[
                        ("tail += tl.load(residual_ptrs, mask=mask, other=0.0).to(tl.float32)",
                         "tail += 0.0"),
                    ],
                    says="the residual is not added: both results come from x alone",
                    look="x plus residual."),
            Mistake("residual read with the strides of x",
                    "rows * stride_residual_row", "rows * stride_x_row",
                    also=[
                        ("stride_residual_col", "stride_x_col"),
                        ("tail_cols * stride_residual_col", "tail_cols * stride_x_col"),
                    ],
                    says="the residual is read with the strides of x, and it has its own",
                    look="stride_residual_row and stride_residual_col."),
        ]),
        Todo(2, hints=(
            "As for the head, with the mask. A masked lane that holds 0 + 0 adds nothing below.",
            "tl.load(pointers, mask=mask, other=0.0).to(tl.float32).",
            """x_ptrs = ..., residual_ptrs = ..., tail = tl.load(x_ptrs, ...).to(tl.float32),
            tail += tl.load(residual_ptrs, ...).to(tl.float32)""",
        ), mistakes=[
            Mistake("the tail without the residual",
                    "tl.load(residual_ptrs, mask=mask, other=0.0).to(tl.float32)", "0.0",
                    says="the residual is not added in the tail",
                    look="x plus residual, in both blocks."),
            Mistake("no mask on the tail's load", "x_ptrs, mask=mask, other=0.0", "x_ptrs",
                    says="""the load of the tail has no mask: it runs on into the next row, or
                        past the end of x""",
                    look="the mask of both loads."),
            Mistake("no other in the tail",
                    "residual_ptrs, mask=mask, other=0.0", "residual_ptrs, mask=mask",
                    says="""the masked lanes of the tail were given no value, and their squares
                        count""",
                    look="`other` of both loads."),
        ]),
        Todo(3, hints=(
            "Its rows are those of out. A store rounds to the dtype of the tensor.",
            "tl.store(residual_out_ptr + rows * stride_out_row + cols, values, mask=...).",
            """tl.store(residual_out_ptr + rows * stride_out_row + head_cols, ...), and the tail
            with its mask""",
        ), mistakes=[
            Mistake("the old residual returned",
                    ", head", ", tl.load(residual_row_ptrs + head_cols * stride_residual_col)",
                    also=[(", tail", ", tl.load(residual_ptrs, mask=mask, other=0.0)")],
                    says="residual_out is the residual that came in; x + residual is meant",
                    look="what is stored in residual_out."),
            Mistake("residual_out without its tail", "mask=mask", "mask=mask & (rows < 0)",
                    says="the tail of residual_out is never written",
                    look="both stores."),
            Mistake("no mask on residual_out", ", mask=mask", "",
                    says="""the tail of residual_out is stored without a mask: it goes past the
                        end of the row""",
                    look="the mask of the store."),
            Mistake("residual_out is the norm",
                    "head_cols, head", "head_cols, head * rrms",
                    also=[
                        ("tail_cols, tail", "tail_cols, tail * rrms"),
                        ("tl.store(residual_out_ptr + rows * stride_out_row + head_cols", """
                            total = tl.sum(head * head, axis=1, keep_dims=True)
                            total += tl.sum(tail * tail, axis=1, keep_dims=True)
                            rrms = tl.rsqrt(total / n_cols + eps)
                            tl.store(residual_out_ptr + rows * stride_out_row + head_cols"""),
                    ],
                    says="residual_out holds the normed values; the sum before the norm is meant",
                    look="the place of the store: before the norm."),
        ]),
        Todo(4, hints=(
            "As in lesson 08, of the sum.",
            "tl.sum(block * block, axis=1, keep_dims=True); tl.rsqrt.",
            """squares = tl.sum(head * head, ...), squares += ..., rrms = tl.rsqrt(squares / ...
            + eps)""",
        ), mistakes=[
            Mistake("the sum in place of the mean", "/ n_cols ", "",
                    says="this is the root of the sum of squares; RMS has their mean",
                    look="/ n_cols."),
            lanes_counted("the mean over all lanes"),
            Mistake("the tail is left out of the mean",
                    "tl.sum(tail * tail, axis=1, keep_dims=True)", "0.0",
                    says="the mean of the squares is the head's alone: the tail is missing",
                    look="the sum of both blocks."),
            Mistake("eps outside of the root",
                    "rrms = tl.rsqrt(squares / n_cols + eps)",
                    "rrms = 1.0 / (tl.sqrt(squares / n_cols) + eps)",
                    says="""eps is added to the root mean square; it belongs under the root, to
                        the mean square""",
                    look="where eps is added."),
            Mistake("no eps", " + eps", "",
                    says="eps is missing: a row of zeros is 0 / 0, which is NaN",
                    look="+ eps."),
            Mistake("eps is always 1e-6", "n_cols + eps", "n_cols + 1e-6",
                    says="eps is 1e-6 whatever the caller passes",
                    look="the argument eps."),
        ]),
        Todo(5, hints=(
            "As in lesson 08.",
            "The weight lies at weight_ptr + head_cols * stride_weight.",
            """weight = tl.load(weight_ptr + ...).to(tl.float32)   and   tl.store(out_row_ptrs +
            head_cols, head * ... * ...)""",
        ), mistakes=[
            Mistake("no weight", " * weight", "",
                    says="the weight is missing in the head",
                    look="* weight."),
        ]),
        Todo(6, hints=(
            "As for the head, with the mask.",
            "tl.load and tl.store, both with mask=mask.",
            """weight = tl.load(weight_ptr + tail_cols * ..., mask=mask,
            other=0.0).to(tl.float32), then tl.store(out_row_ptrs + tail_cols, ..., mask=mask)""",
        ), mistakes=[
            Mistake("the head's weight for the tail",
                    "weight_ptr + tail_cols", "weight_ptr + (tail_cols - HEAD)",
                    says="the tail is scaled with the weights of the first columns",
                    look="tail_cols."),
            tail_store_unmasked(),
        ]),
        Todo(7, hints=(
            "The sum of two loads, stored, and squared.",
            "tl.store(residual_out_row_ptr + cols, total, mask=mask).",
            """total = tl.load(x_ptrs, ...).to(tl.float32), total += ..., tl.store(...), squares
            += ...""",
        ), mistakes=[
            Mistake("a long row without the residual",
                    "tl.load(residual_ptrs, mask=mask, other=0.0).to(tl.float32)", "0.0",
                    says="in a long row the residual is not added",
                    look="x plus residual."),
            last_block_only("only the last block of a long row"),
        ]),
        Todo(8, hints=(
            "As for a short row.",
            "tl.store(out_row_ptr + cols, ..., mask=mask).",
            "tl.store(out_row_ptr + cols, total * ... * weight, mask=...)",
        ), mistakes=[
            Mistake("a long row without its weight", " * weight", "",
                    says="the weight is missing in long rows",
                    look="* weight."),
        ]),
        Todo(9, hints=(
            "Two results, each with memory of its own. Inputs stay as they are.",
            "torch.empty(shape, dtype=..., device=...).",
            "out = torch.empty(x.shape, dtype=..., device=...)   and   residual_out = ...",
        ), mistakes=[
            Mistake("the input overwritten",
                    "residual_out = torch.empty(x.shape, dtype=x.dtype, device=x.device)",
                    "residual_out = residual",
                    says="""the sum is written into the residual that was passed. Inputs stay as
                        they are: the caller may need it""",
                    look="memory for residual_out."),
            Mistake("residual_out is always float32",
                    "residual_out = torch.empty(x.shape, dtype=x.dtype,",
                    "residual_out = torch.empty(x.shape,",
                    says="residual_out is allocated without a dtype, which means float32",
                    look="torch.empty(..., dtype=x.dtype)."),
            Mistake("one memory for both results",
                    "residual_out = torch.empty(x.shape, dtype=x.dtype, device=x.device)",
                    "residual_out = out",
                    says="both results are one tensor: what is stored last overwrites the other",
                    look="a tensor of its own for each result."),
        ]),
    ],
    given=[
        Mistake("the results exchanged",
                "    )\n    return out, residual_out", "    )\n    return residual_out, out",
                says="the two results are returned in the wrong order",
                look="the return, which was given: (output, residual_out)."),
    ],
)

if __name__ == "__main__":
    run_by_itself()
