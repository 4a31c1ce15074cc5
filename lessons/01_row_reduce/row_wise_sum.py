"""Row-wise sum: many values become one.

    out[i] = x[i, 0] + x[i, 1] + ... + x[i, n_cols - 1]

x (n_rows, n_cols) -> (n_rows,) in x's dtype, added up in float32. One program sums one row.
New: a loop over blocks, an accumulator, tl.sum, and what a masked lane holds (`other`).
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def row_wise_sum_kernel(
    x_ptr, out_ptr,
    stride_row, stride_col,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    # 64-bit, since a row number or a column number times its stride can pass 2**31.
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE).to(tl.int64)

    # TODO 1: where this program's row begins, a pointer (1 line). Rows are stride_row elements
    # apart.
    x_row_ptr = ...

    # One running sum per lane; they are added to each other only once, at the end.
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        # TODO 2: the columns of this block and which of them exist, both (BLOCK_SIZE,) (2 lines).
        cols = ...
        mask = ...

        # TODO 3: load them, and in the lanes that are masked out a value that leaves a sum as it is
        # (1 line: tl.load with `other`). Columns are stride_col elements apart.
        values = ...

        # TODO 4: add them to the running sums in float32 (1 line).
        sums = ...

    # TODO 5: the sum of the running sums, a scalar (1 line: tl.sum).
    total = ...

    tl.store(out_ptr + row, total)


def row_wise_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of each row: x (n_rows, n_cols) -> (n_rows,).

    Raises ValueError if x is not 2-D, TypeError if it is not one of DTYPES.
    """
    if x.dim() != 2:
        raise ValueError(f"x must be 2-D, it has shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")

    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    if n_rows == 0:
        return out

    # A thread's widest load is 16 bytes, 8 elements in half precision: 4 warps of 32 threads load
    # 1024 at once. Long rows give more warps something to do.
    BLOCK_SIZE = min(triton.next_power_of_2(max(n_cols, 1)), 1024)

    # TODO 6: the grid, a tuple with the number of programs (1 line). Who does what?
    grid = ...

    row_wise_sum_kernel[grid](
        x, out,
        x.stride(0), x.stride(1),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=8 if n_cols >= 4096 else max(BLOCK_SIZE // 256, 1),
    )
    return out


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
