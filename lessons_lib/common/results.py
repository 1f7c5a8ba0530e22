"""How results show themselves, without knowing how pictures are made.

A result derives from `Result` and gets ``plot()`` and ``_repr_html_()``.  What is drawn is
registered from above: the modules in ``lessons_lib.plots`` register a drawing (`draw`) and an
alternative text (`alt_text`) for each result class, and the result's own module registers its
table (`summary_html`).  So results never import pictures, and matplotlib is loaded only when
something is drawn.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@singledispatch
def draw(result: object, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw a result; each picture module registers its own."""
    raise TypeError(
        f"{type(result).__name__} has no picture: leave it on a cell's last line for its table"
    )


@singledispatch
def alt_text(result: object, **options: Any) -> str:
    """Say in a sentence or two what the picture of a result shows."""
    raise TypeError(f"there is no alternative text for a {type(result).__name__}")


@singledispatch
def summary_html(result: object) -> str:
    """Give the table that stands for a result in a notebook."""
    return f"<pre>{html.escape(repr(result))}</pre>"


class Result:
    """What every result can do: be drawn, and be shown as a table in a notebook."""

    __slots__ = ()

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the result.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw.  By default a new figure is made; as the last expression of a cell it
            shows itself as an image with alternative text.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn on.
        """
        return draw(self, ax, **options)

    def _repr_html_(self) -> str:
        return summary_html(self)


_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:0.15em 0.8em;text-align:{align};white-space:{space}"


def html_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    align: str = "",
    prose: bool = False,
) -> str:
    """Build an HTML table; every cell is escaped.

    Parameters
    ----------
    headers : sequence of str
        Column headings.
    rows : iterable of sequences
        Cells, shown with ``str``.
    caption : str
        A line above the table.
    align : str
        One letter a column: ``l`` or ``r``.  By default the first column is left-aligned and the
        others right-aligned.
    prose : bool
        Whether cells are sentences of ours, in which code stands between backticks.

    Returns
    -------
    str
        The table.  It has no colours of its own, so it follows a light or a dark page.
    """
    align = align or "l" + "r" * (len(headers) - 1)
    text = _with_code if prose else html.escape
    side = ["left" if letter == "l" else "right" for letter in align]

    def cells(tag: str, values: Sequence[object]) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        styles = [_CELL.format(align=s, space="normal" if s == "left" else "nowrap") for s in side]
        return "".join(
            f'<{tag}{scope} style="{style}">{text(str(value))}</{tag}>'
            for style, value in zip(styles, values, strict=True)
        )

    head = f'<caption style="text-align:left">{html.escape(caption)}</caption>' if caption else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<table style="{_TABLE}">{head}<thead><tr>{cells("th", headers)}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _with_code(sentence: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(sentence))


def notes_table(notes: Iterable[object]) -> str:
    """Build the table of notes that stands below a result's own; empty when there are none."""
    rows = [(note,) for note in notes]
    return html_table(("note",), rows) if rows else ""
