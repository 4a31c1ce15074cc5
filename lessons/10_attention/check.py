"""The self-check of lesson 10, as data. Run by itself it is ./run.sh 10_attention."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import (
    Benchmark, Exercise, Function, Mistake, Solved, Study, Todo, Traffic, run_by_itself, torch,
)
from shared.lesson.cases import attention_arguments, attention_cases
from shared.lesson.sweeps import attention_flops, tokens


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


def causal_steps(q, k, v):
    return three_steps(q, k, v, causal=True)


def solved_causal(script, q, k, v):
    return script.naive_attention(q, k, v, causal=True)


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
                shape=tokens(128),
                baselines={"eager, three steps": three_steps},
                flops=attention_flops,
                memory=True,
            ),
            studies=[
                Study(
                    name="causal",
                    x="T, head_dim 64",
                    values=(1024, 4096),
                    shape=tokens(64),
                    candidates={
                        "eager, three steps": causal_steps,
                        "naive_attention": Solved("attention.py", solved_causal),
                    },
                ),
            ],
        )
    ],
    todos=[
        Todo(1, hints=(
            "Number the heads through all batches: batch_head = batch * n_heads + head.",
            "// and % take a number apart again.",
            "batch_head = pid // ..., batch = batch_head // ..., head = batch_head % ...",
        ), mistakes=[
            Mistake("batch and head exchanged",
                    "// n_heads\n    head = batch_head %", "% n_heads\n    head = batch_head //",
                    says="batch and head are taken for each other",
                    look="// gives the batch, % the head."),
            Mistake("always the first batch", "batch_head // n_heads", "0 * batch_head",
                    says="every batch is computed from the first one",
                    look="batch_head // n_heads."),
        ]),
        Todo(2, hints=(
            """Rows of q are queries. Columns of k_t are keys, so its rows are dims: k is read
            transposed, by its pointers alone.""",
            "dims[None, :] is a row, dims[:, None] a column.",
            """q = tl.load(q_row_ptrs + dims[None, :] * ..., mask=q_mask, other=0.0)   and   k_t =
            tl.load(k_row_ptrs + dims[:, None] * ..., mask=k_mask, other=0.0)""",
        ), mistakes=[
            Mistake("k read with the strides of q",
                    "batch * stride_k_batch + head * stride_k_head",
                    "batch * stride_q_batch + head * stride_q_head",
                    also=[("cols[None, :] * stride_k_row", "cols[None, :] * stride_q_row")],
                    says="k is read with the strides of q, and it has its own",
                    look="stride_k_batch, stride_k_head, stride_k_row."),
            Mistake("no mask for the dims of k", "k_mask", "cols[None, :] < n_keys",
                    says="the load of k goes on past the last dim of a head, into the next key",
                    look="the mask of k: both directions."),
            Mistake("no other for q and k", "q_mask, other=0.0", "q_mask",
                    also=[(", other=0.0", "")],
                    says="the masked lanes were given no value, and they take part in the product",
                    look="`other` of both loads."),
        ]),
        Todo(3, hints=(
            "exp(-inf) is 0: a masked key has no weight.",
            "tl.where(condition, a, b); the key's number is in cols, the query's in rows.",
            """scores = accumulator * scale, and under `if CAUSAL:` scores = tl.where(cols[None,
            :] <= ..., scores, ...)""",
        ), mistakes=[
            Mistake("no scale", " * scale", "",
                    says="the scores are not scaled by 1 / sqrt(head_dim)",
                    look="* scale."),
            Mistake("divided by head_dim", "* scale", "* scale * scale",
                    says="the scores are divided by head_dim; its root is meant",
                    look="scale, which is 1 / sqrt(head_dim) already."),
            Mistake("the query does not see itself", "[None, :] <=", "[None, :] <",
                    says="query i sees only keys before i, so the first query sees none: 0 / 0",
                    look="<= or <."),
            Mistake("one key too many",
                    'scores = tl.where(cols[None, :] <= rows[:, None], scores, -float("inf"))',
                    'scores = tl.where(cols[None, :] - 1 <= rows[:, None], scores, -float("inf"))',
                    says="query i sees key i + 1, which comes after it",
                    look="which keys come after a query."),
            Mistake("the mask reversed", "[None, :] <", "[None, :] >",
                    says="query i sees the keys from i on, in place of those up to i",
                    look="the direction of the comparison."),
            Mistake("aligned at the end", "[:, None]", "[:, None] + n_keys - n_queries",
                    says="""the mask is aligned at the last query and key. With as many keys as
                        queries that is the same; otherwise PyTorch aligns at the first""",
                    look="query i sees the keys 0 to i."),
            Mistake("a finite number for masked scores", 'float("inf")', "10000.0",
                    says="masked scores are -10,000, which is more than a real score can be",
                    look='-float("inf").'),
        ]),
        Todo(4, hints=(
            """Load with -inf in the masked lanes, subtract the maximum, exponentiate, divide by
            the sum, store.""",
            "tl.max, tl.exp, tl.sum, all along axis 0.",
            "x = ..., numerator = tl.exp(x - ...), denominator = ..., probs = ..., tl.store(...)",
        ), mistakes=[
            Mistake("padding of 0 in the softmax", '-float("inf")', "0.0",
                    says="""the masked lanes of a row of scores hold 0: each adds exp(0 - max)
                        to the sum""",
                    look="`other` of the load: exp() of it must be 0."),
            Mistake("the maximum is not subtracted", " - tl.max(x, axis=0)", "",
                    says="""the maximum is not subtracted: exp of a large score is inf, and inf
                        / inf is NaN""",
                    look="x - tl.max(x, axis=0)."),
            Mistake("not divided by the sum", "/ denominator", "/ 1.0",
                    says="the numerators are stored, and not the probabilities",
                    look="the division."),
        ]),
        Todo(5, hints=(
            "The last query of the tile is first_row + BLOCK_M - 1, and it sees itself.",
            "tl.minimum(a, b).",
            "last_key = tl.minimum(n_keys, ...)",
        ), mistakes=[
            Mistake("the diagonal left out", " + BLOCK_M", "",
                    says="the loop ends where this tile's queries begin, and they see themselves",
                    look="the last query of the tile, first_row + BLOCK_M - 1."),
            Mistake("probabilities of the last query",
                    "first_row + BLOCK_M", "n_queries - first_row",
                    says="the loop's end counts from the end of the queries",
                    look="first_row + BLOCK_M."),
        ]),
        Todo(6, hints=(
            "As in lesson 04, with probabilities for a and v for b.",
            "probs_row_ptrs and v_dim_ptrs hold the other direction already.",
            """probs = tl.load(probs_row_ptrs + keys[None, :], ...), v = tl.load(v_dim_ptrs +
            keys[:, None] * ..., ...), accumulator = tl.dot(...)""",
        ), mistakes=[
            Mistake("no mask for the keys of v", "(keys[:, None] < n_keys) & ", "",
                    says="""the load of v goes on past the last key: what lies there is
                        multiplied by 0, and 0 * NaN is NaN""",
                    look="v_mask: both directions."),
            Mistake("v read with a contiguous row", "stride_v_row", "head_dim",
                    says="the rows of v are taken to follow each other, which is not so in a view",
                    look="stride_v_row."),
            Mistake("the accumulator overwritten", "accumulator, ", "",
                    says="only the last block of keys counts: the product replaces the accumulator",
                    look="the third argument of tl.dot."),
        ]),
        Todo(7, hints=(
            """One number for each query and key, of each head of each batch. 16,384 squared
            times 2 bytes is 537 MB, for one head.""",
            "torch.empty(shape, dtype=q.dtype, device=q.device).",
            "scores = torch.empty((batch, n_heads, ..., ...), ...), and probs likewise",
        ), mistakes=[
            Mistake("the memory is too small",
                    "probs = torch.empty((batch, n_heads, n_queries, n_keys)",
                    "probs = torch.zeros((batch, n_heads, 1, n_queries)",
                    says="""the memory for the probabilities is too small: a kernel writes past
                        its end""",
                    look="[batch, heads, n_queries, n_keys] elements."),
        ]),
    ],
)

if __name__ == "__main__":
    run_by_itself()
