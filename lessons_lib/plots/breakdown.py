"""Pictures of a breakdown and of a comparison: a table whose numbers are bars.

One row an operation or line, one column a measure, each value written beside its bar.  Columns
share one scale, unless one of them is far larger; then its heading says so.  Rows beyond what fits
are added up in a last one, which has numbers and no bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from lessons_lib.common.units import format_bytes
from lessons_lib.plots.alt_text import describe_breakdown, describe_diff, signed_bytes
from lessons_lib.plots.band_labels import op_text
from lessons_lib.plots.colours import (
    FAINT_INK,
    GRID,
    INK,
    LESS,
    MORE,
    PALETTE,
    PAPER,
    UNKNOWN_STYLE,
    Style,
    op_styles,
)
from lessons_lib.plots.theme import TEXT, TITLE, canvas, fit_text, set_alt, text_size
from lessons_lib.recording.breakdown import Breakdown, RecordingDiff
from lessons_lib.recording.buffers import UNKNOWN

_HEADINGS: Final = ("at the peak", "kept", "allocated in all")
_ROW: Final = 0.3  # inches
_LEAST: Final = 19.0  # pixels that a row needs
_GAP: Final = 26.0  # pixels between columns
_OTHER: Final = 4.0  # a column with a bar this many times the first's longest has its own scale


@dataclass(frozen=True)
class _Row:
    name: str
    style: Style
    values: tuple[int, ...]
    rest: bool = False  # several rows added up: a number without a bar


@dataclass(frozen=True)
class _Column:
    left: float
    room: float
    zero: float
    scale: float  # pixels a byte
    own_scale: bool


@dataclass(frozen=True)
class _Table:
    title: str
    headings: tuple[str, ...]
    totals: tuple[int, ...]
    rows: tuple[_Row, ...]
    signed: bool
    empty: str
    alt: str

    def write(self, value: int) -> str:
        """Write a value."""
        return signed_bytes(value) if self.signed else format_bytes(value)

    def shortened(self, most: int) -> _Table:
        """Give the table with at most so many rows, the last one for the rest."""
        if len(self.rows) <= most:
            return self
        shown, rest = self.rows[: most - 1], self.rows[most - 1 :]
        sums = tuple(map(sum, zip(*(row.values for row in rest), strict=True)))
        last = _Row(f"… {len(rest)} more", UNKNOWN_STYLE, sums, rest=True)
        return replace(self, rows=(*shown, last))


def draw_breakdown(
    result: Breakdown, ax: Axes | None = None, *, title: str | None = None, most: int = 12
) -> Axes:
    """Draw the bytes of each operation or line: at the peak, kept, and allocated in all.

    Parameters
    ----------
    result : Breakdown
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure, as high as the rows need.
    title : str, optional
        By default what the rows are.
    most : int
        At most so many rows; the rest is added up.

    Returns
    -------
    matplotlib.axes.Axes
        Its data are pixels.
    """
    styles = op_styles([row.key for row in result.rows])
    plain = Style(PALETTE[0])
    rows = tuple(
        _Row(
            row.line.described if row.line is not None else op_text(row.key),
            styles[row.key] if result.by == "op" else plain,
            (row.peak_bytes, row.kept_bytes, row.allocated_bytes),
        )
        for row in result.rows
    )
    what = {"op": "operation", "line": "line"}.get(result.by, result.by)
    table = _Table(
        f"memory by {what}" if title is None else title,
        _HEADINGS,
        tuple(sum(row.values[n] for row in rows) for n in range(3)),
        rows,
        signed=False,
        empty="nothing was allocated",
        alt=describe_breakdown(result),
    )
    return _draw_table(table, ax, most)


def draw_diff(
    result: RecordingDiff, ax: Axes | None = None, *, title: str | None = None, most: int = 12
) -> Axes:
    """Draw what changed from one recording to another; parameters as for `draw_breakdown`.

    Bars to the right are more than before, bars to the left less.
    """
    rows = tuple(
        _Row(
            f"{op_text(row.op)} · {UNKNOWN + ' line' if row.line is None else row.line.described}",
            UNKNOWN_STYLE,
            (row.peak_bytes, row.kept_bytes, row.allocated_bytes),
        )
        for row in result.rows
    )
    names = result.before.label or "before", result.after.label or "after"
    table = _Table(
        "change from {} to {}".format(*names) if title is None else title,
        _HEADINGS,
        (result.peak_bytes, result.kept_bytes, result.allocated_bytes),
        rows,
        signed=True,
        empty="no operation or line differs",
        alt=describe_diff(result),
    )
    return _draw_table(table, ax, most)


def _draw_table(table: _Table, ax: Axes | None, most: int) -> Axes:
    if ax is None:
        table = table.shortened(max(most, 2))
    height = 1.2 + _ROW * max(len(table.rows), 2)
    with canvas(ax, height=height, left=0.3, right=0.3, top=0.45, bottom=0.15) as ax:
        _paint(ax, table, most)
        set_alt(ax, table.alt)
    return ax


def _paint(ax: Axes, table: _Table, most: int) -> None:
    dpi = float(ax.figure.dpi)
    box = ax.get_window_extent()
    width, height = max(float(box.width), 1.0), max(float(box.height), 1.0)
    ax.set_facecolor(PAPER)
    ax.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    if table.title:
        title = fit_text(table.title, width, TITLE, bold=True, dpi=dpi)
        ax.set_title(title, loc="left", fontsize=TITLE, fontweight="bold")
    if not table.rows:
        at = width / 2, height / 2
        style: dict[str, Any] = {"fontsize": TITLE, "color": FAINT_INK, "gid": "nothing"}
        ax.text(*at, table.empty, ha="center", va="center", **style)
        return
    heading = text_size("x\nx", dpi=dpi)[1] + 8
    table = table.shortened(max(2, min(most, int((height - heading) / _LEAST))))
    step = (height - heading) / len(table.rows)
    middles = [heading + (i + 0.5) * step for i in range(len(table.rows))]
    names = min(max(text_size(row.name, dpi=dpi)[0] for row in table.rows), 0.36 * width)
    for row, middle in zip(table.rows, middles, strict=True):
        name = fit_text(row.name, names, dpi=dpi)
        ax.text(0, middle, name, ha="left", va="center", fontsize=TEXT, gid="name")
    ax.plot([0, width], [heading - 4] * 2, color=GRID, linewidth=1.0)
    columns = _columns(table, names + _GAP, (width - names - 3 * _GAP) / 3, dpi)
    for number, column in enumerate(columns):
        note = ", other scale" if column.own_scale else " together"
        total = table.write(table.totals[number]) + note
        for text, place, weight in (
            (table.headings[number], 0.27, "bold"),
            (total, 0.7, "normal"),
        ):
            ax.text(
                column.left,
                (heading - 4) * place,
                fit_text(text, column.room + _GAP * 0.6, bold=weight == "bold", dpi=dpi),
                ha="left",
                va="center",
                fontsize=TEXT,
                fontweight=weight,
                gid="heading",
            )
        _bars(ax, table, number, column, middles, step)


def _columns(table: _Table, start: float, room: float, dpi: float) -> list[_Column]:
    """Place the columns' zero lines, and choose the scale that they share."""
    longest = [
        max(abs(row.values[number]) for row in table.rows if not row.rest) for number in range(3)
    ]
    own = [bool(longest[0]) and size > _OTHER * longest[0] for size in longest]

    def sides(number: int, scale: float) -> tuple[float, float]:
        """Pixels that bars and their texts need left and right of the zero line."""
        left = right = 0.0
        for row in table.rows:
            value = row.values[number]
            text = text_size(table.write(value), dpi=dpi)[0] + 8
            length = text + (0.0 if row.rest else abs(value) * scale)
            left, right = (max(left, length), right) if value < 0 else (left, max(right, length))
        return left, right

    def fitting(number: int) -> float:
        low, high = 0.0, room / max(longest[number], 1)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(sides(number, middle)) <= room else (low, middle)
        return low

    fits = [fitting(number) for number in range(3)]
    shared = min(fit for fit, alone in zip(fits, own, strict=True) if not alone)
    columns = []
    for number in range(3):
        left = start + number * (room + _GAP)
        scale = fits[number] if own[number] else shared
        columns.append(_Column(left, room, left + sides(number, scale)[0], scale, own[number]))
    return columns


def _bars(
    ax: Axes,
    table: _Table,
    number: int,
    column: _Column,
    middles: Sequence[float],
    step: float,
) -> None:
    zero = column.zero
    if table.signed:
        ends = [middles[0] - step / 2 + 3, middles[-1] + step / 2 - 3]
        ax.plot([zero, zero], ends, color=FAINT_INK, linewidth=0.8)
    thick = min(step * 0.62, 24.0)
    for row, middle in zip(table.rows, middles, strict=True):
        value = row.values[number]
        style = Style(MORE if value > 0 else LESS) if table.signed else row.style
        length = 0.0 if row.rest else value * column.scale
        if length:
            bar = Rectangle(
                (zero, middle - thick / 2),
                length,
                thick,
                facecolor=style.face,
                edgecolor=style.pattern,
                hatch=style.hatch or None,
                linewidth=0.0,
                gid="bar",
            )
            ax.add_patch(bar)
        ax.text(
            zero + length + (5 if value >= 0 else -5),
            middle,
            table.write(value) if value else "–",
            ha="left" if value >= 0 else "right",
            va="center",
            fontsize=TEXT,
            color=INK if value else FAINT_INK,
            gid="value",
        )
