"""`measure`: how often it calls, and what it says about peaks, kept bytes and traces."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.measure import Measurement, measure, run_once
from tests.support.cases import first_of_each
from tests.support.tensors import ints, nbytes, new, ready, scalar

pytestmark = pytest.mark.slow


class Counted:
    """A function that counts its calls."""

    def __init__(self, *results: Any) -> None:
        self.calls = 0
        self.results = results

    def __call__(self) -> Any:
        self.calls += 1
        return self.results[(self.calls - 1) % len(self.results)] if self.results else None


@pytest.mark.parametrize(
    ("repeats", "warmup"), first_of_each([(2, 5), (1, 0), (1, 1), (3, 1)], keep=2)
)
def test_it_calls_exactly_so_often(repeats: int, warmup: int) -> None:
    counted = Counted()
    found = measure(counted, repeats, warmup)
    assert counted.calls == repeats + warmup
    assert (found.repeats, found.warmup) == (repeats, warmup)
    counted = Counted()
    measure(counted)
    assert counted.calls == 4


def test_peak_and_kept_bytes_by_hand() -> None:
    ready(ints(9), ints(100), scalar())

    def program() -> Any:
        temporary = new(100)
        result = new(9)
        del temporary
        return result

    found = measure(program)
    assert found.peak_bytes == 400 + 36
    assert found.peak_range == (436, 436)
    assert found.kept_bytes == 36
    assert found.recording.allocated_bytes == 436
    assert found.label == found.recording.label == "program"
    assert found.seconds > 0


def test_kept_is_what_the_result_holds_not_what_the_function_keeps_elsewhere() -> None:
    ready(ints(9), ints(100), scalar())
    elsewhere = []

    def program() -> Any:
        elsewhere.append(new(100))
        return [new(9), {"a": (new(9), 3)}]

    found = measure(program)
    assert found.kept_bytes == 72
    assert found.recording.kept_bytes == 472
    elsewhere.clear()


def test_kept_by_a_result_in_a_cycle() -> None:
    class Node:
        def __init__(self, value: Any) -> None:
            self.value, self.itself = value, self

    def program() -> Any:
        Node(new(100))  # garbage of the call, which its result does not keep
        return Node(new(9))

    ready(ints(9), ints(100), scalar())
    assert measure(program, repeats=2).kept_bytes == 36


class Owner:
    """An object in a cycle that holds a tensor, and may hold another owner."""

    def __init__(self, value: Any, child: Any = None) -> None:
        self.value, self.child, self.itself = value, child, self


@pytest.mark.parametrize("wrapped", first_of_each([False, True]))
def test_kept_by_a_result_that_was_there_before(wrapped: bool) -> None:
    ready(ints(9), scalar())
    owners = [Owner(new(9)) for _ in range(3)]

    def program() -> Any:
        return [owners.pop()] if wrapped else owners.pop()

    assert measure(program, repeats=2).kept_bytes == 36
    assert gc.get_freeze_count() < 5000


@pytest.mark.parametrize("warmup", first_of_each([0, 1]))
def test_what_a_call_replaces_in_a_cycle_makes_room_in_it(warmup: int) -> None:
    ready(ints(9), ints(100), scalar())
    state = {"owner": Owner(new(100))}

    def program() -> None:
        del state["owner"]
        gc.collect()
        state["owner"] = Owner(new(100))

    found = measure(program, repeats=2, warmup=warmup)
    # The old one is freed before the new one is made.
    assert found.peak_range == (0, 0)
    assert found.recording.kept_bytes == 0


def test_a_program_that_keeps_objects_frozen_finds_them_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        measure(lambda: Owner(1))
        assert gc.get_freeze_count() > frozen - 1000  # objects die also while they are frozen
    finally:
        gc.unfreeze()


def test_a_result_that_is_held_elsewhere_is_not_freed_with_it() -> None:
    held = new(9)
    assert measure(lambda: held).kept_bytes == 0
    assert measure(lambda: None).kept_bytes == 0


def test_a_list_that_contains_itself() -> None:
    def program() -> Any:
        result: list[Any] = [new(9)]
        result.append(result)
        return result

    ready(ints(9), scalar())
    assert measure(program).kept_bytes == 36


def test_the_worst_call_counts() -> None:
    sizes = iter([5, 100, 9, 7])
    ready(ints(5), ints(100), ints(9), ints(7), scalar())
    found = measure(lambda: new(next(sizes)), repeats=4, warmup=0)
    assert found.peak_bytes == 400
    assert found.peak_range == (20, 400)
    assert found.kept_bytes == 400
    assert found.recording.peak_bytes == 400
    assert repr(found).startswith("<Measurement '<lambda>': peak ≈ 20 to 400 B, ")


def test_traces_of_the_warm_up_are_not_counted() -> None:
    square = tf.function(lambda x: x * x)
    x = new(33, 33)
    assert measure(lambda: square(x)).new_traces == 0
    shapes = iter(range(2, 20))
    grows = tf.function(lambda x: x * x)
    found = measure(lambda: grows(tf.ones([next(shapes)])), repeats=3, warmup=1)
    assert found.new_traces == 3
    assert measure(lambda: square(x)).kept_bytes == nbytes((33, 33))


def test_an_error_of_the_function_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        measure(lambda: 1 / 0)
    with pytest.raises(KeyboardInterrupt):
        measure(lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert measure(lambda: None).peak_bytes == 0


def test_measuring_inside_a_measured_function() -> None:
    ready(ints(9), scalar())
    inner: list[Measurement] = []
    outer = measure(lambda: inner.append(measure(lambda: new(9))), repeats=1, warmup=0)
    assert inner[0].peak_bytes == inner[0].kept_bytes == 36
    assert outer.peak_bytes == 36
    assert outer.kept_bytes == 0


@pytest.mark.parametrize("fn", [None, 3, "x + y", [], tf.constant(1.0)])
def test_what_cannot_be_called(fn: Any) -> None:
    with pytest.raises(TypeError, match="function without arguments"):
        measure(fn)


@pytest.mark.parametrize("instrument", ["measure", "compare", "process_memory"])
def test_nothing_is_measured_where_a_function_is_being_traced(instrument: str) -> None:
    counted = Counted()
    given = {"f": counted} if instrument == "compare" else counted
    inside = tf.function(lambda: getattr(ll, instrument)(given))
    with pytest.raises(RuntimeError, match=f"{instrument} is called while"):
        inside()
    assert counted.calls == 0


@pytest.mark.parametrize("name", ["repeats", "warmup"])
@pytest.mark.parametrize("value", [None, 1.5, "3", True, [], float("nan")])
def test_counts_are_whole_numbers(name: str, value: Any) -> None:
    counted = Counted()
    with pytest.raises(TypeError, match=name):
        measure(counted, **{name: value})
    assert counted.calls == 0


@pytest.mark.parametrize("counts", [{"repeats": 0}, {"repeats": -1}, {"warmup": -1}])
def test_counts_are_not_too_small(counts: dict[str, Any]) -> None:
    counted = Counted()
    with pytest.raises(ValueError, match="at least"):
        measure(counted, **counts)
    assert counted.calls == 0


def test_a_label_is_text() -> None:
    counted = Counted()
    with pytest.raises(TypeError, match="label"):
        measure(counted, label=3)  # type: ignore[arg-type, unused-ignore]
    assert counted.calls == 0
    assert measure(Counted(), label="mine").label == "mine"


def test_it_shows_itself() -> None:
    found = measure(lambda: new(9), label="<b>")
    assert repr(found).startswith("<Measurement '<b>': peak 36 B, kept 36 B, ≈ ")
    page = found._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "1 + 3" in page


def test_the_result_is_gone_after_a_run() -> None:
    class Thing:
        pass

    seen: list[Any] = []

    def program() -> Any:
        thing = Thing()
        seen.append(weakref.ref(thing))
        return thing

    run_once(program)
    gc.collect()
    assert seen[0]() is None
