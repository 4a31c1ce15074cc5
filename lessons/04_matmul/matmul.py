"""Matrix product, one tile of the result for each program.

    c[i, j] = sum_k a[i, k] * b[k, j]

a (M, K), b (K, N) -> (M, N) in a's dtype. The sum is kept in float32.
New: tl.dot on blocks, a loop over K, and masks in two directions.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# What tl.dot does with float32. "tf32": a GPU's tensor cores read 10 of its 23 bits of mantissa,
# which is fast and about as exact as float16. "ieee": all of them, without tensor cores.
INPUT_PRECISION = "tf32"


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):
    # All tiles are on axis 0 of the grid, a row of tiles after the other: the other axes end at
    # 65,535, and M may be larger than so many tiles.
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m = pid // tiles_n
    tile_n = pid % tiles_n

    # TODO 1: the rows of c that this tile covers, shape (BLOCK_M,), and its columns, shape
    # (BLOCK_N,) (2 lines: tl.arange).
    rows = ...
    cols = ...

    row_mask = rows[:, None] < M  # (BLOCK_M, 1)
    col_mask = cols[None, :] < N  # (1, BLOCK_N)
    ks = tl.arange(0, BLOCK_K).to(tl.int64)

    # TODO 2: pointers to the first block of a, shape (BLOCK_M, BLOCK_K), and to the first block of
    # b, shape (BLOCK_K, BLOCK_N) (2 lines). v[:, None] is a column, v[None, :] a row.
    a_ptrs = ...
    b_ptrs = ...

    step = tl.full((), BLOCK_K, tl.int64)  # 64-bit, so that its product with a stride is too
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        # TODO 3: load both blocks. Mask the rows or columns that do not exist, and what lies past
        # K: only K - k of the block are left. What must the masked lanes hold? (2 lines)
        a = ...
        b = ...

        # TODO 4: add the product of the two blocks to the accumulator
        # (1 line: tl.dot(a, b, accumulator, input_precision=INPUT_PRECISION)).
        accumulator = ...

        # TODO 5: move both pointers on to the next block along K (2 lines, with `step`).
        a_ptrs = ...
        b_ptrs = ...

    # TODO 6: store the tile in c, in the dtype of c, where it has rows and columns (2 lines).
    ...


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The matrix product of a (M, K) and b (K, N).

    Raises ValueError if a or b is not 2-D, if their inner sizes differ or they are on two devices,
    TypeError if a is not one of DTYPES or b has another dtype.
    """
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"a and b must be 2-D, have shapes {tuple(a.shape)}, {tuple(b.shape)}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has {a.shape[1]} columns and b has {b.shape[0]} rows: must be equal")
    if a.dtype not in DTYPES:
        raise TypeError(f"a is {a.dtype}, it must be one of {DTYPES}")
    if b.dtype != a.dtype:
        raise TypeError(f"b is {b.dtype} and a is {a.dtype}: must be equal")
    if b.device != a.device:
        raise ValueError(f"b is on {b.device} and a on {a.device}: must be one device")

    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if c.numel() == 0:
        return c

    tile = tile_for(a)
    # TODO 7: one program for each tile of c, a tuple of one number
    # (1 line: triton.cdiv, tile["BLOCK_M"], tile["BLOCK_N"]).
    grid = ...

    matmul_kernel[grid](
        a, b, c,
        M, N, K,
        a.stride(0), a.stride(1),
        b.stride(0), b.stride(1),
        c.stride(0), c.stride(1),
        INPUT_PRECISION=INPUT_PRECISION,
        **tile,
    )
    return c


def tile_for(a: torch.Tensor) -> dict[str, int]:
    """The launch's tile. A pipeline of `num_stages` blocks of a and b lies in shared memory, so the
    tile has to fit there: num_stages * BLOCK_K * (BLOCK_M + BLOCK_N) elements.
    """
    BLOCK_K = 128 // a.element_size()  # 64 halves, 32 floats: the same number of bytes
    large = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": BLOCK_K, "num_warps": 8, "num_stages": 3}
    small = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": BLOCK_K, "num_warps": 8, "num_stages": 2}
    if a.device.type == "cpu":  # the interpreter, which takes any tile
        return large
    gpu = getattr(torch, a.device.type).get_device_properties(a.device)
    fits = getattr(gpu, "shared_memory_per_block_optin", 0) >= 3 * 128 * (128 + 256)
    return large if fits else small


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
