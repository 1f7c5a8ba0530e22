"""The picture that a slider moves: the peak at each value tried, and the timeline at one of them.

Left, the law: peak bytes against the parameter, with the values tried so far.  Right, the recording
at the present value.  Bytes and seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lessons_lib.common.units import format_bytes
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.colours import GRID, INK, PALETTE
from lessons_lib.plots.theme import arrange, new_axes, set_alt, settings
from lessons_lib.plots.timeline import draw_recording
from lessons_lib.recording.recording import Recording


def draw_explored(
    parameter: str,
    peaks: Mapping[int, int],
    value: int,
    recording: Recording,
    limits: tuple[int, int],
) -> Any:
    """Draw what a slider shows.

    Parameters
    ----------
    parameter : str
        What the slider changes.
    peaks : mapping of int to int
        Peak bytes by the values tried.
    value : int
        The present value.
    recording : Recording
        What was recorded there.
    limits : (int, int)
        Smallest and largest value of the slider.

    Returns
    -------
    matplotlib.figure.Figure
        It shows itself as an image with alternative text.
    """
    from matplotlib.ticker import MaxNLocator

    with settings():
        law, timeline = new_axes(11.0, 4.0, 1, 2, width_ratios=(2, 3))[0]
        figure: Any = law.figure
        arrange(figure, right=1.0, top=0.8, gap=1.0)
        values = sorted(peaks)
        law.plot(values, [peaks[v] for v in values], color=PALETTE[0], linewidth=1.4, marker="o")
        law.plot([value], [peaks[value]], color=PALETTE[4], marker="o", markersize=11, zorder=3)
        span = max(1, limits[1] - limits[0])
        law.set_xlim(limits[0] - 0.04 * span, limits[1] + 0.04 * span)
        law.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        law.set_ylim(0, 1.15 * max(1, *peaks.values()))
        byte_axis(law.yaxis)
        law.grid(visible=True, color=GRID, linewidth=0.8)
        law.set_axisbelow(True)
        law.set_xlabel(parameter)
        title = f"peak {format_bytes(peaks[value])} at {parameter} {value}"
        law.set_title(title, loc="left", fontweight="bold", color=INK)
        draw_recording(recording, timeline, title="", max_named=4)
    set_alt(law, describe_explored(parameter, peaks, value))
    set_alt(timeline, "Beside it, the timeline of that run.")
    return figure


def describe_explored(parameter: str, peaks: Mapping[int, int], value: int) -> str:
    """Say what a slider's picture shows."""
    tried = ", ".join(f"{v}: {format_bytes(peaks[v])}" for v in sorted(peaks))
    now = f"Peak {format_bytes(peaks[value])} at {parameter} {value}."
    return f"{now} Values tried so far: {tried}."
