"""Attention in three kernels: scores, softmax, weighted sum.

    scores = q @ k^T / sqrt(head_dim)                [batch, heads, n_queries, n_keys]
    probs  = softmax(scores) over the keys           the same
    out    = probs @ v                               [batch, heads, n_queries, head_dim]

q [batch, heads, n_queries, head_dim], k and v [batch, heads, n_keys, head_dim]. With causal=True
query i sees the keys 0 to i.
New: a batch of products in one launch, and what two matrices of n_queries x n_keys cost.
"""

import math

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INPUT_PRECISION = "tf32"  # what tl.dot does with float32, as in lesson 04
MAX_KEYS = 65536  # a row of scores is held in one block, as in lesson 02
MAX_HEAD_DIM = 256


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, scores_ptr,
    stride_q_batch, stride_q_head, stride_q_row, stride_q_dim,
    stride_k_batch, stride_k_head, stride_k_row, stride_k_dim,
    n_heads, n_queries, n_keys, head_dim, scale,
    CAUSAL: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):
    tiles_n = tl.cdiv(n_keys, BLOCK_N)
    tiles = tl.cdiv(n_queries, BLOCK_M) * tiles_n
    pid = tl.program_id(0).to(tl.int64)
    tile = pid % tiles
    # TODO 1: which batch and which head this program works for; all tiles of one head follow each
    # other, and all heads of one batch (3 lines: // and %).
    batch_head = ...
    batch = ...
    head = ...

    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)  # queries
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)  # keys
    q_ptr += batch * stride_q_batch + head * stride_q_head
    k_ptr += batch * stride_k_batch + head * stride_k_head
    q_row_ptrs = q_ptr + rows[:, None] * stride_q_row
    k_row_ptrs = k_ptr + cols[None, :] * stride_k_row

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for d in range(0, head_dim, BLOCK_D):
        dims = d + tl.arange(0, BLOCK_D).to(tl.int64)
        q_mask = (rows[:, None] < n_queries) & (dims[None, :] < head_dim)
        k_mask = (dims[:, None] < head_dim) & (cols[None, :] < n_keys)
        # TODO 2: a block of q, shape (BLOCK_M, BLOCK_D), and of k transposed, shape
        # (BLOCK_D, BLOCK_N) (2 lines). k_row_ptrs has one key in each column already.
        q = ...
        k_t = ...

        accumulator = tl.dot(q, k_t, accumulator, input_precision=INPUT_PRECISION)

    # TODO 3: the scores, scaled; with CAUSAL, -inf where the key comes after the query (3 lines:
    # tl.where).
    scores = ...

    scores_ptrs = scores_ptr + (batch_head * n_queries + rows[:, None]) * n_keys + cols[None, :]
    mask = (rows[:, None] < n_queries) & (cols[None, :] < n_keys)
    tl.store(scores_ptrs, scores.to(scores_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_kernel(scores_ptr, probs_ptr, n_keys, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_keys
    # TODO 4: the softmax of one row of scores, stored in probs (5 lines, as in lesson 02).
    ...


@triton.jit
def weighted_sum_kernel(
    probs_ptr, v_ptr, out_ptr,
    stride_v_batch, stride_v_head, stride_v_row, stride_v_dim,
    n_heads, n_queries, n_keys, head_dim,
    CAUSAL: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):
    tiles = tl.cdiv(n_queries, BLOCK_M)  # one tile is as wide as the head
    pid = tl.program_id(0).to(tl.int64)
    batch_head = pid // tiles
    batch = batch_head // n_heads
    head = batch_head % n_heads
    first_row = (pid % tiles) * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    row_mask = rows[:, None] < n_queries
    dim_mask = dims[None, :] < head_dim
    probs_row_ptrs = probs_ptr + (batch_head * n_queries + rows[:, None]) * n_keys
    v_ptr += batch * stride_v_batch + head * stride_v_head
    v_dim_ptrs = v_ptr + dims[None, :] * stride_v_dim

    last_key = n_keys
    if CAUSAL:
        # TODO 5: past the last query of this tile every probability is 0: where may the loop end?
        # (1 line: tl.minimum).
        last_key = ...

    accumulator = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for k in range(0, last_key, BLOCK_K):
        keys = k + tl.arange(0, BLOCK_K).to(tl.int64)
        # TODO 6: a block of the probabilities, shape (BLOCK_M, BLOCK_K), one of v, shape
        # (BLOCK_K, BLOCK_D), and their product added (5 lines).
        accumulator = ...

    out_ptrs = out_ptr + (batch_head * n_queries + rows[:, None]) * head_dim + dims[None, :]
    tl.store(out_ptrs, accumulator.to(out_ptr.dtype.element_ty), mask=row_mask & dim_mask)


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """softmax(q @ k^T / sqrt(head_dim)) @ v for every batch and head, in three kernels.

    q [batch, heads, n_queries, head_dim], k and v [batch, heads, n_keys, head_dim] -> like q.
    Scores and probabilities are kept in q's dtype. No keys give zeros.

    Raises ValueError if a shape or device does not fit, if head_dim is above 256 or n_keys above
    65,536; TypeError if q is not one of DTYPES or k or v has another dtype.
    """
    check_arguments(q, k, v)
    batch, n_heads, n_queries, head_dim = q.shape
    n_keys = k.shape[2]
    if n_keys > MAX_KEYS:
        raise ValueError(f"k has {n_keys} keys, at most {MAX_KEYS} fit: see flash_attention")

    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0 or n_keys == 0:
        return out.zero_()

    # TODO 7: memory for the scores and for the probabilities, in q's dtype (2 lines). Count the
    # bytes for 16,384 queries and keys.
    scores = ...
    probs = ...

    sizes = (n_heads, n_queries, n_keys, head_dim)
    options = {"CAUSAL": causal, "INPUT_PRECISION": INPUT_PRECISION, "num_warps": 8}
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64
    if q.dtype == torch.float32:  # twice the bytes: half the tile
        BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
    tiles_m = triton.cdiv(n_queries, BLOCK_M)
    BLOCK_D = max(triton.next_power_of_2(head_dim), 16)

    scores_kernel[(batch * n_heads * tiles_m * triton.cdiv(n_keys, BLOCK_N),)](
        q, k, scores, *q.stride(), *k.stride(), *sizes, 1 / math.sqrt(head_dim),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=min(BLOCK_D, BLOCK_K), **options,
    )
    BLOCK_SIZE = triton.next_power_of_2(n_keys)
    softmax_kernel[(batch * n_heads * n_queries,)](
        scores, probs, n_keys,
        BLOCK_SIZE=BLOCK_SIZE, num_warps=min(max(BLOCK_SIZE // 1024, 1), 32),
    )
    weighted_sum_kernel[(batch * n_heads * tiles_m,)](
        probs, v, out, *v.stride(), *sizes,
        BLOCK_M=BLOCK_M, BLOCK_K=BLOCK_K, BLOCK_D=BLOCK_D, **options,
    )
    return out


def check_arguments(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise what the docstring above says."""
    if q.dim() != 4:
        raise ValueError(f"q must be [batch, heads, n_queries, head_dim], it is {tuple(q.shape)}")
    if q.dtype not in DTYPES:
        raise TypeError(f"q is {q.dtype}, it must be one of {DTYPES}")
    if q.shape[3] > MAX_HEAD_DIM:
        raise ValueError(f"q has a head_dim of {q.shape[3]}, at most {MAX_HEAD_DIM} is supported")
    for name, other in (("k", k), ("v", v)):
        if other.dim() != 4 or other.shape[:2] != q.shape[:2] or other.shape[3] != q.shape[3]:
            raise ValueError(f"{name} is {tuple(other.shape)} and q {tuple(q.shape)}: must agree")
        if other.dtype != q.dtype:
            raise TypeError(f"{name} is {other.dtype} and q is {q.dtype}: must be equal")
        if other.device != q.device:
            raise ValueError(f"{name} is on {other.device} and q on {q.device}: must be one device")
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"k has {k.shape[2]} keys and v has {v.shape[2]} rows: must be equal")


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
