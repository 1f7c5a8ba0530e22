"""The picture of a graded answer: bars beside the limits, or the timeline under the budget.

When an answer passed, bars show the learner's figure, the budget, the reference solution and the
least possible.  When it is over budget, its timeline shows the budget as a line, unless
TensorFlow's memory is not what is over it: then the bars again, with the part of NumPy and Python.
Bytes throughout, or counts for quantities that are counted.
"""

from __future__ import annotations

from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lessons_lib.common.units import format_bytes
from lessons_lib.plots.alt_text import describe_recording
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.colours import GRID, INK, LIMIT, PAPER
from lessons_lib.plots.theme import arrange, new_axes, set_alt, settings
from lessons_lib.teaching.exercises.limits import Figure, Quantity
from lessons_lib.teaching.exercises.result import CheckResult, Status

_YOURS: Final = "#2d7bba"
_HEAP: Final = "#f1a737"
_OVER: Final = "#d9572b"
_REFERENCE: Final = "#8fd0f5"
_FLOOR: Final = "#b9b6ae"


def draw_score(result: CheckResult, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a graded answer.

    Parameters
    ----------
    result : CheckResult
        Of a check.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.
    title : str, optional
        By default the exercise and its status.

    Returns
    -------
    matplotlib.axes.Axes
        x is in bytes or counts; for a timeline, y is in bytes and x in seconds.

    Raises
    ------
    ValueError
        If nothing was measured.
    """
    figure = result.figure
    if figure is None:
        raise ValueError(
            f"there is no picture of an answer that was not measured ({result.status}): "
            "check an answer that gives the right value"
        )
    heading = f"{result.exercise}: {result.status}" if title is None else title
    if _by_timeline(result, figure):
        from lessons_lib.plots.timeline import draw_recording

        assert result.recording is not None
        ax = draw_recording(result.recording, ax, title=heading, limit=figure.budget)
        set_alt(ax, describe_score(result))
        return ax
    return _draw_bars(result, figure, ax, heading)


def _by_timeline(result: CheckResult, figure: Figure) -> bool:
    recording = result.recording
    return (
        result.status is Status.OVER_BUDGET
        and figure.quantity is Quantity.PEAK
        and recording is not None
        and recording.peak_bytes > figure.budget
    )


def _bars(result: CheckResult, figure: Figure) -> list[tuple[str, int, str]]:
    yours = _YOURS if figure.kept else _OVER
    bars = [("yours", figure.measured, yours), ("budget", figure.budget, LIMIT)]
    if figure.reference is not None:
        bars.append(("reference", figure.reference, _REFERENCE))
    if figure.floor is not None:
        bars.append(("least possible", figure.floor, _FLOOR))
    return bars


def _draw_bars(result: CheckResult, figure: Figure, ax: Axes | None, heading: str) -> Axes:
    bars = _bars(result, figure)
    top = max(max(value for _, value, _ in bars), 1)
    heap = min(result.heap_bytes, figure.measured) if figure.quantity is Quantity.PEAK else 0
    wide = 2 * heap > top  # wide enough for words
    with settings():
        if ax is None:
            ax = new_axes(9.0, 0.42 * len(bars) + 1.2)
            figure_of: Any = ax.figure
            arrange(figure_of, left=1.45, right=1.6)
        for place, (name, value, colour) in enumerate(bars):
            if name == "budget":
                # A limit is a line to stay under, not an amount.
                ax.barh(
                    place, value, height=0.62, facecolor="none", edgecolor=colour, linewidth=1.6
                )
            else:
                ax.barh(place, value, height=0.62, color=colour)
            text = figure.quantity.write(value)
            if name == "yours" and figure.beats_reference and result.passed:
                text += "  ★ beats the reference"
            if name == "yours" and heap and not wide:
                text += f", NumPy and Python {format_bytes(heap)} of it"
            ax.annotate(
                text,
                (value, place),
                (6, 0),
                textcoords="offset points",
                va="center",
                color=INK,
                bbox={"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none"},
            )
        if heap:
            ax.barh(0, heap, left=figure.measured - heap, height=0.62, color=_HEAP)
            if wide:
                _name_heap(ax, figure.measured - heap / 2, heap)
        ax.axvline(figure.budget, color=LIMIT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=0.5)
        ax.set_yticks(range(len(bars)), [name for name, _, _ in bars])
        ax.invert_yaxis()
        ax.set_xlim(0, 1.02 * top)
        _label_x(ax, figure)
        ax.grid(visible=True, axis="x", color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.tick_params(axis="y", length=0)
        ax.set_title(heading, loc="left", fontweight="bold", color=INK)
    set_alt(ax, describe_score(result))
    return ax


def _name_heap(ax: Axes, centre: float, heap: int) -> None:
    ax.annotate(
        f"NumPy and Python: {format_bytes(heap)}", (centre, 0), ha="center", va="center", color=INK
    )


def _label_x(ax: Axes, figure: Figure) -> None:
    if figure.quantity.in_bytes:
        unit = byte_axis(ax.xaxis)
        ax.set_xlabel(f"{figure.quantity}, {unit}")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.set_xlabel(str(figure.quantity))


def describe_score(result: CheckResult) -> str:
    """Say what the picture of a graded answer shows."""
    figure = result.figure
    head = f"Exercise {result.exercise}, {result.status}. "
    if figure is None:
        return head + "Nothing was measured."
    if _by_timeline(result, figure):
        assert result.recording is not None
        return head + describe_recording(result.recording, limit=figure.budget, label="your answer")
    write = figure.quantity.write
    said = ", ".join(f"{name} {write(value)}" for name, value, _ in _bars(result, figure))
    heap = ""
    if result.heap_bytes and figure.quantity is Quantity.PEAK:
        heap = f" NumPy and Python took {format_bytes(result.heap_bytes)} of it."
    best = " The answer beats the reference." if result.beats_reference else ""
    return f"{head}Bars of the {figure.quantity}: {said}.{heap}{best}"
