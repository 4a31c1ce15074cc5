"""The mistakes that several lessons share in the very same words."""

from __future__ import annotations

from shared.lesson.todo import Mistake


def float32_output(old: str = " dtype=x.dtype,", new: str = "") -> Mistake:
    """The dtype of the output forgotten. old, new: the edit, where it is another one."""
    return Mistake(
        "the output is always float32", old, new,
        says="the output is allocated without a dtype, which means float32",
        look="torch.empty, which was given with the input's dtype.",
    )  # fmt: skip
