"""The picture of a training run: each batch's peak, and what all batches so far have kept.

Batches stand side by side in the order in which they ran; lines part the epochs, and batches of
the validation have a pattern of their own.  y is in bytes, x counts batches.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lessons_lib.common.units import counted, format_bytes
from lessons_lib.instruments.keras_callback import FitMemory
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.colours import FAINT_INK, INK, PALETTE, Style
from lessons_lib.plots.legend import Entry, plan_strip
from lessons_lib.plots.theme import arrange, canvas, quiet_grid, set_alt

_LOOKS: Final = {
    "train": ("peak of a training batch", Style(PALETTE[3])),
    "validation": ("peak of a validation batch", Style(PALETTE[5], "///")),
    "prediction": ("peak of a predicted batch", Style(PALETTE[2], "...")),
}
_KEPT: Final = Style(PALETTE[4])


def describe_fit(result: FitMemory) -> str:
    """Say what the batches needed, epoch by epoch."""
    if not result.batches:
        return "Memory of a training run: no batch was run."
    train = [b for b in result.batches if b.phase == "train"]
    many = len(result.batches)
    head = (
        f"Memory of {many:,} {'batch' if many == 1 else 'batches'} in "
        # Keras steps are graphs, whose peaks depend on the order of execution.
        f"{counted(result.epochs, 'epoch')}: highest peak ≈ {format_bytes(result.peak_bytes)}, "
        f"kept by all together ≈ {format_bytes(result.kept_bytes)}."
    )
    if not train:
        return head
    first, last = train[0], train[-1]
    return (
        f"{head} The first training batch peaked at ≈ {format_bytes(first.peak_bytes)}, "
        f"the last at ≈ {format_bytes(last.peak_bytes)}."
    )


def draw_fit(result: FitMemory, ax: Axes | None = None) -> Axes:
    """Draw a training run.

    Parameters
    ----------
    result : FitMemory
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
    """
    own = ax is None
    with canvas(ax) as ax:
        count = len(result.batches)
        for phase, (_, style) in _LOOKS.items():
            _peaks(ax, result, phase, style)
        kept = list(accumulate(b.kept_bytes + b.between_bytes for b in result.batches))
        # The sum moves at a batch's end, so its step is at the batch's right edge.
        ax.step(np.arange(count + 1) + 0.5, [0, *kept], where="post", color=_KEPT.face, linewidth=2)
        high = max(1, result.peak_bytes, *kept, 0)
        low = min(0, *kept, 0)
        ax.set_xlim(0.5, max(count, 1) + 0.5)
        ax.set_ylim(low - 0.03 * (high - low), high + 0.14 * (high - low))
        ax.axhline(0, color=FAINT_INK, linewidth=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        byte_axis(ax.yaxis)
        ax.set_xlabel("batches", loc="right")
        quiet_grid(ax)
        _epochs(ax, result)
        _legend(ax, result, own)
        set_alt(ax, describe_fit(result))
    return ax


def _peaks(ax: Axes, result: FitMemory, phase: str, style: Style) -> None:
    """Fill one outline for a phase: thousands of bars would be slow and no clearer."""
    high = np.array([b.peak_bytes if b.phase == phase else 0 for b in result.batches])
    if high.any():
        edges = np.arange(len(high) + 1) + 0.5
        ax.fill_between(
            edges, np.append(high, high[-1]), step="post", facecolor=style.face,
            hatch=style.hatch, edgecolor=style.pattern, linewidth=0,
        )  # fmt: skip


def _epochs(ax: Axes, result: FitMemory) -> None:
    starts = [
        (place, batch.epoch)
        for place, batch in enumerate(result.batches)
        if place == 0 or result.batches[place - 1].epoch != batch.epoch
    ]
    every = -(-len(starts) // 10)
    for turn, (place, epoch) in enumerate(starts):
        if turn and len(starts) <= 40:
            ax.axvline(place + 0.5, color=FAINT_INK, linewidth=0.8)
        if turn % every == 0:
            ax.annotate(
                f"epoch {epoch + 1}", (place + 0.5, 1), xytext=(4, -4),
                xycoords=("data", "axes fraction"), textcoords="offset points",
                va="top", fontsize=10, color=INK,
            )  # fmt: skip


def _legend(ax: Axes, result: FitMemory, own: bool) -> None:
    phases = {batch.phase for batch in result.batches}
    entries: list[Entry] = [look for phase, look in _LOOKS.items() if phase in phases]
    entries.append(("kept by all batches so far", _KEPT))
    strip = plan_strip(entries, ax.get_window_extent().width, dpi=float(ax.figure.dpi))
    if own:
        figure: Any = ax.figure
        arrange(figure, top=0.25 + strip.height)
    inch = ax.figure.dpi / ax.get_window_extent().height
    strip.draw(ax, 0.0, 1 + 0.08 * inch, inch, "left")
