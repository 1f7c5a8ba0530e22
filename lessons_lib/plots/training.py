"""The picture of a training step: stacked areas by category, with its phases marked.

Time on x, MiB on y.  What is there all the time (weights, optimizer state, inputs) lies at the
bottom; what comes and goes lies on top of it.  A category keeps its colour in every picture.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.units import brief_bytes, format_bytes
from lessons_lib.instruments.training.result import TrainingMemory
from lessons_lib.plots.axes import byte_axis, time_axis
from lessons_lib.plots.colours import EDGE, FAINT_INK, GREY, INK, PALETTE, luminance
from lessons_lib.plots.theme import TEXT, canvas, quiet_grid, set_alt, text_size
from lessons_lib.recording.categories import Category, Phase

#: Categories by colour, from the palette that the operations use too.
_COLOURS: Final = {
    Category.WEIGHTS: PALETTE[0],
    Category.OPTIMIZER: PALETTE[3],
    Category.METRICS: PALETTE[7],
    Category.INPUTS: PALETTE[8],
    Category.ACTIVATIONS: PALETTE[2],
    Category.GRADIENTS: PALETTE[1],
    Category.TEMPORARIES: PALETTE[5],
    Category.OTHER: GREY,
}
_LEGEND_WIDTH: Final = 2.75  # inches
_LEGEND_STEP: Final = 0.105  # of the picture's height


def describe_training(result: TrainingMemory) -> str:
    """Say what the picture of a training step shows."""
    parts = ", ".join(
        f"{category} {format_bytes(size)}" for category, size in result.categories.items() if size
    )
    noisy = result.noisy
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
    with canvas(ax, height=4.6, right=_LEGEND_WIDTH, top=0.95) as ax:
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


def _sections(result: TrainingMemory, end: float) -> list[tuple[Phase, float, float]]:
    """Divide the step: what is updated while the backward pass runs belongs to that section."""
    spans = {span.phase: span for span in result.phases}
    sections: list[tuple[Phase, float, float]] = []
    begin = 0.0
    for phase, following in zip(Phase, (*list(Phase)[1:], None), strict=True):
        if phase not in spans:
            continue
        last = end
        if following is Phase.BACKWARD and following in spans:
            last = spans[following].start
        elif following is Phase.UPDATE and following in spans:
            last = max(spans[phase].end, spans[following].start)
        last = min(max(last, begin), end)
        sections.append((phase, begin, last))
        begin = last
    return sections


def _phases(ax: Axes, result: TrainingMemory, end: float) -> None:
    width = ax.get_window_extent().width
    sections = _sections(result, end)
    for number, (phase, begin, last) in enumerate(sections):
        if begin > 0:
            ax.axvline(begin, color=FAINT_INK, linewidth=0.9, linestyle=(0, (4, 3)))
        room = (last - begin) / end * width
        fits = text_size(phase, TEXT)[0] < room
        if fits or number + 1 == len(sections):
            ax.annotate(
                phase,
                ((begin + last) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center" if fits else "left",
                va="bottom",
                color=FAINT_INK,
            )


def _peak(ax: Axes, result: TrainingMemory, end: float) -> None:
    right = result.peak_at > 0.6 * end
    ax.annotate(
        f"peak {brief_bytes(result.peak_bytes)}",
        (result.peak_at, result.peak_bytes),
        xytext=(-9 if right else 9, 4),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom",
        fontweight="bold",
        color=INK,
    )


def _legend(ax: Axes, result: TrainingMemory) -> None:
    """Write each category beside the picture, in the order of the stack, with its share."""
    shown = [c for c in reversed(Category) if result.series.bytes[c].any()]
    for number, category in enumerate(shown):
        y = 0.97 - number * _LEGEND_STEP
        colour = _COLOURS[category]
        size = brief_bytes(result.categories[category])
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
            (1.03, 0.97 - len(shown) * _LEGEND_STEP),
            xycoords="axes fraction",
            va="top",
            color=FAINT_INK,
            annotation_clip=False,
        )
