"""Names of lines at their right ends, each in its line's colour, none over another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from matplotlib.axes import Axes

from lessons_lib.plots.colours import INK, mixed
from lessons_lib.plots.theme import DPI, text_size

_LEFT: Final = 12.0  # pixels between the axes and the names
_GAP: Final = 4.0  # pixels between names


class LineEnd(NamedTuple):
    """Where a line ends, on the axes' scale, and what is written there."""

    value: float
    text: str
    colour: str
    bold: bool = False


def margin(texts: Iterable[str], *, bold: bool = False) -> float:
    """Give the inches that names need right of the axes."""
    return (max(text_size(text, bold=bold)[0] for text in texts) + 2 * _LEFT) / DPI


def name_ends(ax: Axes, ends: Iterable[LineEnd]) -> None:
    """Name lines right of the axes, beside their ends as far as there is room."""
    low, high = ax.get_ylim()
    box = ax.get_window_extent()
    dpi = float(ax.figure.dpi)
    placed: list[tuple[float, float, LineEnd]] = []
    lowest = 0.0
    for end in sorted(ends):
        tall = text_size(end.text, bold=end.bold, dpi=dpi)[1] + _GAP
        middle = max((end.value - low) / (high - low) * box.height, lowest + tall / 2)
        lowest = middle + tall / 2
        placed.append((middle, tall, end))
    # From the top down again, so that the highest stays beside the axes.
    ceiling = max(float(box.height), sum(tall for _, tall, _ in placed))
    for middle, tall, end in reversed(placed):
        middle = min(middle, ceiling - tall / 2)
        ceiling = middle - tall / 2
        ax.annotate(
            end.text,
            (1 + _LEFT / box.width, middle / box.height),
            xycoords="axes fraction",
            va="center",
            color=mixed(end.colour, INK, 0.35),
            fontweight="bold" if end.bold else "normal",
            annotation_clip=False,
        )
