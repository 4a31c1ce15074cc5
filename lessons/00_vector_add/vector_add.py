"""Vector add: the smallest complete Triton kernel.

    out[i] = x[i] + y[i]

x (n,), y (n,) -> (n,) in their dtype. One program adds one block of BLOCK_SIZE elements.
New: a program and its id, blocks of offsets, masks, tl.load and tl.store, the launch grid.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(
    x_ptr, y_ptr, out_ptr,
    stride_x, stride_y,  # elements from one element to the next: 1, unless x or y is a view
    n_elements,
    BLOCK_SIZE: tl.constexpr,
):
    # 64-bit, since pid * BLOCK_SIZE passes 2**31 when the vector does.
    pid = tl.program_id(0).to(tl.int64)

    # TODO 1: the elements that this program handles, shape (BLOCK_SIZE,). Program 0 has the first
    # BLOCK_SIZE of them, program 1 the next, and so on (1 line: tl.arange).
    offsets = ...

    # TODO 2: which of these elements exist, shape (BLOCK_SIZE,), True or False (1 line).
    mask = ...

    # TODO 3: load x and y where mask is True (2 lines: tl.load). Element i of x lies at
    # x_ptr + i * stride_x.
    x = ...
    y = ...

    # TODO 4: store the sum, again only where mask is True (1 line: tl.store). out is contiguous.
    ...


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x + y for two vectors of the same length, dtype and device.

    Raises ValueError if y's shape or device is not x's, or x is not a vector; TypeError if the
    dtypes differ.
    """
    if x.dim() != 1:
        raise ValueError(f"x must be a vector, it has shape {tuple(x.shape)}")
    if y.shape != x.shape:
        raise ValueError(f"y has shape {tuple(y.shape)}, x has shape {tuple(x.shape)}")
    if y.dtype != x.dtype:
        raise TypeError(f"y is {y.dtype}, x is {x.dtype}")
    if y.device != x.device:
        raise ValueError(f"y is on {y.device}, x is on {x.device}")

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n_elements = out.numel()
    if n_elements == 0:
        return out

    BLOCK_SIZE = 1024

    # TODO 5: the grid, a tuple with the number of programs. The last block may be only partly
    # filled and still needs one (1 line: triton.cdiv).
    grid = ...

    vector_add_kernel[grid](
        x, y, out,
        x.stride(0), y.stride(0),
        n_elements,
        BLOCK_SIZE=BLOCK_SIZE,
    )
    return out


if __name__ == "__main__":  # the same as ./run.sh with this file's name
    import os
    import sys
    from pathlib import Path

    run = str(Path(__file__).resolve().parents[2] / "run.sh")
    os.execve(run, [run, *sys.argv], {"COURSE_PYTHON": sys.executable, **os.environ})
