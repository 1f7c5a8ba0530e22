"""The picture of living tensors: bars of who holds the most bytes."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes

from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.live import LiveTensors
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.bar_rows import ROW, Bar, draw_rows, margins
from lessons_lib.plots.colours import PALETTE, TENSORS, Style
from lessons_lib.plots.theme import canvas, set_alt

_BARS: Final = 12
_SAID: Final = 5
_TENSOR: Final = Style(TENSORS)
_VARIABLE: Final = Style(PALETTE[2])


def describe_live(result: LiveTensors) -> str:
    """Say who holds the most."""
    head = (
        f"Bars of who holds {len(result.tensors)} tensors and {len(result.variables)} "
        f"variables that are alive, {format_bytes(result.nbytes)} in all"
    )
    said = [f"{group}, {format_bytes(group.nbytes)}" for group in result.by_holder()[:_SAID]]
    return f"{head}: {'; '.join(said)}." if said else f"{head}."


def draw_live(result: LiveTensors, ax: Axes | None = None) -> Axes:
    """Draw who holds the most bytes of living tensors and variables, as bars.

    Parameters
    ----------
    result : LiveTensors
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x is in bytes; things that are held alike share a bar, and a buffer counts once.
    """
    bars = [
        Bar(
            str(group),
            ((group.nbytes, _TENSOR if group.what == "tf.Tensor" else _VARIABLE),),
            format_bytes(group.nbytes) if group.nbytes or not group.count else "shared",
        )
        for group in result.by_holder()[:_BARS]
    ]
    left, right = margins(bars)
    own = ax is None
    with canvas(
        ax, height=1.3 + ROW * max(2, len(bars)), left=left + 0.35, right=right + 0.3
    ) as ax:
        draw_rows(ax, bars, inside=not own)
        ax.set_xlabel(byte_axis(ax.xaxis, label=False), loc="right")
        ax.set_title(repr(result)[1:-1], loc="left")
        set_alt(ax, describe_live(result))
    return ax
