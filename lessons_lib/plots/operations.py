"""The picture of a single operation: a bar for each mode, its output and its temporaries."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes

from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.operations.op_memory import OpMemory
from lessons_lib.plots.alt_text import exact_bytes
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.bar_rows import Bar, draw_rows, margins
from lessons_lib.plots.colours import PALETTE, Style
from lessons_lib.plots.legend import plan_strip
from lessons_lib.plots.theme import DPI, canvas, set_alt

_OUTPUT: Final = Style(PALETTE[0])
_TEMPORARY: Final = Style(PALETTE[4], "///")


def describe_op(result: OpMemory) -> str:
    """Say what an operation does in each mode."""
    said = [
        f"{mode}: {cost.verdict}, output {exact_bytes(cost.output_bytes)}, "
        f"temporaries {exact_bytes(cost.temporary_bytes)}"
        for mode, cost in result.modes.items()
    ]
    head = f"Memory of {result.op} on inputs of {format_bytes(result.input_bytes)}. "
    return head + "; ".join(said) + "."


def draw_op(result: OpMemory, ax: Axes | None = None) -> Axes:
    """Draw an operation: a bar for each mode, its output and its temporaries.

    Parameters
    ----------
    result : OpMemory
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x is in bytes.
    """
    bars = [
        Bar(
            mode,
            ((cost.output_bytes, _OUTPUT), (cost.temporary_bytes, _TEMPORARY)),
            f"{cost.verdict}, {format_bytes(cost.peak_bytes)}",
        )
        for mode, cost in result.modes.items()
    ]
    left, right = margins(bars)
    own = ax is None
    room = {"left": left + 0.35, "right": right + 0.3, "top": 0.5}
    with canvas(ax, 9.0, 1.25 + 0.5 * len(bars), **room) as ax:
        draw_rows(ax, bars, inside=not own)
        unit = byte_axis(ax.xaxis, label=False)
        ax.set_xlabel(f"{unit} at the peak, beside the inputs", loc="right")
        ax.set_title(result.op, loc="left", fontweight="bold")
        if own:
            box = ax.get_window_extent()
            strip = plan_strip([("output", _OUTPUT), ("temporaries", _TEMPORARY)], box.width / 2)
            inch = DPI / box.height
            strip.draw(ax, 1 + right * DPI / box.width, 1 + 0.08 * inch, inch, "right")
        set_alt(ax, describe_op(result))
    return ax
