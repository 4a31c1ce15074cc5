"""The machine that a check or a measurement ran on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What a check runs on.

    device:  "cuda" (which PyTorch also calls an AMD GPU), "xpu", or "cpu" for the interpreter.
    name:    the GPU's name, or "CPU, Triton interpreter".
    target:  as "sm_90" or "gfx942"; empty without a GPU.
    """

    device: str
    name: str
    target: str
    torch: str
    triton: str
    numpy: str
    python: str

    @property
    def summary(self) -> str:
        """One line that goes with measured numbers."""
        return f"{self.name}, torch {self.torch}, triton {self.triton}"
