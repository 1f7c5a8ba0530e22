"""Putting bands, layers, the total and names on axes: the strokes of the timeline picture.

Expects axes whose limits are set and whose place in the figure is final.  Decides nothing about
layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from lessons_lib.plots.band_labels import Name, View
from lessons_lib.plots.colours import (
    BEFORE_STYLE,
    EDGE,
    INK,
    SMALL_STYLE,
    UNWATCHED_STYLE,
    Style,
)
from lessons_lib.plots.stacking import Bands, Layer
from lessons_lib.plots.theme import TEXT
from lessons_lib.recording.buffers import Ints
from lessons_lib.recording.recording import Recording

Styles = Mapping[str, Style]
# Pixels, across and upwards, from which on a band has a white edge and a pattern; across, more of
# them where the picture is dense.
_EDGED: Final = (6.0, 3.0)
_EDGED_DENSE: Final = 20.0
_VEIL: Final = 0.8  # opacity


def layer_style(layer: Layer, styles: Styles) -> Style:
    """Give the look of a layer: its operation's colour, with lines like thin bands."""
    if layer.op is None:
        return SMALL_STYLE
    style = styles[layer.op]
    return Style(style.face, style.hatch + "---")


def outline(times: npt.NDArray[np.float64], bottom: Ints, size: int) -> npt.NDArray[np.float64]:
    """Give the corners of one band: steps along its lower edge, and back along the upper one.

    Parameters
    ----------
    times : float array, shape (moments + 1,)
    bottom : int array, shape (moments,)
        Lower edge in bytes.
    size : int
        Height in bytes.

    Returns
    -------
    float array, shape (4 * steps, 2)
    """
    if len(bottom) > 1:
        step = np.append(True, bottom[1:] != bottom[:-1])
        times, bottom = np.append(times[:-1][step], times[-1]), bottom[step]
    x = np.repeat(times, 2)[1:-1]
    y = np.repeat(bottom, 2)
    return np.column_stack((np.concatenate((x, x[::-1])), np.concatenate((y, y[::-1] + size))))


def paint_bands(ax: Axes, recording: Recording, bands: Bands, styles: Styles, view: View) -> None:
    """Draw every band, the layers and what was born before the block."""
    store = recording.buffers
    least = _EDGED_DENSE if bands.dense else _EDGED[0]
    groups: dict[tuple[Style, bool], list[npt.NDArray[np.float64]]] = defaultdict(list)
    for band, buffer in enumerate(bands.index):
        first, last = bands.first[band], bands.last[band]
        times = bands.times[first : last + 1]
        size = int(store.nbytes[buffer])
        wide = (times[-1] - times[0]) * view.per_second
        edged = bool(wide >= least and size * view.per_byte >= _EDGED[1])
        style = styles[store.sites[int(store.site[buffer])].told_op]
        groups[style, edged].append(outline(times, bands.bottoms[band], size))
    for (style, edged), polygons in groups.items():
        ax.add_collection(
            PolyCollection(
                polygons,
                facecolors=style.face,
                edgecolors=style.pattern if style.hatch else EDGE,
                linewidths=0.0 if style.hatch or not edged else 0.9,
                hatch=style.hatch if edged and style.hatch else None,
                # Bands of a pixel or so would be washed out by smoothing.
                antialiaseds=edged,
                closed=True,
                zorder=2,
                gid="bands",
            ),
            autolim=False,
        )
        if edged and style.hatch:  # a pattern takes the colour of its edges, so edges come apart
            ax.add_collection(
                PolyCollection(
                    polygons, facecolors="none", edgecolors=EDGE, linewidths=0.9, zorder=2.1
                ),
                autolim=False,
            )
    for layer in bands.layers:
        _area(ax, bands, layer.bottom, layer.height, layer_style(layer, styles), "layer")
    if bands.floor < 0:
        _area(
            ax, bands, np.full(len(bands.before), bands.floor), bands.before, BEFORE_STYLE, "before"
        )


def _area(ax: Axes, bands: Bands, bottom: Ints, height: Ints, style: Style, gid: str) -> None:
    low, high = (np.append(edge, edge[-1]) for edge in (bottom, bottom + height))
    ax.fill_between(
        bands.times,
        low,
        high,
        step="post",
        facecolor=style.face,
        edgecolor=style.pattern,
        hatch=style.hatch or None,
        linewidth=0.0,
        zorder=2,
        gid=gid,
    )


def paint_unwatched(ax: Axes, recording: Recording, view: View) -> None:
    """Cover the time in which the profiler rested, and draw the allocator's count there."""
    for (begin, end), inside in zip(recording.unwatched, recording.counted, strict=True):
        ax.add_collection(
            PolyCollection(
                [[(begin, view.low), (begin, view.high), (end, view.high), (end, view.low)]],
                facecolors=(UNWATCHED_STYLE.face, _VEIL),
                edgecolors=UNWATCHED_STYLE.pattern,
                hatch=UNWATCHED_STYLE.hatch,
                linewidths=0.0,
                zorder=3.5,
                gid="unwatched",
            ),
            autolim=False,
        )
        ax.plot(
            *inside,
            color=INK,
            linewidth=1.0,
            linestyle=":",
            zorder=4,
            drawstyle="steps-post",
            gid="counted",
        )


def paint_total(ax: Axes, recording: Recording, bands: Bands) -> None:
    """Draw live bytes as a step line on top, where they were watched."""
    times, live = bands.times, np.append(bands.live, bands.live[-1]).astype(np.float64)
    for begin, end in recording.unwatched:
        first, last = np.searchsorted(times, (begin, end), "left")
        after = live[max(int(np.searchsorted(times, end, "right")) - 1, 0)]
        times = np.concatenate((times[:first], (begin, end), times[last:]))
        live = np.concatenate((live[:first], (np.nan, after), live[last:]))
    ax.plot(
        times,
        live,
        drawstyle="steps-post",
        color=INK,
        linewidth=1.0 if bands.dense else 1.5,
        solid_joinstyle="miter",
        solid_capstyle="butt",
        zorder=4,
        gid="total",
    )


def paint_names(
    ax: Axes, recording: Recording, bands: Bands, names: Sequence[Name], styles: Styles
) -> None:
    """Write names inside their bands."""
    store = recording.buffers
    for name in names:
        if name.buffer is not None:
            style = styles[store.sites[int(store.site[name.buffer])].told_op]
        elif name.layer is not None and name.layer >= 0:
            style = layer_style(bands.layers[name.layer], styles)
        else:
            style = BEFORE_STYLE
        plate = {"facecolor": style.face, "edgecolor": "none", "boxstyle": "square,pad=0.1"}
        ax.text(
            name.x,
            name.y,
            name.text,
            fontsize=TEXT,
            color=style.text,
            ha="left",
            va="center",
            linespacing=1.15,
            zorder=5,
            gid="name",
            bbox=plate if style.hatch or recording.unwatched else None,
        )
