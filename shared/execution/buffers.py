"""Tensors between guard zones: layouts, NaN-filled outputs, and what was written where it should
not be.

A guard zone is 64 KiB of the byte 0xFF on either side of a tensor. As a float it reads NaN, so a
kernel that reads past the end poisons its result; a kernel that writes there changes the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode

GUARD_BYTES = 1 << 16
_GUARD_BYTE = 0xFF
_UNBACKED_SPAN = 1 << 28  # above this many elements a buffer is neither filled nor compared whole


def _contiguous_strides(shape: tuple[int, ...]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _transposed(shape):
    *leading, rows, cols = shape
    strides = _contiguous_strides((*leading, cols, rows))
    return [*strides[:-2], strides[-1], strides[-2]]


def _far_rows(shape):
    return [1 << 30, *_contiguous_strides(shape)[1:]]


def _far_columns(shape):
    return [*_contiguous_strides((*shape[:-1], 1))[:-1], 1 << 30]


def _spare_rows(shape):
    return _contiguous_strides((*shape[:-2], shape[-2] + 3, shape[-1]))


def _sequence_first(shape):
    """[batch, heads, seq, dim] in memory that is [batch, seq, heads, dim]."""
    batch, heads, rows, dim = shape
    a, b, c, d = _contiguous_strides((batch, rows, heads, dim))
    return [a, c, b, d]


# name -> (what the strides are, from a shape; the fewest axes it makes sense for)
LAYOUTS = {
    "contiguous": (_contiguous_strides, 0),
    "sliced": (lambda shape: _contiguous_strides((*shape[:-1], shape[-1] + 3)), 2),
    "spare rows": (_spare_rows, 2),
    "sequence before heads": (_sequence_first, 4),
    "transposed": (_transposed, 2),
    "every other element": (lambda shape: [2 * s for s in _contiguous_strides(shape)], 1),
    "expanded": (lambda shape: [0, *_contiguous_strides(shape)[1:]], 1),
    "rows 2**30 apart": (_far_rows, 2),
    "columns 2**30 apart": (_far_columns, 1),
}


@dataclass
class Guarded:
    """A tensor in the middle of a larger allocation.

    name:     the argument's name, or "the output".
    view:     the tensor the kernel sees.
    buffer:   the whole allocation as uint8; None for a span too large to fill.
    original: the bytes of `buffer` (of `view` where there is no buffer) as handed out;
              None for an output, whose inside may change.
    """

    name: str
    view: torch.Tensor
    buffer: torch.Tensor | None
    original: torch.Tensor | None = None

    def freeze(self) -> None:
        """Remember the present contents: any later change is reported."""
        self.original = (self.view if self.buffer is None else self.buffer).clone()

    def damage(self) -> str:
        """What was changed that should not have been, in words; empty if nothing was."""
        if self.view.numel() == 0:
            return ""
        itemsize = self.view.element_size()
        if self.buffer is None:
            if self.original is None or _same_bytes(
                self.view.contiguous(), self.original.contiguous()
            ):
                return ""
            return f"{self.name} itself was changed: inputs must stay as they are"
        if self.original is not None:
            changed = torch.nonzero(self.buffer != self.original).flatten()
        else:
            end = self.buffer.numel() - GUARD_BYTES
            front = torch.nonzero(self.buffer[:GUARD_BYTES] != _GUARD_BYTE).flatten()
            back = torch.nonzero(self.buffer[end:] != _GUARD_BYTE).flatten() + end
            changed = torch.cat([front, back])
        if changed.numel() == 0:
            return ""
        elements = torch.unique((changed - GUARD_BYTES).div(itemsize, rounding_mode="floor"))
        span = (self.buffer.numel() - 2 * GUARD_BYTES) // itemsize
        after = elements[elements >= span]
        before = elements[elements < 0]
        if after.numel():
            what = f"{_count(after.numel(), 'element')} written past the end of {self.name}"
            return f"{what}, the first one at {int(after[0]) - span + 1} past its last element"
        if before.numel():
            what = f"{_count(before.numel(), 'element')} written before the start of {self.name}"
            return f"{what}, the nearest one {-int(before[-1])} before its first element"
        inside = {int(e) for e in elements}
        index = _element_index(int(elements[0]), self.view)
        if index is None:
            what = _count(len(inside), "element")
            return f"{what} written between the rows of {self.name}, which is a view"
        where = ", ".join(map(str, index))
        return f"{self.name} itself was changed, first at [{where}]: inputs must stay as they are"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def _element_index(position: int, view: torch.Tensor) -> tuple[int, ...] | None:
    """The index of the element at `position` (in elements from the first) or None if it belongs to
    no element.
    """
    index = [0] * view.dim()
    for axis in sorted(range(view.dim()), key=lambda a: -view.stride(a)):
        if view.stride(axis):
            index[axis], position = divmod(position, view.stride(axis))
            if index[axis] >= view.shape[axis]:
                return None
    return tuple(index) if position == 0 else None


def element_index(position: int, view: torch.Tensor) -> tuple[int, ...] | None:
    """Which element of `view` lies `position` elements after its first one.

    Returns None for a position between rows or outside of the view.
    """
    return _element_index(position, view) if position >= 0 else None


def span_of(shape, strides) -> int:
    """From the first to the last element of a strided tensor, in elements; 0 if it is empty."""
    if 0 in tuple(shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def allocate(shape, strides, dtype: torch.dtype, device, name: str) -> Guarded:
    """An uninitialised (NaN) strided tensor between two guard zones."""
    span = span_of(shape, strides)
    if span > _UNBACKED_SPAN and 1 << 30 in tuple(strides):
        # Only the pages that hold an element are ever touched: 4 GiB of address space cost nothing.
        base = torch.empty(span, dtype=dtype, device=device)
        return Guarded(name, base.as_strided(shape, strides), None)
    size = span * dtype.itemsize
    padded = -(-size // 16) * 16
    buffer = torch.full((padded + 2 * GUARD_BYTES,), _GUARD_BYTE, dtype=torch.uint8, device=device)
    buffer = buffer[: size + 2 * GUARD_BYTES]
    inside = buffer[GUARD_BYTES : GUARD_BYTES + padded].narrow(0, 0, size).view(dtype)
    return Guarded(name, inside.as_strided(shape, strides, inside.storage_offset()), buffer)


def place(values: torch.Tensor, layout: str, name: str, device, dtype: torch.dtype) -> Guarded:
    """Put `values` (any dtype, on the CPU) into guarded memory with the given layout.

    A layout that needs more axes than `values` has falls back to contiguous. For "expanded" the
    first slice along the first axis is repeated.

    Raises KeyError for an unknown layout.
    """
    strides_of, least_axes = LAYOUTS[layout]
    if values.dim() < least_axes:
        strides_of = _contiguous_strides
    shape = tuple(values.shape)
    guarded = allocate(shape, strides_of(shape), dtype, device, name)
    if values.numel():
        if layout == "expanded" and guarded.view.stride(0) == 0:
            guarded.view[:1].copy_(values[:1])
        else:
            guarded.view.copy_(values)
    guarded.freeze()
    return guarded


class GuardedAllocations(TorchFunctionMode):
    """While active, every new tensor lies between guard zones, and `torch.empty` holds NaN.

    `made` lists what was allocated; ask each one for its `damage()` afterwards.
    """

    _FACTORIES = (
        "empty",
        "zeros",
        "ones",
        "full",
        "new_empty",
        "new_zeros",
        "new_ones",
        "new_full",
    )

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Guarded] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        base = getattr(func, "__name__", "").removesuffix("_like").removesuffix("_strided")
        if base not in self._FACTORIES or type(result) is not torch.Tensor or result.numel() == 0:
            return result
        if result.layout is not torch.strided or result.device.type == "meta":
            return result
        guarded = allocate(result.shape, result.stride(), result.dtype, result.device, "the output")
        if not base.endswith("empty"):
            guarded.view.copy_(result)
        self.made.append(guarded)
        return guarded.view
