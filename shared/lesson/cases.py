"""The cases that several lessons share. Each is there because a mistake hides on the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared.lesson.exercise import Case


def row_cases(block: int = 0, minus_inf: bool = True) -> tuple[Case, ...]:
    """The cases that every kernel over the rows of a 2-D x shares.

    block: for kernels that loop over a row, the block they are expected to use; sizes around it
           are added. 0 for kernels that hold a row in one block.
    minus_inf: add rows that hold −inf (for maximum and softmax; a sum of them is only −inf).
    """
    cases = [
        Case((3, 5), again=True,
             why="fewer columns than any block: the padding lanes outnumber the row"),
        Case((5, 1), why="a row of one column"),
        Case((1, 3), values="all -1", why="with no value above zero, padding of 0 shows"),
        Case((4, 127), why="one less than a power of two"),
        Case((4, 128), why="exactly a power of two"),
        Case((4, 129), why="one more than a power of two"),
        Case((7, 781), values="around -2.3",
             why="a prime number of columns, far from zero on one side"),
        Case((7, 781), "float16", values="around -2.3",
             why="half precision: accumulate in float32"),
        Case((3, 1000), "float16", why="half precision, many columns"),
        Case((3, 65), values="all -1", why="every value the same and negative"),
        Case((3, 65), values="all -200", why="a running maximum must not start at a finite number"),
        Case((3, 70), values="one 100 per row", why="exp(100) overflows float32"),
        Case((3, 70), values="constant 3", why="a constant row: padding in a sum shows as a ratio"),
        Case((2, 700), values="ascending", why="the maximum grows all along the row"),
        Case((2, 700), values="descending", why="the maximum comes first"),
        Case((3, 70), values="last column 100",
             why="what is lost at the end of the row matters most"),
        Case((5, 7), values="rows 200 apart", why="each row has a maximum of its own"),
        Case((4, 5), layout="sliced", why="the next row does not start where this one ends"),
        Case((6, 50), layout="transposed", why="neighbours in a row are far apart in memory"),
        Case((5, 33), layout="every other element", why="a column stride of 2"),
        Case((4, 37), layout="expanded", why="a row stride of 0"),
        Case((5, 33), "float16", layout="transposed", why="strides count elements, not bytes"),
        Case((3, 8), "float16", layout="rows 2**30 apart",
             why="row times stride passes 2**31: it needs 64-bit offsets"),
        Case((8, 3), "float16", layout="columns 2**30 apart",
             why="column times stride passes 2**31: it needs 64-bit offsets"),
        Case((0, 5), why="no rows: an empty result, not an error"),
        Case((7, 781), "bfloat16", values="around -2.3", gpu_only=True, why="bfloat16"),
        Case((3000, 17), gpu_only=True, why="many short rows"),
        Case((64, 12000), gpu_only=True, why="a long row that is not a power of two"),
        Case((2, 65536), "float16", gpu_only=True, why="the longest row that one block serves"),
    ]
    if minus_inf:
        cases += [
            Case((3, 40), values="some -inf",
                 why="-inf among ordinary values is an ordinary value"),
            Case((3, 40), values="one row all -inf", why="a row of -inf only follows PyTorch"),
        ]
    if block:
        cases += [
            Case((2, block + 1), why="one column in the second block"),
            Case((2, 2 * block + 781), values="around -2.3",
                 why="three blocks, the last one ragged"),
            Case((1, 3 * block), values="ascending", why="the maximum grows in every block"),
            Case((1, 3 * block), values="descending", why="the maximum is in the first block"),
            Case((1, 2 * block + 5), values="all -200", why="no value near zero in any block"),
            Case((2, 2 * block + 5), "float16", layout="every other element",
                 values="last column 100", why="the last element, in the last block, decides"),
        ]
        if minus_inf:
            cases.append(
                Case((1, 3 * block), values=("first {n} columns -inf", block),
                     why="a whole block of -inf first: (-inf) - (-inf) is NaN")
            )
    return tuple(cases)


def norm_cases() -> tuple[Case, ...]:
    """The cases of a normalisation over the rows of a 2-D x, with a weight and perhaps more."""
    return (
        Case((3, 5), again=True, why="fewer columns than any block"),
        Case((5, 1), why="a row of one column: its variance is 0"),
        Case((6, 2), why="two columns: n and n - 1 differ by half"),
        Case((4, 127), why="one less than a power of two"),
        Case((4, 128), why="exactly a power of two"),
        Case((4, 129), why="one more than a power of two"),
        Case((1, 3), values={"x": "around 10"},
             why="a mean far from 0 shows padding in the variance"),
        Case((7, 781), values={"x": "around 10"}, why="a prime number of columns, a mean of 10"),
        Case((7, 781), "float16", why="half precision: accumulate in float32"),
        Case((5, 700), "float16", values={"x": "around 300"}, why="x² overflows float16"),
        Case((5, 300), values={"x": "around 10000, steps of 1"},
             why="a large mean, a small variance"),
        Case((5, 300), values={"x": "around 0.001"}, why="eps is as large as the variance"),
        Case((5, 70), options={"eps": 0.5}, why="eps is an argument"),
        Case((4, 65), values={"x": "constant 3"}, why="rows without variance"),
        Case((4, 65), values={"x": "zeros"}, why="rows of zeros: without eps, 0 / 0"),
        Case((5, 70), values={"x": "rows 200 apart"}, why="each row has statistics of its own"),
        Case((2, 700), values={"x": "last column 100"},
             why="what is lost at the end of a row counts"),
        Case((4, 5), layout="sliced", why="the next row does not start where this one ends"),
        Case((6, 50), layout="transposed", why="neighbours in a row are far apart in memory"),
        Case((5, 33), layout="every other element", why="strides of 2, of the weight too"),
        Case((4, 37), layout={"x": "expanded"}, why="a row stride of 0"),
        Case((5, 33), "float16", layout={"x": "transposed"},
             why="strides count elements, not bytes"),
        Case((3, 8), "float16", layout={"x": "rows 2**30 apart"},
             why="row times stride passes 2**31: it needs 64-bit offsets"),
        Case((8, 3), "float16", layout={"x": "columns 2**30 apart"},
             why="column times stride passes 2**31: it needs 64-bit offsets"),
        Case((2, 16385), values={"x": "around 10"}, why="a row that is too long for registers"),
        Case((2, 33000), values={"x": "around 10"},
             why="a row of several blocks, the last one ragged"),
        Case((1, 20000), "float16", layout="every other element", why="a long row of a view"),
        Case((0, 5), why="no rows: an empty result, not an error"),
        Case((4, 0), why="no columns: an empty result, not an error"),
        Case((1, 65537), why="a row longer than any block"),
        Case((3, 4), refuses="weight", misfit="one element longer", why="a weight must fit"),
        Case((3, 4), refuses="weight", misfit="of another dtype", why="one dtype for all"),
        Case((3, 4), gpu_only=True, refuses="weight", misfit="on the CPU", why="one device"),
        Case((7, 781), "bfloat16", values={"x": "around 10"}, gpu_only=True, why="bfloat16"),
        Case((3000, 17), gpu_only=True, why="many short rows"),
        Case((64, 12000), gpu_only=True, why="a long row that is not a power of two"),
        Case((2, 65536), "float16", gpu_only=True, why="the longest row"),
        Case((32769, 65536), "float16", layout="expanded", gpu_only=True,
             why="more than 2**31 elements"),
    )


def elementwise_cases() -> tuple[Case, ...]:
    """The cases of a function that works element by element on tensors of any shape."""
    return (
        Case((3, 5), again=True, why="smaller than any block"),
        Case((1,), why="one element, one axis"),
        Case((4, 1), why="rows of one element"),
        Case((1023,), why="one less than a power of two"),
        Case((1024,), why="exactly a power of two"),
        Case((4097,), why="one more than a power of two"),
        Case((2, 3, 5, 7), why="four axes"),
        Case((7, 781), values="from -120 to 120", why="exp(89) overflows float32"),
        Case((7, 781), "float16", why="half precision: compute in float32"),
        Case((5, 700), "float16", values="up to 60000", why="large values in half precision"),
        Case((3, 2500), values="around -2.3", why="where approximations differ most"),
        Case((4, 5), layout="sliced", why="the next row does not start where this one ends"),
        Case((2, 9, 50), layout="transposed", why="neighbours in a row are far apart in memory"),
        Case((5, 33), layout="every other element", why="a column stride of 2"),
        Case((3, 2100), layout="sliced", why="several blocks in each row of a view"),
        Case((5, 33), "float16", layout="transposed", why="strides count elements, not bytes"),
        Case((3, 8), "float16", layout={"x": "rows 2**30 apart"},
             why="row times stride passes 2**31: it needs 64-bit offsets"),
        Case((8, 3), "float16", layout={"x": "columns 2**30 apart"},
             why="column times stride passes 2**31: it needs 64-bit offsets"),
        Case((0, 5), why="no rows: an empty result, not an error"),
        Case((5, 0), why="no columns: an empty result, not an error"),
        Case((7, 781), "bfloat16", values="around -2.3", gpu_only=True, why="bfloat16"),
        Case((5, 700), "bfloat16", values="up to 60000", gpu_only=True, why="large bfloat16"),
        Case((70000, 3), layout="sliced", gpu_only=True, why="many short rows of a view"),
        Case((32769, 65536), "float16", layout="expanded", gpu_only=True,
             why="more than 2**31 elements"),
    )


def matmul_cases(**given) -> tuple[Case, ...]:
    """The cases of a product of a (M, K) and b (K, N), shapes given as (M, N, K).

    given: passed on to every case.
    """

    def case(*args, **kwargs) -> Case:
        return Case(*args, **{**given, **kwargs})

    return (
        case((16, 48, 17), values="all 1", why="17 if K is masked, 32 if not, 16 if it is floored"),
        case((2, 3, 5), again=True, why="smaller than any tile"),
        case((1, 1, 1), why="one element"),
        case((16, 16, 16), why="exactly the smallest tile of a tensor core"),
        case((33, 65, 129), why="one more than a power of two in every direction"),
        case((3, 300, 70), why="several tiles along N, the last one ragged"),
        case((300, 5, 70), why="several tiles along M, the last one ragged"),
        case((257, 260, 200), why="several tiles in every direction, all ragged"),
        case((5, 7, 512), why="many full blocks along K"),
        case((130, 40, 33), "float16", why="half precision"),
        case((20, 300, 777), "float16", why="half precision, a long sum"),
        case((4, 6, 320), "float16",
             values={"a": ("2048, ones, -2048 in blocks of {n}", 16), "b": "all 1"},
             why="the ones in the middle are lost in a sum of half precision"),
        case((40, 24, 70), layout={"a": "transposed"},
             why="neighbours in a row of a are far apart"),
        case((24, 40, 70), layout={"b": "transposed"}, why="a weight is often stored as (N, K)"),
        case((40, 24, 70), layout="sliced", why="the next row does not start where this one ends"),
        case((9, 20, 70), layout="every other element", why="column strides of 2"),
        case((9, 20, 70), layout={"b": "expanded"}, why="a row stride of 0"),
        case((33, 9, 17), "float16", layout="transposed", why="strides count elements, not bytes"),
        case((3, 5, 8), "float16", layout={"a": "rows 2**30 apart"},
             why="row times stride passes 2**31: it needs 64-bit offsets"),
        case((5, 8, 3), "float16", layout={"b": "rows 2**30 apart"},
             why="k times stride passes 2**31: it needs 64-bit offsets"),
        case((5, 3, 8), "float16", layout={"b": "columns 2**30 apart"},
             why="column times stride passes 2**31: it needs 64-bit offsets"),
        case((0, 5, 7), why="no rows: an empty result, not an error"),
        case((5, 7, 0), why="nothing to add up: zeros"),
        case((3, 4, 5), refuses="a", misfit="one element longer", why="inner sizes that differ"),
        case((3, 4, 5), refuses="b", misfit="of another dtype", why="two dtypes"),
        case((3, 4, 5), gpu_only=True, refuses="b", misfit="on the CPU", why="two devices"),
        case((300, 520, 333), "bfloat16", gpu_only=True, why="bfloat16"),
        case((1024, 1024, 1024), "float16", gpu_only=True, why="no ragged tile at all"),
        case((1000, 1111, 4096), gpu_only=True, why="a long sum in float32, or in TF32"),
        case((8_388_616, 16, 16), "float16", gpu_only=True,
             why="65,537 tiles along M: the second axis of a grid ends at 65,535"),
        case((32776, 65536, 16), "float16", layout={"a": "expanded"}, gpu_only=True,
             why="a result of more than 2**31 elements"),
    )


def attention_arguments(shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """q, k and v for a shape (batch, heads, n_queries, n_keys, head_dim)."""
    batch, heads, n_queries, n_keys, head_dim = shape
    keys = (batch, heads, n_keys, head_dim)
    return {"q": (batch, heads, n_queries, head_dim), "k": keys, "v": keys}


def attention_cases() -> tuple[Case, ...]:
    """The cases of attention, shapes as in `attention_arguments`."""
    causal = {"causal": True}
    index = {"q": "zeros", "v": "row numbers"}
    return (
        Case((2, 3, 5, 5, 16), again=True, why="fewer keys than any block"),
        Case((2, 2, 5, 5, 16), options=causal, why="a causal mask"),
        Case((1, 2, 1, 1, 16), why="one query, one key: the result is v"),
        Case((1, 1, 17, 17, 16), values={"q": "zeros", "v": "all 1"},
             why="equal weights of ones give 1: padding in the sum shows as a ratio"),
        Case((1, 1, 70, 70, 32), why="a ragged number of keys, without a causal mask to hide it"),
        Case((1, 1, 128, 128, 64), why="no ragged block at all"),
        Case((1, 1, 140, 140, 16), why="many blocks of queries and keys, the last ones ragged"),
        Case((1, 1, 20, 140, 16), values={"k": "row numbers", "q": "all 1"},
             why="the scores ascend"),
        Case((2, 2, 3, 90, 16), why="fewer queries than keys"),
        Case((1, 1, 70, 3, 16), why="more queries than keys"),
        Case((1, 1, 6, 100, 16), values={"q": "all 100", "k": "all -50"}, why="scores of -20,000"),
        Case((1, 1, 70, 70, 16), values={"q": "all 100", "k": "all -50"}, options=causal,
             why="a masked score must be below -20,000 too"),
        Case((1, 1, 9, 140, 16), values={"q": "large", "k": "large"},
             why="exp() of a score overflows"),
        Case((1, 2, 33, 65, 24), why="a head_dim that is not a power of two"),
        Case((1, 1, 20, 50, 128), why="a large head"),
        Case((1, 1, 20, 50, 200), why="a larger head, padded"),
        Case((1, 1, 70, 130, 64), "float16", why="half precision"),
        Case((1, 1, 1, 1, 16), options=causal, why="one query, one key, causal"),
        Case((1, 1, 100, 100, 16), values=index, options=causal,
             why="the mean of 0 to i is i / 2: a shifted mask shows as a shift"),
        Case((1, 1, 150, 150, 16), options=causal, why="many blocks before the diagonal"),
        Case((1, 1, 20, 90, 16), values={"k": "row numbers", "q": "all 1"}, options=causal,
             why="ascending"),
        Case((1, 2, 3, 90, 16), options=causal, why="causal, fewer queries than keys"),
        Case((1, 1, 100, 40, 16), options=causal, why="causal, more queries than keys"),
        Case((1, 1, 90, 90, 64), "float16", options=causal, why="causal, half precision"),
        Case((2, 3, 9, 70, 16), layout="sequence before heads", why="[batch, seq, heads, dim]"),
        Case((2, 2, 7, 40, 16), layout={"k": "sequence before heads"},
             why="k has strides of its own"),
        Case((2, 2, 7, 40, 16), layout={"v": "transposed"}, why="v lies differently from k"),
        Case((2, 2, 7, 37, 16), layout="spare rows", why="NaN lies after the last key of a head"),
        Case((1, 2, 7, 40, 16), layout="every other element", why="a last stride of 2"),
        Case((2, 2, 7, 40, 16), layout="expanded", why="one batch for all: a stride of 0"),
        Case((0, 2, 5, 5, 16), why="no batch: an empty result"),
        Case((1, 2, 0, 5, 16), why="no queries: an empty result"),
        Case((1, 2, 5, 0, 16), why="no keys: zeros"),
        Case((1, 2, 3, 4, 16), refuses="k", misfit="one element longer",
             why="one head_dim for all"),
        Case((1, 2, 3, 4, 16), refuses="v", misfit="of another dtype", why="one dtype for all"),
        Case((1, 2, 3, 4, 16), gpu_only=True, refuses="k", misfit="on the CPU", why="one device"),
        Case((2, 3, 333, 777, 128), "bfloat16", gpu_only=True, why="bfloat16"),
        Case((1, 2, 1000, 1000, 64), "bfloat16", options=causal, gpu_only=True, why="bfloat16"),
        Case((1, 2, 1111, 1111, 128), "float16", options=causal, gpu_only=True, why="long, causal"),
        Case((1, 2, 600, 900, 256), "float16", gpu_only=True, why="the largest head"),
        Case((1, 2, 500, 700, 64), gpu_only=True, why="float32, or TF32"),
        Case((8192, 8, 3, 5, 16), "float16", gpu_only=True, why="batch times heads is 65,536"),
        Case((16400, 1, 1024, 1, 128), "float16", layout={"q": "expanded"}, gpu_only=True,
             why="more than 2**31 elements"),
    )


def with_cases(
    cases: Sequence[Case], *more: Case, without: Callable[[Case], bool] | None = None
) -> tuple[Case, ...]:
    """`cases` less those for which `without` is true, then `more`."""
    kept = [case for case in cases if without is None or not without(case)]
    return (*kept, *more)
