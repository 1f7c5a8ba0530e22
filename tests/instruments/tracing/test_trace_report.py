"""The report of a function's traces as a thing: frozen, a table, a picture."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from lessons_lib.common.results import alt_text
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import MIB
from lessons_lib.instruments.tracing import TraceCause, trace_report, watch_retracing
from lessons_lib.plots.traces import describe_traces, describe_watch
from tests.support.traced import make, plain, table


def test_results_are_frozen():
    fn = make()
    with watch_retracing() as watch:
        fn(tf.ones([1]))
    report = trace_report(fn)
    for thing, name in ((report, "name"), (report.traces[0], "number"), (watch, "reports")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)


def test_the_table_folds_alike_traces_and_escapes():
    fn = tf.function(lambda x, text: x)
    for number in range(30):
        fn(tf.ones([1]), f"<b>{number}</b>")
    page = trace_report(fn)._repr_html_()
    assert page.count("<tr>") == 1 + 1 + 2 + 1 + 1  # head, first, two, folded, last
    assert "… 26 more" in page
    assert "<b>" not in page


def test_the_picture_adds_up_and_says_what_it_shows():
    from lessons_lib.plots.theme import get_alt

    array = table()
    fn = tf.function(lambda x, k: array * x)
    for number in range(4):
        fn(tf.constant(1.0), number)
    fn(tf.constant(1.0, tf.float32), 0.5)
    report = trace_report(fn)
    text = alt_text(report)
    ax = report.plot()
    assert sum(bar.get_width() for bar in ax.patches) == report.graph_bytes
    hatched = [bar for bar in ax.patches if bar.get_hatch()]
    assert sum(bar.get_width() for bar in hatched) == report.constant_bytes == 5 * MIB
    assert len(ax.get_yticklabels()) == 2  # the four that follow are alike
    assert get_alt(ax) == text
    assert "5 traces" in text
    assert "traces 2–5: k: Python value" in text
    assert text == describe_traces(report)
    assert 'alt="Traces of' in ax._repr_html_()


def test_few_traces_have_a_row_each():
    fn = make()
    for size in range(1, 5):
        fn(tf.ones([size]))
    assert len(trace_report(fn).plot().get_yticklabels()) == 4
    fn(tf.ones([5]))
    assert len(trace_report(fn).plot().get_yticklabels()) == 2


def test_the_picture_of_a_block_counts_traces():
    fn, other = make(), tf.function(plain)
    with watch_retracing() as watch:
        for size in range(1, 5):
            fn(tf.ones([size]))
        other(tf.ones([1]))
    ax = watch.plot()
    assert sum(bar.get_width() for bar in ax.patches) == watch.new_traces == 5
    text = alt_text(watch)
    assert text == describe_watch(watch)
    assert "3 shape" in text
    assert all("≈" in part for part in text.split(". ")[1:])


@pytest.mark.slow
def test_a_thousand_traces_are_reported():
    fn = tf.function(lambda a, b: tf.constant(0), autograph=False)
    for number in range(300):
        fn(number, number % 7)
    report = trace_report(fn)
    assert len(report.traces) == 300
    assert report.traces[299].reason.nearest == 293  # the latest with the same b: 299 − 7 + 1
    assert {trace.cause for trace in report.traces[1:]} == {TraceCause.VALUE}


def test_the_table_of_a_block_has_a_row_for_each_function():
    fn, other = make(), tf.function(plain)
    with watch_retracing() as watch:
        for size in (1, 2):
            fn(tf.ones([size]))
        other(tf.ones([1]))
    page = watch._repr_html_()
    assert page.count("<tr>") == 1 + 2
    assert "first × 1" not in page
    assert "first, shape" in page
    with pytest.raises(KeyError, match=r"no function named other was traced.*plain"):
        watch.report("other")
    with watch_retracing() as nothing:
        pass
    assert nothing._repr_html_() == "<p>no function was traced in the block</p>"


def test_constants_and_captures_have_their_sizes():
    array, tensors = table(), [tf.fill([200], float(i)) for i in range(5)]
    fn = tf.function(lambda x: (array * x, tf.add_n(tensors)))
    fn(tf.constant(1.0))
    page = trace_report(fn)._repr_html_()
    assert "1 MiB (test_trace_report.py:" in page
    assert "2 more 1.562 KiB" in page  # 2 · 200 · 4 bytes


class Point(NamedTuple):
    x: Any
    scale: int


def test_named_tuples_are_told_apart_by_their_fields():
    fn = tf.function(lambda point: point.x)
    for scale in (2, 3):
        fn(Point(tf.ones([1]), scale))
    (found,) = trace_report(fn).traces[1].reason.differences
    assert (found.argument, found.before, found.now) == ("point.scale", "2", "3")
