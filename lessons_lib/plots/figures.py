"""Plain pictures of figures: curves against a parameter, and bars; both labelled where they stand.

At most six kinds get a colour of their own; the rest is one grey.  Data are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.peak import Peak
from lessons_lib.instruments.sweep import QUANTITIES, Curve, Sweep
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.bar_rows import Bar, draw_rows, margins
from lessons_lib.plots.colours import GREY, PALETTE, Style
from lessons_lib.plots.line_ends import LineEnd, margin, name_ends
from lessons_lib.plots.theme import canvas, quiet_grid, set_alt

#: Colours that stay apart on the light card; further kinds are grey.
COLOURS: Final = (PALETTE[0], PALETTE[4], PALETTE[1], PALETTE[7], PALETTE[2], PALETTE[5])
_MARKS: Final = "osD^vP"


def colour(position: int) -> str:
    """Give the colour of the kind at a position."""
    return COLOURS[position] if position < len(COLOURS) else GREY


def describe_sweep(result: Sweep) -> str:
    """Say what a sweep's picture shows."""
    heads, body = result.rows()
    ns = ", ".join(head.removeprefix(f"{result.parameter} = ") for head in heads[1:-1])
    said = "; ".join(f"{row[0]}: {', '.join(row[1:-1])} (law: {row[-1]})" for row in body)
    what = QUANTITIES[result.quantity]
    return f"{what.capitalize()} in {result.unit.name} at {result.parameter} = {ns}. {said}."


def draw_sweep(
    result: Sweep, ax: Axes | None = None, *, title: str | None = None, xlabel: str = ""
) -> Axes:
    """Draw a sweep: the figures of each function against the parameter, with its law.

    Parameters
    ----------
    result : Sweep
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.
    title : str, optional
        By default what is drawn.
    xlabel : str
        What the parameter is, such as ``"steps n"``; by default its name.

    Returns
    -------
    matplotlib.axes.Axes
        y is in bytes.
    """
    size = result.unit.nbytes
    own = ax is None
    labels = [f"{curve.label}: {curve.law_in(result.unit)}" for curve in result]
    with canvas(ax, height=4.4, right=min(margin(labels, bold=True), 4.5)) as ax:
        ns = list(next(iter(result)).values)
        ends = []
        for position, (curve, label) in enumerate(zip(result, labels, strict=True)):
            end = _draw_curve(ax, curve, position, size)
            ends.append(LineEnd(end, label, colour(position), bold=True))
        top = max(max(curve.nbytes.values()) for curve in result)
        ax.set_ylim(0, 1.12 * max(top, 1e-9 * size))
        ax.set_xlim(min(ns) - 0.04 * (max(ns) - min(ns)), max(ns))
        what = QUANTITIES[result.quantity]
        ax.set_ylabel(f"{what} in {byte_axis(ax.yaxis, label=False)}")
        ax.xaxis.set_major_locator(FixedLocator(ns))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xlabel(xlabel or result.parameter)
        quiet_grid(ax)
        shown = f"{what} by {xlabel or result.parameter}" if title is None else title
        ax.set_title(shown, loc="left", fontweight="bold")
        if own:
            name_ends(ax, ends)
        set_alt(ax, describe_sweep(result))
    return ax


def _draw_curve(ax: Axes, curve: Curve, position: int, size: int) -> float:
    """Draw one function's figures; give where its line ends, in bytes."""
    ns = np.array(list(curve.values), float)
    values = np.array(list(curve.nbytes.values()), float)
    look: dict[str, Any] = {"color": colour(position), "zorder": 3, "clip_on": False}
    if len(curve.coefficients) <= 3 and curve.law and not curve.noisy:
        smooth = np.linspace(ns[0], ns[-1], 80)
        fitted = np.polyval(curve.coefficients, smooth) * size
        off = np.abs(np.polyval(curve.coefficients, ns) * size - values).max()
        through = off <= 0.02 * min(size, values.max())
        line = (smooth, fitted) if through else (ns, values)
    else:
        line = (ns, values)
    ax.plot(*line, linewidth=2, **look)
    mark = _MARKS[position % len(_MARKS)]
    ax.plot(ns, values, mark, markersize=10 - min(position, 5), **look)
    for n, measured in curve.peaks.items():
        if min(measured.peaks) != max(measured.peaks):
            ax.plot([n, n], [min(measured.peaks), max(measured.peaks)], linewidth=5, alpha=0.4,
                    solid_capstyle="butt", **look)  # fmt: skip
    return float(values[-1])


def draw_bars(
    values: Mapping[str, float | Peak],
    ax: Axes | None = None,
    *,
    title: str = "",
    noisy: bool = False,
    xlabel: str = "",
) -> Axes:
    """Draw bytes as horizontal bars, each with its figure.

    Parameters
    ----------
    values : mapping of str to int or Peak
        Bytes, or what `lessons_lib.peak` gave, by the names to show.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure, as high as the bars need.
    title : str
        What is shown.
    noisy : bool
        Whether figures stand after ``≈``, as those of the process's memory do.
    xlabel : str
        What the bytes are.

    Returns
    -------
    matplotlib.axes.Axes
        x is in bytes.
    """
    sizes = {k: float(v.peak_bytes if isinstance(v, Peak) else v) for k, v in values.items()}
    texts = {
        k: str(v) if isinstance(v, Peak) else ("≈ " if noisy else "") + format_bytes(v)
        for k, v in values.items()
    }
    look = Style(PALETTE[0])
    bars = [Bar(name, ((size, look),), texts[name]) for name, size in sizes.items()]
    left, right = margins(bars)
    own = ax is None
    room = {"left": left + 0.35, "right": right + 0.3}
    with canvas(ax, height=1.3 + 0.42 * len(bars), **room) as ax:
        draw_rows(ax, bars, inside=not own)
        unit = byte_axis(ax.xaxis, label=False)
        ax.set_xlabel(f"{xlabel} in {unit}" if xlabel else unit)
        ax.set_title(title, loc="left", fontweight="bold")
        said = ", ".join(f"{name} {text}" for name, text in texts.items())
        set_alt(ax, f"Bars. {title + ': ' if title else ''}{said}.")
    return ax
