"""A timeline's texts lie where they can be read, and say what they are about."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from lessons_lib.common.units import KIB, MIB
from lessons_lib.plots.colours import op_styles
from lessons_lib.plots.legend import plan_strip
from lessons_lib.plots.theme import get_alt
from lessons_lib.recording.breakdown import buffers_html
from lessons_lib.recording.buffers import NOT_WATCHED
from lessons_lib.recording.recording import Recording
from tests.support.drawn import (
    CASES,
    Script,
    collisions,
    drawn_ticks_only,
    legend_words,
    names_of,
    negative,
    outside,
    rested,
    small,
    spike,
    step,
    texts_of,
)


@pytest.mark.each_value
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


def test_the_legend_tells_what_nobody_watched_from_what_is_unknown() -> None:
    s = Script()
    for kind in ("temp", NOT_WATCHED):  # too brief to be named in place
        s.free(s.new(4 * MIB, None, kind=kind))
    recording = s.done(seconds=1000.0)
    assert legend_words(recording.plot().figure) == ["not watched", "unknown"]
    styles = op_styles(row.key for row in recording.by_op().rows)
    assert set(styles) == {"not watched", "unknown"}
    assert styles["not watched"] != styles["unknown"]
    table = buffers_html(recording.buffers)
    assert table.count("not watched") == table.count("unknown") == 2  # the operation and the line


def test_entries_that_do_not_fit_are_counted() -> None:
    strip = plan_strip([(f"entry {i}", None) for i in range(60)], 400, most_rows=2)
    shown = [text for row in strip.rows for text, _ in row]
    assert len(strip.rows) == 2
    assert shown[-1] == f"… {60 - (len(shown) - 1)} more"


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


def test_the_time_that_nobody_watched_is_covered_and_its_count_drawn() -> None:
    recording = rested()
    assert recording.counted_bytes == 6 * MIB > recording.peak_bytes == 4 * MIB
    ax = recording.plot()
    drawn: dict[Any, Any] = {a.get_gid(): a for a in (*ax.collections, *ax.lines, *ax.artists)}
    assert drawn["unwatched"].get_paths()[0].get_extents().intervalx.tolist() == [2.5, 4.5]
    assert drawn["counted"].get_ydata().tolist() == [6 * MIB, 4 * MIB]
    times, live = drawn["total"].get_xdata(), drawn["total"].get_ydata()
    assert times[np.isnan(live)].tolist() == [2.5]
    assert live[times == 4.5].tolist() == [0.0]  # freed at 4, unseen
    assert ax.get_ylim()[1] > 6 * MIB
    legend = [text.get_text() for text in drawn["legend"].get_texts()]
    assert "not watched: the allocator's count, up to ≈ 6 MiB" in legend
    assert "Not watched: ≈ 22% of the time" in get_alt(ax)
    assert not [c for c in small().plot().collections if c.get_gid() == "unwatched"]
