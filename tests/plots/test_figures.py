"""Recordings that are drawn side by side share what can be compared."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from lessons_lib.common.units import MIB
from lessons_lib.plots.timeline import timelines
from lessons_lib.recording.recording import Recording
from tests.support.drawn import (
    Script,
    collisions,
    drawn_ticks_only,
    negative,
    outside,
    small,
    spike,
    step,
    texts_of,
    tiny,
)


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
