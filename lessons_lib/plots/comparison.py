"""The picture of a comparison: the timelines of all functions on the same axes.

Each function has a panel of its own, with shared axes, colours and legend; on axes of the user's
own, the totals are laid over each other instead.  A function whose result differs is marked.
"""

from __future__ import annotations

from typing import Any, Final

from matplotlib.axes import Axes

from lessons_lib.common.units import byte_range, format_bytes
from lessons_lib.instruments.compare import Comparison
from lessons_lib.plots.alt_text import varies
from lessons_lib.plots.axes import byte_axis, time_axis
from lessons_lib.plots.colours import INK, PALETTE
from lessons_lib.plots.figures import draw_bars
from lessons_lib.plots.theme import canvas, get_alt, quiet_grid, set_alt
from lessons_lib.plots.timeline import timelines

#: Colour and dashes of each line where totals are laid over each other.
_LINES: Final[tuple[tuple[str, Any], ...]] = (
    (PALETTE[0], "solid"),
    (PALETTE[4], (0, (6, 2))),
    (PALETTE[1], (0, (2, 1.5))),
    (PALETTE[7], (0, (7, 2, 2, 2))),
    (PALETTE[8], "solid"),
    (PALETTE[2], (0, (4, 2))),
)


_IN_A_ROW: Final = 3  # entries of the legend


def describe_comparison(result: Comparison) -> str:
    """Say how the functions compare, and whether their results agree."""
    peaks = ", ".join(
        f"{m.label} ≈ {format_bytes(m.peak_bytes)} (keeps ≈ {format_bytes(m.kept_bytes)})"
        if varies(m.recording)
        else f"{m.label} {byte_range(*m.peak_range)} (keeps {format_bytes(m.kept_bytes)})"
        for m in result
    )
    match result.agree:
        case True:
            verdict = "Their results agree." if len(result) > 1 else ""
        case None:
            verdict = "Their results were not compared."
        case _:
            verdict = " ".join(map(str, result.disagreements))
    return f"Memory of {len(result)} functions side by side. Peaks: {peaks}. {verdict}".rstrip()


def titles(result: Comparison) -> list[str]:
    """Give each function's title; one whose result differs says so."""
    wrong = {d.second for d in result.disagreements}
    return [f"{m.label} – other result" if m.label in wrong else m.label for m in result]


def draw_comparison(
    result: Comparison,
    ax: Axes | None = None,
    *,
    overlay: bool = False,
    bars: bool = False,
    **options: Any,
) -> Axes:
    """Draw a comparison.

    Parameters
    ----------
    result : Comparison
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where; then the totals are laid over each other.  By default a new figure.
    overlay : bool
        Whether a new figure lays the totals over each other, too.
    bars : bool
        Whether to draw the peaks as bars instead.
    **options
        For panels: as for `lessons_lib.plots.timeline.timelines`.

    Returns
    -------
    matplotlib.axes.Axes
        Of a figure with panels, the first function's.  y is in bytes and x in seconds.
    """
    if bars:
        return _bars(result, ax, **options)
    if ax is not None or overlay:
        return _overlay(result, ax)
    named = dict(zip(titles(result), (m.recording for m in result), strict=True))
    axes = timelines(named, **options)
    first: Axes = axes[0]
    set_alt(first, f"{describe_comparison(result)} {get_alt(first)}")
    return first


def _bars(result: Comparison, ax: Axes | None, **options: Any) -> Axes:
    sizes = {title: m.peak_bytes for title, m in zip(titles(result), result, strict=True)}
    noisy = any(m.peak_range[0] != m.peak_range[1] for m in result)
    ax = draw_bars(sizes, ax, **{"noisy": noisy, "xlabel": "peak", **options})
    set_alt(ax, describe_comparison(result))
    return ax


def _overlay(result: Comparison, ax: Axes | None) -> Axes:
    rows = -(-len(result) // _IN_A_ROW)
    with canvas(ax, height=4.4, top=0.3 + 0.25 * rows) as ax:
        low = high = 0
        seconds = 0.0
        for position, (title, m) in enumerate(zip(titles(result), result, strict=True)):
            colour, dashes = _LINES[position % len(_LINES)]
            times, live = m.recording.timeline()
            text = f"{title}: peak {format_bytes(m.peak_bytes)}"
            ax.step(
                times, live, where="post", color=colour, linestyle=dashes, linewidth=2, label=text
            )
            ax.plot(
                [m.recording.peak_at], [m.peak_bytes], "o", color=colour, markeredgecolor=INK,
                markersize=7, zorder=5, clip_on=False,
            )  # fmt: skip
            low, high = min(low, int(live.min())), max(high, int(live.max()), m.peak_bytes)
            seconds = max(seconds, float(times[-1]))
        span = max(high - low, 1)
        ax.set_xlim(0, seconds or 1e-6)
        ax.set_ylim(low - 0.03 * span, high + 0.08 * span)
        byte_axis(ax.yaxis)
        ax.set_xlabel(f"time in {time_axis(ax.xaxis, seconds or 1e-6)}", loc="right")
        quiet_grid(ax)
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=_IN_A_ROW, frameon=False,
            handlelength=2.6, borderaxespad=0.3, borderpad=0,
        )  # fmt: skip
        set_alt(ax, describe_comparison(result))
    return ax
