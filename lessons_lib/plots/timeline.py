"""The picture of a recording: every buffer over time, and several recordings side by side.

Time is on x and bytes are on y; `lessons_lib.plots.stacking` says what lies where.  The total is
drawn on top and its peak is marked.  The biggest buffers are named where they lie; a legend is
added for what could not be named.  Takes a few seconds at most, whatever the number of buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from lessons_lib.common.units import parse_bytes
from lessons_lib.instruments.measure import Measurement
from lessons_lib.instruments.peak import Peak
from lessons_lib.plots.alt_text import describe_recording
from lessons_lib.plots.annotations import mark_peak, say_nothing, write_margin
from lessons_lib.plots.axes import byte_axis, time_axis
from lessons_lib.plots.band_labels import Name, View
from lessons_lib.plots.colours import FAINT_INK, LIMIT, PAPER, Style, figure_styles
from lessons_lib.plots.drawing import Styles, paint_bands, paint_names, paint_total, paint_unwatched
from lessons_lib.plots.layout import Panel, legend_entries, summed_weights
from lessons_lib.plots.legend import plan_strip
from lessons_lib.plots.theme import (
    DPI,
    TEXT,
    TITLE,
    arrange,
    fit_text,
    label_colour,
    new_axes,
    quiet_grid,
    set_alt,
    settings,
    text_size,
)
from lessons_lib.recording.recording import Recording

_ABOVE: Final = 9.0  # pixels between the axes and what stands above them
#: Recordings side by side share their time axis unless one is this many times longer.
_SLOWER: Final = 4.0


def draw_recording(
    recording: Recording,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    limit: int | str | None = None,
    colours: Mapping[str, Style | str] | None = None,
    max_named: int = 12,
    lines: bool | None = None,
) -> Axes:
    """Draw a recording.

    Parameters
    ----------
    recording : Recording
        What to draw.
    ax : matplotlib.axes.Axes, optional
        Where; by default a new figure.  Names are placed for the size that the axes have now.
    title : str, optional
        By default the recording's label.
    limit : int or str, optional
        A budget to draw as a line, in bytes or as ``"30 MiB"``.
    colours : mapping of str to str or Style, optional
        Colours of operations that a figure of several axes has chosen already.
    max_named : int
        At most so many buffers are named.
    lines : bool, optional
        True: name source lines before sizes; False: never; by default where there is room.

    Returns
    -------
    matplotlib.axes.Axes
        y is in bytes and x in seconds, whatever unit the tick labels are in.
    """
    label = recording.label if title is None else title
    budget = None if limit is None else parse_bytes(limit)
    panel = Panel(recording, label, budget, max_named, lines)
    styles = figure_styles(panel.weights, colours)
    with settings():
        if ax is None:
            ax = new_axes(10.0, 4.4)
            _draw_card([ax], [panel], styles, panel.reach, [panel.seconds])
        else:
            _draw_inside(ax, panel, styles)
    return ax


def draw_measured(result: Measurement | Peak, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw the recording of what was measured; options as for `draw_recording`."""
    return draw_recording(result.recording, ax, **options)


def timelines(
    recordings: Mapping[str, Recording],
    *,
    limit: int | str | None = None,
    colours: Mapping[str, Style | str] | None = None,
    max_named: int = 6,
    lines: bool | None = None,
) -> npt.NDArray[Any]:
    """Draw recordings side by side, with the same axes, the same colours and one legend.

    Parameters
    ----------
    recordings : mapping of str to Recording
        What to draw, by title.  They share the byte axis; the time axis as well, unless one took
        more than four times as long as another.
    limit, colours, max_named, lines
        As for `draw_recording`.

    Returns
    -------
    array of matplotlib.axes.Axes, shape (recordings,)
        Each shows the whole figure when it is a cell's last expression.

    Raises
    ------
    TypeError, ValueError
        If there are no recordings by title.
    """
    _check(recordings)
    budget = None if limit is None else parse_bytes(limit)
    panels = [Panel(r, title, budget, max_named, lines) for title, r in recordings.items()]
    styles = figure_styles(summed_weights(panels), colours)
    reaches = [panel.reach for panel in panels]
    reach = min(low for low, _ in reaches), max(high for _, high in reaches)
    seconds = [panel.seconds for panel in panels]
    if max(seconds) <= _SLOWER * min(seconds):
        seconds = [max(seconds)] * len(seconds)
    cols = len(panels) if len(panels) <= 3 else 2
    rows = -(-len(panels) // cols)
    with settings():
        grid = new_axes(11.0, 4.2 * rows, rows, cols) if len(panels) > 1 else new_axes(11.0, 4.4)
        axes: list[Axes] = list(np.atleast_1d(grid).flat)
        for spare in axes[len(panels) :]:
            spare.remove()
        axes = axes[: len(panels)]
        _draw_card(axes, panels, styles, reach, seconds)
    out = np.empty(len(axes), object)
    out[:] = axes
    return out


def _check(recordings: object) -> None:
    if not isinstance(recordings, Mapping):
        raise TypeError(
            f"timelines takes a dict of recordings by title, not {type(recordings).__name__}: "
            'write timelines({"eager": one, "graph": other})'
        )
    for title, recording in recordings.items():
        if not isinstance(recording, Recording):
            raise TypeError(
                f"timelines draws recordings, and {title!r} is of type {type(recording).__name__}: "
                "give what `with record() as recording` gave"
            )
    if not recordings:
        raise ValueError("there is nothing to draw: give at least one recording, by its title")


def _draw_card(
    axes: Sequence[Axes],
    panels: Sequence[Panel],
    styles: Styles,
    reach: tuple[int, int],
    seconds: Sequence[float],
) -> None:
    """Lay a figure of our own out, and draw every panel of it."""
    figure: Any = axes[0].figure
    alone = len(panels) == 1
    margin = max(max(panel.margin(DPI) for panel in panels) / DPI + 0.06, 0.3)
    head = 0.43 if any(panel.title for panel in panels) else 0.22
    arrange(figure, right=margin, top=head, gap=margin + 0.12)
    each = list(zip(axes, panels, seconds, strict=True))
    heads = max(panel.head(ax, reach, time) for ax, panel, time in each)
    views = [panel.view(ax, reach, time, heads) for ax, panel, time in each]
    names = [panel.names(view) for panel, view in zip(panels, views, strict=True)]
    width = axes[-1].get_window_extent().x1 - axes[0].get_window_extent().x0
    strip = plan_strip(legend_entries(panels, styles, names, views), width)
    title = text_size(panels[0].title, TITLE, bold=True)[0]
    beside = alone and title > 0 and len(strip.rows) == 1 and title + strip.width + 30 <= width
    # A legend above the axes makes the figure higher, so the data keep their room.
    raised = 0.0 if beside else strip.height + (0.05 if strip.rows else 0.0)
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide, high + raised)
    arrange(figure, right=margin, top=head + raised, gap=margin + 0.12, between=head + 0.62)
    for ax, panel, view, placed in zip(axes, panels, views, names, strict=True):
        _draw_panel(ax, panel, styles, view, placed)
        if not ax.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            ax.tick_params(labelleft=False)
            ax.set_ylabel("")
        _title(ax, panel, view, raised if alone else 0.0)
    inch = DPI / views[0].height
    if strip.rows and alone:
        side = "right" if beside else "left"
        strip.draw(axes[0], float(beside), 1 + _ABOVE / views[0].height, inch, side)
    elif strip.rows:
        left = axes[0].get_position().x0
        inch = 1 / (high + raised)
        strip.draw(figure, left, 1 - (0.1 + strip.height) * inch, inch, "left")


def _draw_inside(ax: Axes, panel: Panel, styles: Styles) -> None:
    """Draw on axes of the user's own, whose place in their figure is left alone."""
    ax.set_facecolor(PAPER)
    where = ax, panel.reach, panel.seconds
    view = panel.view(*where, panel.head(*where))
    names = panel.names(view)
    strip = plan_strip(legend_entries([panel], styles, [names], [view]), view.width, dpi=view.dpi)
    _draw_panel(ax, panel, styles, view, names)
    strip.draw(ax, 0.0, 1 + _ABOVE / view.height, view.dpi / view.height, "left", label_colour(ax))
    _title(ax, panel, view, strip.height)


def _draw_panel(ax: Axes, panel: Panel, styles: Styles, view: View, names: Sequence[Name]) -> None:
    ax.set_xlim(0, view.seconds)
    ax.set_ylim(view.low, view.high)
    quiet_grid(ax)
    byte_axis(ax.yaxis)
    ax.set_xlabel(f"time in {time_axis(ax.xaxis, view.seconds)}", loc="right", fontsize=TEXT)
    set_alt(ax, describe_recording(panel.recording, limit=panel.limit, label=panel.title))
    if not len(panel.recording.buffers):
        ax.set_ylabel("")
        say_nothing(ax)
        return
    paint_bands(ax, panel.recording, panel.bands, styles, view)
    if view.low < 0:
        ax.axhline(0, color=FAINT_INK, linewidth=1.0, zorder=3, gid="zero")
    paint_unwatched(ax, panel.recording, view)
    paint_total(ax, panel.recording, panel.bands)
    paint_names(ax, panel.recording, panel.bands, names, styles)
    if panel.limit is not None and panel.limit <= view.high:
        ax.axhline(panel.limit, color=LIMIT, linewidth=1.6, dashes=(5, 3), zorder=4.5, gid="limit")
    write_margin(ax, panel, view, mark_peak(ax, panel, view))


def _title(ax: Axes, panel: Panel, view: View, raised: float) -> None:
    if panel.title:
        text = fit_text(panel.title, view.width, TITLE, bold=True, dpi=view.dpi)
        pad = _ABOVE * 72 / view.dpi + raised * 72
        ax.set_title(text, loc="left", fontsize=TITLE, fontweight="bold", pad=pad)
