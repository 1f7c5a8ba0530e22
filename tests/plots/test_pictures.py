"""Pictures are checked by what they draw and where: bytes, places, texts, colours; not pixels."""

from __future__ import annotations

import html
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lessons_lib.common.source import Line
from lessons_lib.common.units import KIB, MIB
from lessons_lib.instruments.training import BatchEstimate
from lessons_lib.plots.alt_text import describe_recording
from lessons_lib.plots.colours import (
    HATCHES,
    INK,
    OTHER_STYLE,
    PALETTE,
    PAPER,
    UNKNOWN_STYLE,
    Style,
    figure_styles,
    luminance,
    op_styles,
)
from lessons_lib.plots.legend import plan_strip
from lessons_lib.plots.registry import PICTURES
from lessons_lib.plots.stacking import Bands, stack
from lessons_lib.plots.theme import fit_text, get_alt, new_axes, png, text_size
from lessons_lib.plots.timeline import timelines
from lessons_lib.recording.breakdown import Breakdown
from lessons_lib.recording.buffers import BufferStore, Site
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
    ) -> int:
        where = Line("train.py", line, "y = step(x)") if line else None
        site = self._site(Site(op, None, shape, "float32", "output", where, fused=fused))
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


# Geometry


def alive_bytes(bands: Bands, recording: Recording) -> np.ndarray:
    """Add up, at each moment, what is drawn: bands, layers and what was there before."""
    total = bands.floor + bands.before.astype(np.int64)
    for buffer, first, last in zip(bands.index, bands.first, bands.last, strict=True):
        total[first:last] += int(recording.buffers.nbytes[buffer])
    return total + sum((layer.height for layer in bands.layers), np.zeros_like(total))


def gaps(bands: Bands, recording: Recording) -> int:
    """Count the moments at which the pieces of the stack do not lie exactly on each other."""
    count = 0
    sizes = recording.buffers.nbytes[bands.index]
    for moment in range(len(bands.live)):
        top = bands.floor + int(bands.before[moment])
        for size, first, last, bottom in zip(
            sizes, bands.first, bands.last, bands.bottoms, strict=True
        ):
            if first <= moment < last:
                count += int(bottom[moment - first]) != top
                top += int(size)
        for layer in bands.layers:
            count += int(layer.bottom[moment]) != top
            top += int(layer.height[moment])
        count += top != int(bands.live[moment])
    return count


@pytest.mark.parametrize("name", CASES)
def test_heights_add_up_to_live_bytes(name: str) -> None:
    recording = CASES[name]()
    bands = stack(recording)
    assert (alive_bytes(bands, recording) == bands.live).all()
    assert gaps(bands, recording) == 0
    assert bands.live.max() == recording.peak_bytes
    assert bands.live[-1] == recording.kept_bytes


def test_a_missing_band_or_a_shifted_one_would_be_noticed() -> None:
    recording = step()
    bands = stack(recording)
    fewer = Bands(**{**vars(bands), "first": bands.last})
    assert (alive_bytes(fewer, recording) != bands.live).any()
    bands.bottoms[3][0] += 1
    assert gaps(bands, recording) == 1


def test_bands_sink_when_one_below_is_freed() -> None:
    bands = stack(small())
    # Three of 4 MiB; the middle one is freed, so the last one sinks from 8 MiB to 4 MiB.
    assert [b.tolist() for b in bands.bottoms[:2]] == [[0] * 4, [4 * MIB] * 2]
    assert bands.bottoms[2].tolist() == [8 * MIB, 4 * MIB]


def test_buffers_from_before_lie_below_zero() -> None:
    bands = stack(negative())
    assert bands.floor == -12 * MIB
    assert bands.before.tolist() == [12 * MIB, 12 * MIB, 4 * MIB, 4 * MIB, 0, 0]
    assert bands.live.tolist() == [0, 3 * MIB, -5 * MIB, -3 * MIB, -7 * MIB, -10 * MIB]


def test_small_buffers_are_folded_with_their_exact_maximum() -> None:
    (layer,) = stack(one_huge()).layers
    assert (layer.op, layer.mixed, layer.count) == (None, True, 50)
    assert layer.most_bytes == 4 * 50 * 51 // 2


def test_many_small_buffers_of_one_operation_keep_its_colour() -> None:
    (layer,) = stack(all_small(1000)).layers
    assert (layer.op, layer.mixed, layer.count) == ("Tanh", False, 1000)
    assert layer.most_bytes == 1000 * KIB


@pytest.mark.parametrize("count", [3_000, 30_000])
def test_what_is_drawn_does_not_grow_with_the_events(count: int) -> None:
    bands = stack(many(count))
    assert bands.dense
    assert len(bands.live) <= 2 * 500 + 1
    assert sum(map(len, bands.bottoms)) <= 120 * len(bands.live)


def test_a_dense_picture_keeps_the_peak_of_every_column() -> None:
    recording = many(5_000)
    bands = stack(recording)
    times, live = recording.timeline()
    column = np.minimum((times / recording.seconds * 500).astype(int), 499)
    drawn = np.minimum((bands.times[:-1] / recording.seconds * 500 + 1e-6).astype(int), 499)
    for c in np.unique(column[1:-1]):
        assert live[column == c].max() in (bands.live[drawn == c].max(), live[0])


# Layout


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


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("limit", [None, 30 * MIB, 33 * MIB])
def test_no_text_is_cut_off_or_covers_another(name: str, limit: int | None) -> None:
    ax: Any = CASES[name]().plot(limit=limit)
    drawn_ticks_only(ax)
    boxes = texts_of(ax.figure)
    assert outside(ax.figure, boxes) == []
    assert collisions(boxes) == []


def test_texts_that_collide_or_leave_the_page_would_be_noticed() -> None:
    ax: Any = small().plot()
    name = next(text for text in ax.texts if text.get_gid() == "name")
    ax.text(*name.get_position(), "in the way")
    ax.text(1.2, 0.5, "gone", transform=ax.transAxes)
    boxes = texts_of(ax.figure)
    assert ("in the way" in itertools.chain(*collisions(boxes))) is True
    assert "gone" in outside(ax.figure, boxes)


def names_of(ax: Axes) -> list[Any]:
    return [text for text in ax.texts if text.get_gid() == "name"]


@pytest.mark.parametrize("name", ["small", "step", "graph", "negative", "tiny", "one_huge"])
def test_names_lie_inside_their_bands(name: str) -> None:
    recording = CASES[name]()
    ax: Any = recording.plot()
    ax.figure.draw_without_rendering()
    polygons = [
        ax.transData.transform(path.vertices)
        for collection in ax.collections
        if isinstance(collection, PolyCollection)
        for path in collection.get_paths()
    ]
    assert names_of(ax)
    for text in names_of(ax):
        box = text.get_window_extent()
        corners = [(box.x0, box.y0), (box.x1, box.y0), (box.x0, box.y1), (box.x1, box.y1)]
        paths = [mpl.path.Path(p) for p in polygons]
        assert any(path.contains_points(corners, radius=1.5).all() for path in paths), text


def test_the_peak_is_marked_above_all_data() -> None:
    ax: Any = step().plot()
    (peak,) = (text for text in ax.texts if text.get_gid() == "peak")
    assert peak.get_text() == "peak 28 MiB"
    ax.figure.draw_without_rendering()
    assert peak.get_window_extent().y0 > ax.transData.transform((0, 28 * MIB))[1]


def test_what_is_too_brief_to_be_named_is_named_at_the_peak() -> None:
    (note,) = (text for text in spike().plot().texts if text.get_gid() == "note")
    assert note.get_text() == "largest: Conv2D 7680×1024 · 30 MiB · train.py:3"
    assert not [text for text in step().plot().texts if text.get_gid() == "note"]


def test_an_empty_recording_says_so() -> None:
    ax: Any = Recording("x", 1.0).plot()
    assert [text.get_text() for text in ax.texts] == ["nothing was allocated"]
    assert "nothing was allocated" in get_alt(ax)
    assert "nothing was allocated" not in get_alt(small().plot())


def test_what_was_kept_is_written_at_its_height() -> None:
    ax: Any = negative().plot()
    (kept,) = (text for text in ax.texts if text.get_gid() == "margin")
    assert kept.get_text() == "kept\n−10 MiB"
    kept_at = ax.transData.inverted().transform(kept.get_transform().transform(kept.get_position()))
    assert abs(kept_at[1] + 10 * MIB) < 0.2 * MIB


def test_a_limit_is_drawn_where_it_is_or_named_at_the_edge() -> None:
    for limit, words in ((10 * MIB, "limit\n10 MiB"), ("30 MiB", "limit\n30 MiB")):
        ax: Any = small().plot(limit=limit)
        (line,) = (line for line in ax.lines if line.get_gid() == "limit")
        assert ax.get_ylim()[0] < line.get_ydata()[0] < ax.get_ylim()[1]
        assert words in [text.get_text() for text in ax.texts]
    far = small().plot(limit="300 MiB")
    assert not [line for line in far.lines if line.get_gid() == "limit"]
    assert "limit ↑\n300 MiB" in [text.get_text() for text in far.texts]
    assert far.get_ylim() == small().plot().get_ylim()
    with pytest.raises(ValueError, match="is not a size"):
        small().plot(limit="a lot")


def test_lines_are_named_on_request_and_where_there_is_room() -> None:
    def words(**options: Any) -> str:
        return " ".join(text.get_text() for text in names_of(small().plot(**options)))

    assert "MatMul 1024×1024 · 4 MiB · train.py:2" in words()
    assert "train.py" not in words(lines=False)
    assert words(lines=True).count("train.py") == 3
    narrow = Recording("", 20.0, small().buffers)  # the same, in a quarter of the width
    texts = [
        {text.get_text() for text in names_of(narrow.plot(lines=lines))} for lines in (None, True)
    ]
    assert "MatMul\n4 MiB" in texts[0]
    assert "MatMul\ntrain.py:2" in texts[1]
    assert len(names_of(step().plot(max_named=2))) == 2


def test_operations_that_were_fused_in_are_named() -> None:
    s = Script()
    s.new(MIB, "MatMul", (512, 512), fused=("BiasAdd", "Relu"))
    (name,) = names_of(s.done().plot())
    assert name.get_text() == "MatMul+BiasAdd+Relu 512×512 · 1 MiB"


def legend_words(figure: Any) -> list[str]:
    legends = figure.findobj(mpl.legend.Legend)
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def test_a_legend_only_where_names_do_not_suffice() -> None:
    assert legend_words(small().plot().figure) == []
    words = legend_words(step().plot().figure)
    assert {"Tanh", "MatMul", "TanhGrad"} <= set(words)
    # Six shapes of 8 B, one after the other, and then 4 B.
    assert "7 small buffers, together ≤ 8 B" in words


def test_operations_without_a_colour_are_counted() -> None:
    s = Script()
    for i in range(60):
        s.new((100 - i) * MIB, f"Name{i}")
    words = legend_words(s.done().plot().figure)
    assert words == [*(f"Name{i}" for i in range(6)), "54 other operations"]


def test_entries_that_do_not_fit_are_counted() -> None:
    strip = plan_strip([(f"entry {i}", None) for i in range(60)], 400, most_rows=2)
    shown = [text for row in strip.rows for text, _ in row]
    assert len(strip.rows) == 2
    assert shown[-1] == f"… {60 - (len(shown) - 1)} more"


# Colours


def lab_after(matrix: np.ndarray, colour: str) -> np.ndarray:
    """Give CIE L*a*b* of a colour as seen through a linear RGB matrix."""
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ np.clip(matrix @ linear, 0, 1)
    x, y, z = (
        np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116
        for v in xyz / np.array([0.9505, 1.0, 1.089])
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira and Fernandes (2009), severity 1.
SIGHT = {
    "all colours": np.eye(3),
    "no red cones": np.array(
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]
    ),
    "no green cones": np.array(
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    ),
    "no blue cones": np.array(
        [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]
    ),
}


def closest(colours: Iterable[str], matrix: np.ndarray) -> float:
    seen = [lab_after(matrix, colour) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart_by_everyone(sight: str) -> None:
    assert closest([*PALETTE, UNKNOWN_STYLE.face], SIGHT[sight]) > 12


def test_red_and_green_of_one_lightness_would_fail() -> None:
    assert closest(["#c05050", "#808040"], SIGHT["all colours"]) > 12
    assert closest(["#c05050", "#808040"], SIGHT["no green cones"]) < 12


def test_names_can_be_read_on_every_colour() -> None:
    for face in [*PALETTE, UNKNOWN_STYLE.face]:
        style = Style(face)
        lights = sorted((luminance(style.text) + 0.05, luminance(face) + 0.05))
        assert lights[1] / lights[0] > 3.9, face  # WCAG asks 4.5 of small text, 3 of large
    assert (luminance(PAPER) + 0.05) / (luminance(INK) + 0.05) > 12


def test_an_operation_looks_the_same_in_every_picture() -> None:
    alone, crowd = op_styles(["MatMul"]), op_styles(["Tanh", "Zeta", None, "MatMul", "Conv2D"])
    assert alone["MatMul"] == crowd["MatMul"]
    for name in ("_FusedMatMul", "_MklMatMul", "_MklFusedMatMul"):
        assert op_styles([name])[name] == alone["MatMul"]
    assert op_styles(["AddV2"])["AddV2"] == op_styles(["Add"])["Add"]
    assert op_styles(["Unheard"]) == op_styles(["Unheard"])


def test_operations_of_one_figure_differ_in_colour_or_pattern() -> None:
    ops = [f"Op{chr(65 + i)}" for i in range(len(PALETTE) * len(HATCHES))]
    assert len(set(op_styles(ops).values())) == len(ops)
    assert op_styles(ops) == op_styles(reversed(ops))


def test_a_common_operation_keeps_its_look_when_a_rare_one_has_the_same() -> None:
    common = op_styles(["MatMul"])["MatMul"]
    names = [f"Rare{i}" for i in range(1000)]
    alike = [name for name in names if op_styles([name])[name] == common]
    assert len(alike) > 5
    for name in alike:
        styles = op_styles([name, "MatMul"])
        assert styles["MatMul"] == common != styles[name]


def test_given_colours_are_kept_and_not_used_twice() -> None:
    blue = op_styles(["MatMul"])["MatMul"]
    styles = op_styles(["MatMul", "Rare"], {"Rare": blue})
    assert styles["Rare"] == blue != styles["MatMul"]


def test_beyond_six_operations_the_rest_is_one_grey() -> None:
    six: dict[str | None, float] = {f"Op{i}": 10.0 + i for i in range(6)}
    assert OTHER_STYLE not in figure_styles(six).values()
    more = {**six, "AddV2": 1.0, "Add": 1.0, None: 2.0}
    styles = figure_styles(more)
    assert {op for op, look in styles.items() if look == OTHER_STYLE} == {"AddV2", "Add", None}
    assert {op: styles[op] for op in six} == op_styles(six)
    # Two kernels of one operation count once; a colour that is given is kept.
    assert OTHER_STYLE not in figure_styles({**six, "Op5": 0.0, "Op5V2": 1.0}).values()
    assert figure_styles(more, {"Add": "#123456"})["AddV2"] == Style("#123456")


def face_of(ax: Axes, op: str, recording: Recording) -> set[str]:
    """Give the fill colours of the bands as high as an operation's only size."""
    size = max(b.nbytes for b in recording.buffers if b.op == op)
    out = set()
    for collection in ax.collections:
        path: Any
        for path in collection.get_paths():
            high = np.ptp(path.vertices[[0, -2], 1])
            if collection.get_gid() == "bands" and high == size:
                face: Any = collection.get_facecolor()
                out.add(to_hex(face[0]))
    return out


def test_recordings_side_by_side_share_axes_colours_and_one_legend() -> None:
    first, second = Script(), Script()
    first.new(5 * MIB, "Strange")
    first.new(3 * MIB, "MatMul")
    second.new(2 * MIB, "Tanh")
    second.new(5 * MIB, "Strange")
    pair = {"eager": first.done(), "graph": second.done("own label")}
    left, right = timelines(pair)
    assert left.get_ylim() == right.get_ylim()
    assert left.get_xlim() == right.get_xlim()
    faces = [face_of(ax, "Strange", r) for ax, r in zip((left, right), pair.values(), strict=True)]
    assert faces[0] == faces[1]
    assert len(faces[0]) == 1
    assert [ax.get_title(loc="left") for ax in (left, right)] == ["eager", "graph"]
    text = html.unescape(right._repr_html_())
    assert "8 MiB (8,388,608 bytes)" in text
    assert "7 MiB (7,340,032 bytes)" in text
    drawn_ticks_only(left)
    drawn_ticks_only(right)
    assert collisions(texts_of(left.figure)) == []


def test_recordings_of_very_different_length_have_their_own_time() -> None:
    short, long = step(2), step(2)
    left, right = timelines({"a": short, "b": Recording("", 100 * long.seconds, long.buffers)})
    assert left.get_xlim()[1] * 100 == pytest.approx(right.get_xlim()[1])
    assert left.get_ylim() == right.get_ylim()


def test_no_text_of_recordings_side_by_side_is_in_the_way_of_another() -> None:
    cases = {"a": small(), "what is too brief": spike(), "c": negative(), "d": tiny()}
    for count in (1, 2, 3, 4):
        axes = timelines(dict(list(cases.items())[:count]), limit="40 MiB")
        for ax in axes:
            drawn_ticks_only(ax)
        boxes = texts_of(axes[0].figure)
        assert outside(axes[0].figure, boxes) == []
        assert collisions(boxes) == []


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(ValueError, match="give at least one recording"):
        timelines({})


def test_layers_are_drawn_on_top_of_the_bands() -> None:
    s = Script()
    s.new(MIB, "Fill")
    for _ in range(1024):
        s.new(KIB, "Tanh")
    ax: Any = s.done().plot()
    (layer,) = (c for c in ax.collections if c.get_gid() == "layer")
    heights = layer.get_paths()[0].vertices[:, 1]
    # One MiB below, from the first birth on, and 1024 KiB on top of it.
    assert set(heights[heights < MIB]) == {0}
    assert (heights.min(), heights.max()) == (0, 2 * MIB)
    assert sum(heights == MIB) > 1024


# Alternative texts, and how a picture reaches the page


def test_alternative_text_says_what_is_seen_to_the_byte() -> None:
    text = get_alt(step().plot(limit="26 MiB"))
    # 24 MiB of activations, 4 MiB of the first gradient, and the 4 bytes of the sum.
    assert "peak 28 MiB (29,360,132 bytes)" in text
    assert "a training step" in text
    assert "24 buffers of 1 KiB or more" in text
    assert "Tanh 24 MiB (86%)" in text
    assert "train.py:11 4 MiB" in text
    assert "2 MiB (2,097,156 bytes) over the limit of 26 MiB" in text
    before = get_alt(negative().plot())
    assert "2 buffers from before the block, 12 MiB (12,582,912 bytes), freed in it" in before


def test_alternative_text_has_times_only_after_the_sign_for_about() -> None:
    slow = Recording("x", small().seconds * 3, small().buffers)
    one, other = (describe_recording(r) for r in (Recording("x", 6.0, small().buffers), slow))
    assert one != other
    assert re.sub(r"≈ \S+", "≈", one) == re.sub(r"≈ \S+", "≈", other)


def test_the_page_gets_an_image_with_escaped_alternative_text() -> None:
    s = Script()
    s.new(MIB, '<script>alert("op")</script>')
    ax: Any = s.done('<script>alert("$x_1$")</script>').plot()
    assert not any(text.get_parse_math() for text in ax.findobj(mpl.text.Text) if text.get_text())
    page = ax._repr_html_()
    assert page is not None
    assert page.count("<") == 1
    assert page.startswith('<img alt="')
    alt = html.unescape(re.search(r'alt="([^"]*)"', page)[1])  # type: ignore[index]
    assert '<script>alert("$x_1$")</script>' in alt
    assert '<script>alert("op")</script> 1 MiB' in alt
    assert 'src="data:image/png;base64,iVBOR' in page
    assert "max-width:100%" in page


def test_a_picture_is_the_same_each_time() -> None:
    axes: tuple[Any, ...] = step().plot(), step().plot(), step(5).plot()
    one, two, other = axes
    assert png(one.figure) == png(two.figure) == png(one.figure)
    assert png(one.figure) != png(other.figure)
    assert repr(one) == repr(two) == "<Axes: a training step>"
    assert repr(one.figure) == "<Figure: a training step>"


@pytest.mark.parametrize("name", ["step", "many"])
def test_images_are_of_a_sensible_size(name: str) -> None:
    figure: Any = CASES[name]().plot().figure
    assert 1100 <= figure.bbox.width <= 1350
    assert len(png(figure)) < 150_000
    assert to_hex(figure.get_facecolor()) == PAPER
    sizes = [text.get_fontsize() for text in figure.findobj(mpl.text.Text) if text.get_text()]
    assert min(sizes) >= 11


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    from matplotlib import pyplot as plt

    plt.close("all")
    with mpl.rc_context():
        mpl.rcdefaults()
        before = dict(mpl.rcParams)
        ax: Any = step().plot()
        ax._repr_html_()
        step().by_op().plot()
        timelines({"a": small(), "b": step()})
        assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []
    with mpl.rc_context({"font.size": 40, "text.color": "red", "axes.labelcolor": "red"}):
        drawn: Any = step().plot()
        assert png(drawn.figure) == png(ax.figure)


def test_the_users_axes_are_drawn_on_and_returned() -> None:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), dpi=90)
    try:
        place = left.get_position().bounds
        assert step().plot(left) is left
        assert step().by_op().plot(right) is right
        assert left.get_position().bounds == place
        assert left.collections
        assert right.patches
        assert "28 MiB" in get_alt(left)
        assert plt.get_fignums() == [figure.number]
    finally:
        plt.close(figure)


def test_text_outside_the_users_axes_can_be_read_on_a_dark_figure() -> None:
    with mpl.rc_context({"axes.labelcolor": "white"}):
        figure = Figure(figsize=(12, 4), facecolor="black")
        ax = figure.subplots()
    figure.subplots_adjust(right=0.85)
    step().plot(ax, limit="26 MiB")
    words = [*(t for t in ax.texts if t.get_gid() == "margin")]
    words += [t for legend in ax.findobj(mpl.legend.Legend) for t in legend.get_texts()]
    assert len(words) > 4
    assert {to_hex(text.get_color()) for text in words} == {"#ffffff"}
    assert to_hex(names_of(ax)[0].get_color()) == INK


@pytest.mark.child
def test_what_draws_is_loaded_when_it_draws() -> None:
    code = (
        "import sys, lessons_lib; from lessons_lib.common.results import alt_text, draw;"
        "ours = lambda: {m[18:] for m in sys.modules if m.startswith('lessons_lib.plots.')};"
        "before = ours(); made = lessons_lib.Recording(); alt_text(made); print(*ours());"
        "draw(made); print('timeline' in ours())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(out.stdout.splitlines()[0].split()) == {"registry", "alt_text"}
    assert out.stdout.splitlines()[1:] == ["True"]


@pytest.mark.parametrize("result", PICTURES, ids=lambda cls: cls.__name__)
def test_every_result_has_functions_that_draw_and_describe_it(result: type) -> None:
    for place, takes in zip(PICTURES[result], ("ax", "result"), strict=True):
        module, _, name = place.partition(".")
        function = getattr(importlib.import_module(f"lessons_lib.plots.{module}"), name)
        assert takes in (*inspect.signature(function).parameters, "result")
        assert function.__doc__


# Theme


def test_axes_in_a_grid() -> None:
    axes = new_axes(10, 6, 2, 3)
    assert axes.shape == (2, 3)
    assert len({ax.figure for ax in axes.flat}) == 1


def test_texts_are_shortened_to_a_width() -> None:
    assert fit_text("short", 500) == "short"
    cut = fit_text("a long text that does not fit", 100)
    assert cut.endswith("…")
    assert text_size(cut)[0] <= 100 < text_size(cut[:-1] + "mm…")[0]


@pytest.mark.parametrize(
    ("nbytes", "unit"), [(100, "B"), (6 * KIB, "KiB"), (5 * MIB, "MiB"), (3 * 1024 * MIB, "GiB")]
)
def test_the_byte_axis_has_round_numbers_of_a_fitting_unit(nbytes: int, unit: str) -> None:
    s = Script()
    s.new(nbytes)
    ax: Any = s.done().plot()
    assert ax.get_ylabel() == unit
    size = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": 1024 * MIB}[unit]
    for tick, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True):
        assert float(label.get_text().replace("−", "-")) * size == pytest.approx(tick)
        assert len(label.get_text()) <= 5


# Bars


def bar_lengths(ax: Any) -> list[float]:
    return [patch.get_width() for patch in ax.patches if patch.get_gid() == "bar"]


def values_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_gid() == "value"]


def test_bars_are_as_long_as_their_bytes() -> None:
    s = Script()
    s.new(6 * MIB, "Tanh")
    s.free(s.new(2 * MIB, "MatMul"))
    s.free(s.new(3 * MIB, "Mul"))
    ax: Any = s.done().by_op().plot()
    # At the peak (9 MiB): Tanh 6, Mul 3; kept: Tanh 6; allocated: Tanh 6, Mul 3, MatMul 2.
    assert values_of(ax) == [
        *("6 MiB", "3 MiB", "–"),
        *("6 MiB", "–", "–"),
        *("6 MiB", "3 MiB", "2 MiB"),
    ]
    lengths = bar_lengths(ax)
    assert [round(6 * length / lengths[0], 6) for length in lengths] == [6, 3, 6, 6, 3, 2]
    assert "9 MiB (9,437,184 bytes)" in get_alt(ax)


def test_bars_of_a_comparison_go_both_ways() -> None:
    one, two = Script(), Script()
    one.new(6 * MIB, "Tanh", line=1)
    two.new(3 * MIB, "MatMul", line=1)
    ax: Any = one.done("one").diff(two.done("two")).plot()
    assert values_of(ax)[:2] == ["−6 MiB", "+3 MiB"]
    lengths = bar_lengths(ax)
    assert lengths[0] < 0 < lengths[1]
    assert lengths[0] == pytest.approx(-2 * lengths[1])
    assert "peak −3 MiB (6,291,456 to 3,145,728 bytes)" in get_alt(ax)


def test_a_far_larger_column_says_that_its_scale_is_another() -> None:
    s = Script()
    for _ in range(50):
        s.free(s.new(MIB))
    ax: Any = s.done().by_op().plot()
    headings = [text.get_text() for text in ax.texts if text.get_gid() == "heading"]
    assert headings[-1] == "50 MiB, other scale"
    assert headings[1] == "1 MiB together"


@pytest.mark.parametrize("name", ["small", "step", "many", "empty", "one_huge"])
@pytest.mark.parametrize("by", ["op", "line", "diff"])
def test_no_text_of_a_table_is_cut_off_or_covers_another(name: str, by: str) -> None:
    recording = CASES[name]()
    pick: dict[str, Callable[[], Any]] = {
        "op": recording.by_op,
        "line": recording.by_line,
        "diff": lambda: recording.diff(negative()),
    }
    ax: Any = pick[by]().plot()
    boxes = texts_of(ax.figure)
    assert outside(ax.figure, boxes) == []
    assert collisions(boxes) == []


def test_rows_that_do_not_fit_are_added_up() -> None:
    s = Script()
    for i in range(20):
        s.new((20 - i) * KIB, f"Op{i}")
    ax: Any = s.done().by_op().plot(most=4)
    names = [text.get_text() for text in ax.texts if text.get_gid() == "name"]
    assert names == ["Op0", "Op1", "Op2", "… 17 more"]
    assert values_of(ax)[3] == f"{17 * 18 // 2} KiB"
    assert len(bar_lengths(ax)) == 3 * 3


def test_an_empty_table_says_so() -> None:
    assert "nothing was allocated" in get_alt(Breakdown("op", ()).plot())
    same = small().diff(small()).plot()
    assert [text.get_text() for text in same.texts] == ["no operation or line differs"]


def test_the_label_of_the_largest_batch_is_off_the_line() -> None:
    measured = ((1024, 9 * MIB), (2048, 17 * MIB), (1536, 13 * MIB), (1280, 11 * MIB))
    fit = BatchEstimate(12 * MIB, 1280, 1280, 1535, True, 11 * MIB, 11 * MIB, measured)
    ax = fit.plot()
    ax.figure.canvas.draw()
    (label,) = [text for text in ax.texts if text.get_text() == "≈ 1280 examples fit"]
    box = label.get_window_extent()
    dots = ax.transData.transform(measured)
    assert dots[:, 1].min() > box.y1
    assert box.x1 < ax.transData.transform((1280, 0))[0]
