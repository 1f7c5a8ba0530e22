"""The picture of growth: what each meter gained since before the first call, and what grows.

x counts calls, y is in bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.instruments.growth.causes import Cause, about
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.result import Growth
from lessons_lib.instruments.growth.trend import Series
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.colours import (
    C_HEAP,
    FAINT_INK,
    RESIDENT,
    TENSORS,
)
from lessons_lib.plots.line_ends import LineEnd, name_ends
from lessons_lib.plots.theme import canvas, fit_text, quiet_grid, set_alt

_SHOWN: Final = 5
_COUNTS: Final = (
    "live_tensors",
    "variables",
    "functions",
    "concrete_functions",
    "graphs",
    "graph_ops",
    "datasets",
)
#: Which meters are drawn, for people, with colour and line style.
_METERS: Final[dict[str, tuple[str, str, Any]]] = {
    "tensor_bytes": ("tensor bytes", TENSORS, "-"),
    "c_heap": ("C heap", C_HEAP, (0, (1, 1))),
    "rss": ("resident set", RESIDENT, (0, (2, 2))),
}
#: Which meter shows a cause best; the others are drawn fainter.
_SHOWS: Final = {
    Cause.RETRACING: ("c_heap", "tensor_bytes"),
    Cause.GRAPH_GROWTH: ("c_heap", "tensor_bytes"),
    Cause.VARIABLES: ("tensor_bytes",),
    Cause.RETAINED_TENSORS: ("tensor_bytes",),
    Cause.PYTHON_OBJECTS: ("c_heap", "rss"),
    Cause.DATASET_BUFFERS: ("tensor_bytes",),
    Cause.RUNTIME_CACHE: ("c_heap",),
    Cause.NATIVE_MEMORY: ("c_heap",),
    Cause.ALLOCATOR: ("rss",),
    Cause.NONE: ("tensor_bytes",),
}


def rises(evidence: Evidence) -> list[str]:
    """Say which counts grow, and how fast."""
    found: list[Series] = [getattr(evidence, name) for name in _COUNTS]
    return [f"{s.name} +{s.slope:.3g} a call" for s in found if s.grows]


def describe_growth(result: Growth) -> str:
    """Say what grows, by how much, and who holds it."""
    head = (
        f"Memory of {result.label} after each of {result.iterations} calls, {result.warmup} "
        "warm-up calls before them: "
    )
    if not result.causes:
        return head + "the tensor bytes do not grow; no cause was found."
    parts = []
    for finding in result.causes[:_SHOWN]:
        holder = f", held by {finding.held[0].holder}" if finding.held else ""
        parts.append(f"{finding.cause}, {finding.size}{holder}")
    counts = rises(result.evidence)
    tail = f" Counts that grow: {', '.join(counts)}." if counts else ""
    return head + "it grows. " + "; ".join(parts) + "." + tail


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
    top = 0.85 if result.holder else 0.55
    with canvas(ax, height=4.6, right=2.5, top=top) as ax:
        ends = []
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
            gain = float(gained[-1])
            # Noisy, all of them: the allocator counts what it sets aside for a tensor.
            size = about(gain).replace("≈ ", "≈ +" if gain >= 0 else "≈ ")
            ends.append(LineEnd(gain, f"{label} {size}", colour, strong))
        ax.axvspan(-result.warmup, 0, color=FAINT_INK, alpha=0.1, linewidth=0)
        ax.set_xlim(-result.warmup, max(result.iterations, 1))
        ax.set_ylim(low - 0.03 * (high - low), high + 0.1 * (high - low))
        byte_axis(ax.yaxis, label=False)
        ax.set_ylabel(f"gained since the start, {byte_axis(ax.yaxis, label=False)}")
        ax.set_xlabel("call (shaded: warm-up)", loc="right")
        quiet_grid(ax)
        ax.set_title(_title(result), loc="left")
        name_ends(ax, ends)
        set_alt(ax, describe_growth(result))
    return ax


def _title(result: Growth) -> str:
    width = 900.0
    if not result.causes:
        return fit_text(f"{result.label}: nothing grows", width)
    first = result.causes[0]
    head = fit_text(f"{result.label}: {first.cause}, {first.size}", width)
    return f"{head}\n{fit_text(result.holder, width)}" if result.holder else head
