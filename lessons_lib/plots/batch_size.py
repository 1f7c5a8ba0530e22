"""The picture of a batch estimate: measured peaks against batch size, and the budget."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.training.batch_size import BatchEstimate, describe
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.colours import FAINT_INK, LIMIT, PALETTE
from lessons_lib.plots.theme import canvas, fit_text, quiet_grid, set_alt


def describe_batches(result: BatchEstimate) -> str:
    """Say what the picture of a batch estimate shows."""
    return f"Measured peaks against batch size, with the budget: {describe(result)}."


def draw_batches(result: BatchEstimate, ax: Axes | None = None) -> Axes:
    """Draw measured peaks against batch size, and the budget."""
    with canvas(ax) as ax:
        batches = [batch for batch, _ in result.measured]
        peaks = [peak for _, peak in result.measured]
        right = max(*batches, result.high) * 1.08
        order = np.argsort(batches)
        ax.plot(
            np.array(batches)[order],
            np.array(peaks)[order],
            color=FAINT_INK,
            linewidth=1.2,
            linestyle=(0, (5, 3)),
            zorder=1,
        )
        ax.scatter(batches, peaks, color=PALETTE[0], s=42, zorder=3)
        ax.axhline(result.budget_bytes, color=LIMIT, linewidth=1.4)
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
            color=LIMIT,
            fontweight="bold",
        )
        if result.batch:
            # A line leads down to the axis, where the dots and the line between them do not pass.
            top = max(result.peak_bytes, result.held_bytes)
            ax.vlines(result.batch, 0, top, color=FAINT_INK, linewidth=1, zorder=1)
            left = result.batch > right / 2
            ax.annotate(
                f"{'≥' if result.note else '≈'} {result.batch} examples fit",
                (result.batch, 0),
                xytext=(-8 if left else 8, 10),
                textcoords="offset points",
                ha="right" if left else "left",
                fontweight="bold",
            )
        ax.set_title("largest batch that fits", loc="left")
        set_alt(ax, describe_batches(result))
    return ax
