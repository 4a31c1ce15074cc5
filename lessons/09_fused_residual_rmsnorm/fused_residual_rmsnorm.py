"""The residual addition and the RMSNorm after it, in one kernel with two results.

    residual_out = x + residual
    output       = residual_out * rsqrt(mean(residual_out^2) + eps) * weight

x, residual (n_rows, n_cols), weight (n_cols,) -> (output, residual_out), both like x.
New: two inputs, two outputs, and what is rounded when.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_COLS_IN_REGISTERS = 32768  # a longer row is read again, which the L2 cache makes cheap


@triton.jit
def fused_residual_rmsnorm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, residual_out_ptr,
    stride_x_row, stride_x_col, stride_residual_row, stride_residual_col,
    stride_weight, stride_out_row,
    n_rows, eps,
    n_cols: tl.constexpr,
    ROWS: tl.constexpr,  # rows of one program
    HEAD: tl.constexpr, TAIL: tl.constexpr,  # a row is HEAD columns, then at most TAIL more
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    rows = tl.minimum(rows, n_rows - 1)[:, None]  # past the last row, do the last row again
    head_cols = tl.arange(0, HEAD).to(tl.int64)[None, :]
    tail_cols = HEAD + tl.arange(0, TAIL).to(tl.int64)[None, :]
    mask = tail_cols < n_cols  # of the tail; every column of the head exists

    x_row_ptrs = x_ptr + rows * stride_x_row
    residual_row_ptrs = residual_ptr + rows * stride_residual_row
    # TODO 1: x plus residual in float32, for the head, shape (ROWS, HEAD) (2 lines).
    head = ...

    # TODO 2: the same for the tail, shape (ROWS, TAIL) (4 lines).
    tail = ...

    # TODO 3: store the sum, which the next block of the model adds to (2 lines).
    ...

    # The store has rounded it. The norm is that of the rounded sum, as others will read it.
    head = head.to(residual_out_ptr.dtype.element_ty).to(tl.float32)
    tail = tail.to(residual_out_ptr.dtype.element_ty).to(tl.float32)

    # TODO 4: 1 over the root mean square of the sum, with eps, shape (ROWS, 1) (3 lines).
    rrms = ...

    out_row_ptrs = out_ptr + rows * stride_out_row
    # TODO 5: the head's weight in float32, and its part of the output (2 lines).
    ...

    # TODO 6: the same for the tail (2 lines).
    ...


@triton.jit
def long_fused_residual_rmsnorm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, residual_out_ptr,
    stride_x_row, stride_x_col, stride_residual_row, stride_residual_col,
    stride_weight, stride_out_row,
    eps,
    n_cols: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    x_row_ptr = x_ptr + row * stride_x_row
    residual_row_ptr = residual_ptr + row * stride_residual_row
    out_row_ptr = out_ptr + row * stride_out_row
    residual_out_row_ptr = residual_out_ptr + row * stride_out_row

    squares = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        mask = cols < n_cols
        x_ptrs = x_row_ptr + cols * stride_x_col
        residual_ptrs = residual_row_ptr + cols * stride_residual_col
        # TODO 7: the sum in float32, stored, then rounded as it was stored, and its squares added,
        # lane by lane (5 lines).
        squares = ...

    rrms = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        mask = cols < n_cols
        # The sum again, as it was stored: one tensor to read, and not two. This program wrote it,
        # with the same lanes, so it is there.
        total = tl.load(residual_out_row_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols * stride_weight, mask=mask, other=0.0).to(tl.float32)
        # TODO 8: store this block of the output (1 line).
        ...


def fused_residual_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """(output, residual_out): the RMS norm of x + residual, and x + residual itself.

    x and residual (n_rows, n_cols), weight (n_cols,). residual_out is rounded once, to x's dtype.
    The norm is that of residual_out: of the sum after it was rounded.

    Raises ValueError if x is not 2-D or residual or weight does not fit, TypeError if x is not one
    of DTYPES or residual or weight has another dtype.
    """
    if x.dim() != 2:
        raise ValueError(f"x must be 2-D, it has shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")
    n_rows, n_cols = x.shape
    for name, other, shape in (("residual", residual, x.shape), ("weight", weight, (n_cols,))):
        if other.shape != shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, it must be {tuple(shape)}")
        if other.dtype != x.dtype:
            raise TypeError(f"{name} is {other.dtype} and x is {x.dtype}: must be equal")
        if other.device != x.device:
            raise ValueError(f"{name} is on {other.device} and x on {x.device}: must be equal")

    # TODO 9: memory for both results, of x's shape, dtype and device (2 lines).
    out = ...
    residual_out = ...

    if out.numel() == 0:
        return out, residual_out

    tensors = (x, residual, weight, out, residual_out)
    strides = (*x.stride(), *residual.stride(), weight.stride(0), out.stride(0))
    if n_cols > MAX_COLS_IN_REGISTERS:  # 32 warps for each row, in a few steps
        BLOCK_SIZE = min(triton.next_power_of_2(n_cols) // 4, 32768)
        long_fused_residual_rmsnorm_kernel[(n_rows,)](
            *tensors, *strides, eps, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=32
        )
        return out, residual_out

    HEAD = triton.next_power_of_2(n_cols + 1) // 2  # the two blocks of lesson 07
    TAIL = triton.next_power_of_2(max(n_cols - HEAD, 1))
    ROWS = max(1024 // HEAD, 1)  # short rows share a program
    fused_residual_rmsnorm_kernel[(triton.cdiv(n_rows, ROWS),)](
        *tensors, *strides, n_rows, eps, n_cols,
        ROWS=ROWS, HEAD=HEAD, TAIL=TAIL,
        num_warps=warps_for(ROWS * (HEAD + TAIL)),
    )
    return out, residual_out


def warps_for(n_elements: int) -> int:
    """One warp for every 1,024 elements that a program holds (lesson 02), a power of two."""
    return min(max(triton.next_power_of_2(n_elements // 1024 + 1) // 2, 1), 32)


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
