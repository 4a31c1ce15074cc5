"""Optional: softmax at full speed between powers of two as well, for rows of up to 65,536 columns.

softmax.py is at the speed of a copy where a row is a power of two and neither short nor very long.
Two things hold it back elsewhere:

- A row of 12,000 in one block of 16,384 leaves a quarter of the lanes idle. Two blocks fit closer:
  a head of 8,192, the largest power of two in it, and a tail of 3,808 in a block of 4,096.
- A row of 256 is too little work for one program. One program takes several rows, as a 2-D tile.

x (n_rows, n_cols) -> the same shape and dtype.
New: 2-D blocks made of [:, None] and [None, :], and several rows in one program.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_COLS = 65536


@triton.jit
def fast_softmax_kernel(
    x_ptr, out_ptr,
    stride_x_row, stride_x_col, stride_out_row,
    n_rows,
    n_cols: tl.constexpr,  # compiled for it: where there is no tail, none is left in the code
    ROWS: tl.constexpr,  # rows of one program
    HEAD: tl.constexpr,  # the largest power of two that is not above n_cols
    TAIL: tl.constexpr,  # a block for the other columns
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    # Past the last row, do the last row again: the same values are written twice, which harms
    # nothing, and no access needs a mask for its rows.
    rows = tl.minimum(rows, n_rows - 1)
    x_row_ptrs = x_ptr + rows[:, None] * stride_x_row
    out_row_ptrs = out_ptr + rows[:, None] * stride_out_row

    # TODO 1: the head's columns, shape (1, HEAD), and the head in float32, shape (ROWS, HEAD)
    # (2 lines). Every column of the head exists.
    head_cols = ...
    head = ...

    # Both loads are issued before the first reduction: a reduction waits for what it reduces, and
    # the second load would wait with it.
    # TODO 2: the same for the tail, which begins at column HEAD and needs a mask (4 lines).
    tail_cols = ...
    tail_mask = ...
    tail = ...

    # TODO 3: the maximum of each row of the head, shape (ROWS,) (1 line: tl.max along axis 1).
    row_max = ...

    # TODO 4: ... and of the tail (1 line: tl.maximum).
    row_max = ...

    # TODO 5: the head's numerator, shape (ROWS, HEAD), and the sum of each row (2 lines).
    head_numerator = ...
    denominator = ...

    # TODO 6: the tail's numerator, its share of the sum, and its part of the result (3 lines).
    denominator = ...

    # TODO 7: store the head's part of the result (1 line).
    ...


def fast_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of x (n_rows, n_cols).

    Raises ValueError if x is not 2-D or has more than 65,536 columns, TypeError if it is not
    one of DTYPES.
    """
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

    # TODO 8: HEAD, the largest power of two that is not above n_cols, and TAIL, a power of two that
    # holds the other columns, 1 if there are none (2 lines: triton.next_power_of_2).
    HEAD = ...
    TAIL = ...

    ROWS = max(1024 // HEAD, 1)  # short rows share a program
    fast_softmax_kernel[(triton.cdiv(n_rows, ROWS),)](
        x, out,
        x.stride(0), x.stride(1), out.stride(0),
        n_rows, n_cols,
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
