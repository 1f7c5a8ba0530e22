"""The heat map of the atlas of operations.

Colours stand for the bytes at the peak: none, a little, then steps that double.  A sign beside the
figure tells how: ``=`` shares an input's buffer, ``→`` forwards it, ``+`` needs temporaries beside
its output, ``c`` is a constant that was folded before.  Sizes are bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from lessons_lib.common.units import KIB, MIB, counted
from lessons_lib.instruments.operations.atlas import OpAtlas
from lessons_lib.instruments.operations.op_memory import OpCost, Verdict
from lessons_lib.plots.colours import EDGE, FAINT_INK, INK, RAMP, Style, luminance
from lessons_lib.plots.legend import plan_strip
from lessons_lib.plots.theme import DPI, canvas, fit_text, set_alt

#: Upper limits of the bytes at the peak, what is said of them, and their colour, light to dark.
_STEPS: Final = (
    (16 * KIB, "under 16 KiB", RAMP[0]),
    (MIB // 2 + MIB // 64, "to 0.5 MiB", RAMP[1]),
    (MIB + MIB // 64, "to 1 MiB", RAMP[2]),
    (2 * MIB + MIB // 64, "to 2 MiB", RAMP[3]),
    (4 * MIB + MIB // 64, "to 4 MiB", RAMP[4]),
    (None, "more", RAMP[5]),
)
_SIGNS: Final = {
    Verdict.SHARES: "=",
    Verdict.FORWARDS: "→",
    Verdict.MORE: "+",
    Verdict.OUTPUT: "",
}
_FEW: Final = 12  # rows from which on another column is begun
_MOST_COLUMNS: Final = 3
_ROW_INCHES: Final = 0.225
_WIDE: Final = 3.75  # inches of a column of the heat map
_NAME: Final = 2.45
_SMALL: Final = 9.5
_SIGNS_EXPLAINED: Final = (
    "Figures are MiB at the peak, beside the inputs.    =  shares an input’s buffer\n"
    "→  forwards it where nobody else needs it    +  needs temporaries    "
    "c  folded to a constant    –  cannot run"
)


def colour_of(nbytes: int) -> str:
    """Give the colour that stands for bytes at the peak."""
    return next(colour for limit, _, colour in _STEPS if limit is None or nbytes <= limit)


def cell_texts(cost: OpCost) -> tuple[str, str]:
    """Write a cell of the heat map: MiB at the peak, and a sign for the verdict."""
    size = f"{cost.peak_bytes / MIB:.2f}".rstrip("0").rstrip(".")
    if size == "0":
        size = "0" if cost.peak_bytes < KIB else "≈0"
    folded = cost.verdict is Verdict.NOTHING and cost.constant_bytes > KIB
    return size, "c" if folded else _SIGNS.get(cost.verdict, "")


def describe_atlas(result: OpAtlas) -> str:
    """Count the verdicts of each mode; the table says them one by one."""
    parts = []
    for mode in result.modes:
        counts = Counter(
            row.memory.modes[mode].verdict for row in result if mode in row.memory.modes
        )
        said = ", ".join(f"{counts[v]} × {v}" for v in Verdict if counts[v])
        parts.append(f"{mode}: {said}")
    groups = ", ".join(result.groups)
    return (
        f"Heat map of the memory at the peak of {counted(len(result), 'operation')} on inputs of "
        f"about 1 MiB, by group ({groups}). " + "; ".join(parts) + "."
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the heat map: a heading (no costs), or an operation."""

    text: str
    costs: dict[str, OpCost] | None = None


def _columns(result: OpAtlas) -> list[list[_Row]]:
    """Fill columns of about equal length; a heading never stands last."""
    rows: list[_Row] = []
    for group in result.groups:
        rows.append(_Row(group))
        rows += [_Row(r.name, r.memory.modes) for r in result if r.group == group]
    count = min(_MOST_COLUMNS, max(1, -(-len(rows) // _FEW)))
    long = -(-len(rows) // count) + 1
    columns: list[list[_Row]] = [[]]
    heading = ""
    for row in rows:
        if row.costs is None:
            heading = row.text
        full = len(columns[-1]) >= long or (row.costs is None and len(columns[-1]) >= long - 1)
        if full and len(columns) < count:
            columns.append([] if row.costs is None else [_Row(f"{heading} (continued)")])
        columns[-1].append(row)
    return columns


def draw_atlas(result: OpAtlas, ax: Axes | None = None) -> Axes:
    """Draw the atlas as a heat map.

    Parameters
    ----------
    result : OpAtlas
        What to draw; filter it to draw less.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure, as large as it must be.

    Returns
    -------
    matplotlib.axes.Axes
        Its units are inches of the new figure; there is no scale to read.
    """
    columns = _columns(result)
    high = max(len(column) for column in columns) + 1
    wide = max(_WIDE * len(columns), 2 * _WIDE)
    room = {"left": 0.15, "right": 0.15, "top": 0.7, "bottom": 0.6}
    with canvas(ax, wide + 0.3, high * _ROW_INCHES + 1.3, **room) as ax:
        ax.set_xlim(0, wide)
        ax.set_ylim(high, 0)
        ax.set_axis_off()
        for number, column in enumerate(columns):
            _column(ax, result.modes, column, number * _WIDE)
        _legend(ax)
        set_alt(ax, describe_atlas(result))
    return ax


def _column(ax: Axes, modes: tuple[str, ...], rows: list[_Row], left: float) -> None:
    each = (_WIDE - _NAME - 0.12) / max(len(modes), 1)
    for number, mode in enumerate(modes):
        x = left + _NAME + (number + 0.5) * each
        ax.text(x, 0.55, mode, ha="center", va="center", fontsize=_SMALL, color=FAINT_INK)
    for place, row in enumerate(rows, start=1):
        name = fit_text(row.text, (_NAME - 0.1) * DPI, _SMALL, bold=row.costs is None)
        weight = "bold" if row.costs is None else "normal"
        indent = 0.0 if row.costs is None else 0.08
        ax.text(left + indent, place + 0.5, name, va="center", fontsize=_SMALL, fontweight=weight)
        for number, mode in enumerate(modes if row.costs is not None else ()):
            cost = row.costs.get(mode) if row.costs is not None else None
            x = left + _NAME + number * each
            colour = "none" if cost is None else colour_of(cost.peak_bytes)
            ax.add_patch(Rectangle((x, place), each, 1, facecolor=colour, edgecolor=EDGE))
            size, sign = ("–", "") if cost is None else cell_texts(cost)
            dark = cost is not None and luminance(colour) < 0.18
            for text, share, side in ((size, 0.6, "right"), (sign, 0.72, "left")):
                ax.text(
                    x + share * each,
                    place + 0.5,
                    text,
                    ha=side,
                    va="center",
                    fontsize=_SMALL,
                    color=EDGE if dark else INK,
                )


def _legend(ax: Axes) -> None:
    box = ax.get_window_extent()
    inch = ax.figure.dpi / box.height
    entries = [(f"peak {said}", Style(colour)) for _, said, colour in _STEPS]
    strip = plan_strip(entries, box.width, dpi=float(ax.figure.dpi))
    strip.draw(ax, 0.0, 1 + 0.1 * inch, inch, "left")
    ax.text(
        0.0,
        -0.12 * inch,
        _SIGNS_EXPLAINED,
        transform=ax.transAxes,
        va="top",
        fontsize=_SMALL,
        linespacing=1.4,
        color=INK,
    )
