"""A gated activation in one kernel: silu(x) * gate + residual.

    out = x * sigmoid(x) * gate + residual                        silu(x) = x * sigmoid(x)

x, gate, residual of one shape, any number of axes -> that shape in x's dtype.
New: why three operations in one kernel take the time of one.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def fused_activation_kernel(
    x_ptr, gate_ptr, residual_ptr, out_ptr,
    stride_x_row, stride_x_col,
    stride_gate_row, stride_gate_col,
    stride_residual_row, stride_residual_col,
    n_cols, blocks_per_row,
    BLOCK_SIZE: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    row = pid // blocks_per_row
    cols = (pid % blocks_per_row) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x_ptrs = x_ptr + row * stride_x_row + cols * stride_x_col
    gate_ptrs = gate_ptr + row * stride_gate_row + cols * stride_gate_col
    residual_ptrs = residual_ptr + row * stride_residual_row + cols * stride_residual_col

    # TODO 1: the three blocks in float32 (3 lines).
    x = ...
    gate = ...
    residual = ...

    # TODO 2: silu of x (1 line: tl.sigmoid).
    silu = ...

    # TODO 3: the result, in float32 (1 line).
    out = ...

    # TODO 4: store it; the rows of out are contiguous (1 line).
    ...


def fused_activation(
    x: torch.Tensor, gate: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """silu(x) * gate + residual, element by element.

    Raises ValueError if gate or residual has another shape or device than x, TypeError if x is not
    one of DTYPES or one of them has another dtype.
    """
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")
    for name, other in (("gate", gate), ("residual", residual)):
        if other.shape != x.shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, it must be {tuple(x.shape)}")
        if other.dtype != x.dtype:
            raise TypeError(f"{name} is {other.dtype} and x is {x.dtype}: must be equal")
        if other.device != x.device:
            raise ValueError(f"{name} is on {other.device} and x on {x.device}: must be one device")

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    x, gate, residual = as_rows(x, gate, residual)
    n_rows, n_cols = x.shape
    BLOCK_SIZE = 1024
    # TODO 5: the number of blocks in a row, and a grid of as many programs as there are blocks
    # (2 lines: triton.cdiv).
    blocks_per_row = ...
    grid = ...

    fused_activation_kernel[grid](
        x, gate, residual, out,
        x.stride(0), x.stride(1),
        gate.stride(0), gate.stride(1),
        residual.stride(0), residual.stride(1),
        n_cols, blocks_per_row,
        BLOCK_SIZE=BLOCK_SIZE,
    )
    return out


def as_rows(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The tensors as matrices: one long row if all are contiguous, else rows of the last axis."""
    if all(t.is_contiguous() for t in tensors):
        return [t.view(1, -1) for t in tensors]
    return [t.reshape(-1, t.shape[-1]) for t in tensors]  # a view, where the strides allow one


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
