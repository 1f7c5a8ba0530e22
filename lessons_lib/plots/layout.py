"""What is decided about a timeline before it is drawn: limits, names, and what needs a legend.

Pure: reads recordings and the size of the axes, draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from lessons_lib.common.units import counted, format_bytes
from lessons_lib.plots.band_labels import Name, View, op_text, place_names, wordings
from lessons_lib.plots.colours import (
    BEFORE_STYLE,
    INK,
    LIMIT,
    OTHER_STYLE,
    SMALL_STYLE,
    UNWATCHED_STYLE,
    Style,
)
from lessons_lib.plots.legend import Entry
from lessons_lib.plots.stacking import Bands, stack
from lessons_lib.plots.theme import text_size
from lessons_lib.recording.recording import Recording

PEAK_SIZE: Final = 12.0
PEAK_GAP: Final = 8.0  # pixels between the peak and its label
#: A limit that is higher than this many times the peak is named at the edge; the data keep their
#: height.
FAR: Final = 3.0
_VISIBLE: Final = 60.0  # square pixels from which on an operation needs a name or a legend
_NOTABLE: Final = 0.2  # share of the peak from which on its largest buffer is worth a note
_BRIEF: Final = 24.0  # pixels


@dataclass(frozen=True, eq=False)
class Panel:
    """One recording that is to be drawn, and how."""

    recording: Recording
    title: str = ""
    limit: int | None = None
    most_named: int = 12
    lines: bool | None = None

    @cached_property
    def bands(self) -> Bands:
        """Where everything lies."""
        return stack(self.recording)

    @cached_property
    def band_ops(self) -> list[str]:
        """Operation of each band, or what stands for it."""
        store = self.recording.buffers
        return [store.sites[int(i)].told_op for i in store.site[self.bands.index]]

    @cached_property
    def weights(self) -> dict[str, float]:
        """Area in bytes times seconds of each operation that has a band or a layer."""
        bands, weights = self.bands, dict[str, float]()
        lives = bands.times[bands.last] - bands.times[bands.first]
        areas = self.recording.buffers.nbytes[bands.index] * lives
        for op, area in zip(self.band_ops, areas, strict=True):
            weights[op] = weights.get(op, 0.0) + float(area)
        for layer in bands.layers:
            if layer.op is not None:
                area = layer.height @ np.diff(bands.times)
                weights[layer.op] = weights.get(layer.op, 0.0) + float(area)
        return weights

    def peak_note(self, per_second: float) -> str:
        """Name the largest buffer at the peak if it lives too briefly to be named in place."""
        largest = next(iter(self.recording.at_peak()), None)
        if largest is None or largest.nbytes < _NOTABLE * self.recording.peak_bytes:
            return ""
        end = self.seconds if largest.freed_at is None else largest.freed_at
        if (end - (largest.allocated_at or 0.0)) * per_second >= _BRIEF:
            return ""
        return f"largest: {next(wordings(largest.site, largest.nbytes, self.lines))}"

    @property
    def reach(self) -> tuple[int, int]:
        """Lowest and highest byte that must be inside the axes."""
        top = max(self.bands.top, self.recording.counted_bytes)
        if self.limit is not None and self.limit <= FAR * top:
            top = max(top, self.limit)
        return self.bands.floor, top

    @property
    def seconds(self) -> float:
        """Length of the time axis; never 0."""
        return float(self.bands.times[-1]) or 1e-6

    def margin_texts(self, high: float) -> list[tuple[float, str, str]]:
        """Give byte, text and colour of what stands right of the data, from below.

        `high` is the upper limit of the axes.
        """
        texts: list[tuple[float, str, str]] = []
        if kept := self.recording.kept_bytes:
            texts.append((kept, f"kept\n{format_bytes(kept)}".replace("-", "−"), INK))
        if self.limit is not None:
            far = " ↑" if self.limit > high else ""
            texts.append((min(self.limit, high), f"limit{far}\n{format_bytes(self.limit)}", LIMIT))
        return sorted(texts)

    def margin(self, dpi: float) -> float:
        """Give the pixels that `margin_texts` needs."""
        return max(
            (text_size(text, dpi=dpi)[0] + 22 for _, text, _ in self.margin_texts(0)), default=0
        )

    def head(self, ax: Axes, reach: tuple[int, int], seconds: float) -> float:
        """Pixels that the peak's label needs above the reach."""
        width, height, dpi = _pixels(ax)
        label = text_size("peak", PEAK_SIZE, bold=True, dpi=dpi)[1]
        if self.peak_note(width / seconds):
            label += text_size("note", dpi=dpi)[1]
        head = label + PEAK_GAP + 4
        if self.limit is not None and self.recording.peak_bytes:
            # A limit just above the peak pushes the label up, over its line.
            span = max(reach[1] - reach[0], 1)
            apart = (self.limit - self.recording.peak_bytes) * (height - head) / span
            if 0 <= apart < head:
                head += PEAK_GAP
        return head

    def view(self, ax: Axes, reach: tuple[int, int], seconds: float, head: float) -> View:
        """Choose the limits of axes: the reach, and so many pixels above it."""
        width, height, dpi = _pixels(ax)
        low, high = reach
        below = 5.0 if low < 0 else 0.0
        per_byte = max(height - head - below, height / 3) / max(high - low, 1)
        bottom = low - below / per_byte
        return View(seconds, bottom, bottom + height / per_byte, width, height, dpi)

    def names(self, view: View) -> list[Name]:
        """Place the names."""
        return place_names(self.recording, self.bands, view, most=self.most_named, lines=self.lines)

    def unnamed(self, names: Sequence[Name], view: View) -> set[str]:
        """Give the operations that can be seen but are named nowhere."""
        store, bands = self.recording.buffers, self.bands
        pixels = view.per_second * view.per_byte
        seen = {op for op, area in self.weights.items() if area * pixels >= _VISIBLE}
        named: set[str] = set()
        for name in names:
            match name:
                case Name(buffer=int(buffer)):
                    named.add(store.sites[int(store.site[buffer])].told_op)
                case Name(layer=int(layer)) if layer >= 0 and (op := bands.layers[layer].op):
                    named.add(op)
        return seen - named


def _pixels(ax: Axes) -> tuple[float, float, float]:
    """Give the width and height of axes in pixels, and the pixels of an inch."""
    box = ax.get_window_extent()
    return max(float(box.width), 1.0), max(float(box.height), 1.0), float(ax.figure.dpi)


def summed_weights(panels: Sequence[Panel]) -> dict[str, float]:
    """Add up what each operation weighs in all panels of a figure."""
    weights: dict[str, float] = {}
    for panel in panels:
        for op, weight in panel.weights.items():
            weights[op] = weights.get(op, 0.0) + weight
    return weights


def legend_entries(
    panels: Sequence[Panel],
    styles: Mapping[str, Style],
    names: Sequence[Sequence[Name]],
    views: Sequence[View],
) -> list[Entry]:
    """Give what a legend must explain; all coloured operations as soon as one is unnamed."""
    entries: dict[Entry, None] = {}
    if any(p.unnamed(n, v) for p, n, v in zip(panels, names, views, strict=True)):
        weights = summed_weights(panels)
        others = [op for op in weights if styles[op] == OTHER_STYLE]
        for op in sorted(weights, key=lambda op: (-weights[op], op)):
            if op not in others:
                entries[op_text(op), styles[op]] = None
        if others:
            entries[counted(len(others), "other operation"), OTHER_STYLE] = None
    small: list[str] = []
    before: list[str] = []
    for panel, placed in zip(panels, names, strict=True):
        done = {name.layer for name in placed}
        several = len(panels) > 1
        suffix = f" ({panel.title})" if several else ""
        for number, layer in enumerate(panel.bands.layers):
            if number not in done and layer.op is None:
                size = ("≤ " if layer.count > 1 else "") + format_bytes(layer.most_bytes)
                if several:  # shorter, for there is one row for all
                    small.append(f"{panel.title} {layer.count:,}, {size}")
                    continue
                together = "together " if layer.count > 1 else ""
                small.append(f"{counted(layer.count, 'small buffer')}, {together}{size}")
        if panel.bands.floor < 0 and -1 not in done:
            size = format_bytes(-panel.bands.floor)
            count = counted(panel.bands.before_count, "buffer")
            before.append(f"{count} from before the block, freed in it: {size}{suffix}")
    resting = [panel.recording.counted_bytes for panel in panels if panel.recording.unwatched]
    if resting:
        most = format_bytes(max(resting))
        entries[f"not watched: the allocator's count, up to ≈ {most}", UNWATCHED_STYLE] = None
    if small:
        what = "small buffers, together: " if len(panels) > 1 else ""
        entries[what + "; ".join(small), SMALL_STYLE] = None
    if before:
        entries["; ".join(before), BEFORE_STYLE] = None
    return list(entries)
