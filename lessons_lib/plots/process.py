"""The picture of a call as the operating system, Python and TensorFlow saw it.

Three lines over time on one scale of bytes: growth of the resident set size, growth of Python's
heap, and the exact tensor bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.instruments.process import ProcessMemory
from lessons_lib.plots.colours import INK, mixed
from lessons_lib.plots.theme import (
    arrange,
    byte_axis,
    new_axes,
    quiet_grid,
    set_alt,
    settings,
    time_axis,
)

_RESIDENT: Final = "#d9572b"
_HEAP: Final = "#0b8a6a"
_TENSORS: Final = "#2d7bba"


def describe_process(result: ProcessMemory) -> str:
    """Say what the picture shows; only the tensor bytes are exact."""
    return (
        f"Three lines over the time of {result.label}: the resident set size grew by "
        f"≈ {result.resident_growth_bytes / MIB:.0f} MiB at its highest, Python's heap by "
        f"≈ {result.heap_peak_bytes / MIB:.1f} MiB, and the tensor bytes by exactly "
        f"{format_bytes(result.tensor_peak_bytes)}."
    )


def draw_process(result: ProcessMemory, ax: Axes | None = None) -> Axes:
    """Draw the three numbers over time.

    Parameters
    ----------
    result : ProcessMemory
        The measured call.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x is in seconds, y in bytes.
    """
    with settings():
        if ax is None:
            ax = new_axes()
            arrange(ax.figure, right=2.9)  # type: ignore[arg-type]
        moments = np.array([sample.at for sample in result.samples])
        resident = np.array([s.resident_bytes for s in result.samples])
        resident = resident - result.resident_before_bytes
        heap = np.array([sample.heap_bytes for sample in result.samples])
        times, live = result.recording.timeline()
        ax.plot(moments, resident, color=_RESIDENT, linewidth=2, marker="o", markersize=3)
        ax.plot(moments, heap, color=_HEAP, linewidth=2, linestyle=(0, (6, 2)))
        ax.step(times, live, where="post", color=_TENSORS, linewidth=2)
        end = max(result.seconds, float(moments.max()))
        low = min(0, int(resident.min()), int(heap.min()), int(live.min()))
        high = max(1, int(resident.max()), int(heap.max()), int(live.max()))
        ax.set_xlim(0, end)
        ax.set_ylim(low - 0.03 * (high - low), high + 0.12 * (high - low))
        byte_axis(ax.yaxis)
        ax.set_xlabel(f"time in {time_axis(ax.xaxis, end)}", loc="right")
        quiet_grid(ax)
        ax.set_title(f"{result.label}: growth as three meters see it", loc="left")
        _names(ax, result, (int(resident[-1]), int(heap[-1]), int(live[-1])))
        set_alt(ax, describe_process(result))
    return ax


def _names(ax: Axes, result: ProcessMemory, ends: tuple[int, int, int]) -> None:
    """Name each line at its right end, apart from each other."""
    low, high = ax.get_ylim()
    texts = (
        f"resident set size\npeak ≈ {result.resident_growth_bytes / MIB:.0f} MiB, sampled",
        f"Python's heap\npeak ≈ {result.heap_peak_bytes / MIB:.1f} MiB",
        f"tensors\npeak {format_bytes(result.tensor_peak_bytes)}, exact",
    )
    colours = (_RESIDENT, _HEAP, _TENSORS)
    order = sorted(range(3), key=lambda i: ends[i])
    share = [0.0] * 3
    lowest = 0.0
    for i in order:
        wanted = (ends[i] - low) / (high - low)
        share[i] = max(wanted, lowest)
        lowest = share[i] + 0.17
    over = max(0.0, lowest - 0.17 - 0.93)
    for i in range(3):
        ax.annotate(
            texts[i],
            (1.02, share[i] - over),
            xycoords="axes fraction",
            va="center",
            color=mixed(colours[i], INK, 0.35),
            annotation_clip=False,
        )
