"""The mistakes that several lessons share in the very same words."""

from __future__ import annotations

from shared.lesson.todo import Mistake


def float32_output(old: str = " dtype=x.dtype,", new: str = "") -> Mistake:
    """The dtype of the output forgotten. old, new: the edit, where it is another one."""
    return Mistake(
        "the output is always float32",
        old,
        new,
        says="the output is allocated without a dtype, which means float32",
        look="torch.empty, which was given with the input's dtype.",
    )


def narrow_offsets() -> Mistake:
    """A program id in 32 bits, and so every offset made from it."""
    return Mistake(
        "32-bit offsets",
        "(0).to(tl.int64)",
        "(0)",
        says="a row's number times its stride passes 2**31 and wraps around in 32 bits",
        look="the program id, which was given in 64 bits.",
    )


def rows_past_the_last() -> Mistake:
    """Rows that do not exist, where a program takes several."""
    return Mistake(
        "rows past the last one",
        "tl.minimum(rows, n_rows - 1)",
        "rows",
        says="the last program takes rows that do not exist",
        look="tl.minimum, which was given.",
    )


def lanes_counted(name: str) -> Mistake:
    """A mean of squares over a row in two blocks, padding counted."""
    return Mistake(
        name,
        "n_cols",
        "(HEAD + TAIL)",
        says="the squares are divided by the number of lanes, and some of them are padding",
        look="how many columns a row has: n_cols.",
    )


def tail_store_unmasked() -> Mistake:
    """The second of a row's two blocks stored without its mask."""
    return Mistake(
        "no mask on the tail's store",
        ", mask=mask)",
        ")",
        says="""the store of the tail has no mask: it writes on into the next row, and past the end
            of out""",
        look="the mask of the store.",
    )


def last_block_only(name: str) -> Mistake:
    """The squares of a long row replaced by each block."""
    return Mistake(
        name,
        "squares +=",
        "squares =",
        says="each block of a long row replaces the squares of those before it",
        look="+=.",
    )
