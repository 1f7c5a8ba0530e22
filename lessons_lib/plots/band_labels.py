"""Names where they lie: which bands have room for a name, and what it says.

A name lies wholly inside its band for as long as it is wide, so names never overlap each other, the
total or another band.  The longest of several wordings that fits is taken.  Works in the pixels of
one drawing (`View`); never draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lessons_lib.common.units import format_bytes
from lessons_lib.plots.stacking import Bands, Layer
from lessons_lib.plots.theme import DPI, text_size
from lessons_lib.recording.buffers import Floats, Ints, Site
from lessons_lib.recording.recording import Recording

_SIDE: Final = 7.0  # pixels between a name and the ends of its band
_TRIES: Final = 60  # places tried for a layer's name, and bands tried for each name wanted


@dataclass(frozen=True)
class View:
    """How data become pixels: the limits of the axes and their size in pixels."""

    seconds: float
    low: float
    high: float
    width: float
    height: float
    dpi: float = DPI

    @property
    def per_second(self) -> float:
        """Pixels a second."""
        return self.width / self.seconds

    @property
    def per_byte(self) -> float:
        """Pixels a byte."""
        return self.height / (self.high - self.low)


@dataclass(frozen=True)
class Name:
    """A text inside a band.

    Attributes
    ----------
    text : str
        One line or two.
    x, y : float
        Its left end in seconds and its middle in bytes.
    buffer : int or None
        The buffer it names, or None for a layer or the buffers from before the block.
    layer : int or None
        The layer it names; -1 for the buffers from before the block.
    """

    text: str
    x: float
    y: float
    buffer: int | None = None
    layer: int | None = None


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape: ``2048×512``, or ``scalar``."""
    return "×".join(map(str, shape)) if shape else "scalar"


def op_text(op: str) -> str:
    """Write an operation type; XLA's generated names are cut down to the function's."""
    if op.startswith("__inference_"):
        return "XLA " + op.removeprefix("__inference_").rstrip("0123456789").rstrip("_")
    return op.lstrip("_") or op


def wordings(site: Site, nbytes: int, lines: bool | None) -> Iterator[str]:
    """Give ways to name a buffer, the most telling first.

    `lines` True puts the source line before anything else but the operation, False leaves it out,
    and None names it where there is room.
    """
    op, size = "+".join((op_text(site.told_op), *site.fused)), format_bytes(nbytes)
    what = op if site.shape is None else f"{op} {shape_text(site.shape)}"
    if site.line is not None and lines is not False:
        yield f"{what} · {size} · {site.line}"
        yield f"{what}\n{size} · {site.line}"
        if lines:
            yield f"{what} · {site.line}"
            yield f"{what}\n{site.line}"
            yield f"{op} · {site.line}"
            yield f"{op}\n{site.line}"
            yield str(site.line)
    yield f"{what} · {size}"
    yield f"{what}\n{size}"
    yield what
    yield f"{op} · {size}"
    yield f"{op}\n{size}"
    yield op


def layer_wordings(layer: Layer) -> Iterator[str]:
    """Give ways to name a layer of small buffers."""
    n, size = layer.count, format_bytes(layer.most_bytes)
    what = "" if layer.op is None else f"{op_text(layer.op)}: "
    plural = "" if n == 1 else "s"
    together = "together ≤ " if n > 1 else ""
    yield f"{what}{n:,} small buffer{plural}, {together}{size}"
    yield f"{what}{n:,} small buffer{plural}\n{together}{size}"
    yield f"{what}{n:,} small, ≤ {size}"
    yield f"{what}{n:,} small\n≤ {size}"


def before_wordings(bands: Bands) -> Iterator[str]:
    """Give ways to name what was born before the block."""
    n, size = bands.before_count, format_bytes(-bands.floor)
    plural = "" if n == 1 else "s"
    yield f"{n:,} buffer{plural} from before the block, freed in it: {size}"
    yield f"{n:,} buffer{plural} from before,\nfreed here: {size}"
    yield f"from before, freed: {size}"
    yield f"from before,\nfreed: {size}"


def place_names(
    recording: Recording,
    bands: Bands,
    view: View,
    *,
    most: int = 12,
    lines: bool | None = None,
) -> list[Name]:
    """Find a place and a wording for the names of the biggest buffers and of the layers.

    Returns
    -------
    list of Name
        At most `most` buffers, largest first, and then the layers that have room.
    """
    store = recording.buffers
    names: list[Name] = []
    sizes = store.nbytes[bands.index]
    duration = bands.times[bands.last] - bands.times[bands.first]
    order = np.lexsort((bands.index, -duration, -sizes))
    for band in order[: most * _TRIES]:
        if len(names) >= most:
            break
        first, last = int(bands.first[band]), int(bands.last[band])
        if (bands.times[last] - bands.times[first]) * view.per_second < 2 * _SIDE:
            continue
        bottom = bands.bottoms[band]
        times = bands.times[first : last + 1]
        buffer = int(bands.index[band])
        size = int(sizes[band])
        texts = wordings(store.sites[int(store.site[buffer])], size, lines)
        if found := _fit_long(texts, times, bottom, size, view):
            names.append(Name(*found, buffer=buffer))
    for number, layer in enumerate(bands.layers):
        texts = layer_wordings(layer)
        if found := _fit_thick(texts, bands.times, layer.bottom, layer.height, view):
            names.append(Name(*found, layer=number))
    if bands.floor < 0:
        floor = np.full(len(bands.before), bands.floor)
        if found := _fit_thick(before_wordings(bands), bands.times, floor, bands.before, view):
            names.append(Name(*found, layer=-1))
    return names


Found = tuple[str, float, float]


def _fit_long(
    texts: Iterator[str], times: Floats, bottom: Ints, size: int, view: View
) -> Found | None:
    """Name a band, at the beginning of its longest level stretch."""
    stretches: dict[int, tuple[float, float, float] | None] = {}
    for text in texts:
        wide, high = text_size(text, dpi=view.dpi)
        rows = text.count("\n") + 1
        if rows not in stretches:
            stretches[rows] = _longest(times, bottom, size, high / view.per_byte)
        found = stretches[rows]
        if found and (found[1] - found[0]) * view.per_second >= wide + 2 * _SIDE:
            return text, found[0] + _SIDE / view.per_second, found[2]
    return None


def _longest(
    times: Floats, bottom: Ints, size: int, needed: float
) -> tuple[float, float, float] | None:
    """Find the longest time for which a band leaves a level strip of the needed height free.

    Returns
    -------
    tuple of float, or None
        Beginning and end in seconds, and the middle of the strip in bytes.
    """
    if size < needed:
        return None
    step = np.flatnonzero(np.append(True, bottom[1:] != bottom[:-1]))
    edges, ends = bottom[step], np.append(times[step[1:]], times[-1])
    best: tuple[float, float, float] | None = None
    # Bands only ever sink, so the strip lies between the first edge and the last one's top.
    last = 0
    for first in range(len(step)):
        while last + 1 < len(step) and edges[last + 1] + size - edges[first] >= needed:
            last += 1
        begin, end = float(times[step[first]]), float(ends[last])
        if best is None or end - begin > best[1] - best[0]:
            best = begin, end, float(edges[first] + edges[last] + size) / 2
    return best


def _fit_thick(
    texts: Iterator[str], times: Floats, bottom: Ints, height: Ints, view: View
) -> Found | None:
    """Name a layer, whose height changes, where it is thickest."""
    for text in texts:
        wide, high = text_size(text, dpi=view.dpi)
        length = (wide + 2 * _SIDE) / view.per_second
        if length > times[-1] - times[0]:
            continue
        best: tuple[float, float, float] | None = None
        for start in np.linspace(times[0], times[-1] - length, _TRIES):
            first = max(int(np.searchsorted(times, start, side="right")) - 1, 0)
            last = max(int(np.searchsorted(times[:-1], start + length, side="left")), first + 1)
            floor = int(bottom[first:last].max())
            ceiling = int((bottom[first:last] + height[first:last]).min())
            if best is None or ceiling - floor > best[0]:
                best = ceiling - floor, float(start), (floor + ceiling) / 2
        if best is not None and best[0] * view.per_byte >= high:
            return text, best[1] + _SIDE / view.per_second, best[2]
    return None
