"""How `growth` behaves: arguments, errors, what it leaves behind, how its answer shows itself."""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.common import runtime
from lessons_lib.common.results import alt_text
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause, growth
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.notes import LOSES_REFERENCES
from lessons_lib.instruments.growth.run import takes_number
from lessons_lib.instruments.growth.trend import fit
from tests.support.growing.unit import UNIT, Trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("time_enough")]


def left_behind() -> tuple[bool, bool, int, list[Any]]:
    return gc.isenabled(), tracemalloc.is_tracing(), gc.get_freeze_count(), list(gc.callbacks)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"step": 3}, TypeError, "write a function"),
        ({"step": lambda a, b: None}, TypeError, "requires the arguments a, b"),
        ({"step": lambda *, a: None}, TypeError, "requires the arguments a"),
        ({"step": (lambda: (yield))}, TypeError, "runs nothing"),
        ({"iterations": 2}, ValueError, "iterations is 2"),
        ({"iterations": 10.0}, TypeError, "iterations is 10.0"),
        ({"iterations": True}, TypeError, "iterations is True"),
        ({"warmup": -1}, ValueError, "warmup is -1"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    before = left_behind()
    with pytest.raises(error, match=words):
        growth(**{"step": lambda: None, **arguments})
    assert left_behind() == before


def test_step_gets_the_number_of_the_call_only_when_it_asks() -> None:
    numbers: list[int] = []
    growth(numbers.append, iterations=5, warmup=2)
    assert numbers[:7] == list(range(7))
    assert takes_number(lambda i: None)
    assert not takes_number(lambda: None)
    assert not takes_number(lambda memory=(): None)
    assert not takes_number(lambda *a, **k: None)
    assert takes_number(Trainer(True).step)
    assert takes_number(tf.function(lambda x: x))


def test_clean_step_is_called_exactly_as_often_as_said() -> None:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1

    result = growth(step, iterations=9, warmup=2)
    assert calls == 11
    assert (result.iterations, result.warmup) == (9, 2)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("number", [0, 6])
def test_error_in_the_step_leaves_nothing_changed(error: type[BaseException], number: int) -> None:
    before = left_behind()

    def step(i: int) -> None:
        if i == number:
            raise error("stop")

    with pytest.raises(error, match="stop"):
        growth(step, iterations=6)
    assert left_behind() == before


def test_step_that_ends_early_still_gets_its_answer() -> None:
    kept, data = [], [tf.ones([64, 64]) for _ in range(11)]
    before = left_behind()
    result = growth(lambda i: kept.append(data[i] + 1.0), iterations=8, warmup=3)
    assert left_behind() == before
    assert result.cause == Cause.RETAINED_TENSORS
    assert result.bytes_per_call == UNIT
    assert any("raised IndexError" in note for note in result.notes)


@pytest.mark.further
def test_settings_of_the_program_stay() -> None:
    gc.collect()
    gc.freeze()
    kept: list[Any] = []
    gc.disable()
    tracemalloc.start(3)
    try:
        frozen = gc.get_freeze_count()
        result = growth(lambda: kept.append(tf.ones([64, 64])), iterations=6)
        assert result.cause == Cause.RETAINED_TENSORS
        # What the program froze is hidden from the collector, and so from the search for names.
        assert result.holder.startswith("kept")
        assert not gc.isenabled()
        # Nothing was frozen or thawed; a few frozen objects may have died.
        assert frozen - 1000 < gc.get_freeze_count() <= frozen
        assert tracemalloc.get_traceback_limit() == 3
    finally:
        tracemalloc.stop()
        gc.enable()
        gc.unfreeze()


def test_nothing_of_the_program_is_kept_alive() -> None:
    class Owner:
        pass

    def run() -> list[weakref.ref[Any]]:
        owner = Owner()
        owner.kept = []  # type: ignore[attr-defined]

        def step() -> None:
            owner.kept.append(tf.ones([64, 64]))  # type: ignore[attr-defined]

        result = growth(step, iterations=6)
        assert result.cause == Cause.RETAINED_TENSORS
        refs = [weakref.ref(owner), weakref.ref(owner.kept[0]), weakref.ref(step)]  # type: ignore[attr-defined]
        results.append(result)
        return refs

    results: list[Any] = []
    refs = run()
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
    assert results[0].holder.endswith("tf.Tensor")


def test_growth_does_not_grow_itself() -> None:
    def inner() -> None:
        growth(lambda: tf.ones([4]), iterations=5, warmup=0)

    result = growth(inner, iterations=6, warmup=2)
    assert result.cause == Cause.NONE, list(result.evidence)


def test_fork_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "home_process", os.getpid() + 1)
    with pytest.raises(RuntimeError, match="forked"):
        growth(lambda: None)


@pytest.mark.further
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident set size")
@pytest.mark.skipif(LOSES_REFERENCES, reason="this TensorFlow leaks with each tensor")
def test_growth_within_a_recording_leaves_out_what_the_recording_takes() -> None:
    x, kept = tf.ones([64, 64]), list[Any]()

    def many_operations() -> None:
        for _ in range(300):
            tf.tanh(x)

    with ll.record():
        clean = growth(many_operations, iterations=6)
        grows = growth(lambda: kept.append(tf.tanh(x)), iterations=6)
    assert clean.cause == Cause.NONE
    assert "A recording is open" in clean.notes[0]
    assert not clean.evidence.c_heap.known
    assert grows.bytes_per_call == 64 * 64 * 4
    assert "kept (list)" in grows.holder
    outside = growth(many_operations, iterations=6)
    assert not any("A recording is open" in note for note in outside.notes)


def test_answer_shows_itself() -> None:
    history: list[Any] = []
    result = growth(lambda: history.append(tf.ones([64, 64])), iterations=6)
    assert repr(result) == (
        "<Growth of <lambda>: retained tensors, 16 KiB per call; history (list) → tf.Tensor>"
    )
    html = result._repr_html_()
    assert "history (list) → tf.Tensor" in html
    assert "[64, 64]" in html
    assert "&lt;lambda&gt;" in html
    assert "<lambda>" not in html
    text = alt_text(result)
    assert "16 KiB per call, held by history (list) → tf.Tensor" in text
    assert "live tensors +1 a call" in text
    evidence = result.evidence._repr_html_()
    assert "live tensors" in evidence
    ax = result.plot()
    assert ax.get_title(loc="left").splitlines()[-1] == "history (list) → tf.Tensor"
    assert ax.lines
    drawn = {label.get_text().rpartition(" ≈ +")[0] for label in ax.texts}
    assert "tensor bytes" in drawn


def test_answer_of_none_shows_itself() -> None:
    result = growth(lambda: tf.ones([4]), iterations=6)
    assert repr(result) == "<Growth of <lambda>: none in 6 calls>"
    assert result.holder == ""
    # What other tests left in the C heap may rise a little; then it is named.
    flat = fit("C heap", "bytes", np.ones(6), np.ones(4))
    rising = fit("C heap", "bytes", np.arange(6.0), np.ones(4))
    calm = replace(result, evidence=Evidence(*[flat] * len(list(result.evidence))))
    assert "Nothing grew in 6 calls" in calm._repr_html_()
    restless = replace(result, evidence=replace(calm.evidence, c_heap=rising))
    assert "Nothing grew" not in restless._repr_html_()
    assert "too little to be growth: C heap" in restless._repr_html_()
    assert "do not grow" in alt_text(result)
    assert result.plot().get_title(loc="left") == "<lambda>: nothing grows"
    assert "Not seen" in result.notes[-1]


@pytest.mark.parametrize(
    ("every", "thing", "holder"),
    [
        (3, lambda: tf.fill([64, 64], 1.0), "kept (list) → tf.Tensor"),
        pytest.param(5, lambda: {"a": [[] for _ in range(99)]}, "kept (list) → dict",
                     marks=pytest.mark.further),
        pytest.param(1, lambda: tf.fill([64, 64], 1.0), "kept (list) → tf.Tensor",
                     marks=pytest.mark.further),
    ],
)  # fmt: skip
def test_what_is_kept_now_and_then_has_its_holder(every: int, thing: Any, holder: str) -> None:
    kept: list[Any] = []
    calls = []

    def step(i: int) -> None:
        calls.append(i)
        if i % every == 0:
            kept.append(thing())

    found = growth(step, iterations=15, warmup=2)
    (held,) = found.causes[0].held
    assert held.holder == holder
    assert held.per_call == 1 / every
    assert len(calls) <= 17 + 13 * every
    if held.shape:
        assert found.causes[0].bytes_per_call == round(64 * 64 * 4 / every)
