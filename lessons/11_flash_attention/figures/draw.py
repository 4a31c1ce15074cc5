"""Draws traffic.png: the bytes that naive_attention and flash_attention move as T grows, counted
from every load and store of the finished solutions' kernels, and what was recorded on a GPU.

    python lessons/11_flash_attention/figures/draw.py
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
from shared.execution.correctness import call_observed
from shared.execution.memory import Recorder
from shared.measure import tables

HEAD_DIM = 64
LENGTHS = (128, 256, 384, 512, 768, 1024)
SCRIPTS = {
    "naive_attention": ROOT / "solutions/10_attention/attention.py",
    "flash_attention": ROOT / "solutions/11_flash_attention/flash_attention.py",
}

interpreter.repair()
figure, (moved, allocated, dram) = plt.subplots(1, 3, figsize=(11.5, 3.8), layout="constrained")
recorded = tables.read(tables.recorded("flash_attention.traffic")[0])
for (name, script), colour in zip(SCRIPTS.items(), ("#3a6ea5", "#c1121f"), strict=True):
    function = getattr(source.load_module(script, name), name)
    megabytes, memory = [], []
    for length in LENGTHS:
        q, k, v = torch.randn(3, 1, 1, length, HEAD_DIM, dtype=torch.float16)
        recorder = Recorder(str(script))
        _, made = call_observed(function, [q, k, v], recorder)
        megabytes.append((recorder.totals.read + recorder.totals.written) / 1e6)
        memory.append(sum(guarded.view.nbytes for guarded in made) / 1e6)
    moved.plot(LENGTHS, megabytes, "o-", color=colour, label=name)
    allocated.plot(LENGTHS, memory, "o-", color=colour, label=name)
    rows = [row for row in recorded.rows if row.candidate == name]
    dram.plot(
        [int(row.value) for row in rows],
        [(row.read + row.written) / 1e3 for row in rows],
        "o-",
        color=colour,
        label=name,
    )
moved.set_title("loaded and stored by the programs", loc="left", fontsize=10)
allocated.set_title("allocated, the result included", loc="left", fontsize=10)
dram.set_title("between the GPU and its memory", loc="left", fontsize=10)
dram.set_ylabel("GB")
dram.set_xticks((4096, 8192, 16384))
dram.text(
    0.03,
    0.70,
    f"16,384 tokens, 16 heads\nof 128, {recorded.machine.split(',')[0]}",
    fontsize=8,
    transform=dram.transAxes,
)
moved.set_ylabel("MB")
allocated.set_ylabel("MB")
for axes in (moved, allocated, dram):
    axes.set_xlabel("T")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left")
figure.suptitle(
    f"As T grows: one head of {HEAD_DIM}, float16, in the interpreter; and many heads on a GPU",
    x=0.01,
    ha="left",
    fontweight="bold",
)
figure.savefig(HERE / "traffic.png", dpi=120)
