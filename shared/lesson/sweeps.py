"""The sizes that several lessons sweep, and how much arithmetic they are."""

from __future__ import annotations

from collections.abc import Callable

NORM_COLUMNS = (256, 512, 768, 1024, 2048, 4096, 5120, 8192, 12000, 16384, 32768, 65536)


def norm_shape(n_cols: int) -> tuple[int, int]:
    """16,384 rows, or fewer, but 4,096 at least, where that would be more than 2**28 elements."""
    return max(min(16384, 2**28 // n_cols), 4096), n_cols


def cube(n: int) -> tuple[int, int, int]:
    """(M, N, K) of a product of square matrices."""
    return n, n, n


CUBES = ("2048 × 2048 × 2048", "4096 × 4096 × 4096", "8192 × 8192 × 8192")
OBLONG = "4096 × 11008 × 4096"  # a linear layer of a language model


def sides(text: str) -> tuple[int, ...]:
    """(M, N, K) from "4096 × 11008 × 4096"."""
    return tuple(map(int, text.split(" × ")))


def product_flops(shape: tuple[int, int, int]) -> float:
    """A product of (M, K) and (K, N) multiplies and adds M * N * K times."""
    M, N, K = shape
    return 2.0 * M * N * K


def tokens(head_dim: int) -> Callable[[int], tuple[int, ...]]:
    """Attention over T tokens, 16,384 of them in all, 2,048 numbers a token: shapes from T."""
    return lambda length: (16384 // length, 2048 // head_dim, length, length, head_dim)


def attention_flops(shape: tuple[int, ...]) -> float:
    """Two products, q @ k^T and probabilities @ v, for each batch and head."""
    batch, heads, n_queries, n_keys, head_dim = shape
    return 4.0 * batch * heads * n_queries * n_keys * head_dim
