"""Row-wise maximum: the same shape of kernel, another identity.

    out[i] = max(x[i, 0], x[i, 1], ..., x[i, n_cols - 1])

x (n_rows, n_cols) -> (n_rows,) in x's dtype. One program handles one row.
New: tl.max reduces a block, tl.maximum compares two; the value that a maximum ignores.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def row_wise_max_kernel(
    x_ptr, out_ptr,
    stride_row, stride_col,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    x_row_ptr = x_ptr + row * stride_row

    # TODO 1: one running maximum per lane, (BLOCK_SIZE,) in float32, before anything was seen
    # (1 line: tl.full). Which value does every other value beat?
    maxima = ...

    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        mask = cols < n_cols

        # TODO 2: load the block, and in the masked lanes a value that leaves a maximum as it is
        # (1 line: tl.load).
        values = ...

        # TODO 3: the larger of the old maximum and the new value, lane by lane
        # (1 line: tl.maximum).
        maxima = ...

    # TODO 4: the largest of the running maxima, a scalar, and store it as the row's result
    # (2 lines: tl.max, tl.store). out is contiguous.
    ...


def row_wise_max(x: torch.Tensor) -> torch.Tensor:
    """The maximum of each row: x (n_rows, n_cols) -> (n_rows,).

    Raises ValueError if x is not 2-D or has no columns, TypeError if it is not one of DTYPES.
    """
    if x.dim() != 2:
        raise ValueError(f"x must be 2-D, it has shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")

    n_rows, n_cols = x.shape
    if n_cols == 0:
        raise ValueError(f"x has no columns, shape {tuple(x.shape)}: nothing has no maximum")
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    if n_rows == 0:
        return out

    BLOCK_SIZE = min(triton.next_power_of_2(n_cols), 1024)
    row_wise_max_kernel[(n_rows,)](
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
