"""FlashAttention at the full speed of a Hopper GPU, written in Gluon.

    out = softmax(q @ k^T / sqrt(head_dim)) @ v

The same function as in flash_attention.py, and the same loop. What Triton decides there is written
out here, in the language beneath it: which warps do what, where a tile lies, what waits for what.
So it can say what the lesson's kernel cannot:

- One warp only loads. The others compute no addresses, and the next tile of queries is there when
  this one is done.
- The groups of warps that compute are not in step: one takes exponentials, another multiplies.
- Within a group, one block's product with v runs while the next block's exponentials are taken.

It is for float16 and bfloat16 and a head_dim up to 128. Anything else, and any other GPU, gets the
lesson's kernel. Gluon is an experimental part of Triton. The kernel has been run with triton 3.6
and 3.7.
"""

import functools
import math
import os
import sys

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flash_attention as lesson  # the file beside this one

TARGET = "sm_90"  # what the kernel of this file is for: Hopper
ROWS = gl.constexpr(64)  # queries of one group: what an instruction of the tensor cores takes
BLOCK_N = gl.constexpr(128)  # keys of one block
LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=4)  # of any tile


@gluon.jit
def tiles_of(item, n_queries, CAUSAL: gl.constexpr, GROUPS: gl.constexpr):
    """The head of a piece of work and its tiles of queries: low and, with a causal mask, high.

    The first tile sees the fewest keys and the last one the most, the second few and the last but
    one many. All pairs have about the same work, so that all multiprocessors are done at about the
    same time.
    """
    tiles = gl.cdiv(n_queries, GROUPS * ROWS)
    if CAUSAL:
        pairs = (tiles + 1) // 2
        batch_head = item // pairs
        low = item % pairs
        high = tiles - 1 - low
    else:
        batch_head = item // tiles
        low = item % tiles
        high = low
    return batch_head, low, high


@gluon.jit
def blocks_of(tile, n_keys, CAUSAL: gl.constexpr, GROUPS: gl.constexpr):
    """The number of blocks of keys that a tile of queries sees."""
    last_key = n_keys
    if CAUSAL:
        last_key = gl.minimum(n_keys, (tile + 1) * GROUPS * ROWS)
    return gl.cdiv(last_key, BLOCK_N)


@gluon.jit
def matrix(smem, index):
    """One tile of a buffer without its axes of length 1, as the tensor cores want it."""
    return smem.index(index).reshape([smem.shape[3], smem.shape[4]])


@gluon.jit
def load(descs, smem, full, empty, sizes, CAUSAL: gl.constexpr, GROUPS: gl.constexpr):
    """The warp that loads. A buffer is refilled when every group has said that it is empty.

    A barrier has a phase, 0 or 1, that turns when all that it counts has arrived. Use n of a slot,
    counted from 0, waits until phase n % 2 of `full` is over; a refill waits until the phase before
    of `empty` is. Before the first use, that one counts as over.
    """
    q_desc, k_desc, v_desc, _ = descs
    q_smem, k_smem, v_smem, _ = smem
    q_full, k_full, v_full = full
    q_empty, k_empty, v_empty = empty
    n_heads, n_queries, n_keys, n_items = sizes
    STAGES: gl.constexpr = k_smem.shape[0]
    i = 0  # blocks of keys so far
    t = 0  # tiles of queries so far
    for item in range(gl.program_id(0), n_items, gl.num_programs(0)):
        batch_head, low, high = tiles_of(item, n_queries, CAUSAL, GROUPS)
        batch = batch_head // n_heads
        head = batch_head % n_heads
        for tile in range(low, high + 1, gl.maximum(high - low, 1)):
            mbarrier.wait(q_empty.index(t % 2), t // 2 & 1 ^ 1)
            mbarrier.expect(q_full.index(t % 2), GROUPS * q_desc.block_type.nbytes)
            for group in gl.static_range(GROUPS):
                tma.async_copy_global_to_shared(
                    q_desc, [batch, head, (tile * GROUPS + group) * ROWS, 0],
                    q_full.index(t % 2), q_smem.index(t % 2 * GROUPS + group),
                )
            t += 1
            blocks = blocks_of(tile, n_keys, CAUSAL, GROUPS)
            for block in range(blocks):
                key = (blocks - 1 - block) * BLOCK_N  # the last block first: it may need a mask
                slot = i % STAGES
                was_empty = i // STAGES & 1 ^ 1
                mbarrier.wait(k_empty.index(slot), was_empty)
                mbarrier.expect(k_full.index(slot), k_desc.block_type.nbytes)
                tma.async_copy_global_to_shared(
                    k_desc, [batch, head, key, 0], k_full.index(slot), k_smem.index(slot)
                )
                mbarrier.wait(v_empty.index(slot), was_empty)
                mbarrier.expect(v_full.index(slot), v_desc.block_type.nbytes)
                tma.async_copy_global_to_shared(
                    v_desc, [batch, head, key, 0], v_full.index(slot), v_smem.index(slot)
                )
                i += 1


@gluon.jit
def attend(
    descs, smem, full, empty, sizes, scale,
    CAUSAL: gl.constexpr, GROUPS: gl.constexpr, GROUP: gl.constexpr,
):
    """A group of four warps that computes, for ROWS queries of each tile.

    Scores, numerators and the accumulator stay in registers. A layout says which thread holds which
    elements. SCORES and OUT are as the tensor cores leave them, LEFT is as they take a left factor:
    the same threads hold the same rows, so that nothing moves between them.
    """
    q_smem, k_smem, v_smem, out_smem = smem
    q_full, k_full, v_full = full
    q_empty, k_empty, v_empty = empty
    n_heads, n_queries, n_keys, n_items = sizes
    out_desc = descs[3]
    dtype: gl.constexpr = q_smem.dtype
    STAGES: gl.constexpr = k_smem.shape[0]
    BLOCK_D: gl.constexpr = k_smem.shape[4]
    TWO_MASKED: gl.constexpr = CAUSAL and GROUPS * ROWS > BLOCK_N
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    OUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, OUT, 2)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, SCORES)
    nothing = gl.zeros([ROWS, BLOCK_N], gl.float32, SCORES)
    columns = gl.arange(0, BLOCK_N, gl.SliceLayout(0, SCORES))
    i = 0
    t = 0
    for item in range(gl.program_id(0), n_items, gl.num_programs(0)):
        batch_head, low, high = tiles_of(item, n_queries, CAUSAL, GROUPS)
        batch = batch_head // n_heads
        head = batch_head % n_heads
        for tile in range(low, high + 1, gl.maximum(high - low, 1)):
            first_row = (tile * GROUPS + GROUP) * ROWS
            blocks = blocks_of(tile, n_keys, CAUSAL, GROUPS)

            # The last block, or two, may need a mask: every query of the tile sees all before.
            q = matrix(q_smem, t % 2 * GROUPS + GROUP)
            k = matrix(k_smem, i % STAGES)
            mbarrier.wait(q_full.index(t % 2), t // 2 & 1)
            mbarrier.wait(k_full.index(i % STAGES), i // STAGES & 1)
            scores = warpgroup_mma(q, k.permute([1, 0]), nothing, use_acc=False, is_async=True)
            scores = warpgroup_mma_wait(0, deps=[scores])
            mbarrier.arrive(k_empty.index(i % STAGES))
            last = gl.full([ROWS], n_keys - 1, gl.int32, OF_ROWS)
            if CAUSAL:
                last = gl.minimum(last, first_row + gl.arange(0, ROWS, OF_ROWS))
            last -= (blocks - 1) * BLOCK_N
            if CAUSAL | (blocks * BLOCK_N > n_keys):
                scores = gl.where(columns[None, :] <= last[:, None], scores, -float("inf"))
            # Of three groups, the first one or two may see nothing of it. A maximum of -inf would
            # then make NaN.
            m = gl.maximum(gl.max(scores, 1) * scale, -1e30)
            numerators = gl.exp2(scores * scale - m[:, None])
            denominator = gl.sum(numerators, 1)
            p = gl.convert_layout(numerators.to(dtype), LEFT)
            accumulator = gl.zeros([ROWS, BLOCK_D], gl.float32, OUT)
            shrink = gl.full([ROWS], 1.0, gl.float32, OF_ROWS)

            # Block after block: the scores of one, and the product with v of the one before. Both
            # are handed to the tensor cores at once. They take them in this order, and meanwhile
            # the group goes on.
            mbarrier.wait(
                k_full.index((i + 1) % STAGES), (i + 1) // STAGES & 1, pred=blocks > 1
            )
            for block in range(1, blocks):
                k_slot = (i + 1) % STAGES
                v_slot = i % STAGES
                k = matrix(k_smem, k_slot)
                v = matrix(v_smem, v_slot)
                scores = warpgroup_mma(q, k.permute([1, 0]), nothing, use_acc=False, is_async=True)
                mbarrier.wait(v_full.index(v_slot), i // STAGES & 1)
                # Waits for nothing, and keeps the compiler from shrinking before the scores are
                # on their way.
                shrink = warpgroup_mma_wait(1, deps=[shrink])
                accumulator *= gl.convert_layout(shrink, gl.SliceLayout(1, OUT))[:, None]
                accumulator = warpgroup_mma(p, v, accumulator, is_async=True)

                scores = warpgroup_mma_wait(1, deps=[scores])  # all but the latest product
                mbarrier.arrive(k_empty.index(k_slot))
                if TWO_MASKED:  # noqa: SIM102 (decided by the compiler)
                    if block == 1:
                        visible = columns[None, :] <= (last + BLOCK_N)[:, None]
                        scores = gl.where(visible, scores, -float("inf"))
                m_new = gl.maximum(m, gl.max(scores, 1) * scale)
                numerators = gl.exp2(scores * scale - m_new[:, None])
                shrink = gl.exp2(m - m_new)
                denominator = denominator * shrink + gl.sum(numerators, 1)
                p_next = gl.convert_layout(numerators.to(dtype), LEFT)
                m = m_new
                i += 1

                # With two groups there are registers for the exponentials while the product with v
                # is under way. The denominator needs them all: naming it in the wait keeps them
                # before the wait. Three groups overlap with each other.
                more = block + 1 < blocks
                if GROUPS == 2:
                    mbarrier.wait(
                        k_full.index((i + 1) % STAGES), (i + 1) // STAGES & 1, pred=more
                    )
                    accumulator, denominator, _ = warpgroup_mma_wait(
                        0, deps=[accumulator, denominator, p]
                    )
                else:
                    accumulator, _ = warpgroup_mma_wait(0, deps=[accumulator, p])
                    mbarrier.wait(
                        k_full.index((i + 1) % STAGES), (i + 1) // STAGES & 1, pred=more
                    )
                p = p_next
                mbarrier.arrive(v_empty.index(v_slot))
            mbarrier.arrive(q_empty.index(t % 2))
            t += 1

            v = matrix(v_smem, i % STAGES)
            mbarrier.wait(v_full.index(i % STAGES), i // STAGES & 1)
            accumulator *= gl.convert_layout(shrink, gl.SliceLayout(1, OUT))[:, None]
            accumulator = warpgroup_mma(p, v, accumulator, is_async=True)
            accumulator, _ = warpgroup_mma_wait(0, deps=[accumulator, p])
            tma.store_wait(0)  # the tile before has left out_smem
            mbarrier.arrive(v_empty.index(i % STAGES))
            i += 1

            out = accumulator * gl.convert_layout(1 / denominator, gl.SliceLayout(1, OUT))[:, None]
            out_smem.index(GROUP).store(out.to(dtype).reshape([1, 1, ROWS, BLOCK_D]))
            fence_async_shared()
            tma.async_copy_shared_to_global(
                out_desc, [batch, head, first_row, 0], out_smem.index(GROUP)
            )
    tma.store_wait(0)


@gluon.jit
def barriers(N: gl.constexpr, COUNT: gl.constexpr):
    """N barriers, each of which turns its phase after COUNT arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [N, 1], mbarrier.MBarrierLayout())
    for n in gl.static_range(N):
        mbarrier.init(made.index(n), COUNT)
    return made


@gluon.jit(do_not_specialize=["n_heads", "n_queries", "n_keys", "n_items"])
def flash_attention_kernel(
    q_desc, k_desc, v_desc, out_desc, n_heads, n_queries, n_keys, n_items, scale,
    CAUSAL: gl.constexpr, GROUPS: gl.constexpr, BLOCK_D: gl.constexpr, STAGES: gl.constexpr,
):
    """One program for each multiprocessor, which takes one piece of work after the other."""
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [2 * GROUPS, 1, 1, ROWS, BLOCK_D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], v_desc.layout)
    out_smem = gl.allocate_shared_memory(dtype, [GROUPS, 1, 1, ROWS, BLOCK_D], out_desc.layout)
    descs = (q_desc, k_desc, v_desc, out_desc)
    smem = (q_smem, k_smem, v_smem, out_smem)
    full = (barriers(2, 1), barriers(STAGES, 1), barriers(STAGES, 1))  # of q, k and v
    empty = (barriers(2, GROUPS), barriers(STAGES, GROUPS), barriers(STAGES, GROUPS))
    sizes = (n_heads, n_queries, n_keys, n_items)
    fence_async_shared()
    # The registers of every part but the first are given; the first gets what is left. Loading
    # takes hardly any.
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (attend, (descs, smem, full, empty, sizes, scale, CAUSAL, GROUPS, 0)),
                (attend, (descs, smem, full, empty, sizes, scale, CAUSAL, GROUPS, 1)),
                (load, (descs, smem, full, empty, sizes, CAUSAL, GROUPS)),
            ],
            worker_num_warps=[4, 1],
            worker_num_regs=[240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (attend, (descs, smem, full, empty, sizes, scale, CAUSAL, GROUPS, 0)),
                (attend, (descs, smem, full, empty, sizes, scale, CAUSAL, GROUPS, 1)),
                (attend, (descs, smem, full, empty, sizes, scale, CAUSAL, GROUPS, 2)),
                (load, (descs, smem, full, empty, sizes, CAUSAL, GROUPS)),
            ],
            worker_num_warps=[4, 4, 1],
            worker_num_regs=[160, 160, 24],
        )


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """softmax(q @ k^T / sqrt(head_dim)) @ v for every batch and head, in one kernel.

    q [batch, heads, n_queries, head_dim], k and v [batch, heads, n_keys, head_dim] -> like q. No
    keys give zeros.

    Raises what the lesson's flash_attention raises.
    """
    lesson.check_arguments(q, k, v)
    n_programs = multiprocessors(q.device) if q.dtype != torch.float32 else 0
    if not n_programs or q.shape[3] > 128 or q.numel() == 0 or k.shape[2] == 0:
        return lesson.flash_attention(q, k, v, causal)
    return launch(q, k, v, causal, n_programs)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors a Hopper GPU has. 0 for any other device."""
    if device.type != "cuda" or torch.version.hip:
        return 0
    properties = torch.cuda.get_device_properties(device)
    hopper = f"sm_{properties.major}{properties.minor}" == TARGET
    return properties.multi_processor_count if hopper else 0


def launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, n_programs: int
) -> torch.Tensor:
    """Run the kernel with at most n_programs programs, on arguments that are in order."""
    batch, n_heads, n_queries, head_dim = q.shape
    n_keys = k.shape[2]
    # A descriptor wants rows that begin at multiples of 16 bytes, in the result too.
    out = q.new_empty((batch, n_heads, n_queries, round_up(head_dim, 8)))[..., :head_dim]
    BLOCK_D = 64 if head_dim <= 64 else 128
    # Small heads leave registers for a third group, which long sequences can use.
    GROUPS = 3 if BLOCK_D == 64 and n_queries >= (8192 if causal else 2048) else 2
    tiles = round_up(n_queries, GROUPS * ROWS.value) // (GROUPS * ROWS.value)
    n_items = batch * n_heads * ((tiles + 1) // 2 if causal else tiles)

    def describe(tensor, rows):
        tensor = lesson.describable(tensor)
        return TensorDescriptor.from_tensor(tensor, [1, 1, rows.value, BLOCK_D], LAYOUT)

    flash_attention_kernel[(min(n_programs, n_items),)](
        describe(q, ROWS), describe(k, BLOCK_N), describe(v, BLOCK_N), describe(out, ROWS),
        n_heads, n_queries, n_keys, n_items, math.log2(math.e) / math.sqrt(head_dim),
        CAUSAL=causal, GROUPS=GROUPS, BLOCK_D=BLOCK_D, STAGES=2 if BLOCK_D == 128 else 4,
        num_warps=4,
    )
    return out.contiguous()


def round_up(n: int, multiple: int) -> int:
    """The smallest multiple that is not below n. (triton.cdiv takes 5 µs of the host's time.)"""
    return -(-n // multiple) * multiple
