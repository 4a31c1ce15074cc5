"""LayerNorm: centre each row, divide by its standard deviation, then scale and shift.

    out = (x - mean) * rsqrt(variance + eps) * weight + bias         mean and variance of the row

x (n_rows, n_cols), weight (n_cols,), bias (n_cols,) -> (n_rows, n_cols) in x's dtype.
New: two reductions over one row, padding that must stay out of the second, a row in two blocks.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_COLS_IN_REGISTERS = 16384  # a longer row is read again, which the L2 cache makes cheap


@triton.jit
def layernorm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    stride_x_row, stride_x_col, stride_weight, stride_bias, stride_out_row,
    n_rows, eps,
    n_cols: tl.constexpr,  # the same in every call of a model, so the kernel is compiled for it
    ROWS: tl.constexpr,  # rows of one program
    HEAD: tl.constexpr, TAIL: tl.constexpr,  # a row is HEAD columns, then at most TAIL more
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    # Past the last row, do the last row again: the same values are written twice, which harms
    # nothing, and no access needs a mask for its rows.
    rows = tl.minimum(rows, n_rows - 1)[:, None]
    head_cols = tl.arange(0, HEAD).to(tl.int64)[None, :]
    tail_cols = HEAD + tl.arange(0, TAIL).to(tl.int64)[None, :]
    mask = tail_cols < n_cols  # of the tail; every column of the head exists

    # Both loads before the first reduction: it waits for what it reduces, and so would the second.
    x_row_ptrs = x_ptr + rows * stride_x_row
    head = tl.load(x_row_ptrs + head_cols * stride_x_col).to(tl.float32)
    tail = tl.load(x_row_ptrs + tail_cols * stride_x_col, mask=mask, other=0.0).to(tl.float32)

    # TODO 1: the mean of each row, shape (ROWS, 1) (2 lines: tl.sum(..., axis=1, keep_dims=True)).
    # How many of the lanes are real?
    mean = ...

    # TODO 2: head and tail minus the mean, and 0 in the lanes that are not real (2 lines:
    # tl.where).
    head = ...
    tail = ...

    # TODO 3: the variance, the mean of the squares, and 1 / sqrt(variance + eps), shape (ROWS, 1)
    # (3 lines: tl.rsqrt).
    rstd = ...

    weight = tl.load(weight_ptr + head_cols * stride_weight).to(tl.float32)
    bias = tl.load(bias_ptr + head_cols * stride_bias).to(tl.float32)
    # TODO 4: store the head's part of the result (1 line).
    ...

    weight = tl.load(weight_ptr + tail_cols * stride_weight, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + tail_cols * stride_bias, mask=mask, other=0.0).to(tl.float32)
    # TODO 5: store the tail's part (2 lines).
    ...


@triton.jit
def long_layernorm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    stride_x_row, stride_x_col, stride_weight, stride_bias, stride_out_row,
    eps,
    n_cols: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    x_row_ptr = x_ptr + row * stride_x_row
    out_row_ptr = out_ptr + row * stride_out_row

    # TODO 6: the mean of the row, a scalar, from one sum for each lane (7 lines: a loop as in
    # lesson 03, then tl.sum). The row is read again: load it with eviction_policy="evict_last", so
    # that the L2 cache keeps it.
    mean = ...

    squares = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x_ptrs = x_row_ptr + cols * stride_x_col
        x = tl.load(x_ptrs, mask=cols < n_cols, other=0.0, eviction_policy="evict_last")
        # TODO 7: add the squares of x minus the mean, lane by lane (2 lines). Which lanes count?
        squares = ...

    rstd = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        mask = cols < n_cols
        x_ptrs = x_row_ptr + cols * stride_x_col
        x = tl.load(x_ptrs, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols * stride_weight, mask=mask, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + cols * stride_bias, mask=mask, other=0.0).to(tl.float32)
        # TODO 8: store this block of the result (1 line).
        ...


def layernorm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Layer norm over the last axis of x (n_rows, n_cols); weight and bias (n_cols,).

    The variance is the mean of the squares (n_cols, not n_cols - 1). Everything is computed in
    float32 and rounded once, to x's dtype.

    Raises ValueError if x is not 2-D or weight or bias does not fit, TypeError if x is not one of
    DTYPES or weight or bias has another dtype.
    """
    if x.dim() != 2:
        raise ValueError(f"x must be 2-D, it has shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")
    n_rows, n_cols = x.shape
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector.shape != (n_cols,):
            raise ValueError(f"{name} has shape {tuple(vector.shape)}, it must be {(n_cols,)}")
        if vector.dtype != x.dtype:
            raise TypeError(f"{name} is {vector.dtype} and x is {x.dtype}: must be equal")
        if vector.device != x.device:
            raise ValueError(f"{name} is on {vector.device} and x on {x.device}: must be equal")

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    tensors = (x, weight, bias, out)
    strides = (x.stride(0), x.stride(1), weight.stride(0), bias.stride(0), out.stride(0))
    if n_cols > MAX_COLS_IN_REGISTERS:  # 32 warps for each row, in a few steps
        BLOCK_SIZE = min(triton.next_power_of_2(n_cols) // 4, 32768)
        long_layernorm_kernel[(n_rows,)](
            *tensors, *strides, eps, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=32
        )
        return out

    # TODO 9: HEAD, the largest power of two that is not above n_cols, and TAIL, a power of two that
    # holds the other columns, 1 if there are none (2 lines: triton.next_power_of_2). 12,000 columns
    # are 8,192 and 3,808 in a block of 4,096; one block would be 16,384.
    HEAD = ...
    TAIL = ...

    ROWS = max(1024 // HEAD, 1)  # short rows share a program
    layernorm_kernel[(triton.cdiv(n_rows, ROWS),)](
        *tensors, *strides, n_rows, eps, n_cols,
        ROWS=ROWS, HEAD=HEAD, TAIL=TAIL,
        num_warps=warps_for(ROWS * (HEAD + TAIL)),
    )
    return out


def warps_for(n_elements: int) -> int:
    """One warp for every 1,024 elements that a program holds (lesson 02), a power of two."""
    return min(max(triton.next_power_of_2(n_elements // 1024 + 1) // 2, 1), 32)


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
