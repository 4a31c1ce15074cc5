"""Optional: LayerNorm, a linear layer and GELU in one kernel.

    out = gelu(normed @ weight),   normed = (x - mean) * rsqrt(variance + eps)

x (M, K), weight (K, N) -> (M, N) in x's dtype. The norm has no weight or bias of its own; GELU is
the exact one. A program makes one tile of the result, as in lesson 04; first it finds mean and
variance of its rows.
New: statistics of blocks that are merged as they come, and work between a load and tl.dot.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
EPS = 1e-5
INPUT_PRECISION = "tf32"  # what tl.dot does with float32, as in lesson 04


@triton.jit
def fused_layernorm_linear_gelu_kernel(
    x_ptr, weight_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_om,
    EPS: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    # Programs that follow each other share their rows, which are then in the L2 cache.
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (pid // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (pid % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_mask = rows[:, None] < M
    col_mask = cols[None, :] < N
    x_row_ptrs = x_ptr + rows[:, None] * stride_xm
    weight_col_ptrs = weight_ptr + cols[None, :] * stride_wn

    mean = tl.zeros((BLOCK_M,), dtype=tl.float32)  # of the columns so far
    squares = tl.zeros((BLOCK_M,), dtype=tl.float32)  # their squared distances from it, summed
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K).to(tl.int64)
        k_mask = ks[None, :] < K
        x = tl.load(x_row_ptrs + ks[None, :] * stride_xk, mask=row_mask & k_mask, other=0.0)
        x = x.to(tl.float32)
        count = tl.minimum(K - k, BLOCK_K)  # columns of this block
        # TODO 1: the mean of this block of each row, shape (BLOCK_M,), and its squared distances
        # from that mean, summed (3 lines: tl.sum(..., axis=1), tl.where).
        block_mean = ...
        block_squares = ...

        # TODO 2: merge them with what the k columns before gave (3 lines). With d the difference of
        # the two means, the squares gain d * d * k * count / (k + count), and the mean moves by
        # d * count / (k + count). (Chan, Golub and LeVeque, 1979.)
        squares = ...
        mean = ...

    rstd = tl.rsqrt(squares / K + EPS)

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K).to(tl.int64)
        x_mask = row_mask & (ks[None, :] < K)
        x = tl.load(x_row_ptrs + ks[None, :] * stride_xk, mask=x_mask, other=0.0)
        weight_ptrs = weight_col_ptrs + ks[:, None] * stride_wk
        weight = tl.load(weight_ptrs, mask=(ks[:, None] < K) & col_mask, other=0.0)
        # TODO 3: the block of x, normed in float32 (1 line). Lanes past K may hold anything finite:
        # the weight is 0 there.
        normed = ...

        # TODO 4: add the product to the accumulator, as in lesson 04; tl.dot wants both blocks in
        # one dtype (1 line).
        accumulator = ...

    # TODO 5: the exact GELU of the accumulator (1 line: tl.erf; 1 / sqrt(2) is 0.7071067811865476).
    out = ...

    # TODO 6: store the tile where it has rows and columns (2 lines).
    ...


def fused_layernorm_linear_gelu(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """gelu(layer_norm(x) @ weight), x (M, K), weight (K, N); layer_norm with eps 1e-5.

    Raises ValueError if x or weight is not 2-D, if K differs or they are on two devices; TypeError
    if x is not one of DTYPES or weight has another dtype.
    """
    if x.dim() != 2 or weight.dim() != 2:
        raise ValueError(f"x, weight must be 2-D, not {tuple(x.shape)}, {tuple(weight.shape)}")
    if x.shape[1] != weight.shape[0]:
        raise ValueError(f"x has {x.shape[1]} columns, weight {weight.shape[0]} rows: must agree")
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")
    if weight.dtype != x.dtype:
        raise TypeError(f"weight is {weight.dtype} and x is {x.dtype}: must be equal")
    if weight.device != x.device:
        raise ValueError(f"weight is on {weight.device} and x on {x.device}: must be one device")

    M, K = x.shape
    N = weight.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if K == 0:  # nothing to norm and nothing to multiply
        return out.zero_()

    BLOCK_M, BLOCK_N = 128, 128
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    fused_layernorm_linear_gelu_kernel[grid](
        x, weight, out,
        M, N, K,
        x.stride(0), x.stride(1),
        weight.stride(0), weight.stride(1),
        out.stride(0),
        EPS=EPS, INPUT_PRECISION=INPUT_PRECISION,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=128 // x.element_size(),
        num_warps=8, num_stages=3,
    )
    return out


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
