"""`peak`, `in_graph` and `sweep`: figures from arithmetic, laws, and what is said of noise."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lessons_lib.common.results import alt_text
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import KIB, MIB, Unit, plain_units, use_unit
from lessons_lib.instruments.laws import fitted
from lessons_lib.instruments.peak import Peak, in_graph, peak
from lessons_lib.instruments.sweep import sweep
from lessons_lib.instruments.tracing import TraceCounter

S = 256 * KIB


@pytest.fixture(autouse=True)
def counted_in_s() -> Iterator[None]:
    use_unit(Unit("S", S))
    yield
    use_unit(None)


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.fill([256, 256], 0.5)


def test_peak_is_that_of_the_second_call(x: Any) -> None:
    kept: list[Any] = []

    def first_call_takes_more() -> Any:
        if not kept:
            kept.append(tf.ones([1024, 1024]))
        return x + x

    found = peak(first_call_takes_more)
    assert found.peaks == (S,)
    assert (found.units, found.kept_bytes, found.allocated_bytes) == (1.0, S, S)
    assert str(found) == repr(found) == "1 S"


def test_arguments_are_handed_on(x: Any) -> None:
    found = peak(lambda a, *, times: tf.repeat(a, times, axis=0), x, times=3)
    assert found.units == 3


def test_garbage_of_earlier_work_is_not_counted(x: Any) -> None:
    def call() -> Any:
        gc.collect()
        return x + x

    ring: list[Any] = [tf.ones([256, 256])]
    ring.append(ring)
    del ring
    assert peak(call).peaks == (S,)


def test_eager_calls_are_measured_once_and_graphs_three_times(x: Any) -> None:
    calls = []

    def counted(a: Any) -> Any:
        calls.append(1)
        return tf.tanh(a @ a)

    peak(counted, x)
    assert len(calls) == 1 + 1
    calls.clear()
    graph = tf.function(lambda a: tf.tanh(a @ a))
    found = peak(lambda: (calls.append(1), graph(x))[1])
    assert len(calls) == 1 + 3
    assert len(found.peaks) == 3
    calls.clear()
    peak(counted, x, repeats=5)
    assert len(calls) == 1 + 5


@pytest.mark.parametrize(
    ("peaks", "noisy", "text"),
    [
        ((3 * S, 3 * S), False, "3 S"),
        ((3 * S, 3 * S), True, "≈ 3 S"),
        ((3 * S, 3 * S + 8), True, "≈ 3 S"),
        ((26 * S, 30 * S), True, "≈ 26 to 30 S"),
        ((8, 2 * S), True, "≈ 8 B to 2 S"),
    ],
)
def test_what_is_noisy_says_so(peaks: tuple[int, ...], noisy: bool, text: str, x: Any) -> None:
    found = dataclasses.replace(peak(lambda: x + x), peaks=peaks, noisy=noisy)
    assert str(found) == text
    assert f">{text}</td>" in found._repr_html_()


def test_outside_of_lessons_figures_are_in_mib(x: Any) -> None:
    with plain_units():
        found = peak(lambda: x + x)
        assert (str(found), found.units) == ("256 KiB", 0.25)


@pytest.mark.parametrize("call", [peak, in_graph])
def test_a_result_is_no_function(call: Any, x: Any) -> None:
    with pytest.raises(TypeError, match="not ll"):
        call(x)


def test_graph_is_traced_once_for_each_set_of_numbers(x: Any) -> None:
    def power(h: Any, n: int) -> Any:
        for _ in range(n):
            h = h @ x
        return h

    graph = in_graph(power)
    with TraceCounter() as traces:
        for n in (2, 3, 2, 3):
            assert float(graph(x, n)[0, 0]) == pytest.approx(float(power(x, n)[0, 0]))
        graph(x + 1.0, 2)
    assert traces.count == 2
    assert graph.operations(x, 5) - graph.operations(x, 4) == 1  # a matmul a step
    assert repr(graph) == "<power in a graph>"


def keep_all(x: Any, n: int) -> list[Any]:
    return [x + float(i) for i in range(n)]


def concat(x: Any, n: int) -> Any:
    rows = (x + 0.0)[None]
    for i in range(1, n):
        rows = tf.concat([rows, (x + float(i))[None]], axis=0)
    return rows


def test_sweep_gives_figures_and_laws(x: Any) -> None:
    found = sweep(
        {"a list": lambda n: keep_all(x, n), "a sum": lambda n: sum(keep_all(x, n))}, n=(5, 10, 40)
    )
    assert found["a list"].values == {5: 5, 10: 10, 40: 40}
    assert found["a list"].law == "n"
    assert found["a list"][40] == 40
    assert found["a sum"].law == "n + 2"
    assert found.laws == "a list: n S; a sum: (n + 2) S"
    assert repr(found).splitlines() == [
        "peak in S  n = 5  n = 10  n = 40  law",
        "a list         5      10      40  n",
        "a sum          7      12      42  n + 2",
    ]
    assert "n + 2" in found._repr_html_()
    with pytest.raises(KeyError, match="choose one of 'a list', 'a sum'"):
        found["a set"]


def test_sweep_follows_what_is_allocated_or_kept(x: Any) -> None:
    functions = {"concat": lambda n: concat(x, n)}
    allocated = sweep(functions, n=(5, 10, 20, 40), quantity="allocated")["concat"]
    assert all(allocated[n] == n + n * (n + 1) / 2 - 1 for n in (5, 10, 20, 40))
    assert allocated.law == "0.5 n² + 1.5 n − 1"
    assert sweep(functions, rows=(2, 4, 8), quantity="kept")["concat"].law == "rows"


def test_law_of_what_is_small_has_a_unit_of_its_own(x: Any) -> None:
    losses = {"losses": lambda n: [tf.reduce_sum(x) for _ in range(n)], "none": lambda n: None}
    found = sweep(losses, n=(5, 10, 40), quantity="kept")
    assert (found["losses"].law, found["losses"].small) == ("0", "4 n B")
    assert (found["none"].law, found["none"].small) == ("0", "")
    assert found.laws == "losses: 4 n B; none: 0 S"
    assert repr(found).splitlines()[1].split() == ["losses", *"20 B 40 B 160 B 4 n B".split()]


def test_a_law_gives_the_figures_beside_it() -> None:
    column, row = tf.ones([320, 1]), tf.ones([1, 320])
    functions = {
        "a square and rows": lambda n: (column[:n] + row[:, :n], tf.tile(row[:, :1], [100, n])),
        "a square": lambda n: column[:n] + row[:, :n],
        "MiB": lambda n: tf.tile(row[:, :1], [2**12, n]),
    }
    with plain_units():
        found = sweep(functions, n=(64, 128, 192, 320), quantity="kept")
    assert [curve.law_in(found.unit) for curve in found] == [
        "(4 n² + 400 n) B",
        "4 n² B",
        "16 n KiB",
    ]
    assert found["a square"].nbytes == {n: 4 * n * n for n in (64, 128, 192, 320)}
    assert found["a square"].coefficients == pytest.approx((4 / MIB, 0, 0), abs=1e-9)


def test_small_figures_are_not_taken_for_equal_ones() -> None:
    small = {10: 0.010, 20: 0.015, 40: 0.020}
    assert fitted(small, "n").about
    assert not fitted(dict.fromkeys(small, 0.015), "n").about
    # 1 KiB more each time, of MiB.
    noisy = fitted({n: n / 1024 for n in (10, 20, 40)}, "n", noisy=True)
    assert noisy.written() == ("≈ 0.0 n", False)
    assert noisy.written(1024) == ("≈ 1.0 n", True)


@pytest.mark.parametrize(
    ("figures", "law"),
    [
        ({5: 3, 10: 3, 40: 3}, "3"),
        ({5: 0, 10: 0}, "0"),
        ({5: 5, 10: 10, 40: 40}, "n"),
        ({5: 4, 10: 9, 40: 39}, "n − 1"),
        ({5: 2.5, 10: 5, 40: 20}, "0.5 n"),
        ({1: 1, 2: 4, 3: 9, 4: 16}, "n²"),
        ({1: 1, 2: 4, 3: 9}, "≈ 4.0 n − 3.3"),  # a parabola goes through any three points
        ({1: 1, 2: 2}, "≈ 1.0 n"),  # and a line through any two
        ({1: 3, 2: 3}, "3"),
        ({5: 5, 10: 11, 15: 15}, "≈ 1.0 n + 0.3"),
        # What is written gives the figures, too.
        ({n: n * n / 64 for n in (2, 4, 6, 8)}, "0.0156 n²"),
        ({n: n * 4 / 1024 for n in (100, 200, 1000)}, "0.0039 n"),
        ({n: n / 3 + 1 for n in (3, 9, 90)}, "0.333 n + 1"),
        ({100: 5, 200: 9, 1000: 41.2}, "≈ 0.04 n + 0.97"),
        ({5: 0.0003, 10: 0.0006, 40: 0.0024}, "0"),  # the law of what is small has its unit
    ],
)
def test_a_law_is_said_only_where_it_goes_through_all_points(
    figures: dict[int, float], law: str
) -> None:
    assert fitted(figures, "n").written().text == law


def test_noisy_laws_keep_their_form() -> None:
    assert fitted({5: 5, 10: 10, 40: 40}, "n", noisy=True).written().text == "≈ 1.0 n"
    assert fitted({5: 7, 10: 7, 40: 7}, "n", noisy=True).written().text == "≈ 7.0"


def test_laws_of_other_terms() -> None:
    terms = {"n/k": lambda k: 64 / k, "k": lambda k: k, "": lambda k: 1.0}
    figures = {k: 64 / k + k + 3 for k in (1, 4, 8, 16)}
    assert fitted(figures, "k", terms=terms).written().text == "n/k + k + 3"
    assert fitted(figures | {64: 80}, "k", terms=terms).about


@pytest.mark.parametrize(
    ("functions", "options", "message"),
    [
        ({}, {"n": (1, 2)}, "takes a dict of functions"),
        ([len], {"n": (1, 2)}, "takes a dict of functions"),
        ({"a": 3}, {"n": (1, 2)}, "is no such pair"),
        ({"a": len}, {}, "follows one parameter"),
        ({"a": len}, {"n": (1, 2), "k": (1, 2)}, "follows one parameter"),
        ({"a": len}, {"n": (3,)}, "give at least two"),
        ({"a": len}, {"n": (1, 2.5)}, "no whole number"),
        ({"a": len}, {"n": (1, 2), "quantity": "time"}, "give one of 'peak', 'kept'"),
    ],
)
def test_what_cannot_be_swept(functions: Any, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        sweep(functions, **options)


def test_pictures_say_what_they_show(x: Any) -> None:
    found = sweep({"a list": lambda n: keep_all(x, n)}, n=(5, 10, 40))
    ax = found.plot(xlabel="steps n")
    assert alt_text(found) == "Peak in S at n = 5, 10, 40. a list: 5, 10, 40 (law: n)."
    assert ax.get_xlabel() == "steps n"
    assert ax.get_ylabel() == "peak in S"
    assert [text.get_text() for text in ax.texts] == ["a list: n S"]
    lines: Any = ax.lines
    line, marks = lines
    assert list(marks.get_ydata()) == [5 * S, 10 * S, 40 * S]
    assert line.get_ydata()[-1] == pytest.approx(40 * S)
    assert "peak 1 S" in alt_text(peak(lambda: x + x))


def test_bars_have_their_figures(x: Any) -> None:
    from lessons_lib.plots.theme import get_alt
    from lessons_lib.teaching import bars

    found: Peak = peak(lambda: x + x)
    ax = bars({"held": 4 * S, "peak": found}, title="Two", xlabel="memory")
    assert [bar.get_width() for bar in ax.patches] == [4 * S, S]
    assert ax.get_xlabel() == "memory in S"
    assert get_alt(ax) == "Bars. Two: held 4 S, peak 1 S."
    with plain_units():
        noisy = bars({"grown": 3 * MIB}, noisy=True)
    assert get_alt(noisy) == "Bars. grown ≈ 3 MiB."
