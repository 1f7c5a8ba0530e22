"""Rows of horizontal bars: a name on the left, a bar of one or more parts, a remark at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes

from lessons_lib.plots.colours import INK, Style
from lessons_lib.plots.theme import DPI, fit_text, quiet_grid, text_size

ROW: Final = 0.34  # inches
_MOST_NAME: Final = 3.9  # inches
_THICK: Final = 0.68
_BESIDE: Final = 5.0  # points between a bar and its remark


class Bar(NamedTuple):
    """A row: its name, where its bar begins, the parts one after the other, and the remark."""

    name: str
    parts: tuple[tuple[float, Style], ...]
    remark: str = ""
    start: float = 0.0

    @property
    def end(self) -> float:
        """Where the bar ends."""
        return self.start + sum(size for size, _ in self.parts)


def margins(bars: Sequence[Bar]) -> tuple[float, float]:
    """Give the inches that names need on the left and remarks on the right."""
    left = max((_inches(bar.name) for bar in bars), default=0.4)
    right = max((_inches(bar.remark) for bar in bars), default=0.2)
    return min(left, _MOST_NAME), right


def _inches(text: str) -> float:
    return text_size(text)[0] / DPI + 0.1


def draw_rows(ax: Axes, bars: Sequence[Bar], *, inside: bool = False) -> None:
    """Draw rows of bars, downwards from 0.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Its left margin holds the names.
    bars : sequence of Bar
    inside : bool
        Whether remarks must stay inside the axes, as they must on axes of the user's own; else
        the right margin holds that of the longest bar.
    """
    left, right = margins(bars)
    for place, bar in enumerate(bars):
        start = bar.start
        for size, style in bar.parts:
            if size > 0:
                ax.barh(
                    place, size, _THICK, left=start, color=style.face, hatch=style.hatch,
                    edgecolor=style.pattern, linewidth=0,
                )  # fmt: skip
            start += size
        ax.annotate(
            bar.remark, (bar.end, place), xytext=(_BESIDE, 0), textcoords="offset points",
            va="center", color=INK, annotation_clip=False,
        )  # fmt: skip
    ax.set_yticks(range(len(bars)), [fit_text(bar.name, left * DPI) for bar in bars])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(bars), 1) - 0.5, -0.5)
    end = max((bar.end for bar in bars), default=0) or 1
    share = min(0.6, right * DPI / ax.get_window_extent().width) if inside else 0.0
    ax.set_xlim(0, end / (1 - share))
    quiet_grid(ax, "x")
