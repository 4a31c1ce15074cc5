"""The tensors that a `Case` describes: values from a seed, the same on every device."""

from __future__ import annotations

import math

import torch

from shared.execution.buffers import Guarded, place
from shared.lesson.exercise import Case, Function, Values

_LARGE = 1 << 27  # elements; past this, values are drawn once and repeated by an expanded layout


def _normal(shape, generator):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _ramp(shape, generator):
    """Even steps along the last axis, from 0 to 200: far enough that exp() of the difference
    overflows.
    """
    n = shape[-1] if shape else 1
    steps = torch.linspace(0.0, 200.0, max(n, 2), dtype=torch.float64)[:n]
    return steps.expand(shape).clone()


def _one_large(shape, generator):
    values = torch.zeros(shape, dtype=torch.float64)
    values[..., 0] = 100.0
    return values


def _last_large(shape, generator):
    values = 0.1 * _normal(shape, generator)
    values[..., -1] = 100.0
    return values


def _diagonal_large(shape, generator):
    values = _normal(shape, generator)
    values.diagonal().add_(8.0)
    return values


def _rows_apart(shape, generator):
    levels = 200.0 * torch.arange(shape[0], dtype=torch.float64)
    return _normal(shape, generator) + levels.reshape(-1, *[1] * (len(shape) - 1))


def _range(shape, generator):
    """Even steps from -120 to 120 over the whole tensor."""
    n = math.prod(shape)
    return torch.linspace(-120.0, 120.0, max(n, 2), dtype=torch.float64)[:n].reshape(shape)


def _huge(shape, generator):
    """Both signs, from 1 to 60,000, which float16 can just hold."""
    exponents = torch.rand(shape, generator=generator, dtype=torch.float64)
    return 60000.0**exponents * torch.sign(_normal(shape, generator))


def _row_numbers(shape, generator):
    """Every element of row i of the last two axes is i."""
    rows = torch.arange(shape[-2], dtype=torch.float64)
    return rows[:, None].expand(shape).clone()


def _some_minus_inf(shape, generator):
    values = _normal(shape, generator)
    values[torch.rand(shape, generator=generator) < 0.3] = -math.inf
    values[..., 0] = 0.5
    return values


def _one_row_minus_inf(shape, generator):
    values = _normal(shape, generator)
    values[-1] = -math.inf
    return values


def _first_minus_inf(shape, generator, n):
    values = _normal(shape, generator)
    values[..., :n] = -math.inf
    return values


def _cancelling(shape, generator, n):
    values = torch.ones(shape, dtype=torch.float64)
    values[..., :n], values[..., -n:] = 2048.0, -2048.0
    return values


# name -> function of (shape, generator), and of n if the name has {n} in it, that returns float64
# on the CPU
VALUES = {
    "normal": _normal,
    "zeros": lambda shape, g: torch.zeros(shape, dtype=torch.float64),
    "around -2.3": lambda shape, g: 0.5 * _normal(shape, g) - 2.3,
    "all 1": lambda shape, g: torch.ones(shape, dtype=torch.float64),
    "all 100": lambda shape, g: torch.full(shape, 100.0, dtype=torch.float64),
    "all -50": lambda shape, g: torch.full(shape, -50.0, dtype=torch.float64),
    "row numbers": _row_numbers,
    "large": lambda shape, g: 6.0 * _normal(shape, g),
    "all -1": lambda shape, g: torch.full(shape, -1.0, dtype=torch.float64),
    "all -200": lambda shape, g: torch.full(shape, -200.0, dtype=torch.float64),
    "one 100 per row": _one_large,
    "constant 3": lambda shape, g: torch.full(shape, 3.0, dtype=torch.float64),
    "ascending": _ramp,
    "descending": lambda shape, g: _ramp(shape, g).flip(-1),
    "last column 100": _last_large,
    "diagonal large": _diagonal_large,
    "rows 200 apart": _rows_apart,
    "from -120 to 120": _range,
    "up to 60000": _huge,
    "around 10": lambda shape, g: _normal(shape, g) + 10.0,
    "around 10000, steps of 1": lambda shape, g: (_normal(shape, g) + 1e4).round(),
    "around 300": lambda shape, g: 50.0 * _normal(shape, g) + 300.0,
    "around 0.001": lambda shape, g: 1e-3 * _normal(shape, g),
    "some -inf": _some_minus_inf,
    "one row all -inf": _one_row_minus_inf,
    "first {n} columns -inf": _first_minus_inf,
    "2048, ones, -2048 in blocks of {n}": _cancelling,
}


def draw(values: Values, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Values of a kind, float64, on the CPU. Raises KeyError for an unknown kind."""
    if isinstance(values, str):
        return VALUES[values](shape, generator)
    kind, n = values
    return VALUES[kind](shape, generator, n)


# What "does not fit" means for an argument that must be refused: name -> change of (shape, dtype).
MISFITS = {
    "one element longer": lambda shape, dtype: ((*shape[:-1], shape[-1] + 1), dtype),
    "of another dtype": lambda shape, dtype: (
        shape,
        torch.float16 if dtype is torch.float32 else torch.float32,
    ),
    "with no columns": lambda shape, dtype: (shape, dtype),
    "with 65,537 columns": lambda shape, dtype: (shape, dtype),
    "on the CPU": lambda shape, dtype: (shape, dtype),
}


def make_inputs(function: Function, case: Case, device: str, seed: int) -> dict[str, Guarded]:
    """The case's tensors by argument name, each between guard zones; less those that an option of
    the case takes the place of.

    seed: the same seed gives the same values on every device.
    Raises KeyError for a kind of values or a layout that does not exist.
    """
    dtype = getattr(torch, case.dtype)
    tensors = {}
    for position, (name, shape) in enumerate(function.arguments(case.shape).items()):
        if name in case.options:
            continue
        generator = torch.Generator().manual_seed(1000 * seed + position)
        arg_dtype, arg_device = dtype, device
        values, layout = case.values_of(name), case.layout_of(name)
        if name == case.refuses:
            shape, arg_dtype = MISFITS[case.misfit](shape, dtype)
            arg_device = "cpu" if case.misfit == "on the CPU" else device
        if layout == "expanded" and math.prod(shape) > _LARGE:
            first = draw(values, (1, *shape[1:]), generator)
            tensors[name] = place(first.expand(shape), "expanded", name, arg_device, arg_dtype)
        else:
            drawn = draw(values, shape, generator)
            tensors[name] = place(drawn, layout, name, arg_device, arg_dtype)
    return tensors
