"""Matrix product at full speed: tensor descriptors, an order of tiles that reuses the L2 cache,
a bias added on the way, and a tile chosen by measuring.

    c[i, j] = sum_k a[i, k] * b[k, j] + bias[j]

a (M, K), b (K, N), bias (N,) or None -> (M, N) in a's dtype. The sum is kept in float32.
New: TensorDescriptor, @triton.autotune, a helper function in a kernel, and the grid as a function.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INPUT_PRECISION = "tf32"  # what tl.dot does with float32, as in lesson 04


def set_block_shapes(args: dict) -> None:
    """Runs before each launch: what a descriptor loads at once follows from the configuration."""
    BLOCK_M, BLOCK_N, BLOCK_K = args["BLOCK_M"], args["BLOCK_N"], args["BLOCK_K"]
    # TODO 1: the block of a, [rows, columns], and that of b (2 lines).
    a_block = ...
    b_block = ...

    args["a_desc"].block_shape = a_block[::-1] if args["A_TRANSPOSED"] else a_block
    args["b_desc"].block_shape = b_block[::-1] if args["B_TRANSPOSED"] else b_block


def config(BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, num_stages) -> triton.Config:
    blocks = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "BLOCK_K": BLOCK_K, "GROUP_M": GROUP_M}
    return triton.Config(blocks, num_warps, num_stages, pre_hook=set_block_shapes)


SMALLEST = config(64, 64, 32, 8, num_warps=4, num_stages=3)  # fits every GPU, and small matrices
CONFIGS = [
    config(128, 128, 64, 8, num_warps=8, num_stages=3),
    config(128, 256, 64, 8, num_warps=8, num_stages=3),
    config(128, 256, 64, 1, num_warps=8, num_stages=3),
    config(128, 256, 64, 8, num_warps=8, num_stages=4),
    config(128, 128, 64, 8, num_warps=4, num_stages=4),
    config(128, 256, 32, 8, num_warps=8, num_stages=3),  # for float32
    config(128, 128, 32, 8, num_warps=8, num_stages=3),
    SMALLEST,
]


def worth_trying(configs: list, args: dict, **options) -> list:
    """The configurations whose blocks fit in shared memory and are not larger than the matrices."""
    a, M, N = args["a_desc"].base, args["M"], args["N"]
    memory = 1 << 20  # bytes; the interpreter has no limit
    if a.device.type != "cpu":
        gpu = getattr(torch, a.device.type).get_device_properties(a.device)
        memory = getattr(gpu, "shared_memory_per_block_optin", 1 << 16)

    def fits(c: triton.Config) -> bool:
        block = c.kwargs["BLOCK_K"] * (c.kwargs["BLOCK_M"] + c.kwargs["BLOCK_N"]) * a.element_size()
        large = c.kwargs["BLOCK_M"] > max(M, 64) or c.kwargs["BLOCK_N"] > max(N, 64)
        return block * c.num_stages <= memory and not large

    return [c for c in configs if fits(c)] or [SMALLEST]


def size_class_of(*sizes: int) -> int:
    """One number for all sizes with as many binary digits, of which the first three are the same:
    what is tuned for, so that 1001, 1002 and 1003 are tuned for once.
    """
    number = 0
    for size in sizes:
        digits = size.bit_length()
        number = number << 8 | digits << 2 | size >> max(digits - 3, 0) & 3
    return number


@triton.jit
def load_block(desc, row, col, TRANSPOSED: tl.constexpr):
    """The block at [row, col] of a matrix, of which desc may describe the transpose."""
    if TRANSPOSED:
        return desc.load([col, row]).T
    else:
        return desc.load([row, col])


@triton.autotune(
    CONFIGS, key=["size_class"], prune_configs_by={"early_config_prune": worth_trying}
)
@triton.jit(do_not_specialize=["size_class"])
def advanced_matmul_kernel(
    a_desc, b_desc, bias_ptr, c_ptr,
    M, N, K, size_class,  # size_class: only for the autotuner
    stride_bias, stride_cm,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)

    # Programs that run at the same time should share blocks of a and b, which are then in the L2
    # cache. So the tiles are visited in groups, GROUP_M tiles high: down a column of the group,
    # then the next column.
    group = pid // (GROUP_M * tiles_n)
    in_group = pid % (GROUP_M * tiles_n)
    # TODO 2: the first row of tiles in this group; how many rows of tiles it has (the last group
    # may have fewer than GROUP_M); and this program's tile (4 lines: tl.minimum, %, //).
    tile_m = ...
    tile_n = ...

    row = tile_m * BLOCK_M
    col = tile_n * BLOCK_N
    cols = col.to(tl.int64) + tl.arange(0, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if HAS_BIAS:
        # TODO 3: the bias of these columns in float32, shape (BLOCK_N,), and the accumulator that
        # starts with it in every row (2 lines).
        accumulator = ...

    for k in range(0, K, BLOCK_K):
        # TODO 4: the block of a at [row, k] and that of b at [k, col] (2 lines: load_block). There
        # is no mask: what lies outside of the matrix comes as 0.
        a = ...
        b = ...

        # TODO 5: add their product to the accumulator, as in lesson 04 (1 line).
        accumulator = ...

    # TODO 6: store the tile (4 lines: the 64-bit rows, the pointers, the mask, the store). A
    # descriptor wants rows that begin at multiples of 16 bytes; c may have others.
    ...


def advanced_matmul(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The matrix product of a (M, K) and b (K, N), plus bias (N,) in every row if it is given.

    Raises ValueError if a shape or a device does not fit, TypeError if a is not one of DTYPES or
    b or bias has another dtype.
    """
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"a and b must be 2-D, have shapes {tuple(a.shape)}, {tuple(b.shape)}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has {a.shape[1]} columns and b has {b.shape[0]} rows: must be equal")
    if a.dtype not in DTYPES:
        raise TypeError(f"a is {a.dtype}, it must be one of {DTYPES}")
    for name, other in (("b", b), ("bias", bias)):
        if other is not None and other.dtype != a.dtype:
            raise TypeError(f"{name} is {other.dtype} and a is {a.dtype}: must be equal")
        if other is not None and other.device != a.device:
            raise ValueError(f"{name} is on {other.device} and a on {a.device}: must be one device")
    M, K = a.shape
    N = b.shape[1]
    if bias is not None and bias.shape != (N,):
        raise ValueError(f"bias has shape {tuple(bias.shape)}, it must be {(N,)}, b's columns")

    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if c.numel() == 0:
        return c
    if K == 0:  # nothing to multiply, and a descriptor of nothing does not exist
        return c.copy_(bias) if bias is not None else c.zero_()

    a, a_transposed = describable(a)
    b, b_transposed = describable(b)
    # TODO 7: one program for each tile (1 line). How large the tiles are is known when a
    # configuration has been chosen, so the grid is a function of it: lambda meta: (...,), with
    # meta["BLOCK_M"] and meta["BLOCK_N"].
    grid = ...

    advanced_matmul_kernel[grid](
        TensorDescriptor.from_tensor(a, [1, 1]),  # see set_block_shapes
        TensorDescriptor.from_tensor(b, [1, 1]),
        bias, c,
        M, N, K, size_class_of(M, N, K),
        0 if bias is None else bias.stride(0), c.stride(0),
        A_TRANSPOSED=a_transposed, B_TRANSPOSED=b_transposed, HAS_BIAS=bias is not None,
        INPUT_PRECISION=INPUT_PRECISION,
    )
    return c


def describable(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The matrix or its transpose, as a descriptor takes it, and whether it is the transpose.

    A descriptor wants neighbours in a row side by side, and rows that begin at multiples of 16
    bytes. A matrix that is neither way so is copied.
    """
    for candidate, transposed in ((matrix, False), (matrix.T, True)):
        row_bytes = candidate.stride(0) * candidate.element_size()
        aligned = candidate.data_ptr() % 16 == 0 and row_bytes % 16 == 0
        if candidate.stride(1) == 1 and aligned and candidate.stride(0) >= candidate.shape[1]:
            return candidate, transposed
    rows, n_cols = matrix.shape
    padded = matrix.new_empty((rows, 16 * triton.cdiv(n_cols, 16)))
    return padded[:, :n_cols].copy_(matrix), False


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
