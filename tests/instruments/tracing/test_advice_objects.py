"""Advice on objects that are made anew, and where there is nothing to trace."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.equality import snapshot
from lessons_lib.instruments.tracing import trace_report, watch_retracing
from lessons_lib.instruments.tracing.reasons import Detail, TraceCause
from lessons_lib.instruments.tracing.resolve import RUN_EAGERLY
from tests.support.advised import advice_of, followed, traced


@dataclasses.dataclass(frozen=True)
class Config:
    factor: float


class Polygone:
    """Lives, whatever its name says."""


# --- objects --------------------------------------------------------------------------------------


def test_a_function_made_anew_is_made_once() -> None:
    def body(x: Any, action: Any) -> Any:
        return action(x)

    x = tf.ones([2])
    kept = [lambda x: x + 1 for _ in range(3)]
    advice, results = advice_of(body, [(x, action) for action in kept], 3)
    assert "made anew" in advice
    followed(body, [(x, kept[0])] * 3, results, 1)


def test_functions_that_were_made_for_other_values_are_not_made_anew() -> None:
    def plus(n: int) -> Any:
        return lambda x: x + n

    kept = [plus(1), plus(2)]
    advice, _ = advice_of(lambda x, f: f(x), [(tf.ones([2]), f) for f in kept] * 2, 2)
    assert "anew" not in advice
    assert "pass the same ones again" in advice


@pytest.mark.parametrize("cls", [Polygone, tf.Module])
def test_long_lived_objects_are_not_made_anew(cls: Any) -> None:
    one, two = cls(), cls()
    fn, _ = traced(lambda x, o: x, [(tf.ones([2]), o) for o in (one, two, one, two)])
    report = trace_report(fn)
    assert len(report.traces) == 2
    assert report.traces[1].reason.differences[0].detail is Detail.NONE
    assert "anew" not in report.advice
    assert "gone" not in report.advice
    del one, two


def test_an_object_that_died_is_kept() -> None:
    def body(x: Any, o: Any) -> Any:
        return x

    fn = tf.function(body)
    with watch_retracing() as watch:
        results = [snapshot(fn(tf.ones([2]), Polygone())) for _ in range(3)]
    assert fn.experimental_get_tracing_count() == 3
    for report in (watch.reports[0], trace_report(fn)):
        assert "keep it" in report.advice
        assert report.traces[-1].reason.differences[0].detail is Detail.GONE
    kept = Polygone()
    followed(body, [(tf.ones([2]), kept)] * 3, results, 1)


def test_objects_with_equality_share_traces() -> None:
    def body(x: Any, config: Any) -> Any:
        return x * config.factor

    x, configs = tf.ones([2]), [Config(2.0), Config(3.0), Config(2.0)]
    advice, results = advice_of(body, [(x, config) for config in configs], 2)
    assert "compared by ==, which Config defines" in advice
    # Equal ones, as advised, and a tensor in place of what varies.
    assert traced(body, [(x, configs[0]), (x, configs[2])])[0].experimental_get_tracing_count() == 1
    factors = [(x, tf.constant(config.factor)) for config in configs]
    followed(lambda x, factor: x * factor, factors, results, 1)


# --- where there is nothing to trace --------------------------------------------------------------


def test_a_loaded_function_keeps_its_name_and_its_traces(tmp_path: Any) -> None:
    def mine(x: Any) -> Any:
        return x * 2

    module = tf.Module()
    module.mine = tf.function(mine)
    for size in (2, 3):
        module.mine(tf.ones([size]))
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    with watch_retracing() as watch:
        loaded.mine(tf.ones([2]))
    assert (watch.new_traces, watch.reports) == (0, ())
    assert "1 call of functions that were loaded" in watch.notes[0]
    report = trace_report(loaded.mine)
    assert report.name == "mine"
    assert [trace.signature for trace in report.traces] == ["x: float32[2]", "x: float32[3]"]
    assert "before it is saved" in report.advice
    assert "library" not in report.advice
    # As advised: a signature before it is saved.
    module.mine = tf.function(mine, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / "fixed"))
    fixed = tf.saved_model.load(str(tmp_path / "fixed"))
    assert fixed.mine(tf.ones([3])).shape == [3]
    assert len(trace_report(fixed.mine).traces) == 1
    assert trace_report(fixed.mine).advice == ""


def test_a_watch_says_why_there_are_no_traces_when_functions_run_eagerly() -> None:
    fn = tf.function(lambda x: x + 1)
    tf.config.run_functions_eagerly(True)
    try:
        with watch_retracing() as watch:
            fn(tf.ones([2]))
    finally:
        tf.config.run_functions_eagerly(False)
    assert (watch.new_traces, watch.notes) == (0, (RUN_EAGERLY,))
    with watch_retracing() as watch:
        fn(tf.ones([2]))
    assert (watch.new_traces, watch.notes) == (1, ())
    assert watch.rows[0].trace.cause is TraceCause.FIRST
