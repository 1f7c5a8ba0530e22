"""Pictures of traces: a function's graphs as they pile up, and the functions that a block traced.

A function's picture is a cascade: one row for each trace, in the order in which they were made;
its bar begins where the one before it ended, because graphs are kept as long as the function is.
Where there are many, rows of one cause that follow each other are folded into one.  Bars are in
bytes; the hatched part is constants.  A block's picture has one row for each function and counts
its new traces by cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lessons_lib.common.units import counted, format_bytes
from lessons_lib.instruments.tracing.reasons import TraceCause
from lessons_lib.instruments.tracing.retracing import RetracingWatch
from lessons_lib.instruments.tracing.tables import seconds_text
from lessons_lib.instruments.tracing.trace_report import (
    Trace,
    TraceReport,
    alike_in_a_row,
    argument_of,
    headline,
    seconds_of,
)
from lessons_lib.plots.alt_text import exact_bytes
from lessons_lib.plots.axes import byte_axis
from lessons_lib.plots.bar_rows import ROW, Bar, draw_rows, margins
from lessons_lib.plots.colours import GREY, PALETTE, Style
from lessons_lib.plots.legend import Entry, plan_strip
from lessons_lib.plots.theme import DPI, TITLE, canvas, fit_text, set_alt

#: What each cause looks like, in every picture of traces.
CAUSE_STYLES: Final = {
    TraceCause.FIRST: Style(GREY),
    TraceCause.VALUE: Style(PALETTE[4]),
    TraceCause.SHAPE: Style(PALETTE[0]),
    TraceCause.DTYPE: Style(PALETTE[7]),
    TraceCause.STRUCTURE: Style(PALETTE[1]),
    TraceCause.OBJECT: Style(PALETTE[2]),
    TraceCause.VARIABLES: Style(PALETTE[3]),
    TraceCause.CONTEXT: Style(PALETTE[8]),
}
_CONSTANTS: Final = "////"
_MOST_ROWS: Final = 12
#: Up to so many traces have a row each: that every one of them has its bytes is the message.
_FEW: Final = 4
_CONSTANT_STYLE: Final = Style(GREY, _CONSTANTS)


def _groups(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Fold traces of one cause that follow each other; join what is beyond the last row."""
    if len(traces) <= _FEW:
        return [[trace] for trace in traces]
    groups = alike_in_a_row(traces)
    if len(groups) > _MOST_ROWS:
        rest = [trace for group in groups[_MOST_ROWS - 1 :] for trace in group]
        groups = [*groups[: _MOST_ROWS - 1], rest]
    return groups


def _numbers(group: Sequence[Trace]) -> str:
    first, last = group[0].number, group[-1].number
    return str(first) if first == last else f"{first}–{last}"


def _why(group: Sequence[Trace]) -> str:
    kinds = dict.fromkeys(map(argument_of, group))
    if len(group) == 1:
        return str(group[0].reason)
    if len(kinds) > 1:
        return "various causes"
    cause, argument = next(iter(kinds))
    return f"{argument}: {cause}" if argument else str(cause)


def _trace_bars(report: TraceReport) -> Iterator[Bar]:
    start = 0.0
    for group in _groups(report.traces):
        parts: list[tuple[float, Style]] = []
        for cause in dict.fromkeys(trace.cause for trace in group):
            alike = [trace for trace in group if trace.cause == cause]
            # A repeated value is stored once, so its graph can be smaller than its constants.
            constants = sum(min(trace.constant_bytes, trace.graph_bytes) for trace in alike)
            rest = sum(trace.graph_bytes for trace in alike) - constants
            style = CAUSE_STYLES[cause]
            parts += [(constants, Style(style.face, _CONSTANTS)), (rest, style)]
        named = f"{_numbers(group)} · {_why(group)}"
        shown = tuple(part for part in parts if part[0])
        bar = Bar(named, shown, _trace_remark(group), start)
        yield bar
        start = bar.end


def _trace_remark(group: Sequence[Trace]) -> str:
    size = format_bytes(sum(trace.graph_bytes for trace in group))
    ops = f"{sum(trace.ops for trace in group):,} ops"
    known = [seconds for trace in group if (seconds := seconds_of(trace)) is not None]
    times = [seconds_text(sum(known))] if known else []
    return " · ".join([size, ops, *times])


def _watch_bars(watch: RetracingWatch) -> Iterator[Bar]:
    reports = list(watch.reports)
    shown = reports if len(reports) <= _MOST_ROWS else reports[: _MOST_ROWS - 1]
    for report in shown:
        parts = tuple((count, CAUSE_STYLES[cause]) for cause, count in report.causes.items())
        remark = " · ".join([format_bytes(report.graph_bytes), seconds_text(report.seconds)])
        yield Bar(report.name, parts, remark)
    if rest := reports[len(shown) :]:
        counts = [
            (sum(report.causes.get(cause, 0) for report in rest), CAUSE_STYLES[cause])
            for cause in TraceCause
        ]
        size = format_bytes(sum(report.graph_bytes for report in rest))
        yield Bar(f"{len(rest)} more functions", tuple(c for c in counts if c[0]), size)


def draw_traces(result: TraceReport, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a function's traces as a cascade of the bytes of their graphs.

    Parameters
    ----------
    result : TraceReport
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.
    title : str, optional
        By default the function's name and what its traces amount to.

    Returns
    -------
    matplotlib.axes.Axes
        x is in bytes; y counts rows downwards from 0.
    """
    name = f"{result.name}: {headline(result) if result.traces else 'not traced yet'}"
    ax = _draw(list(_trace_bars(result)), name if title is None else title, ax, of_bytes=True)
    set_alt(ax, describe_traces(result))
    return ax


def draw_watch(result: RetracingWatch, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the new traces of a block, a row for each function, by cause.

    Parameters
    ----------
    result : RetracingWatch
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.
    title : str, optional
        By default what the block traced.

    Returns
    -------
    matplotlib.axes.Axes
        x counts traces; y counts rows downwards from 0.
    """
    name = repr(result).strip("<>") if title is None else title
    ax = _draw(list(_watch_bars(result)), name, ax, of_bytes=False)
    set_alt(ax, describe_watch(result))
    return ax


def _draw(bars: list[Bar], title: str, ax: Axes | None, *, of_bytes: bool) -> Axes:
    own = ax is None
    left, right = margins(bars)
    strip = plan_strip(_legend(bars), 9.5 * DPI)
    high = 1.4 + ROW * max(1, len(bars)) + strip.height
    room = {"left": left + 0.35, "right": right + 0.3, "top": 0.5 + strip.height}
    with canvas(ax, height=high, **room) as ax:
        box, dpi = ax.get_window_extent(), float(ax.figure.dpi)
        if not own:
            strip = plan_strip(_legend(bars), box.width, dpi=dpi)
        draw_rows(ax, bars, inside=not own)
        if of_bytes:
            ax.set_xlabel(f"{byte_axis(ax.xaxis, label=False)} of graphs, one after the other")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.set_xlabel("new traces")
        inch = dpi / box.height
        # A figure's own legend begins at the labels' left edge, so that it has the whole width.
        offset = -(left + 0.2) * dpi / box.width if own else 0.0
        strip.draw(ax, offset, 1 + 0.08 * inch, inch, "left")
        full = box.width * (1 - offset) + (right * dpi if own else 0)
        text = fit_text(title, full, TITLE, bold=True, dpi=dpi)
        pad = 72 * (0.12 + strip.height)
        ax.set_title(text, loc="left", x=offset, fontsize=TITLE, fontweight="bold", pad=pad)
    return ax


def _legend(bars: Sequence[Bar]) -> list[Entry]:
    faces = {style.face for bar in bars for _, style in bar.parts}
    entries: list[Entry] = [
        (str(cause), style) for cause, style in CAUSE_STYLES.items() if style.face in faces
    ]
    if any(style.hatch for bar in bars for _, style in bar.parts):
        entries.append(("constants", _CONSTANT_STYLE))
    return entries


def describe_traces(result: TraceReport) -> str:
    """Say what the picture of a function's traces shows."""
    head = f"Traces of {result.name}: "
    if not result.traces:
        return head + "none yet."
    sentences = [f"{counted(len(result.traces), 'trace')}, {exact_bytes(result.graph_bytes)}"]
    sentences[0] += " of graphs"
    if result.constant_bytes:
        sentences[0] += f", constants of {exact_bytes(result.constant_bytes)}"
    for group in _groups(result.traces)[:6]:
        number = f"{'trace' if len(group) == 1 else 'traces'} {_numbers(group)}"
        size = format_bytes(sum(trace.graph_bytes for trace in group))
        ops = counted(sum(trace.ops for trace in group), "op")
        sentences.append(f"{number}: {_why(group)}, {size}, {ops}")
    return head + ". ".join(sentences) + "." + (f" {result.advice}" if result.advice else "")


def describe_watch(result: RetracingWatch) -> str:
    """Say what the picture of a block's traces shows."""
    head = "Functions traced in a block: "
    if not result.rows:
        return head + "none."
    functions = counted(len(result.reports), "function")
    sentences = [f"{counted(result.new_traces, 'new trace')} of {functions}"]
    for report in result.reports[:6]:
        causes = ", ".join(f"{count} {cause}" for cause, count in report.causes.items())
        sentences.append(f"{report.name}: {causes}, {seconds_text(report.seconds)}")
    return head + ". ".join(sentences) + "."
