"""Bars are as long as their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.axes import Axes

from lessons_lib.common.units import KIB, MIB
from lessons_lib.plots.theme import get_alt
from lessons_lib.recording.breakdown import Breakdown
from tests.support.drawn import (
    CASES,
    Script,
    collisions,
    negative,
    outside,
    small,
    texts_of,
)


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
