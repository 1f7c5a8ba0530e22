"""How a picture reaches the page, in our look, and leaves matplotlib as it was."""

from __future__ import annotations

import html
import re
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lessons_lib.common.units import KIB, MIB
from lessons_lib.plots.alt_text import describe_recording
from lessons_lib.plots.colours import (
    INK,
    PAPER,
)
from lessons_lib.plots.theme import fit_text, get_alt, new_axes, png, text_size
from lessons_lib.plots.timeline import timelines
from lessons_lib.recording.recording import Recording
from tests.support.drawn import (
    CASES,
    Script,
    names_of,
    negative,
    small,
    step,
)


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


@pytest.mark.slow
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
