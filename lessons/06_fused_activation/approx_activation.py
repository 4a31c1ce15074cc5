"""GELU, exactly and with tanh, and fused with the additions before it.

    exact:  x / 2 * (1 + erf(x / sqrt(2)))
    tanh:   x / 2 * (1 + tanh(u)),   u = sqrt(2 / pi) * (x + 0.044715 x^3)

x of any shape -> that shape in x's dtype; residual like x, bias (x.shape[-1],).
New: an approximation and its price, a safe tanh, and one kernel that serves three functions.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def erf_of(z):
    """erf to 1.5e-7, which is float32's own precision, in fewer instructions than tl.erf.

    Abramowitz and Stegun, Handbook of Mathematical Functions, formula 7.1.26.
    """
    t = 1.0 / (1.0 + 0.3275911 * tl.abs(z))
    poly = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
    poly = t * (0.254829592 + t * (-0.284496736 + t * poly))
    tail = poly * tl.exp(-z * z)  # 1 - erf(|z|)
    return tl.where(z < 0, tail - 1.0, 1.0 - tail)


@triton.jit
def gelu_exact_of(x):
    """The exact GELU of a float32 block."""
    # TODO 1: x / 2 * (1 + erf(x / sqrt(2))), with erf_of above (1 line). 1 / sqrt(2) is
    # 0.7071067811865476.
    y = ...

    return y


@triton.jit
def gelu_tanh_of(x):
    """The tanh GELU of a float32 block."""
    # TODO 2: u of the formula above (1 line). sqrt(2 / pi) is 0.7978845608028654.
    u = ...

    # TODO 3: x / 2 * (1 + tanh(u)), with neither tanh, which is a call into CUDA's or AMD's
    # library, nor exp(2 u), which overflows: (1 + tanh(u)) / 2 is sigmoid(2 u)
    # (1 line: tl.sigmoid).
    y = ...

    return y


@triton.jit
def gelu_kernel(
    x_ptr, residual_ptr, bias_ptr, out_ptr,
    stride_x_row, stride_x_col,
    stride_residual_row, stride_residual_col,
    stride_bias,
    n_cols, blocks_per_row,
    EXACT: tl.constexpr, FUSED: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    row = pid // blocks_per_row
    cols = (pid % blocks_per_row) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x_row + cols * stride_x_col, mask=mask, other=0.0)
    x = x.to(tl.float32)

    if FUSED:
        residual_ptrs = residual_ptr + row * stride_residual_row + cols * stride_residual_col
        # TODO 4: x plus the residual and the bias, both in float32; the bias is the same in every
        # row (3 lines: two loads, one sum).
        x = ...

    # EXACT is a constexpr: this is decided when the kernel is compiled.
    y = gelu_exact_of(x) if EXACT else gelu_tanh_of(x)

    # TODO 5: store y; the rows of out are contiguous (1 line).
    ...


def gelu_exact(x: torch.Tensor) -> torch.Tensor:
    """GELU with erf, element by element. Raises TypeError if x is not one of DTYPES."""
    return _launch(x, EXACT=True)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """GELU with tanh, element by element. Raises TypeError if x is not one of DTYPES."""
    return _launch(x, EXACT=False)


def fused_residual_bias_gelu(
    x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """gelu_tanh(x + residual + bias), bias (x.shape[-1],) in every row.

    Raises ValueError if residual or bias does not fit x's shape or device, TypeError if x is not
    one of DTYPES or one of them has another dtype.
    """
    for name, other, shape in (("residual", residual, x.shape), ("bias", bias, x.shape[-1:])):
        if other.shape != shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, it must be {tuple(shape)}")
        if other.dtype != x.dtype:
            raise TypeError(f"{name} is {other.dtype} and x is {x.dtype}: must be equal")
        if other.device != x.device:
            raise ValueError(f"{name} is on {other.device} and x on {x.device}: must be one device")
    return _launch(x, residual, bias, EXACT=False)


def _launch(x, residual=None, bias=None, *, EXACT: bool) -> torch.Tensor:
    if x.dtype not in DTYPES:
        raise TypeError(f"x is {x.dtype}, it must be one of {DTYPES}")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    fused = residual is not None
    # Without a bias a contiguous tensor is one long row. With one, rows are rows.
    x = x.view(1, -1) if x.is_contiguous() and not fused else x.reshape(-1, x.shape[-1])
    if fused:
        residual = residual.reshape(x.shape)
    n_rows, n_cols = x.shape
    BLOCK_SIZE = min(2048, triton.next_power_of_2(n_cols))
    blocks_per_row = triton.cdiv(n_cols, BLOCK_SIZE)
    gelu_kernel[(n_rows * blocks_per_row,)](
        x, residual, bias, out,
        x.stride(0), x.stride(1),
        residual.stride(0) if fused else 0, residual.stride(1) if fused else 0,
        bias.stride(0) if fused else 0,
        n_cols, blocks_per_row,
        EXACT=EXACT, FUSED=fused,
        BLOCK_SIZE=BLOCK_SIZE,
    )
    return out


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
