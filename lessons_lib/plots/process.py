"""The picture of a call as the operating system, Python and TensorFlow saw it.

Three lines over time on one scale of bytes: growth of the resident set size, growth of Python's
heap, and the exact tensor bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.instruments.process import ProcessMemory
from lessons_lib.plots.axes import byte_axis, time_axis
from lessons_lib.plots.colours import PYTHON_HEAP, RESIDENT, TENSORS
from lessons_lib.plots.line_ends import LineEnd, margin, name_ends
from lessons_lib.plots.theme import canvas, quiet_grid, set_alt


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
    end = max(result.seconds, max(sample.at for sample in result.samples))
    curves = _curves(result)
    with canvas(ax, right=margin(curve.name for curve in curves)) as ax:
        for curve in curves:
            ax.plot(curve.times, curve.values, color=curve.colour, linewidth=2, **curve.look)
        low = min(0, *(int(curve.values.min()) for curve in curves))
        high = max(1, *(int(curve.values.max()) for curve in curves))
        ax.set_xlim(0, end)
        ax.set_ylim(low - 0.03 * (high - low), high + 0.12 * (high - low))
        byte_axis(ax.yaxis)
        ax.set_xlabel(f"time in {time_axis(ax.xaxis, end)}", loc="right")
        quiet_grid(ax)
        ax.set_title(f"{result.label}: growth as three meters see it", loc="left")
        name_ends(ax, [LineEnd(float(c.values[-1]), c.name, c.colour) for c in curves])
        set_alt(ax, describe_process(result))
    return ax


class _Curve(NamedTuple):
    times: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    colour: str
    name: str
    look: dict[str, Any]


def _curves(result: ProcessMemory) -> list[_Curve]:
    moments = np.array([sample.at for sample in result.samples])
    resident = np.array([sample.resident_bytes for sample in result.samples])
    heap = np.array([sample.heap_bytes for sample in result.samples])
    times, live = result.recording.timeline()
    return [
        _Curve(
            moments,
            resident - result.resident_before_bytes,
            RESIDENT,
            f"resident set size\npeak ≈ {result.resident_growth_bytes / MIB:.0f} MiB, sampled",
            {"marker": "o", "markersize": 3},
        ),
        _Curve(
            moments,
            heap,
            PYTHON_HEAP,
            f"Python's heap\npeak ≈ {result.heap_peak_bytes / MIB:.1f} MiB",
            {"linestyle": (0, (6, 2))},
        ),
        _Curve(
            times,
            live,
            TENSORS,
            f"tensors\npeak {format_bytes(result.tensor_peak_bytes)}, exact",
            {"drawstyle": "steps-post"},
        ),
    ]
