"""Draws speed.png: the recorded times of the attention kernels as TFLOP/s.

python lessons/11_flash_attention/figures/speed.py
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from shared.measure import tables

TOKENS, WIDTH = 16_384, 2_048
COLOURS = {
    "SDPA FlashAttention-2": "#3a6ea5",
    "SDPA cuDNN": "#7a9e7e",
    "flash_attention": "#c1121f",
    "flash_attention_fast": "#6a1b6d",
}
PANELS = {
    "full128": "head_dim 128",
    "causal128": "head_dim 128, causal",
    "full64": "head_dim 64",
    "causal64": "head_dim 64, causal",
}

figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), layout="constrained", sharex=True, sharey=True)
for panel, (study, title) in zip(axes.flat, PANELS.items(), strict=True):
    recorded = tables.read(tables.recorded(f"flash_attention.{study}")[0])
    lengths = [int(row.value) for row in recorded.rows]
    for name, colour in COLOURS.items():
        causal = 2 if study.startswith("causal") else 1
        speeds = [
            4 * TOKENS * length * WIDTH / causal / row.times[name] / 1e6
            for length, row in zip(lengths, recorded.rows, strict=True)
        ]
        panel.plot(lengths, speeds, "o-", color=colour, label=name, markersize=4)
    panel.set_title(title, loc="left", fontsize=10)
    panel.set_xscale("log", base=2)
    panel.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=8)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.25)
for panel in axes[1]:
    panel.set_xlabel("T")
for panel in axes[:, 0]:
    panel.set_ylabel("TFLOP/s")
axes[0, 0].legend(frameon=False, loc="lower right", fontsize=9)
figure.suptitle(
    f"{TOKENS:,} tokens of {WIDTH:,} numbers, bfloat16. {recorded.machine}",
    x=0.01,
    ha="left",
    fontweight="bold",
    fontsize=10,
)
figure.savefig(HERE / "speed.png", dpi=120)
