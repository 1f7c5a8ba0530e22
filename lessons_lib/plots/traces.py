"""Pictures of traces: a function's graphs as they pile up, and the functions that a block traced.

A function's picture is a cascade: one row for each trace, in the order in which they were made;
its bar begins where the one before it ended, because graphs are kept as long as the function is.
Rows of one cause that follow each other are folded into one.  Bars are in bytes; the hatched part
is constants.  A block's picture has one row for each function and counts its new traces by cause.

Importing this module registers the pictures and their alternative texts; matplotlib is loaded
when something is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from lessons_lib.common.results import alt_text, draw
from lessons_lib.common.units import counted, format_bytes
from lessons_lib.instruments.tracing.reasons import TraceCause
from lessons_lib.instruments.tracing.retracing import RetracingWatch
from lessons_lib.instruments.tracing.tables import seconds_text
from lessons_lib.instruments.tracing.trace_report import (
    Trace,
    TraceReport,
    argument_of,
    headline,
    seconds_of,
)
from lessons_lib.plots.alt_text import exact_bytes
from lessons_lib.plots.colours import PALETTE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What each cause looks like, in every picture of traces.
CAUSE_STYLES: Final = {
    TraceCause.FIRST: Style("#bcbcc0"),
    TraceCause.VALUE: Style(PALETTE[4]),
    TraceCause.SHAPE: Style(PALETTE[0]),
    TraceCause.DTYPE: Style(PALETTE[7]),
    TraceCause.STRUCTURE: Style(PALETTE[1]),
    TraceCause.OBJECT: Style(PALETTE[2]),
    TraceCause.VARIABLES: Style(PALETTE[3]),
    TraceCause.SURROUNDINGS: Style(PALETTE[8]),
}
_CONSTANTS: Final = "////"
_MOST_ROWS: Final = 12
_ROW_INCHES: Final = 0.34
_LABEL_INCHES: Final = 3.9


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a bar."""

    value: int
    cause: TraceCause
    constants: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """A bar with its texts."""

    label: str
    start: int
    parts: tuple[_Part, ...]
    remark: str

    @property
    def end(self) -> int:
        return self.start + sum(part.value for part in self.parts)


def _groups(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Fold traces of one cause that follow each other; join what is beyond the last row."""
    groups = [list(group) for _, group in groupby(traces, argument_of)]
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


def _trace_rows(report: TraceReport) -> Iterator[_Row]:
    start = 0
    for group in _groups(report.traces):
        parts: list[_Part] = []
        for cause in dict.fromkeys(trace.cause for trace in group):
            alike = [trace for trace in group if trace.cause == cause]
            # A repeated value is stored once, so its graph can be smaller than its constants.
            constants = sum(min(trace.constant_bytes, trace.graph_bytes) for trace in alike)
            rest = sum(trace.graph_bytes for trace in alike) - constants
            parts += [_Part(constants, cause, constants=True), _Part(rest, cause)]
        row = _Row(
            f"{_numbers(group)} · {_why(group)}",
            start,
            tuple(part for part in parts if part.value),
            _trace_remark(group),
        )
        yield row
        start = row.end


def _trace_remark(group: Sequence[Trace]) -> str:
    size = format_bytes(sum(trace.graph_bytes for trace in group))
    ops = f"{sum(trace.ops for trace in group):,} ops"
    known = [seconds for trace in group if (seconds := seconds_of(trace)) is not None]
    times = [seconds_text(sum(known))] if known else []
    return " · ".join([size, ops, *times])


def _watch_rows(watch: RetracingWatch) -> Iterator[_Row]:
    reports = list(watch.reports)
    shown = reports if len(reports) <= _MOST_ROWS else reports[: _MOST_ROWS - 1]
    for report in shown:
        parts = tuple(_Part(count, cause) for cause, count in report.causes.items())
        remark = " · ".join([format_bytes(report.graph_bytes), seconds_text(report.seconds)])
        yield _Row(report.name, 0, parts, remark)
    if rest := reports[len(shown) :]:
        counts = {
            cause: sum(report.causes.get(cause, 0) for report in rest) for cause in TraceCause
        }
        parts = tuple(_Part(count, cause) for cause, count in counts.items() if count)
        size = format_bytes(sum(report.graph_bytes for report in rest))
        yield _Row(f"{len(rest)} more functions", 0, parts, size)


@draw.register(TraceReport)
def draw_traces(
    result: TraceReport, ax: Any = None, *, title: str | None = None, **options: Any
) -> Axes:
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
    return _draw(
        list(_trace_rows(result)),
        name if title is None else title,
        alt_text(result),
        ax,
        of_bytes=True,
    )


@draw.register(RetracingWatch)
def draw_watch(
    result: RetracingWatch, ax: Any = None, *, title: str | None = None, **options: Any
) -> Axes:
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
    return _draw(list(_watch_rows(result)), name, alt_text(result), ax, of_bytes=False)


def _draw(rows: list[_Row], title: str, alt: str, ax: Any, *, of_bytes: bool) -> Axes:
    from lessons_lib.plots import theme
    from lessons_lib.plots.legend import plan_strip

    own = ax is None
    with theme.settings():
        # Room for the labels on the left and the longest remark on the right, in inches.
        left = min(_LABEL_INCHES, max([_wide(row.label) for row in rows], default=0.5))
        right = max((_wide(row.remark) for row in rows), default=0.3)
        if own:
            ax = theme.new_axes(10.0, 1.4 + _ROW_INCHES * max(1, len(rows)))
            strip_width = 9.5 * theme.DPI
            strip = plan_strip(_legend(rows), strip_width)
            wide, high = ax.figure.get_size_inches()
            ax.figure.set_size_inches(wide, high + strip.height)
            theme.arrange(ax.figure, left=left + 0.35, right=right + 0.3, top=0.5 + strip.height)
        else:
            strip = plan_strip(_legend(rows), ax.get_window_extent().width, dpi=ax.figure.dpi)
        _bars(ax, rows)
        ax.set_yticks(range(len(rows)))
        ax.set_yticklabels([theme.fit_text(row.label, left * theme.DPI) for row in rows])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        end = max([row.end for row in rows], default=1) or 1
        # On axes of the user's own there is no margin for the remarks: they go inside.
        inside = 0.0 if own else min(0.6, right * theme.DPI / ax.get_window_extent().width)
        ax.set_xlim(0, end / (1 - inside))
        if of_bytes:
            unit = theme.byte_axis(ax.xaxis, label=False)
            ax.set_xlabel(f"{unit} of graphs, one after the other")
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set_xlabel("new traces")
        theme.quiet_grid(ax, "x")
        box = ax.get_window_extent()
        inch = ax.figure.dpi / box.height
        # A figure's own legend begins at the labels' left edge, so that it has the whole width.
        offset = -(left + 0.2) * ax.figure.dpi / box.width if own else 0.0
        strip.draw(ax, offset, 1 + 0.08 * inch, inch, "left")
        full = box.width * (1 - offset) + (right * ax.figure.dpi if own else 0)
        text = theme.fit_text(title, full, theme.TITLE, bold=True, dpi=ax.figure.dpi)
        ax.set_title(
            text,
            loc="left",
            x=offset,
            fontsize=theme.TITLE,
            fontweight="bold",
            pad=72 * (0.12 + strip.height),
        )
    theme.set_alt(ax, alt)
    return ax


def _wide(text: str) -> float:
    """Give the width of a text in inches."""
    from lessons_lib.plots.theme import DPI, text_size

    return text_size(text)[0] / DPI + 0.1


def _bars(ax: Any, rows: Sequence[_Row]) -> None:
    from lessons_lib.plots.colours import EDGE, INK

    for place, row in enumerate(rows):
        start = row.start
        for part in row.parts:
            style = CAUSE_STYLES[part.cause]
            hatch = _CONSTANTS if part.constants else ""
            ax.barh(
                place,
                part.value,
                left=start,
                height=0.72,
                color=style.face,
                hatch=hatch,
                edgecolor=EDGE,
                linewidth=0.8,
            )
            start += part.value
        ax.annotate(
            row.remark,
            (row.end, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            annotation_clip=False,
        )


def _legend(rows: Sequence[_Row]) -> list[tuple[str, Style | None]]:
    present = {part.cause for row in rows for part in row.parts}
    entries: list[tuple[str, Style | None]] = [
        (str(cause), style) for cause, style in CAUSE_STYLES.items() if cause in present
    ]
    if any(part.constants for row in rows for part in row.parts):
        entries.append(("constants", Style("#8a8d94", _CONSTANTS)))
    return entries


@alt_text.register
def describe_traces(result: TraceReport, **options: Any) -> str:
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


@alt_text.register
def describe_watch(result: RetracingWatch, **options: Any) -> str:
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
