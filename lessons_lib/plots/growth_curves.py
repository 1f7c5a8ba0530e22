"""Draws growth over calls, and the tensors that are alive.

Axes hold calls and bytes.  Growth is drawn as what each meter gained since before the first call.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.results import alt_text
from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.instruments.growth.causes import Cause, about
from lessons_lib.instruments.growth.result import Growth
from lessons_lib.instruments.growth.trend import Series
from lessons_lib.instruments.live import LiveTensors
from lessons_lib.plots.colours import FAINT_INK, INK, mixed
from lessons_lib.plots.theme import (
    arrange,
    byte_axis,
    fit_text,
    new_axes,
    quiet_grid,
    set_alt,
    settings,
)

_BARS: Final = 12
_GAP: Final = 0.115
_TENSOR: Final = "#2d7bba"
_VARIABLE: Final = "#f1a737"
#: Which meters are drawn, for people, with colour and line style.
_METERS: Final[dict[str, tuple[str, str, Any]]] = {
    "tensor_bytes": ("tensor bytes", _TENSOR, "-"),
    "numpy_bytes": ("NumPy arrays", "#cd91c7", (0, (4, 1))),
    "python_heap": ("Python heap", "#0b8a6a", (0, (6, 2))),
    "c_heap": ("C heap", "#4d3f8f", (0, (1, 1))),
    "rss": ("resident set", "#d9572b", (0, (2, 2))),
}
#: Which meter shows a cause best; the others are drawn fainter.
_SHOWS: Final = {
    Cause.RETRACING: ("c_heap", "python_heap", "tensor_bytes"),
    Cause.GRAPH_GROWTH: ("c_heap", "python_heap", "tensor_bytes"),
    Cause.VARIABLES: ("tensor_bytes",),
    Cause.RETAINED_TENSORS: ("tensor_bytes",),
    Cause.PYTHON_OBJECTS: ("numpy_bytes", "python_heap"),
    Cause.DATASET_BUFFERS: ("tensor_bytes",),
    Cause.RUNTIME_CACHE: ("c_heap",),
    Cause.ALLOCATOR: ("rss",),
    Cause.NONE: ("tensor_bytes",),
}


def _gained(series: Series) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    values = np.array((*series.warmup, *series.values))
    calls = np.arange(len(values)) - len(series.warmup) + 1
    known = np.isfinite(values)
    return calls[known], values[known] - (values[known][0] if known.any() else 0.0)


def draw_growth(result: Growth, ax: Axes | None = None) -> Axes:
    """Draw what each meter gained over the calls, the warm-up shaded.

    Parameters
    ----------
    result : Growth
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x is the number of the measured call (0 and below: warm-up), y is in bytes.
    """
    with settings():
        if ax is None:
            ax = new_axes(height=4.6)
            arrange(ax.figure, right=2.5, top=0.85 if result.holder else 0.55)  # type: ignore[arg-type]
        ends: list[tuple[float, str, str, bool]] = []
        low, high = 0.0, 1024.0
        chief = _SHOWS[result.cause]
        for name, (label, colour, style) in _METERS.items():
            calls, gained = _gained(getattr(result.evidence, name))
            if not len(calls):
                continue
            strong = name in chief
            # What does not bear on the answer may not flatten what does.
            if not strong and name == "rss":
                continue
            ax.plot(calls, gained, color=colour, linestyle=style, linewidth=2.4 if strong else 1.4)
            low, high = min(low, float(gained.min())), max(high, float(gained.max()))
            ends.append((float(gained[-1]), label, colour, strong))
        ax.axvspan(-result.warmup, 0, color=FAINT_INK, alpha=0.1, linewidth=0)
        ax.set_xlim(-result.warmup, max(result.iterations, 1))
        ax.set_ylim(low - 0.03 * (high - low), high + 0.1 * (high - low))
        byte_axis(ax.yaxis, label=False)
        ax.set_ylabel(f"gained since the start, {byte_axis(ax.yaxis, label=False)}")
        ax.set_xlabel("call (shaded: warm-up)", loc="right")
        quiet_grid(ax)
        ax.set_title(_title(result), loc="left")
        _name_ends(ax, ends)
        set_alt(ax, alt_text(result))
    return ax


def _title(result: Growth) -> str:
    width = 900.0
    if not result.causes:
        return fit_text(f"{result.label}: nothing grows", width)
    first = result.causes[0]
    head = fit_text(f"{result.label}: {first.cause}, {first.size}", width)
    return f"{head}\n{fit_text(result.holder, width)}" if result.holder else head


def _name_ends(ax: Axes, ends: list[tuple[float, str, str, bool]]) -> None:
    """Name each line at its right end, apart from each other."""
    low, high = ax.get_ylim()
    lowest = 0.0
    places = []
    for value, label, colour, strong in sorted(ends):
        share = max((value - low) / (high - low), lowest)
        lowest = share + _GAP
        places.append((share, value, label, colour, strong))
    over = max(0.0, lowest - _GAP - 0.97)
    for share, value, label, colour, strong in places:
        text = f"+{about(value)[2:]}" if value >= 0 else about(value)[2:]
        ax.annotate(
            f"{label} {text}",
            (1.015, share - over),
            xycoords="axes fraction",
            va="center",
            color=mixed(colour, INK, 0.35),
            fontweight="bold" if strong else "normal",
            annotation_clip=False,
        )


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
    groups = result.by_holder()
    shown = groups[:_BARS]
    with settings():
        if ax is None:
            ax = new_axes(height=1.5 + 0.36 * max(2, len(shown)))
            arrange(ax.figure, left=4.4, right=1.2)  # type: ignore[arg-type]
        for i, group in enumerate(shown):
            colour = _TENSOR if group.what == "tf.Tensor" else _VARIABLE
            ax.barh(i, group.nbytes, height=0.72, color=colour, edgecolor="white")
            ax.annotate(
                format_bytes(group.nbytes) if group.nbytes or not group.count else "shared",
                (group.nbytes, i),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        ax.set_yticks(range(len(shown)), [fit_text(str(group), 500) for group in shown])
        ax.set_ylim(max(2, len(shown)) - 0.4, -0.6)
        ax.set_xlim(0, 1.05 * max([group.nbytes for group in shown], default=MIB) or 1)
        ax.set_xlabel(byte_axis(ax.xaxis, label=False), loc="right")
        ax.set_title(repr(result)[1:-1], loc="left")
        set_alt(ax, alt_text(result))
    return ax
