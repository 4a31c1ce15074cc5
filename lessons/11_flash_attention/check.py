"""The self-check of lesson 11, as data. Run by itself it is ./run.sh 11_flash_attention."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Case, Exercise, F, Function, Mistake, Solved, Study, Todo, Traffic,
    run_by_itself, torch, with_cases,
)
from shared.lesson.cases import attention_arguments, attention_cases
from shared.lesson.sweeps import attention_flops, tokens

CAUSAL = {"causal": True}
BACKENDS = {
    "SDPA math": "MATH",
    "SDPA efficient": "EFFICIENT_ATTENTION",
    "SDPA FlashAttention-2": "FLASH_ATTENTION",
    "SDPA cuDNN": "CUDNN_ATTENTION",
}


def attention(q, k, v, causal=False):
    """PyTorch's attention; over no keys it is 0."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def magnitude(q, k, v, causal=False):
    """The absolute values of the terms. exp(s) is off by |s| times as much as s, relatively."""
    largest = (q.abs() @ k.abs().transpose(-2, -1)).amax(-1, keepdim=True) if k.shape[2] else 0.0
    return attention(q, k, v.abs(), causal) * (1 + largest * q.shape[-1] ** -0.5)


def pinned(name, causal=False):
    """PyTorch's attention by one of BACKENDS, and no other."""

    def call(q, k, v):
        backend = getattr(torch.nn.attention.SDPBackend, BACKENDS[name])
        with torch.nn.attention.sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


def solved(script, causal):
    """The function of a finished solution of this lesson."""
    return Solved(script, lambda module, *qkv: module.flash_attention(*qkv, causal=causal))


def side_by_side(name, head_dim, causal, dtype="bfloat16", every=False):
    """The lesson's kernel and its faster form beside PyTorch's backends, each pinned."""
    names = list(BACKENDS)[0 if every else 2 :]
    return Study(
        name=name,
        x=f"T, head_dim {head_dim}{', causal' if causal else ''}",
        values=(1024, 4096) if every else (512, 1024, 2048, 4096, 8192, 16384),
        shape=tokens(head_dim),
        dtype=dtype,
        candidates={
            **{name: pinned(name, causal) for name in names},
            "flash_attention": solved("flash_attention.py", causal),
            "flash_attention_fast": solved("flash_attention_fast.py", causal),
        },
    )


# In half precision and at length, as models call it. A kernel for one GPU may have ways of its own
# for long sequences, masks and odd heads.
LONG = (
    Case((1, 1, 2100, 2100, 64), "float16", gpu_only=True, why="long"),
    Case((1, 1, 8250, 8250, 64), "float16", options=CAUSAL, gpu_only=True, why="long, causal"),
    Case((1, 1, 8250, 300, 64), "float16", options=CAUSAL, gpu_only=True, why="few keys, causal"),
    Case((1, 2, 129, 70, 100), "float16", options=CAUSAL, gpu_only=True, why="an odd head, causal"),
    Case((2, 3, 70, 200, 33), "float16", layout="sequence before heads", gpu_only=True,
         why="[batch, seq, heads, dim] and an odd head"),
)

FUNCTION = Function(
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
        shape=tokens(128),
        baselines={
            "SDPA FlashAttention-2": pinned("SDPA FlashAttention-2"),
            "SDPA cuDNN": pinned("SDPA cuDNN"),
        },
        flops=attention_flops,
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
            shape=tokens(128),
            candidates={
                "naive_attention": Solved("attention.py", "naive_attention"),
                "flash_attention": Solved("flash_attention.py", "flash_attention"),
            },
            traffic=True,
        ),
    ],
)

flash_attention = Exercise(
    script="flash_attention.py",
    functions=[FUNCTION],
    todos=[
        Todo(1, hints=(
            "One row for each query, one column for each key of the block.",
            "k has shape (BLOCK_N, BLOCK_D); k.T is its transpose.",
            "scores = tl.dot(q, ..., input_precision=INPUT_PRECISION)",
        )),
        Todo(2, hints=(
            """Key j comes after query i if j > i. keys and rows count from the start of the
            sequence.""",
            "v[None, :] is a row, v[:, None] a column; & joins two masks.",
            "visible = visible & (keys[None, :] <= ...)",
        ), mistakes=[
            Mistake("the diagonal's mask: the query does not see itself",
                    "[None, :] <=", "[None, :] <",
                    says="query i sees only keys before i, so the first query sees none: 0 / 0",
                    look="<= or <."),
            Mistake("one key too many",
                    "visible = visible & (keys[None, :] <= rows[:, None])",
                    "visible = visible & (keys[None, :] - 1 <= rows[:, None])",
                    says="query i sees key i + 1, which comes after it",
                    look="which keys come after a query."),
            Mistake("the mask in numbers of the block",
                    "keys[None, :] <= rows", "(keys - start)[None, :] <= (rows % 64)",
                    says="""the mask compares places within blocks, not numbers of keys and
                        queries: right in the first block, wrong in the others""",
                    look="keys and rows, which count from the start of the sequence."),
            Mistake("aligned at the end", "[:, None]", "[:, None] + n_keys - rows.shape[0]",
                    says="the mask is aligned at the last key; PyTorch aligns it at the first",
                    look="query i sees the keys 0 to i."),
        ]),
        Todo(3, hints=(
            "exp2(-inf) is 0: a key that is not visible has no weight.",
            "tl.where(condition, a, b).",
            'scores = tl.where(visible, scores, -float("inf"))',
        ), mistakes=[
            Mistake("a finite number for masked scores", 'float("inf")', "10000.0",
                    says="masked scores are -10,000, which is more than a real score can be",
                    look='-float("inf").'),
            Mistake("masked scores are 0", '-float("inf")', "0.0",
                    says="""masked scores are 0, which is a score like any other: exp2(0 - m) is
                        not 0""",
                    look='-float("inf").'),
        ]),
        Todo(4, hints=(
            """The larger of the maximum so far and the maximum of this block. scale is
            positive, so it may be multiplied afterwards.""",
            "tl.maximum(a, b); tl.max(scores, axis=1).",
            "m_new = tl.maximum(m, tl.max(..., axis=1) * scale)",
        ), mistakes=[
            Mistake("the maximum of this block only",
                    "maximum(m, tl.max(scores, axis=1) * scale)", "max(scores, axis=1) * scale",
                    says="""m_new is the maximum of the latest block, not of all so far. Where a
                        later block is masked throughout it is -inf, and (-inf) - (-inf) is NaN""",
                    look="tl.maximum with m."),
            Mistake("the maximum is not scaled", " * scale", "",
                    says="""m_new is the maximum of the unscaled scores, and is subtracted from
                        scaled ones""",
                    look="* scale, in both places."),
        ]),
        Todo(5, hints=(
            "As in lesson 03, with exp2 for exp: each query has its own maximum.",
            "m_new[:, None] is a column.",
            "p = tl.exp2(scores * scale - ...)",
        ), mistakes=[
            Mistake("no maximum", " - m_new[:, None]", "",
                    also=[
                        ("shrink = tl.exp2(m - m_new)",
                         "shrink = tl.full(m.shape, 1.0, tl.float32)"),
                    ],
                    says="""the maximum is not subtracted: exp2 of a large score is inf, and inf
                        / inf is NaN""",
                    look="- m_new[:, None]."),
        ]),
        Todo(6, hints=(
            """What was measured against m is now measured against m_new, which is at least as
            large.""",
            "tl.exp2(difference), at most 1.",
            "shrink = tl.exp2(m - ...)",
        ), mistakes=[
            Mistake("the shrinking upside down",
                    "shrink = tl.exp2(m - m_new)",
                    'shrink = tl.where(m == -float("inf"), 0.0, tl.exp2(m_new - m))',
                    says="""the old sums grow with every new maximum, and they must shrink:
                        exp2(m_old - m_new) is at most 1. The listing in the FlashAttention-2
                        paper has this upside down""",
                    look="m - m_new."),
            Mistake("the shrinking upside down, from -inf", "m - m_new", "m_new - m",
                    says="""the difference of the maxima is upside down: m is -inf before the
                        first key, and exp2 of infinity times 0 is NaN. Later on the old sums
                        would grow, and they must shrink""",
                    look="m - m_new, which is never positive."),
        ]),
        Todo(7, hints=(
            "The old sum shrunk, plus the sum of this block's numerators.",
            "tl.sum(p, axis=1).",
            "denominator = denominator * ... + tl.sum(..., axis=1)",
        ), mistakes=[
            Mistake("the denominator does not shrink", "* shrink ", "",
                    says="""the old sum is not shrunk when the maximum grows: right if the first
                        block has the maximum, wrong otherwise""",
                    look="denominator * shrink."),
            Mistake("the denominator of the last block", "denominator * shrink + ", "",
                    says="the sum is that of the latest block alone",
                    look="denominator * shrink + ...."),
        ]),
        Todo(8, hints=(
            "The accumulator was measured against the old maximum too.",
            "shrink[:, None] is a column; p.to(v.dtype).",
            """accumulator = accumulator * ..., then accumulator = tl.dot(p.to(v.dtype), v, ...,
            input_precision=INPUT_PRECISION)""",
        ), mistakes=[
            Mistake("the accumulator does not shrink", "shrink[:, None]", "1.0",
                    says="""the accumulator is not shrunk when the maximum grows, as the
                        denominator is""",
                    look="accumulator * shrink[:, None]."),
            Mistake("the accumulator overwritten", "accumulator, ", "",
                    says="""only the latest block of keys counts: the product replaces the
                        accumulator""",
                    look="the third argument of tl.dot."),
        ]),
        Todo(9, hints=(
            "Nothing seen yet: sums of 0, and a maximum that everything beats.",
            'tl.zeros(shape, dtype=tl.float32), tl.full(shape, -float("inf"), dtype=tl.float32).',
            """accumulator = tl.zeros((BLOCK_M, BLOCK_D), ...), denominator =
            tl.zeros((BLOCK_M,), ...), m = tl.full((BLOCK_M,), ..., ...)""",
        ), mistakes=[
            Mistake("the maximum starts at 0",
                    'm = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)',
                    "m = tl.zeros((BLOCK_M,), dtype=tl.float32)",
                    says="""m starts at 0. Where all scores are far below, every exp2 is 0, and
                        0 / 0 is NaN""",
                    look="what every score is larger than."),
        ]),
        Todo(10, hints=(
            """Without a causal mask every query sees all n_keys. With one, the tile's first
            query is first_row and its last one first_row + BLOCK_M - 1. A block that is not
            whole needs a mask too.""",
            "tl.minimum(a, b); // rounds down.",
            """last_key = n_keys, all_see = n_keys; if CAUSAL: both are tl.minimum(n_keys, ...);
            n_unmasked = all_see // BLOCK_N * ...""",
        ), mistakes=[
            Mistake("the diagonal's block is not masked",
                    "all_see = tl.minimum(n_keys, first_row)",
                    "all_see = tl.minimum(n_keys, first_row + BLOCK_M)",
                    says="""the blocks on the diagonal are taken without a mask: queries see
                        keys after them""",
                    look="all_see: the first query of the tile sees only keys up to first_row."),
            Mistake("the diagonal left out", " + BLOCK_M", "",
                    says="the loop ends where this tile's queries begin, and they see themselves",
                    look="last_key: the last query of the tile is first_row + BLOCK_M - 1."),
            Mistake("the ragged block is not masked", "= all_see", "= (all_see + BLOCK_N - 1)",
                    says="""the number of whole blocks is rounded up: the last one, which is not
                        full, gets no mask""",
                    look="whole blocks: rounded down."),
        ]),
        Todo(11, hints=(
            "The weighted sum of the rows of v, divided by the sum of the weights.",
            "denominator[:, None] is a column.",
            "out = accumulator / ...",
        ), mistakes=[
            Mistake("not divided by the denominator", " / denominator[:, None]", "",
                    says="""the accumulator is stored as it is: a sum of numerators, not divided
                        by the denominator""",
                    look="/ denominator[:, None]."),
        ]),
        Todo(12, hints=(
            "exp(x) is exp2(x * log2(e)). Multiplied once here, it costs nothing in the loop.",
            "math.log2(math.e), math.sqrt(head_dim).",
            "scale = math.log2(math.e) / ...",
        ), mistakes=[
            Mistake("no scale", " / math.sqrt(head_dim)", "",
                    says="the scores are not scaled by 1 / sqrt(head_dim)",
                    look="1 / math.sqrt(head_dim)."),
            Mistake("divided by head_dim", "math.sqrt(head_dim)", "head_dim",
                    says="the scores are divided by head_dim; its root is meant",
                    look="math.sqrt(head_dim)."),
            Mistake("the padded head_dim", "head_dim", "triton.next_power_of_2(head_dim)",
                    says="the scale is computed from the padded head_dim",
                    look="head_dim itself."),
            Mistake("exp2 without log2(e)", "math.log2(math.e)", "1",
                    says="""exp2 is used for exp without log2(e) in the scale: this is softmax
                        of the scores times ln 2""",
                    look="math.log2(math.e)."),
        ]),
    ],
    given=[
        Mistake("NaN after the last key", "scale = math.log2", """
                longer = (*k.shape[:2], n_keys + 1, head_dim)
                k, v = (t.as_strided(longer, t.stride()) for t in (k, v))
                scale = math.log2""",
                says="a key past the end is read: 0 times what lies there is NaN, if it is NaN",
                look="the sizes that the descriptors are given."),
    ],
)

flash_attention_fast = Exercise(  # to be read: the same loop in Gluon
    script="flash_attention_fast.py",
    functions=[FUNCTION],
    optional=True,
    target="sm_90",
)

if __name__ == "__main__":
    run_by_itself()
