"""What looks like growth and is none; and what grows only where nobody collects garbage."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause
from tests.support.growing import harmless, holding
from tests.support.growing.looking import CALLS, clean, explain, look
from tests.support.growing.unit import UNIT, Trainer, unit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("time_enough")]


@pytest.mark.parametrize(
    "maker",
    [
        lambda: functools.partial(harmless.one_time_step, store={}),
        harmless.sawtooth,
        harmless.fills_up,
        lambda: harmless.cycles,
        lambda: harmless.failing_quietly,
        harmless.log_of_numbers,
    ],
    ids=["one time", "saw-tooth", "fills up", "cycles", "errors", "log"],
)
def test_what_looks_like_growth_is_none(maker: Any) -> None:
    result = look(maker(), iterations=30)
    assert result.cause == Cause.NONE, explain(result)
    assert not result.causes
    assert not result.grows


def test_one_time_step_is_said() -> None:
    result = look(functools.partial(harmless.one_time_step, store={}), iterations=20)
    # Calls 8 and 9 are the measured calls 7 and 8, after two of warm-up.
    text = "The live tensors rose by 2 until call 8 and stayed there"
    assert any(note.startswith(text) for note in result.notes)
    first: list[Any] = []
    early = look(lambda i: first or first.append(tf.ones([256, 256])))
    assert "The first calls added 1 to the live tensors" in " ".join(early.notes)


@pytest.mark.further
def test_an_old_dictionary_that_begins_to_be_tracked_is_not_new() -> None:
    names = dict.fromkeys(map(str, range(1000)), 1)
    gc.collect()
    assert not gc.is_tracked(names)  # numbers and texts are in no cycle
    keep, log = holding.attribute(True), list[Any]()

    def step(i: int) -> None:
        keep(i)
        log.append({"step": i, "warnings": []})  # there are more dictionaries after each call
        if i == CALLS + 2:  # the first of the calls in which it is seen what stays
            names["0"] = []  # type: ignore[assignment]

    result = look(step)
    assert [f.cause for f in result.causes] == [Cause.RETAINED_TENSORS], explain(result)
    assert gc.is_tracked(names)


def never() -> None:
    gc.set_threshold(0)


@pytest.mark.further
@pytest.mark.parametrize("switch_off", [gc.disable, never])
def test_cycles_grow_where_nobody_collects_garbage(switch_off: Callable[[], None]) -> None:
    threshold = gc.get_threshold()

    def objects(i: int) -> None:
        holder = Trainer(False)
        holder.saved += [holder, "x" * 5000 + str(i)]

    try:
        switch_off()
        result = look(harmless.cycles)
        assert [f.cause for f in result.causes] == [Cause.RETAINED_TENSORS], explain(result)
        assert result.bytes_per_call == UNIT
        assert result.holder.startswith("a reference cycle that nobody collects"), explain(result)
        others = look(objects)
        assert [f.cause for f in others.causes] == [Cause.PYTHON_OBJECTS], explain(others)
        assert "switched off" in others.causes[0].text
        assert clean(look(lambda i: unit(i)))
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
        gc.collect()
    assert clean(look(harmless.cycles))


def test_garbage_in_cycles_is_said() -> None:
    def step(_: int) -> None:
        holder = Trainer(True)
        holder.saved += [holder, tf.ones([256, 256])]

    result = look(step)
    assert result.cause == Cause.NONE, explain(result)
    assert any("reference cycles" in note for note in result.notes)
