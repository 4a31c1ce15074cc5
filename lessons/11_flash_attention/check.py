"""The self-check of lesson 11, as data."""

if __name__ == "__main__":  # the same as ./run.sh 11_flash_attention
    import os
    import sys

    os.environ.setdefault("COURSE_PYTHON", sys.executable)
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run.sh")
    os.execv(run, [run, os.path.abspath(__file__), *sys.argv[1:]])

from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from shared.cases import attention_arguments, attention_cases, with_cases
from shared.exercise import Benchmark, Case, Exercise, Function, Mistake, Study, Traffic
from shared.source import load_module


def attention(q, k, v, causal=False):
    """PyTorch's attention; over no keys it is 0."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def magnitude(q, k, v, causal=False):
    """The absolute values of the terms. exp(s) is off by |s| times as much as s, relatively."""
    largest = (q.abs() @ k.abs().transpose(-2, -1)).amax(-1, keepdim=True) if k.shape[2] else 0.0
    return attention(q, k, v.abs(), causal) * (1 + largest * q.shape[-1] ** -0.5)


def pinned(backend, causal=False):
    """PyTorch's attention by one backend, and no other."""

    def call(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


def heads_of(head_dim):
    """16,384 tokens in batches of n, 2,048 numbers a token: shapes from n."""
    return lambda n: (16384 // n, 2048 // head_dim, n, n, head_dim)


def beside(script, name):
    """A finished solution, from its path relative to the solution at hand."""
    return load_once((Path(script.__file__).parent / name).resolve())


@cache
def load_once(path):
    return load_module(str(path), path.stem)


BACKENDS = {
    "SDPA math": SDPBackend.MATH,
    "SDPA efficient": SDPBackend.EFFICIENT_ATTENTION,
    "SDPA FlashAttention-2": SDPBackend.FLASH_ATTENTION,
    "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
}


def side_by_side(name, head_dim, causal, dtype="bfloat16", every=False):
    """The lesson's kernel and its faster form beside PyTorch's backends, each pinned."""
    names = list(BACKENDS)[0 if every else 2 :]
    backends = {name: pinned(BACKENDS[name], causal) for name in names}
    return Study(
        name=name,
        x=f"T, head_dim {head_dim}{', causal' if causal else ''}",
        values=(1024, 4096) if every else (512, 1024, 2048, 4096, 8192, 16384),
        shape=heads_of(head_dim),
        dtype=dtype,
        candidates={
            **{n: (lambda script, *qkv, b=b: b(*qkv)) for n, b in backends.items()},
            "flash_attention": lambda script, *qkv: script.flash_attention(*qkv, causal=causal),
            "flash_attention_fast": lambda script, *qkv: beside(
                script, "flash_attention_fast.py"
            ).flash_attention(*qkv, causal=causal),
        },
    )


CAUSAL = {"causal": True}


def naive(script, q, k, v):
    """Lesson 10's finished solution."""
    return beside(script, "../10_attention/attention.py").naive_attention(q, k, v)


# In half precision and at length, as models call it. A kernel for one GPU may have ways of its own
# for long sequences, masks and odd heads.
LONG = (
    Case((1, 1, 2100, 2100, 64), "float16", gpu_only=True, why="long"),
    Case((1, 1, 8250, 8250, 64), "float16", options=CAUSAL, gpu_only=True, why="long, causal"),
    Case((1, 1, 8250, 300, 64), "float16", options=CAUSAL, gpu_only=True, why="few keys, causal"),
    Case((1, 2, 129, 70, 100), "float16", options=CAUSAL, gpu_only=True, why="an odd head, causal"),
    Case(
        (2, 3, 70, 200, 33),
        "float16",
        layout="sequence before heads",
        gpu_only=True,
        why="[batch, seq, heads, dim] and an odd head",
    ),
)

SCORES = "scores = tl.dot(q, k.T, input_precision=INPUT_PRECISION)"
VISIBLE = "visible = visible & (keys[None, :] <= rows[:, None])"
MASK = 'scores = tl.where(visible, scores, -float("inf"))'
M_NEW = "m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)"
P = "p = tl.exp2(scores * scale - m_new[:, None])"
SHRINK = "shrink = tl.exp2(m - m_new)"
L_NEW = "l = l * shrink + tl.sum(p, axis=1)"
ACC = "accumulator = accumulator * shrink[:, None]"
DOT = "accumulator = tl.dot(p.to(v.dtype), v, accumulator, input_precision=INPUT_PRECISION)"
OUT = "out = accumulator / l[:, None]"
SCALE = "scale = math.log2(math.e) / math.sqrt(head_dim)"

flash_attention = Exercise(
    script="flash_attention.py",
    functions=[
        Function(
            name="flash_attention",
            arguments=attention_arguments,
            reference=attention,
            magnitude=magnitude,
            tensor_cores=True,
            cases=with_cases(attention_cases(), *LONG),
            traffic=lambda q, k, v: Traffic(reads=q.nbytes + k.nbytes + v.nbytes, writes=q.nbytes),
            memory=(1, 2, 256, 256, 64),
            typical=(1, 2, 1024, 1024, 64),
            picture=(1, 1, 512, 512, 64),
            benchmark=Benchmark(
                x="T, head_dim 128",
                values=(512, 1024, 2048, 4096, 8192, 16384),
                shape=heads_of(128),
                baselines={
                    "SDPA FlashAttention-2": pinned(SDPBackend.FLASH_ATTENTION),
                    "SDPA cuDNN": pinned(SDPBackend.CUDNN_ATTENTION),
                },
                flops=lambda shape: 4.0 * shape[0] * shape[1] * shape[2] * shape[3] * shape[4],
                memory=True,
            ),
            studies=[
                side_by_side("every", 128, False, every=True),
                *(
                    side_by_side(f"{mask}{head_dim}{suffix}", head_dim, mask == "causal", dtype)
                    for dtype, suffix in (("bfloat16", ""), ("float16", ".float16"))
                    for head_dim in (128, 64)
                    for mask in ("full", "causal")
                ),
                Study(
                    name="traffic",
                    x="T, head_dim 128",
                    values=(512, 1024, 2048, 4096, 8192, 16384),
                    shape=heads_of(128),
                    candidates={
                        "naive_attention": naive,
                        "flash_attention": lambda script, *qkv: script.flash_attention(*qkv),
                    },
                    traffic=True,
                ),
            ],
        )
    ],
    mistakes=[
        Mistake(
            "the diagonal's mask: the query does not see itself",
            todo=2,
            edits=((VISIBLE, VISIBLE.replace("<=", "<")),),
            says="query i sees only keys before i, so the first query sees none: 0 / 0",
            look="<= or <.",
        ),
        Mistake(
            "one key too many",
            todo=2,
            edits=((VISIBLE, VISIBLE.replace("keys[None, :] <=", "keys[None, :] - 1 <=")),),
            says="query i sees key i + 1, which comes after it",
            look="which keys come after a query.",
        ),
        Mistake(
            "the mask in numbers of the block",
            todo=2,
            edits=(
                (
                    VISIBLE,
                    VISIBLE.replace(
                        "keys[None, :] <= rows[:, None]",
                        "(keys - start)[None, :] <= (rows % 64)[:, None]",
                    ),
                ),
            ),
            says="the mask compares places within blocks, not numbers of keys and queries: right "
            "in "
            "the first block, wrong in the others",
            look="keys and rows, which count from the start of the sequence.",
        ),
        Mistake(
            "aligned at the end",
            todo=2,
            edits=(
                (
                    VISIBLE,
                    VISIBLE.replace(
                        "<= rows[:, None]", "<= rows[:, None] + n_keys - rows.shape[0]"
                    ),
                ),
            ),
            says="the mask is aligned at the last key; PyTorch aligns it at the first",
            look="query i sees the keys 0 to i.",
        ),
        Mistake(
            "a finite number for masked scores",
            todo=3,
            edits=((MASK, MASK.replace('-float("inf")', "-10000.0")),),
            says="masked scores are -10,000, which is more than a real score can be",
            look='-float("inf").',
        ),
        Mistake(
            "masked scores are 0",
            todo=3,
            edits=((MASK, MASK.replace('-float("inf")', "0.0")),),
            says="masked scores are 0, which is a score like any other: exp2(0 - m) is not 0",
            look='-float("inf").',
        ),
        Mistake(
            "the maximum of this block only",
            todo=4,
            edits=((M_NEW, "m_new = tl.max(scores, axis=1) * scale"),),
            says="m_new is the maximum of the latest block, not of all so far. Where a later "
            "block is "
            "masked throughout it is -inf, and (-inf) - (-inf) is NaN",
            look="tl.maximum with m.",
        ),
        Mistake(
            "the maximum is not scaled",
            todo=4,
            edits=((M_NEW, M_NEW.replace(" * scale", "")),),
            says="m_new is the maximum of the unscaled scores, and is subtracted from scaled ones",
            look="* scale, in both places.",
        ),
        Mistake(
            "no maximum",
            todo=5,
            edits=(
                (P, "p = tl.exp2(scores * scale)"),
                (SHRINK, "shrink = tl.full(m.shape, 1.0, tl.float32)"),
            ),
            says="the maximum is not subtracted: exp2 of a large score is inf, and inf / inf is "
            "NaN",
            look="- m_new[:, None].",
        ),
        Mistake(
            "the shrinking upside down",
            todo=6,
            edits=((SHRINK, 'shrink = tl.where(m == -float("inf"), 0.0, tl.exp2(m_new - m))'),),
            says="the old sums grow with every new maximum, and they must shrink: exp2(m_old - "
            "m_new) "
            "is at most 1. The listing in the FlashAttention-2 paper has this upside down",
            look="m - m_new.",
        ),
        Mistake(
            "the shrinking upside down, from -inf",
            todo=6,
            edits=((SHRINK, "shrink = tl.exp2(m_new - m)"),),
            says="the difference of the maxima is upside down: m is -inf before the first key, and "
            "exp2 of infinity times 0 is NaN. Later on the old sums would grow, and they must "
            "shrink",
            look="m - m_new, which is never positive.",
        ),
        Mistake(
            "l does not shrink",
            todo=7,
            edits=((L_NEW, "l = l + tl.sum(p, axis=1)"),),
            says="the old sum is not shrunk when the maximum grows: right if the first block has "
            "the "
            "maximum, wrong otherwise",
            look="l * shrink.",
        ),
        Mistake(
            "l of the last block",
            todo=7,
            edits=((L_NEW, "l = tl.sum(p, axis=1)"),),
            says="the sum is that of the latest block alone",
            look="l * shrink + ....",
        ),
        Mistake(
            "the accumulator does not shrink",
            todo=8,
            edits=((ACC, "accumulator = accumulator * 1.0"),),
            says="the accumulator is not shrunk when the maximum grows, as l is",
            look="accumulator * shrink[:, None].",
        ),
        Mistake(
            "the accumulator overwritten",
            todo=8,
            edits=((DOT, DOT.replace("v, accumulator, input", "v, input")),),
            says="only the latest block of keys counts: the product replaces the accumulator",
            look="the third argument of tl.dot.",
        ),
        Mistake(
            "the maximum starts at 0",
            todo=9,
            edits=(
                (
                    'm = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)',
                    "m = tl.zeros((BLOCK_M,), dtype=tl.float32)",
                ),
            ),
            says="m starts at 0. Where all scores are far below, every exp2 is 0, and 0 / 0 is NaN",
            look="what every score is larger than.",
        ),
        Mistake(
            "the diagonal's block is not masked",
            todo=10,
            edits=(
                (
                    "all_see = tl.minimum(n_keys, first_row)",
                    "all_see = tl.minimum(n_keys, first_row + BLOCK_M)",
                ),
            ),
            says="the blocks on the diagonal are taken without a mask: queries see keys after them",
            look="all_see: the first query of the tile sees only keys up to first_row.",
        ),
        Mistake(
            "the diagonal left out",
            todo=10,
            edits=(
                (
                    "last_key = tl.minimum(n_keys, first_row + BLOCK_M)",
                    "last_key = tl.minimum(n_keys, first_row)",
                ),
            ),
            says="the loop ends where this tile's queries begin, and they see themselves",
            look="last_key: the last query of the tile is first_row + BLOCK_M - 1.",
        ),
        Mistake(
            "the ragged block is not masked",
            todo=10,
            edits=(
                (
                    "unmasked = all_see // BLOCK_N * BLOCK_N",
                    "unmasked = (all_see + BLOCK_N - 1) // BLOCK_N * BLOCK_N",
                ),
            ),
            says="the number of whole blocks is rounded up: the last one, which is not full, gets "
            "no "
            "mask",
            look="whole blocks: rounded down.",
        ),
        Mistake(
            "not divided by l",
            todo=11,
            edits=((OUT, "out = accumulator"),),
            says="the accumulator is stored as it is: a sum of numerators, not divided by l",
            look="/ l[:, None].",
        ),
        Mistake(
            "no scale",
            todo=12,
            edits=((SCALE, "scale = math.log2(math.e)"),),
            says="the scores are not scaled by 1 / sqrt(head_dim)",
            look="1 / math.sqrt(head_dim).",
        ),
        Mistake(
            "divided by head_dim",
            todo=12,
            edits=((SCALE, "scale = math.log2(math.e) / head_dim"),),
            says="the scores are divided by head_dim; its root is meant",
            look="math.sqrt(head_dim).",
        ),
        Mistake(
            "the padded head_dim",
            todo=12,
            edits=(
                (SCALE, "scale = math.log2(math.e) / math.sqrt(triton.next_power_of_2(head_dim))"),
            ),
            says="the scale is computed from the padded head_dim",
            look="head_dim itself.",
        ),
        Mistake(
            "exp2 without log2(e)",
            todo=12,
            edits=((SCALE, "scale = 1 / math.sqrt(head_dim)"),),
            says="exp2 is used for exp without log2(e) in the scale: this is softmax of the scores "
            "times ln 2",
            look="math.log2(math.e).",
        ),
        Mistake(
            "NaN after the last key",
            edits=(
                (
                    "    scale = math.log2",
                    "    k, v = (t.as_strided((*t.shape[:2], t.shape[2] + 1, head_dim), "
                    "t.stride()) for t in (k, v))\n    scale = math.log2",
                ),
            ),
            says="a key past the end is read: 0 times what lies there is NaN, if it is NaN",
            look="the sizes that the descriptors are given.",
        ),
    ],
    hints={
        1: (
            "One row for each query, one column for each key of the block.",
            "k has shape (BLOCK_N, BLOCK_D); k.T is its transpose.",
            "scores = tl.dot(q, ..., input_precision=INPUT_PRECISION)",
        ),
        2: (
            "Key j comes after query i if j > i. keys and rows count from the start of the "
            "sequence.",
            "v[None, :] is a row, v[:, None] a column; & joins two masks.",
            "visible = visible & (keys[None, :] <= ...)",
        ),
        3: (
            "exp2(-inf) is 0: a key that is not visible has no weight.",
            "tl.where(condition, a, b).",
            'scores = tl.where(visible, scores, -float("inf"))',
        ),
        4: (
            "The larger of the maximum so far and the maximum of this block. scale is positive, "
            "so it "
            "may be multiplied afterwards.",
            "tl.maximum(a, b); tl.max(scores, axis=1).",
            "m_new = tl.maximum(m, tl.max(..., axis=1) * scale)",
        ),
        5: (
            "As in lesson 03, with exp2 for exp: each query has its own maximum.",
            "m_new[:, None] is a column.",
            "p = tl.exp2(scores * scale - ...)",
        ),
        6: (
            "What was measured against m is now measured against m_new, which is at least as "
            "large.",
            "tl.exp2(difference), at most 1.",
            "shrink = tl.exp2(m - ...)",
        ),
        7: (
            "The old sum shrunk, plus the sum of this block's numerators.",
            "tl.sum(p, axis=1).",
            "l = l * ... + tl.sum(..., axis=1)",
        ),
        8: (
            "The accumulator was measured against the old maximum too.",
            "shrink[:, None] is a column; p.to(v.dtype).",
            "accumulator = accumulator * ..., then accumulator = tl.dot(p.to(v.dtype), v, ..., "
            "input_precision=INPUT_PRECISION)",
        ),
        9: (
            "Nothing seen yet: sums of 0, and a maximum that everything beats.",
            'tl.zeros(shape, dtype=tl.float32), tl.full(shape, -float("inf"), dtype=tl.float32).',
            "accumulator = tl.zeros((BLOCK_M, BLOCK_D), ...), l = tl.zeros((BLOCK_M,), ...), "
            "m = tl.full((BLOCK_M,), ..., ...)",
        ),
        10: (
            "Without a causal mask every query sees all n_keys. With one, the tile's first query "
            "is "
            "first_row and its last one first_row + BLOCK_M - 1. A block that is not whole needs a "
            "mask too.",
            "tl.minimum(a, b); // rounds down.",
            "last_key = n_keys, all_see = n_keys; if CAUSAL: both are tl.minimum(n_keys, ...); "
            "unmasked = all_see // BLOCK_N * ...",
        ),
        11: (
            "The weighted sum of the rows of v, divided by the sum of the weights.",
            "l[:, None] is a column.",
            "out = accumulator / ...",
        ),
        12: (
            "exp(x) is exp2(x * log2(e)). Multiplied once here, it costs nothing in the loop.",
            "math.log2(math.e), math.sqrt(head_dim).",
            "scale = math.log2(math.e) / ...",
        ),
    },
)
