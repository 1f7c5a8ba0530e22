"""Figures: the light card on which every picture is drawn, and how it reaches a notebook.

Figures are made without pyplot, so nothing is shown twice, none has to be closed, and the user's
settings and backend stay as they are (settings are changed for the duration of a drawing only).
The axes returned show themselves as an HTML image with alternative text, because JupyterLab gives
none to PNG outputs.  The card is light and opaque, so it reads alike on a light and a dark page.
"""

from __future__ import annotations

import base64
import html
import io
import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from lessons_lib.plots.colours import FAINT_INK, GRID, INK, PAPER

DPI: Final = 120
FONT: Final = "DejaVu Sans"  # comes with matplotlib, so pictures are alike everywhere
TEXT: Final = 11.0
TITLE: Final = 13.0
_ALT: Final = "_lessons_alt"
_SETTINGS: Final[dict[Any, Any]] = {
    "font.family": [FONT],
    "font.size": TEXT,
    "text.usetex": False,
    "text.color": INK,
    "text.parse_math": False,  # labels are the user's words; a dollar sign is a dollar sign
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT_INK,
    "axes.linewidth": 0.8,
    "axes.labelsize": TEXT,
    "axes.titlesize": TITLE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "hatch.linewidth": 0.7,
    "path.sketch": None,
    "path.effects": [],
    "path.simplify": True,
    "savefig.facecolor": "auto",
    "savefig.bbox": None,
}


_within: Final = threading.local()


@contextmanager
def settings() -> Iterator[None]:
    """Draw with this package's settings, and put the user's back afterwards."""
    if getattr(_within, "settings", False):  # to set them again takes a millisecond
        yield
        return
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # A label in a script that the font lacks shows boxes; a warning would not help a reader.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        _within.settings = True
        try:
            yield
        finally:
            _within.settings = False


class CardFigure(Figure):
    """A figure that shows itself as an HTML image with the alternative text of its axes."""

    def __repr__(self) -> str:
        return "<Figure: " + "; ".join(_heading(ax) for ax in self.axes) + ">"

    def _repr_html_(self) -> str:
        text = " ".join(filter(None, map(get_alt, self.axes)))
        data = base64.b64encode(png(self)).decode("ascii")
        return (
            f'<img alt="{html.escape(text)}" src="data:image/png;base64,{data}" '
            'style="max-width:100%;border-radius:6px;border:1px solid rgba(128,128,128,0.3)">'
        )


class CardAxes(Axes):
    """Axes that show the whole of their figure when they are a cell's last expression."""

    def __repr__(self) -> str:
        return f"<Axes: {_heading(self)}>"

    def _repr_html_(self) -> str | None:
        show = getattr(self.figure, "_repr_html_", None)
        return None if show is None else show()


def _heading(ax: Axes) -> str:
    return ax.get_title(loc="left") or ax.get_title() or "a picture"


def png(figure: Figure) -> bytes:
    """Render a figure; the same figure gives the same bytes."""
    out = io.BytesIO()
    with settings():
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def new_axes(
    width: float = 10.0, height: float = 4.2, rows: int = 1, cols: int = 1, **options: Any
) -> Any:
    """Make a figure on the light card.

    Parameters
    ----------
    width, height : float
        Size in inches; a notebook shows 120 pixels an inch, up to the width of the page.
    rows, cols : int
        How many axes.
    **options
        ``sharex``, ``sharey``, ``width_ratios``, ``height_ratios`` of matplotlib's ``subplots``.

    Returns
    -------
    CardAxes, or array of CardAxes, shape (rows, cols)
        A single one for one row and one column.  `arrange` changes the margins.
    """
    with settings():
        figure = CardFigure(figsize=(width, height), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        keywords = dict(options.pop("subplot_kw", {}), axes_class=CardAxes)
        axes = figure.subplots(rows, cols, squeeze=False, subplot_kw=keywords, **options)
        for ax in axes.flat:
            ax.set_facecolor(PAPER)
            ax.tick_params(length=3, width=0.8, color=FAINT_INK)
        arrange(figure)
    return axes[0, 0] if rows == cols == 1 else axes


def arrange(
    figure: Figure,
    left: float = 0.8,
    right: float = 0.35,
    top: float = 0.55,
    bottom: float = 0.62,
    gap: float = 0.75,
    between: float = 1.1,
) -> None:
    """Set a figure's margins and the spaces between columns (`gap`) and rows, in inches."""
    width, height = figure.get_size_inches()
    grid = figure.axes[0].get_subplotspec()
    rows, cols = (1, 1) if grid is None else grid.get_gridspec().get_geometry()
    each_wide = (width - left - right - gap * (cols - 1)) / cols
    each_high = (height - top - bottom - between * (rows - 1)) / rows
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        top=1 - top / height,
        bottom=bottom / height,
        wspace=gap / each_wide,
        hspace=between / each_high,
    )


@contextmanager
def canvas(
    ax: Axes | None, width: float = 10.0, height: float = 4.2, **margins: float
) -> Iterator[Axes]:
    """Draw in a block, with this package's settings, on a new figure or on axes of the user's.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        The user's, whose figure is left as it is; by default a new figure is made.
    width, height, **margins : float
        Of a new figure, in inches, as for `new_axes` and `arrange`.
    """
    with settings():
        if ax is None:
            made: Any = new_axes(width, height)
            arrange(made.figure, **margins)
            ax = made
        yield ax


def label_colour(ax: Axes) -> str:
    """Give the colour for text outside of axes, which may lie on a dark figure of the user's."""
    return to_hex(ax.yaxis.label.get_color())


def set_alt(ax: Axes, text: str) -> None:
    """Give axes their alternative text; a figure's is that of all its axes in turn."""
    setattr(ax, _ALT, text)


def get_alt(ax: Axes) -> str:
    """Give the alternative text of axes; empty when there is none."""
    return str(getattr(ax, _ALT, ""))


@lru_cache(maxsize=8)
def _renderer(dpi: float) -> Any:
    return FigureCanvasAgg(Figure(figsize=(1, 1), dpi=dpi)).get_renderer()


@lru_cache(maxsize=4096)
def text_size(
    text: str, size: float = TEXT, *, bold: bool = False, dpi: float = DPI
) -> tuple[float, float]:
    """Measure a text, which may have several lines: width and height in pixels."""
    font = FontProperties(family=[FONT], size=size, weight="bold" if bold else "normal")
    lines = text.split("\n")
    with settings():
        widths = [_renderer(dpi).get_text_width_height_descent(t, font, False)[0] for t in lines]
    return max(widths), (1.2 * len(lines) + 0.1) * size * dpi / 72


def fit_text(
    text: str, width: float, size: float = TEXT, *, bold: bool = False, dpi: float = DPI
) -> str:
    """Shorten a text to so many pixels, with an ellipsis at its end."""
    text = " ".join(text.split())
    if text_size(text, size, bold=bold, dpi=dpi)[0] <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = math.ceil((low + high) / 2)
        if text_size(text[:middle].rstrip() + "…", size, bold=bold, dpi=dpi)[0] <= width:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


def quiet_grid(ax: Axes, axis: Any = "y") -> None:
    """Draw faint lines at the ticks, behind everything."""
    ax.grid(visible=True, axis=axis, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
