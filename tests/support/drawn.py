"""Recordings made by hand, to be drawn, and what is found in their pictures."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lessons_lib.common.source import Line
from lessons_lib.common.units import KIB, MIB
from lessons_lib.recording.buffers import BufferStore, Folded, Site
from lessons_lib.recording.recording import Recording


class Script:
    """Makes a recording from births and deaths, one second apart unless said otherwise."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.rows: list[list[int]] = []
        self.times: list[float] = []

    def _event(self, at: float | None) -> int:
        self.times.append(len(self.times) + 1.0 if at is None else at)
        return len(self.times) - 1

    def _site(self, site: Site) -> int:
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)

    def new(
        self,
        nbytes: int,
        op: str | None = "MatMul",
        shape: tuple[int, ...] | None = None,
        line: int = 0,
        at: float | None = None,
        fused: tuple[str, ...] = (),
        kind: str = "output",
    ) -> int:
        where = Line("train.py", line, "y = step(x)") if line else None
        site = self._site(Site(op, None, shape, "float32", kind, where, fused=fused))
        self.rows.append([site, nbytes, self._event(at), -1])
        return len(self.rows) - 1

    def free(self, buffer: int, at: float | None = None) -> None:
        self.rows[buffer][3] = self._event(at)

    def free_older(self, nbytes: int, at: float | None = None) -> None:
        self.rows.append([self._site(Site()), nbytes, -1, self._event(at)])

    def done(self, label: str = "", seconds: float | None = None, **more: Any) -> Recording:
        rows = np.array(self.rows, np.int64).reshape(-1, 4)
        site, nbytes, born, died = rows.T
        times = np.array(self.times)
        store = BufferStore(tuple(self.sites), site, nbytes, nbytes, born, died, times)
        return Recording(label, len(times) + 1.0 if seconds is None else seconds, store, **more)


def small() -> Recording:
    s = Script()
    s.new(4 * MIB, "RandomUniform", (1024, 1024), 1)
    product = s.new(4 * MIB, "MatMul", (1024, 1024), 2)
    s.new(4 * MIB, "Tanh", (1024, 1024), 2)
    s.free(product)
    return s.done("y = tf.tanh(x @ w)")


def step(layers: int = 6, *, graph: bool = False, label: str = "a training step") -> Recording:
    s = Script()
    kept = []
    for i in range(layers):
        product = s.new(4 * MIB, "MatMul", (2048, 512), i + 2)
        if not graph:
            result = s.new(4 * MIB, "Tanh", (2048, 512), i + 2)
            s.free(product)
            s.free(s.new(8, "Shape", (2,), i + 2))
        else:
            result = product
        kept.append(result)
    s.new(4, "Sum", (), 9)
    for tensor in reversed(kept):
        slope = s.new(4 * MIB, "TanhGrad", (2048, 512), 11)
        s.free(tensor)
        s.new(MIB, "MatMul", (512, 512), 11)
        s.free(slope)
    return s.done(label)


def negative() -> Recording:
    s = Script()
    first = s.new(3 * MIB, "AddV2", (768, 1024), 2)
    s.free_older(8 * MIB)
    s.new(2 * MIB, "Mul", (512, 1024), 3)
    s.free_older(4 * MIB)
    s.free(first)
    return s.done("freeing what was there")


def rested() -> Recording:
    s = Script()
    for _ in range(4):
        s.free(s.new(4 * MIB, "MatMul", (1024, 1024), 2))
    whole = s.done("a long loop")
    live = np.array([4, 0, 6, 4, 0, 4, 0]) * MIB
    times = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0])
    none = np.zeros(len(whole.buffers.sites), np.int64)
    store = dataclasses.replace(whole.buffers, folded=Folded(none, none, times, live))
    return Recording("a long loop", 9.0, store, unwatched=((2.5, 4.5),), exact=False)


def tiny() -> Recording:
    s = Script()
    s.new(4 * KIB, "Fill", (32, 32), 1)
    s.free(s.new(4 * KIB, "AddV2", (32, 32), 2))
    s.new(4, "Sum", (), 3)
    return s.done("kibibytes", seconds=6.0)


def spike() -> Recording:
    s = Script()
    s.new(8 * MIB, "MatMul", (2048, 1024), 2, at=1.0)
    work = s.new(30 * MIB, "Conv2D", (7680, 1024), 3, at=30.0)
    s.free(work, at=30.1)
    return s.done("a workspace that lives briefly", seconds=60.0)


def one_huge() -> Recording:
    s = Script()
    s.new(1024 * MIB, "Fill", (16384, 16384), 1)
    for i in range(50):
        s.new(4 * (i + 1), "AddV2", (i + 1,), 2)
    return s.done("one huge buffer")


def many(count: int = 30_000, *, seed: int = 1) -> Recording:
    chance = np.random.default_rng(seed)
    s = Script()
    alive: list[int] = [s.new(40 * MIB, "RandomUniform", (10240, 1024), 1)]
    ops = ("AddV2", "Mul", "Tanh", "MatMul", "Sum")
    sizes = (4, 4096, 1 << 16, 1 << 20, 1 << 21)
    for i in range(count):
        alive.append(s.new(sizes[chance.integers(5)], ops[chance.integers(5)], (), 3))
        if len(alive) > 20 + 10 * np.sin(i / 2000):
            s.free(alive.pop(int(chance.integers(len(alive)))))
    return s.done("a long loop")


def all_small(count: int = 30_000) -> Recording:
    s = Script()
    for _ in range(count):
        s.new(KIB, "Tanh", (256,), 3)
    return s.done("what a tape keeps")


CASES: dict[str, Callable[[], Recording]] = {
    "small": small,
    "step": step,
    "graph": lambda: step(graph=True),
    "negative": negative,
    "tiny": tiny,
    "spike": spike,
    "one_huge": one_huge,
    "many": lambda: many(6_000),
    "all_small": lambda: all_small(6_000),
    "long_label": lambda: step(3, label="a label that goes on " * 12),
    "no_label": lambda: step(3, label=""),
    "empty": lambda: Recording("an empty block", 1.0),
}


def texts_of(figure: Figure) -> list[tuple[str, Any]]:
    """List every visible text of a figure with its box in pixels."""
    figure.draw_without_rendering()
    found = []
    for artist in figure.findobj(mpl.text.Text):
        if artist.get_visible() and artist.get_text().strip():
            found.append((artist.get_text(), artist.get_window_extent()))
    ticks = [
        label.get_text()
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for label in axis.get_ticklabels()
    ]
    inside = figure.bbox.padded(1)
    # Ticks beyond the limits have labels that are not drawn.
    return [
        (text, box)
        for text, box in found
        if not (text in ticks and not inside.contains(box.x0, box.y0))
    ]


def collisions(boxes: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    out = []
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        if wide > 1 and high > 1:
            out.append((one, two))
    return out


def outside(figure: Figure, boxes: Iterable[tuple[str, Any]]) -> list[str]:
    page = figure.bbox
    return [
        text
        for text, box in boxes
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]


def drawn_ticks_only(ax: Axes) -> None:
    """Drop the labels of ticks beyond the limits, which matplotlib makes and never draws."""
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        ticks = [t for t in axis.get_ticklocs() if low - 1e-9 <= t <= high + 1e-9]
        axis.set_ticks(ticks)


def names_of(ax: Axes) -> list[Any]:
    return [text for text in ax.texts if text.get_gid() == "name"]


def legend_words(figure: Any) -> list[str]:
    legends = figure.findobj(mpl.legend.Legend)
    return [text.get_text() for legend in legends for text in legend.get_texts()]
