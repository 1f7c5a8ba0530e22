"""The legend as a strip: entries side by side, in as few rows as they fit.

A strip takes little room, and none of it from the data.  Entries that do not fit are counted in a
last one, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Patch

from lessons_lib.plots.colours import INK, Style
from lessons_lib.plots.theme import DPI, TEXT, fit_text, text_size

_HANDLE: Final = 1.5  # in units of the font size, as matplotlib counts
_HANDLE_GAP: Final = 0.45
_COLUMN_GAP: Final = 1.3
_ROW: Final = 0.25  # inches


Entry = tuple[str, Style | None]


@dataclass(frozen=True)
class Strip:
    """A legend that is laid out but not drawn.

    Attributes
    ----------
    rows : tuple of tuples of (str, Style or None)
        Texts and looks; None has no patch.
    width : float
        Of the widest row, in pixels.
    """

    rows: tuple[tuple[Entry, ...], ...] = ()
    width: float = 0.0

    @property
    def height(self) -> float:
        """Height in inches."""
        return len(self.rows) * _ROW + 0.04 if self.rows else 0.0

    def draw(
        self,
        parent: Axes | Figure,
        x: float,
        y: float,
        inch: float,
        side: str,
        colour: str = INK,
    ) -> None:
        """Draw it.

        Parameters
        ----------
        parent : Axes or Figure
            In whose coordinates (0 to 1) `x` and `y` are.
        x, y : float
            The lower corner of its lowest row.
        inch : float
            An inch of height in these coordinates.
        side : str
            ``"left"`` or ``"right"``: the corner that is meant.
        colour : str
            Of the texts.
        """
        corner: Any = f"lower {side}"
        for place, row in zip(reversed(range(len(self.rows))), self.rows, strict=True):
            legend = Legend(
                parent,
                [_patch(style) for _, style in row],
                [text for text, _ in row],
                loc=corner,
                bbox_to_anchor=(x, y + place * _ROW * inch),
                ncols=len(row),
                frameon=False,
                fontsize=TEXT,
                labelcolor=colour,
                handlelength=_HANDLE,
                handleheight=0.9,
                handletextpad=_HANDLE_GAP,
                columnspacing=_COLUMN_GAP,
                borderpad=0.0,
                borderaxespad=0.0,
            )
            legend.set_gid("legend")
            parent.add_artist(legend)


def _patch(style: Style | None) -> Patch:
    if style is None:
        return Patch(visible=False)
    return Patch(facecolor=style.face, hatch=style.hatch, edgecolor=style.pattern, linewidth=0)


def plan_strip(
    entries: Sequence[Entry], width: float, *, most_rows: int = 3, dpi: float = DPI
) -> Strip:
    """Arrange entries in a width of so many pixels.

    Parameters
    ----------
    entries : sequence of (str, Style or None)
        In order of importance.
    width : float
        Pixels.
    most_rows : int
        Entries beyond these rows are counted in a last entry.
    dpi : float
        Pixels an inch of the figure.
    """
    em = TEXT * dpi / 72
    most = width - (_HANDLE + _HANDLE_GAP + _COLUMN_GAP) * em
    entries = [(fit_text(text, most, dpi=dpi), style) for text, style in entries]
    for shown in range(len(entries), 0, -1):
        hidden = len(entries) - shown
        some = [*entries[:shown], *([(f"… {hidden} more", None)] if hidden else [])]
        rows: list[list[Entry]] = [[]]
        used = widest = 0.0
        for text, style in some:
            wide = text_size(text, dpi=dpi)[0] + (_HANDLE + _HANDLE_GAP + _COLUMN_GAP) * em
            if rows[-1] and used + wide > width:
                rows.append([])
                used = 0.0
            rows[-1].append((text, style))
            used += wide
            widest = max(widest, used)
        if len(rows) <= most_rows:
            return Strip(tuple(map(tuple, rows)), widest)
    return Strip()
