"""Figures, drawn with Matplotlib: speed against the ceiling, and which program touches which
elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from shared.execution.buffers import element_index
from shared.execution.memory import Access, Launch, Recorder, program_number
from shared.facts.rows import Row

_YOURS = "#c1121f"
_BASELINES = ("#3a6ea5", "#7a9e7e", "#8d6a9f", "#b08968")
_CEILING = "#222222"
_SHARED = (0.75, 0.75, 0.75)
_MOST_LINES, _MOST_NAMES = 16, 64  # rows with a line between them, programs with their number


_CEILING_LABELS = {
    "copy": "a copy of as many bytes",
    "product": "a square product of\nas many operations",
}


def speed(rows: Sequence[Row], passes: float, machine: str, path: Path) -> None:
    """The speed over the sweep, in GB/s of the least traffic or TFLOP/s, with the ceiling.

    passes:  the bytes that the algorithm has to move, over the least.
    machine: one line, as in the recorded table.
    """
    first = rows[0]
    x = [row.value for row in rows]
    ceiling = np.array([row.speed_at(row.ceiling_us) for row in rows])
    figure, axes = plt.subplots(figsize=(9.5, 4.5), layout="constrained")
    label = _CEILING_LABELS[first.ceiling]
    axes.plot(x, ceiling, "--", color=_CEILING, lw=1.5, label=label)
    if passes != 1:
        label = f"a copy of {passes:g}× as many bytes"
        axes.plot(x, ceiling / passes, ":", color=_CEILING, lw=1.5, label=label)
    for name, colour in zip(first.baselines, _BASELINES, strict=False):
        speeds = [row.speed_at(row.baselines[name]) for row in rows]
        axes.plot(x, speeds, "o-", color=colour, ms=4, label=name)
    slow = [row.speed_at(row.high) for row in rows]
    fast = [row.speed_at(row.low) for row in rows]
    axes.fill_between(x, slow, fast, color=_YOURS, alpha=0.15)
    speeds = [row.speed for row in rows]
    axes.plot(x, speeds, "o-", color=_YOURS, lw=2, ms=5, label=first.function)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(first.x)
    axes.set_ylabel("GB/s of the least traffic" if first.unit == "GB/s" else first.unit)
    axes.set_title(f"{first.function}, {first.dtype}", loc="left", fontweight="bold")
    axes.set_title(machine, loc="right", fontsize=8)
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def accesses(recorder: Recorder, title: str, path: Path) -> None:
    """One panel for each tensor of each launch: colour is the program, shade the order in time.

    A recorder with `keep_accesses` is needed. Later accesses of one program are lighter, so a loop
    over a row shows as steps. Where there are many programs, they go from dark (the first) to light
    (the last). Grey is what several programs touched, white what none did; where everything is
    shared, what the first program touched is drawn in its colour.
    """
    panels = []
    for number, launch in enumerate(recorder.launches):
        for region in launch.regions:
            mine = [a for a in recorder.accesses if a.launch == number and a.tensor == region.name]
            for kind in ("load", "store"):
                chosen = [a for a in mine if a.kind == kind]
                if chosen:
                    panels.append((launch, region, kind, chosen))
    most = 10 if len(panels) <= 5 else 4  # rows' worth of height
    heights = [0.22 * min(max(_rows(region.tensor), 1.4), most) for _, region, _, _ in panels]
    figure, grid = plt.subplots(
        len(panels),
        1,
        figsize=(9, 1.0 + sum(h + 0.75 for h in heights)),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for axes, (launch, region, kind, chosen) in zip(grid[:, 0], panels, strict=True):
        _panel(axes, launch, region, kind, chosen)
    figure.suptitle(
        f"{title}: which program touches which elements", x=0.01, ha="left", fontweight="bold"
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _panel(axes, launch: Launch, region, kind: str, chosen: list[Access]) -> None:
    tensor = region.tensor
    shape = (_rows(tensor), tensor.shape[-1] if tensor.dim() else 1)
    image = np.ones((*shape, 3))
    touched = np.zeros(shape, int)
    programs = sorted({a.program for a in chosen})
    owner = np.full(shape, -1)
    steps: dict[tuple, int] = {}
    most = max(sum(a.program == p for a in chosen) for p in programs)
    for access in chosen:
        step = steps.get(access.program, 0)
        steps[access.program] = step + 1
        number = programs.index(access.program)
        colour = _colour(number, len(programs), step / max(most - 1, 1))
        rows, cols = _places(access.offsets, tensor, shape)
        np.add.at(touched, (rows, cols), 1)
        before = owner[rows, cols]
        image[rows[before == -1], cols[before == -1]] = colour  # the first touch counts
        shared = (before != -1) & (before != number)
        image[rows[shared], cols[shared]] = _SHARED
        owner[rows[before == -1], cols[before == -1]] = number
    shared = (image == _SHARED).all(axis=-1)
    highlight = bool(shared[touched > 0].all())
    if highlight:
        own = [access for access in chosen if access.program == programs[0]]
        for step, access in enumerate(own):
            rows, cols = _places(access.offsets, tensor, shape)
            image[rows, cols] = _colour(0, len(programs), step / max(len(own) - 1, 1))
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, shape[1], shape[0], 0))
    for row in range(1, shape[0] if shape[0] <= _MOST_LINES else 0):
        axes.axhline(row, color="white", lw=1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not shared.any() and tensor.dim() <= 2:
        _name_programs(axes, chosen, tensor, shape, programs)
    times = sorted(set(touched.ravel().tolist()) - {0})
    often = (
        f", each element {'–'.join(map(str, sorted({times[0], times[-1]})))}×"
        if times[-1:] > [1]
        else ""
    )
    masked = sum(a.masked for a in chosen)
    lanes = f", {masked:,} lanes masked" if masked else ""
    verb = "reads" if kind == "load" else "writes"
    whose = f", in colour by program {program_number(programs[0])}" if highlight else ""
    axes.set_title(
        f"{launch.kernel} {verb} {region.name} {tuple(tensor.shape)}{often}{lanes}{whose}",
        loc="left",
        fontsize=9,
    )
    axes.set_yticks([])
    axes.tick_params(labelsize=7)


def _rows(tensor) -> int:
    """The rows of the image: the last axis runs across, all others down."""
    return max(tensor.numel() // max(tensor.shape[-1], 1), 1) if tensor.dim() else 1


def _colour(number: int, programs: int, progress: float) -> np.ndarray:
    """Of program `number`, lighter the later in its life an access is (progress 0 to 1)."""
    if programs <= 7:  # grey, the ninth of the set, means several programs
        base = np.array(plt.get_cmap("Set1")(number)[:3])
    else:
        base = np.array(plt.get_cmap("viridis")(number / (programs - 1))[:3])
    return base + (1 - base) * 0.6 * progress


def _places(offsets: np.ndarray, tensor, shape) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each offset; a 1-D tensor is one row."""
    if tensor.is_contiguous():
        return np.divmod(offsets, shape[1])
    indices = [element_index(int(o), tensor) or (0,) for o in offsets]
    return (
        np.array([i[0] if len(i) == 2 else 0 for i in indices]),
        np.array([i[-1] for i in indices]),
    )


def _name_programs(axes, chosen, tensor, shape, programs) -> None:
    """Write each program's number where its elements are, if there is room."""
    if len(programs) > _MOST_NAMES:
        return
    for program in programs:
        offsets = np.concatenate([a.offsets for a in chosen if a.program == program])
        indices = [
            i
            for i in (element_index(int(o), tensor) for o in (offsets.min(), offsets.max()))
            if i is not None
        ]
        if not indices:
            continue
        rows = [i[0] if len(i) == 2 else 0 for i in indices]
        columns = [i[-1] if len(i) else 0 for i in indices]
        axes.text(
            (min(columns) + max(columns) + 1) / 2,
            (min(rows) + max(rows) + 1) / 2,
            "program " * (shape[1] // len(programs) > 0 and len(programs) <= 6)
            + program_number(program),
            ha="center",
            va="center",
            fontsize=7,
            color="black",
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
        )
