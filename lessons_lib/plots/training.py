"""The picture of a training step: stacked areas by category, with its phases marked.

Time on x, MiB on y.  What is there all the time (weights, optimizer state, inputs) lies at the
bottom; what comes and goes lies on top of it.  A category keeps its colour in every picture.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.units import GIB, KIB, MIB, format_bytes
from lessons_lib.instruments.training.batch_size import BatchEstimate
from lessons_lib.instruments.training.categories import Category
from lessons_lib.instruments.training.result import TrainingMemory
from lessons_lib.plots.colours import EDGE, FAINT_INK, INK, PAPER, luminance
from lessons_lib.plots.theme import (
    TEXT,
    arrange,
    byte_axis,
    fit_text,
    new_axes,
    quiet_grid,
    set_alt,
    settings,
    text_size,
    time_axis,
)

#: Categories by colour, from the palette that the operations use too.
_COLOURS: Final = {
    Category.WEIGHTS: "#2d7bba",
    Category.OPTIMIZER: "#8fd0f5",
    Category.INPUTS: "#b9b6ae",
    Category.ACTIVATIONS: "#e8a317",
    Category.GRADIENTS: "#0b8a6a",
    Category.TEMPORARIES: "#cf7fb0",
    Category.OTHER: "#6c6f78",
}
_LEGEND_WIDTH: Final = 2.75  # inches


def describe_training(result: TrainingMemory) -> str:
    """Say what the picture of a training step shows."""
    parts = ", ".join(
        f"{category} {format_bytes(size)}" for category, size in result.categories.items() if size
    )
    noisy = "≈ " if result.mode == "graph" else ""
    layers = ""
    if result.layers:
        first = result.layers[0]
        size = format_bytes(first.activation_bytes)
        layers = f" Most activations at the peak belong to {first.layer}: {noisy}{size}."
    return (
        f"Stacked areas of the memory of one training step of {result.label}, batch "
        f"{result.batch}, {result.mode}, by category over time. Peak {noisy}"
        f"{format_bytes(result.peak_bytes)}"
        + (f", of which {parts}." if not noisy else ".")
        + layers
    )


def draw_training(result: TrainingMemory, ax: Axes | None = None) -> Axes:
    """Draw a training step.

    Parameters
    ----------
    result : TrainingMemory
        The measured step.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x is in seconds, y in bytes; the ticks say ms and MiB.
    """
    with settings():
        if ax is None:
            ax = new_axes(height=4.6)
            arrange(ax.figure, right=_LEGEND_WIDTH, top=0.95)  # type: ignore[arg-type]
        series = result.series
        base = np.zeros(len(series.times), np.int64)
        for category, live in series.bytes.items():
            if live.any():
                top = base + live
                ax.fill_between(
                    series.times, base, top, step="post", color=_COLOURS[category], linewidth=0
                )
                ax.step(series.times, top, where="post", color=EDGE, linewidth=0.5)
                base = top
        ax.step(series.times, base, where="post", color=INK, linewidth=1.3)
        end = float(series.times[-1]) or 1e-6
        ax.set_xlim(0, end)
        ax.set_ylim(0, max(1, result.peak_bytes) * 1.12)
        byte_axis(ax.yaxis)
        ax.set_xlabel(f"time in {time_axis(ax.xaxis, end)}", loc="right")
        quiet_grid(ax)
        title = f"{result.label}: one training step, batch {result.batch}, {result.mode}"
        ax.set_title(title, loc="left", pad=30)
        _phases(ax, result, end)
        ax.plot(result.peak_at, result.peak_bytes, "o", color=INK, markersize=5, clip_on=False)
        _peak(ax, result, end)
        _legend(ax, result)
        set_alt(ax, describe_training(result))
    return ax


def _phases(ax: Axes, result: TrainingMemory, end: float) -> None:
    width = ax.get_window_extent().width
    for number, phase in enumerate(result.phases):
        begin = max(0.0, phase.start)
        last = result.phases[number + 1].start if number + 1 < len(result.phases) else phase.end
        last = min(max(last, begin), end)
        if begin > 0:
            ax.axvline(begin, color=FAINT_INK, linewidth=0.9, linestyle=(0, (4, 3)))
        room = (last - begin) / end * width
        if text_size(phase.name, TEXT)[0] < room or number + 1 == len(result.phases):
            ax.annotate(
                phase.name,
                ((begin + max(last, begin)) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center" if text_size(phase.name, TEXT)[0] < room else "left",
                va="bottom",
                color=FAINT_INK,
            )


def _peak(ax: Axes, result: TrainingMemory, end: float) -> None:
    right = result.peak_at > 0.6 * end
    ax.annotate(
        f"peak {_brief(result.peak_bytes)}",
        (result.peak_at, result.peak_bytes),
        xytext=(-9 if right else 9, 4),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom",
        fontweight="bold",
        color=INK,
    )


def _brief(size: int) -> str:
    """Write bytes with one decimal: the table has them exactly."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def _legend(ax: Axes, result: TrainingMemory) -> None:
    """Write each category beside the picture, in the order of the stack, with its share."""
    shown = [c for c in reversed(Category) if result.series.bytes[c].any()]
    for number, category in enumerate(shown):
        y = 0.97 - number * 0.115
        colour = _COLOURS[category]
        size = _brief(result.categories[category])
        ax.annotate(
            "  ",
            (1.03, y),
            xycoords="axes fraction",
            va="top",
            annotation_clip=False,
            bbox={"boxstyle": "square,pad=0.25", "facecolor": colour, "edgecolor": "none"},
            color=INK if luminance(colour) > 0.4 else EDGE,
        )
        ax.annotate(
            f"{category}, {size}",
            (1.03, y),
            xycoords="axes fraction",
            xytext=(17, 0),
            textcoords="offset points",
            va="top",
            annotation_clip=False,
        )
    if shown:
        ax.annotate(
            "sizes: at the peak",
            (1.03, 0.97 - len(shown) * 0.115),
            xycoords="axes fraction",
            va="top",
            color=FAINT_INK,
            annotation_clip=False,
        )


def describe_batches(result: BatchEstimate) -> str:
    """Say what the picture of a batch estimate shows."""
    from lessons_lib.instruments.training.batch_size import describe

    return (
        f"Measured peaks against batch size with a fitted line and the budget: {describe(result)}."
    )


def draw_batches(result: BatchEstimate, ax: Axes | None = None) -> Axes:
    """Draw measured peaks against batch size, the fitted line, and the budget."""
    with settings():
        if ax is None:
            ax = new_axes()
        batches = [batch for batch, _ in result.measured]
        peaks = [peak for _, peak in result.measured]
        right = max(*batches, result.high) * 1.08
        line = np.array([0.0, right])
        ax.plot(
            line,
            result.fixed_bytes + result.bytes_per_example * line,
            color=FAINT_INK,
            linewidth=1.2,
            linestyle=(0, (5, 3)),
            zorder=1,
        )
        ax.scatter(batches, peaks, color=_COLOURS[Category.WEIGHTS], s=42, zorder=3)
        ax.axhline(result.budget_bytes, color="#a3123a", linewidth=1.4)
        ax.set_xlim(0, right)
        ax.set_ylim(0, max(*peaks, result.budget_bytes) * 1.15)
        byte_axis(ax.yaxis)
        quiet_grid(ax)
        ax.set_xlabel("batch size (examples)")
        room = ax.get_window_extent().width * 0.5
        ax.annotate(
            fit_text(f"budget {format_bytes(result.budget_bytes)}", room),
            (0, result.budget_bytes),
            xytext=(6, 4),
            textcoords="offset points",
            color="#a3123a",
            fontweight="bold",
        )
        if result.batch:
            ax.annotate(
                f"{result.batch} examples " + ("fit, run" if result.verified else "predicted"),
                (result.batch, result.peak_bytes),
                xytext=(-10, -8),
                textcoords="offset points",
                ha="right",
                va="top",
                fontweight="bold",
                bbox={"boxstyle": "square,pad=0.15", "facecolor": PAPER, "edgecolor": "none"},
                arrowprops={"arrowstyle": "-", "color": FAINT_INK},
            )
        ax.set_title("largest batch that fits", loc="left")
        set_alt(ax, describe_batches(result))
    return ax
