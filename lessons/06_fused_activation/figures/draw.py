"""Draws gelu_difference.png: the two GELUs of the finished solution, and their difference.

python lessons/06_fused_activation/figures/draw.py
"""

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch

from shared.course import source
from shared.execution import interpreter

interpreter.repair()
script = ROOT / "solutions/06_fused_activation/approx_activation.py"
solution = source.load_module(script, "approx_activation")
x = torch.linspace(-6, 6, 4001)
exact, tanh = solution.gelu_exact(x), solution.gelu_tanh(x)
difference = tanh - exact
largest = int(difference.abs().argmax())

figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, layout="constrained")
above.plot(x, exact, color="#3a6ea5", lw=3, label="gelu_exact")
above.plot(x, tanh, "--", color="#c1121f", lw=1.5, label="gelu_tanh")
above.legend(frameon=False)
above.set_title("The two GELUs, computed by the solution's kernels", loc="left", fontweight="bold")
below.plot(x, 1e4 * difference, color="#c1121f")
below.annotate(
    f"{difference[largest]:.2e} at x = {x[largest]:.2f}",
    (x[largest], 1e4 * difference[largest]),
    xytext=(0, 12 if difference[largest] > 0 else -14),
    textcoords="offset points",
    ha="center",
    fontsize=9,
)
below.set_ylabel("gelu_tanh - gelu_exact, times 10⁴")
below.set_xlabel("x")
below.set_ylim(-6.5, 6.5)
for axes in (above, below):
    axes.grid(alpha=0.25)
figure.savefig(HERE / "gelu_difference.png", dpi=120)
