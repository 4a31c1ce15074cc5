"""FlashAttention: attention in one kernel, without the matrix of scores.

    out = softmax(q @ k^T / sqrt(head_dim)) @ v

q [batch, heads, n_queries, head_dim], k and v [batch, heads, n_keys, head_dim]. With causal=True
query i sees the keys 0 to i. A program takes BLOCK_M queries of one head and walks over the keys in
blocks of BLOCK_N. For each query it keeps what lesson 03 kept for a row, the maximum m and the
denominator, the sum of the exponentials so far, and an accumulator: the sum of the rows of v,
weighted by them.
New: the online softmax around a product, and blocks that need no mask.
"""

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INPUT_PRECISION = "tf32"  # what tl.dot does with float32, as in lesson 04
MAX_HEAD_DIM = 256


@triton.jit
def attend(
    accumulator, denominator, m,
    q, k_desc, v_desc, batch, head, rows,
    first_key, last_key, n_keys, scale,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """The blocks of keys from first_key to last_key. Returns the three with them in."""
    for start in range(first_key, last_key, BLOCK_N):
        k = k_desc.load([batch, head, start, 0]).reshape(BLOCK_N, BLOCK_D)
        # TODO 1: the scores q @ k^T of this block, not scaled yet, shape (BLOCK_M, BLOCK_N)
        # (1 line: tl.dot, k.T, input_precision=INPUT_PRECISION).
        scores = ...

        if MASKED:
            keys = start + tl.arange(0, BLOCK_N)
            visible = keys[None, :] < n_keys
            if CAUSAL:
                # TODO 2: ... and, with a causal mask, not after the query (1 line).
                visible = ...

            # TODO 3: the scores, and -inf where the key is not visible (1 line: tl.where).
            scores = ...

        # TODO 4: the new maximum of each query, of the scores times scale, shape (BLOCK_M,)
        # (1 line: tl.maximum, tl.max).
        m_new = ...

        # TODO 5: the numerators exp2(scores * scale - m_new), shape (BLOCK_M, BLOCK_N). scale has
        # log2(e) in it, and exp2(x * log2(e)) is exp(x) (1 line).
        p = ...

        # TODO 6: by what the old sums shrink, now that the maximum has grown, shape (BLOCK_M,)
        # (1 line).
        shrink = ...

        # TODO 7: the new denominator of each query (1 line).
        denominator = ...

        v = v_desc.load([batch, head, start, 0]).reshape(BLOCK_N, BLOCK_D)
        # TODO 8: the accumulator, shrunk as well, plus p @ v; tl.dot wants p in v's dtype
        # (2 lines).
        accumulator = ...

        m = m_new
    return accumulator, denominator, m


def set_block_shapes(args: dict) -> None:
    """Runs before each launch: what a descriptor loads at once follows from the configuration."""
    args["q_desc"].block_shape = [1, 1, args["BLOCK_M"], args["BLOCK_D"]]
    args["k_desc"].block_shape = [1, 1, args["BLOCK_N"], args["BLOCK_D"]]
    args["v_desc"].block_shape = [1, 1, args["BLOCK_N"], args["BLOCK_D"]]


def config(BLOCK_M: int, BLOCK_N: int, num_warps: int, num_stages: int) -> triton.Config:
    blocks = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N}
    return triton.Config(blocks, num_warps, num_stages, pre_hook=set_block_shapes)


# Every one of them is right for every shape; which is fastest depends on the head and the GPU.
FOR_FEW_KEYS = config(64, 64, num_warps=4, num_stages=2)
SMALLEST = config(64, 32, num_warps=4, num_stages=2)  # for little shared memory, and for float32
CONFIGS = [
    config(128, 64, num_warps=4, num_stages=3),
    config(64, 128, num_warps=4, num_stages=2),
    config(64, 64, num_warps=4, num_stages=3),
    config(128, 128, num_warps=8, num_stages=3),
    config(128, 128, num_warps=8, num_stages=2),
    FOR_FEW_KEYS,
    SMALLEST,
]


def worth_trying(configs: list, args: dict, **options) -> list:
    """The configurations that fit in shared memory and in registers, each tile with the deepest
    pipeline that does; for few keys a single one, where tuning costs more than it saves.
    """
    q, BLOCK_D = args["q_desc"].base, options["BLOCK_D"]
    memory = 1 << 20  # bytes; the interpreter has no limit
    if q.device.type != "cpu":
        gpu = getattr(torch, q.device.type).get_device_properties(q.device)
        memory = getattr(gpu, "shared_memory_per_block_optin", 1 << 16)

    def fits(c: triton.Config) -> bool:
        BLOCK_M, BLOCK_N = c.kwargs["BLOCK_M"], c.kwargs["BLOCK_N"]
        blocks = (BLOCK_M + 2 * c.num_stages * BLOCK_N) * BLOCK_D * q.element_size()
        registers = BLOCK_M * (BLOCK_D + BLOCK_N) // (32 * c.num_warps)  # of accumulator and scores
        return blocks <= memory and registers <= 160

    fitting = [c for c in configs if fits(c)] or [SMALLEST]
    if max(args["n_queries"], args["n_keys"]) <= 256:
        return [FOR_FEW_KEYS if FOR_FEW_KEYS in fitting else SMALLEST]
    deepest = {}
    for c in fitting:
        tile = c.kwargs["BLOCK_M"], c.kwargs["BLOCK_N"]
        deepest[tile] = max(c, deepest.get(tile, c), key=lambda c: c.num_stages)
    return list(deepest.values())


def size_class_of(*sizes: int) -> int:
    """As in lesson 05: one number for sizes with as many binary digits and the same first three."""
    number = 0
    for size in sizes:
        digits = size.bit_length()
        number = number << 8 | digits << 2 | size >> max(digits - 3, 0) & 3
    return number


@triton.autotune(
    CONFIGS,
    key=["size_class", "BLOCK_D", "CAUSAL"],
    prune_configs_by={"early_config_prune": worth_trying},
)
# Compiled once for all lengths.
@triton.jit(do_not_specialize=["n_heads", "n_queries", "n_keys", "size_class"])
def flash_attention_kernel(
    q_desc, k_desc, v_desc, out_ptr,
    n_heads, n_queries, n_keys, head_dim, scale, size_class,  # size_class: for the autotuner
    CAUSAL: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):
    tiles = tl.cdiv(n_queries, BLOCK_M)
    batch_head = tl.program_id(0) // tiles
    batch = batch_head // n_heads
    head = batch_head % n_heads
    tile = tiles - 1 - tl.program_id(0) % tiles  # causal: the last queries see most, so start there
    first_row = tile * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    q = q_desc.load([batch, head, first_row, 0]).reshape(BLOCK_M, BLOCK_D)

    # TODO 9: the accumulator, the denominator and m before the first key, in float32, shapes
    # (BLOCK_M, BLOCK_D), (BLOCK_M,) and (BLOCK_M,) (3 lines: tl.zeros, tl.full).
    accumulator = ...
    denominator = ...
    m = ...

    # TODO 10: the key after the last that any of these queries sees, and the number of keys in
    # whole blocks that all of them see (6 lines). With a causal mask, all of them see the keys
    # before first_row, and none sees first_row + BLOCK_M or later.
    last_key = ...
    n_unmasked = ...

    # The masked blocks come first: the compiler then needs fewer registers than the other way.
    # Their first key is seen by every query, so m is finite from there on.
    accumulator, denominator, m = attend(
        accumulator, denominator, m,
        q, k_desc, v_desc, batch, head, rows,
        n_unmasked, last_key, n_keys, scale,
        True, CAUSAL, INPUT_PRECISION, BLOCK_N, BLOCK_D,
    )
    accumulator, denominator, m = attend(
        accumulator, denominator, m,
        q, k_desc, v_desc, batch, head, rows,
        0, n_unmasked, n_keys, scale,
        False, CAUSAL, INPUT_PRECISION, BLOCK_N, BLOCK_D,
    )

    # TODO 11: the result, shape (BLOCK_M, BLOCK_D) (1 line).
    out = ...

    dims = tl.arange(0, BLOCK_D)
    out_rows = batch_head.to(tl.int64) * n_queries + rows
    out_ptrs = out_ptr + out_rows[:, None] * head_dim + dims[None, :]
    mask = (rows[:, None] < n_queries) & (dims[None, :] < head_dim)
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=mask)


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """softmax(q @ k^T / sqrt(head_dim)) @ v for every batch and head, in one kernel.

    q [batch, heads, n_queries, head_dim], k and v [batch, heads, n_keys, head_dim] -> like q. No
    keys give zeros.

    Raises ValueError if a shape or device does not fit or head_dim is above 256; TypeError if q is
    not one of DTYPES or k or v has another dtype.
    """
    check_arguments(q, k, v)
    batch, n_heads, n_queries, head_dim = q.shape
    n_keys = k.shape[2]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0 or n_keys == 0:
        return out.zero_()

    # TODO 12: the scale of the scores, 1 / sqrt(head_dim), times log2(e), because the kernel
    # computes with exp2 (1 line: math.log2(math.e)).
    scale = ...

    def grid(meta):  # all tiles of queries of all heads on axis 0: the other axes end at 65,535
        return (batch * n_heads * triton.cdiv(n_queries, meta["BLOCK_M"]),)

    flash_attention_kernel[grid](
        *[TensorDescriptor.from_tensor(describable(t), [1, 1, 1, 1]) for t in (q, k, v)],
        out,
        n_heads, n_queries, n_keys, head_dim, scale, size_class_of(n_queries, n_keys),
        CAUSAL=causal, INPUT_PRECISION=INPUT_PRECISION,
        BLOCK_D=max(triton.next_power_of_2(head_dim), 16),
    )
    return out


def describable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a descriptor takes it: the last axis side by side, everything else at multiples
    of 16 bytes. It is copied only if it is not so.
    """
    steps = [step * tensor.element_size() for step in tensor.stride()[:3]]
    aligned = tensor.data_ptr() % 16 == 0 and all(s > 0 and s % 16 == 0 for s in steps)
    if tensor.stride(3) == 1 and aligned:
        return tensor
    *leading, head_dim = tensor.shape
    padded = tensor.new_empty((*leading, 16 * triton.cdiv(head_dim, 16)))
    return padded[..., :head_dim].copy_(tensor)


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
