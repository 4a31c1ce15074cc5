"""The self-check of lesson 10, as data."""

if __name__ == "__main__":  # the same as ./run.sh 10_attention
    import os
    import sys

    os.environ.setdefault("COURSE_PYTHON", sys.executable)
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run.sh")
    os.execv(run, [run, os.path.abspath(__file__), *sys.argv[1:]])

import torch

from shared.cases import attention_arguments, attention_cases
from shared.exercise import Benchmark, Exercise, Function, Mistake, Study, Traffic


def three_steps(q, k, v, causal=False):
    """Attention as PyTorch's three operations."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -float("inf"))
    return torch.softmax(scores, -1) @ v


def magnitude(q, k, v, causal=False):
    """The absolute values of the terms. exp(s) is off by |s| times as much as s, relatively."""
    largest = (q.abs() @ k.abs().transpose(-2, -1)).amax(-1, keepdim=True) if k.shape[2] else 0.0
    return three_steps(q, k, v.abs(), causal) * (1 + largest * q.shape[-1] ** -0.5)


def heads_of(head_dim):
    """16,384 tokens in batches of n, 2,048 numbers a token: shapes from n."""
    return lambda n: (16384 // n, 2048 // head_dim, n, n, head_dim)


SCALE = "scores = accumulator * scale"
MASK = 'scores = tl.where(cols[None, :] <= rows[:, None], scores, -float("inf"))'
LAST = "last_key = tl.minimum(n_keys, first_row + BLOCK_M)"
SOFTMAX_LOAD = 'mask=mask, other=-float("inf")).to(tl.float32)'

naive_attention = Exercise(
    script="attention.py",
    functions=[
        Function(
            name="naive_attention",
            arguments=attention_arguments,
            reference=three_steps,
            magnitude=magnitude,
            tensor_cores=True,
            cases=attention_cases(),
            traffic=lambda q, k, v: Traffic(reads=q.nbytes + k.nbytes + v.nbytes, writes=q.nbytes),
            memory=(1, 2, 256, 256, 64),
            typical=(1, 2, 1024, 1024, 64),
            picture=(1, 1, 256, 256, 64),
            benchmark=Benchmark(
                x="T, head_dim 128",
                values=(512, 1024, 2048, 4096, 8192),
                shape=heads_of(128),
                baselines={"eager, three steps": three_steps},
                flops=lambda shape: 4.0 * shape[0] * shape[1] * shape[2] * shape[3] * shape[4],
                memory=True,
            ),
            studies=[
                Study(
                    name="causal",
                    x="T, head_dim 64",
                    values=(1024, 4096),
                    shape=heads_of(64),
                    candidates={
                        "eager, three steps": lambda script, *qkv: three_steps(*qkv, causal=True),
                        "naive_attention": lambda script, *qkv: script.naive_attention(
                            *qkv, causal=True
                        ),
                    },
                ),
            ],
        )
    ],
    mistakes=[
        Mistake(
            "batch and head exchanged",
            todo=1,
            edits=(
                (
                    "    batch_head = pid // tiles\n    batch = batch_head // n_heads\n    head = "
                    "batch_head % n_heads\n\n    rows",
                    "    batch_head = pid // tiles\n    batch = batch_head % n_heads\n    head = "
                    "batch_head // n_heads\n\n    rows",
                ),
            ),
            says="batch and head are taken for each other",
            look="// gives the batch, % the head.",
        ),
        Mistake(
            "always the first batch",
            todo=1,
            edits=(
                (
                    "    batch_head = pid // tiles\n    batch = batch_head // n_heads\n    head = "
                    "batch_head % n_heads\n\n    rows",
                    "    batch_head = pid // tiles\n    batch = 0 * batch_head\n    head = "
                    "batch_head % n_heads\n\n    rows",
                ),
            ),
            says="every batch is computed from the first one",
            look="batch_head // n_heads.",
        ),
        Mistake(
            "k read with the strides of q",
            todo=2,
            edits=(
                (
                    "k_rows = k_ptr + batch * stride_k_batch + head * stride_k_head + cols[None, "
                    ":] * stride_k_row",
                    "k_rows = k_ptr + batch * stride_q_batch + head * stride_q_head + cols[None, "
                    ":] * stride_q_row",
                ),
            ),
            says="k is read with the strides of q, and it has its own",
            look="stride_k_batch, stride_k_head, stride_k_row.",
        ),
        Mistake(
            "no mask for the dims of k",
            todo=2,
            edits=(
                (
                    "k_t = tl.load(k_rows + dims[:, None] * stride_k_dim, mask=k_mask, other=0.0)",
                    "k_t = tl.load(k_rows + dims[:, None] * stride_k_dim, mask=cols[None, :] < "
                    "n_keys, other=0.0)",
                ),
            ),
            says="the load of k goes on past the last dim of a head, into the next key",
            look="the mask of k: both directions.",
        ),
        Mistake(
            "no other for q and k",
            todo=2,
            edits=(
                ("mask=q_mask, other=0.0)", "mask=q_mask)"),
                ("mask=k_mask, other=0.0)", "mask=k_mask)"),
            ),
            says="the masked lanes were given no value, and they take part in the product",
            look="`other` of both loads.",
        ),
        Mistake(
            "no scale",
            todo=3,
            edits=((SCALE, "scores = accumulator"),),
            says="the scores are not scaled by 1 / sqrt(head_dim)",
            look="* scale.",
        ),
        Mistake(
            "divided by head_dim",
            todo=3,
            edits=((SCALE, "scores = accumulator * scale * scale"),),
            says="the scores are divided by head_dim; its root is meant",
            look="scale, which is 1 / sqrt(head_dim) already.",
        ),
        Mistake(
            "the query does not see itself",
            todo=3,
            edits=((MASK, MASK.replace("<=", "<")),),
            says="query i sees only keys before i, so the first query sees none: 0 / 0",
            look="<= or <.",
        ),
        Mistake(
            "one key too many",
            todo=3,
            edits=((MASK, MASK.replace("cols[None, :] <=", "cols[None, :] - 1 <=")),),
            says="query i sees key i + 1, which comes after it",
            look="which keys come after a query.",
        ),
        Mistake(
            "the mask reversed",
            todo=3,
            edits=((MASK, MASK.replace("<=", ">=")),),
            says="query i sees the keys from i on, in place of those up to i",
            look="the direction of the comparison.",
        ),
        Mistake(
            "aligned at the end",
            todo=3,
            edits=(
                (MASK, MASK.replace("<= rows[:, None]", "<= rows[:, None] + n_keys - n_queries")),
            ),
            says="the mask is aligned at the last query and key. With as many keys as queries "
            "that is "
            "the same; otherwise PyTorch aligns at the first",
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
            "padding of 0 in the softmax",
            todo=4,
            edits=((SOFTMAX_LOAD, SOFTMAX_LOAD.replace('-float("inf")', "0.0")),),
            says="the masked lanes of a row of scores hold 0: each adds exp(0 - max) to the sum",
            look="`other` of the load: exp() of it must be 0.",
        ),
        Mistake(
            "the maximum is not subtracted",
            todo=4,
            edits=(("numerator = tl.exp(x - tl.max(x, axis=0))", "numerator = tl.exp(x)"),),
            says="the maximum is not subtracted: exp of a large score is inf, and inf / inf is NaN",
            look="x - tl.max(x, axis=0).",
        ),
        Mistake(
            "not divided by the sum",
            todo=4,
            edits=(("probs = (numerator / denominator)", "probs = (numerator / 1.0)"),),
            says="the numerators are stored, and not the probabilities",
            look="the division.",
        ),
        Mistake(
            "the diagonal left out",
            todo=5,
            edits=((LAST, "last_key = tl.minimum(n_keys, first_row)"),),
            says="the loop ends where this tile's queries begin, and they see themselves",
            look="the last query of the tile, first_row + BLOCK_M - 1.",
        ),
        Mistake(
            "probabilities of the last query",
            todo=5,
            edits=((LAST, "last_key = tl.minimum(n_keys, n_queries - first_row)"),),
            says="the loop's end counts from the end of the queries",
            look="first_row + BLOCK_M.",
        ),
        Mistake(
            "no mask for the keys of v",
            todo=6,
            edits=(("v_mask = (keys[:, None] < n_keys) & dim_mask", "v_mask = dim_mask"),),
            says="the load of v goes on past the last key: what lies there is multiplied by 0, and "
            "0 * NaN is NaN",
            look="v_mask: both directions.",
        ),
        Mistake(
            "v read with a contiguous row",
            todo=6,
            edits=(
                (
                    "v = tl.load(v_dims + keys[:, None] * stride_v_row",
                    "v = tl.load(v_dims + keys[:, None] * head_dim",
                ),
            ),
            says="the rows of v are taken to follow each other, which is not so in a view",
            look="stride_v_row.",
        ),
        Mistake(
            "the accumulator overwritten",
            todo=6,
            edits=(
                (
                    "accumulator = tl.dot(probs, v, accumulator, input_precision",
                    "accumulator = tl.dot(probs, v, input_precision",
                ),
            ),
            says="only the last block of keys counts: the product replaces the accumulator",
            look="the third argument of tl.dot.",
        ),
        Mistake(
            "the memory is too small",
            todo=7,
            edits=(
                (
                    "    probs = torch.empty((batch, n_heads, n_queries, n_keys), dtype=q.dtype, "
                    "device=q.device)",
                    "    probs = torch.empty((batch, n_heads, n_keys, n_queries), dtype=q.dtype, "
                    "device=q.device).fill_(0)[:, :, :1].contiguous()",
                ),
            ),
            says="the memory for the probabilities is too small: a kernel writes past its end",
            look="[batch, heads, n_queries, n_keys] elements.",
        ),
    ],
    hints={
        1: (
            "Number the heads through all batches: batch_head = batch * n_heads + head.",
            "// and % take a number apart again.",
            "batch_head = pid // ..., batch = batch_head // ..., head = batch_head % ...",
        ),
        2: (
            "Rows of q are queries. Columns of k_t are keys, so its rows are dims: k is read "
            "transposed, by its pointers alone.",
            "dims[None, :] is a row, dims[:, None] a column.",
            "q = tl.load(q_rows + dims[None, :] * ..., mask=q_mask, other=0.0)   and   "
            "k_t = tl.load(k_rows + dims[:, None] * ..., mask=k_mask, other=0.0)",
        ),
        3: (
            "exp(-inf) is 0: a masked key has no weight.",
            "tl.where(condition, a, b); the key's number is in cols, the query's in rows.",
            "scores = accumulator * scale, and under `if CAUSAL:` scores = tl.where(cols[None, :] "
            "<= ..., scores, ...)",
        ),
        4: (
            "Load with -inf in the masked lanes, subtract the maximum, exponentiate, divide by the "
            "sum, store.",
            "tl.max, tl.exp, tl.sum, all along axis 0.",
            "x = ..., numerator = tl.exp(x - ...), denominator = ..., probs = ..., tl.store(...)",
        ),
        5: (
            "The last query of the tile is first_row + BLOCK_M - 1, and it sees itself.",
            "tl.minimum(a, b).",
            "last_key = tl.minimum(n_keys, ...)",
        ),
        6: (
            "As in lesson 04, with probabilities for a and v for b.",
            "probs_rows and v_dims hold the other direction already.",
            "probs = tl.load(probs_rows + keys[None, :], ...), v = tl.load(v_dims + keys[:, None] "
            "* "
            "..., ...), accumulator = tl.dot(...)",
        ),
        7: (
            "One number for each query and key, of each head of each batch. 16,384 squared times 2 "
            "bytes is 537 MB, for one head.",
            "torch.empty(shape, dtype=q.dtype, device=q.device).",
            "scores = torch.empty((batch, n_heads, ..., ...), ...), and probs likewise",
        ),
    },
)
