"""Online softmax: rows of any length, one block at a time.

A row that does not fit in one block is seen block by block. Two numbers are kept of what was seen:

    m           = the maximum so far
    denominator = the sum of exp(x - m) so far

When a block brings a new maximum, the denominator, which was measured against the old one, is
corrected:

    m_new = max(m, max(block))
    denominator_new = denominator * exp(m - m_new) + sum(exp(block - m_new))

x (n_rows, n_cols) -> the same shape and dtype, any n_cols. `online_softmax` is one kernel, a
program for each row. `split_online_softmax` spreads a row over many programs, in three kernels.
New: a loop that carries two numbers, and merging partial results.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def online_softmax_kernel(
    x_ptr, out_ptr,
    stride_x_row, stride_x_col, stride_out_row,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    x_row_ptr = x_ptr + row * stride_x_row
    out_row_ptr = out_ptr + row * stride_out_row

    # TODO 1: m and the denominator before anything was seen (2 lines). Floats: a loop keeps the
    # type it starts with.
    m = ...
    denominator = ...

    # First pass: m and the denominator of the whole row.
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        # The second pass reads the row again: ask the cache to keep it.
        x = tl.load(
            x_row_ptr + cols * stride_x_col,
            mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_last",
        ).to(tl.float32)

        # TODO 2: the maximum of what was seen and this block, a scalar
        # (1 line: tl.maximum, tl.max).
        m_new = ...

        # While everything seen is -inf, so is m_new, and (-inf) - (-inf) is NaN. Subtract 0 then.
        safe_m = tl.where(m_new == -float("inf"), 0.0, m_new)

        # TODO 3: the denominator for the new maximum: the old one corrected, plus this block's sum
        # (1 line). Subtract safe_m.
        denominator = ...

        m = m_new

    # Second pass: read the row again and write the result.
    scale = 1.0 / denominator
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x = tl.load(
            x_row_ptr + cols * stride_x_col,
            mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_first",
        ).to(tl.float32)

        # TODO 4: store this block of the result (1 line).
        ...


@triton.jit
def chunk_stats_kernel(
    x_ptr, m_ptr, denominator_ptr,  # m and denominator of each chunk, (n_rows, n_chunks)
    stride_x_row, stride_x_col,
    n_cols, n_chunks,
    CHUNK_SIZE: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)

    # TODO 5: the row and the chunk that this program handles (2 lines). Programs count through the
    # chunks of row 0, then those of row 1, and so on.
    row = ...
    chunk = ...

    cols = chunk * CHUNK_SIZE + tl.arange(0, CHUNK_SIZE)
    x = tl.load(
        x_ptr + row * stride_x_row + cols * stride_x_col, mask=cols < n_cols, other=-float("inf")
    ).to(tl.float32)

    # TODO 6: m and the denominator of this chunk alone, two scalars. A chunk of -inf only has a
    # denominator of 0 (3 lines).
    m = ...
    denominator = ...

    tl.store(m_ptr + pid, m)
    tl.store(denominator_ptr + pid, denominator)


@triton.jit
def combine_kernel(
    m_ptr, denominator_ptr, row_m_ptr, row_denominator_ptr,  # row_m and row_denominator: (n_rows,)
    n_chunks,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    chunks = tl.arange(0, BLOCK_SIZE)
    mask = chunks < n_chunks
    m = tl.load(m_ptr + row * n_chunks + chunks, mask=mask, other=-float("inf"))
    denominator = tl.load(denominator_ptr + row * n_chunks + chunks, mask=mask, other=0.0)

    # TODO 7: m and the denominator of the whole row from those of its chunks, two scalars. Each
    # chunk's denominator was measured against its own m (3 lines).
    row_m = ...
    row_denominator = ...

    tl.store(row_m_ptr + row, row_m)
    tl.store(row_denominator_ptr + row, row_denominator)


@triton.jit
def normalize_kernel(
    x_ptr, out_ptr, row_m_ptr, row_denominator_ptr,
    stride_x_row, stride_x_col, stride_out_row,
    n_cols, n_blocks,
    BLOCK_SIZE: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    row = pid // n_blocks
    cols = (pid % n_blocks) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    m = tl.load(row_m_ptr + row)
    scale = 1.0 / tl.load(row_denominator_ptr + row)
    x = tl.load(
        x_ptr + row * stride_x_row + cols * stride_x_col, mask=mask, other=-float("inf")
    ).to(tl.float32)

    # TODO 8: store this block of the result (1 line).
    ...


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of x (n_rows, n_cols), one program a row.

    Raises ValueError if x is not 2-D, TypeError if it is not one of DTYPES.
    """
    _check(x)
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    BLOCK_SIZE = min(triton.next_power_of_2(n_cols), 8192)
    online_softmax_kernel[(n_rows,)](
        x, out,
        x.stride(0), x.stride(1), out.stride(0),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=max(BLOCK_SIZE // 1024, 1),
    )
    return out


def split_online_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of x (n_rows, n_cols), many programs a row.

    Raises as `online_softmax` does. For few and very long rows: one program a row would leave most
    of the GPU idle. Programs of one launch cannot wait for each other, so each step is a launch of
    its own.
    """
    _check(x)
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    CHUNK_SIZE = min(triton.next_power_of_2(n_cols), 8192)
    n_chunks = triton.cdiv(n_cols, CHUNK_SIZE)
    m = torch.empty((n_rows, n_chunks), dtype=torch.float32, device=x.device)
    denominator = torch.empty_like(m)
    row_m = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    row_denominator = torch.empty_like(row_m)
    chunk_stats_kernel[(n_rows * n_chunks,)](
        x, m, denominator,
        x.stride(0), x.stride(1),
        n_cols, n_chunks,
        CHUNK_SIZE=CHUNK_SIZE,
        num_warps=max(CHUNK_SIZE // 1024, 1),
    )
    combine_kernel[(n_rows,)](
        m, denominator, row_m, row_denominator,
        n_chunks,
        BLOCK_SIZE=triton.next_power_of_2(n_chunks),
    )
    BLOCK_SIZE = min(triton.next_power_of_2(n_cols), 1024)
    n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)
    normalize_kernel[(n_rows * n_blocks,)](
        x, out, row_m, row_denominator,
        x.stride(0), x.stride(1), out.stride(0),
        n_cols, n_blocks,
        BLOCK_SIZE=BLOCK_SIZE,
    )
    return out


def _check(x: torch.Tensor) -> None:
    if x.dim() != 2:
        raise ValueError(f"x must be 2-D, it has shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
