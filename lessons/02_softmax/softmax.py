"""Softmax over rows: first with the library's tl.softmax, then by hand.

    out[i, j] = exp(x[i, j] - m[i]) / sum_k exp(x[i, k] - m[i])        m[i] = max_k x[i, k]

x (n_rows, n_cols) -> the same shape and dtype. One program holds one whole row in one block.
New: a block as long as the row, two reductions, and why the maximum is subtracted.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_COLS = 65536  # a longer row does not fit in one program's registers; lesson 03 has no limit


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr,
    stride_x_row, stride_x_col, stride_out_row,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    mask = cols < n_cols
    x_ptrs = x_ptr + row * stride_x_row + cols * stride_x_col
    out_ptrs = out_ptr + row * stride_out_row + cols

    # TODO 1: the row in float32, shape (BLOCK_SIZE,). What must the masked lanes hold, so that
    # exp() of it adds nothing to the sum? (1 line: tl.load and .to)
    x = ...

    # TODO 2: its softmax, shape (BLOCK_SIZE,) (1 line: tl.softmax).
    y = ...

    # TODO 3: store it where the row has columns (1 line).
    ...


@triton.jit
def stable_softmax_kernel(
    x_ptr, out_ptr,
    stride_x_row, stride_x_col, stride_out_row,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    mask = cols < n_cols
    x_ptrs = x_ptr + row * stride_x_row + cols * stride_x_col
    out_ptrs = out_ptr + row * stride_out_row + cols

    # TODO 4: the row in float32, as in TODO 1 (1 line).
    x = ...

    # TODO 5: x minus the row's maximum, so that the largest exponent is 0 and exp cannot overflow
    # (1 line: tl.max).
    shifted = ...

    # TODO 6: the numerator, shape (BLOCK_SIZE,), and its sum, a scalar (2 lines: tl.exp, tl.sum).
    numerator = ...
    denominator = ...

    # TODO 7: store the quotient where the row has columns (1 line).
    ...


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of x (n_rows, n_cols), with tl.softmax.

    Raises ValueError if x is not 2-D or has more than 65,536 columns, TypeError if it is not
    one of DTYPES.
    """
    return _launch(softmax_kernel, x)


def stable_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of x (n_rows, n_cols), by hand. Raises as `softmax` does."""
    return _launch(stable_softmax_kernel, x)


def _launch(kernel, x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2:
        raise ValueError(f"x must be 2-D, it has shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")
    n_rows, n_cols = x.shape
    if n_cols > MAX_COLS:
        raise ValueError(f"x has {n_cols} columns, at most {MAX_COLS} fit: see online_softmax")

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    # TODO 8: the length of a block that holds a whole row (1 line: triton.next_power_of_2).
    BLOCK_SIZE = ...

    kernel[(n_rows,)](
        x, out,
        x.stride(0), x.stride(1), out.stride(0),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        # One warp, 32 threads, for every 1,024 elements of a row that a program holds, here and in
        # the lessons after it. With fewer, a thread needs so many registers that few programs fit
        # at once; with more, each thread has too little on its way from memory.
        num_warps=min(max(BLOCK_SIZE // 1024, 1), 32),
    )
    return out


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
