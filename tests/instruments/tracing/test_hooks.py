"""Traces are counted or hidden, beside other people's wrappers and in spite of faults of ours."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from lessons_lib.common.internals import tracing_compilation
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing import TraceCounter, unobserved, watch_retracing
from lessons_lib.recording.recorder import record
from tests.support.cases import or_further
from tests.support.traced import make


def test_the_counter_counts_every_function_and_only_new_traces():
    one, two = make(), make()
    with TraceCounter() as traces:
        one(tf.ones([1]))
        one(tf.ones([1]))
        two(tf.ones([1]))
    assert traces.count == 2
    with TraceCounter() as traces:
        one(tf.ones([1]))
    assert traces.count == 0


def test_a_counter_inside_itself_and_used_again():
    fn, counter = make(), TraceCounter()
    with counter:
        with counter:
            fn(tf.ones([1]))
        fn(tf.ones([2]))
    fn(tf.ones([3]))
    with counter:
        fn(tf.ones([4]))
    assert counter.count == 4  # the first was made in two blocks at once


def test_own_traces_can_be_hidden():
    fn = make()
    with TraceCounter() as traces, watch_retracing() as watch:
        with unobserved():
            fn(tf.ones([1]))
        fn(tf.ones([2]))
    assert traces.count == watch.new_traces == 1
    assert watch.reports[0].earlier == 1


def test_somebody_elses_wrapper_is_left_in_place(monkeypatch):
    fn, calls = make(), []
    with TraceCounter() as traces:
        ours = tracing_compilation._create_concrete_function

        def theirs(*args, **kwargs):
            calls.append(1)
            return ours(*args, **kwargs)

        monkeypatch.setattr(tracing_compilation, "_create_concrete_function", theirs)
        fn(tf.ones([1]))
    assert tracing_compilation._create_concrete_function is theirs
    with TraceCounter() as again:
        fn(tf.ones([2]))
    assert (traces.count, again.count, len(calls)) == (1, 1, 2)
    monkeypatch.undo()
    assert tracing_compilation._create_concrete_function is ours
    with TraceCounter() as last:
        fn(tf.ones([3]))
    assert last.count == 1


@pytest.mark.parametrize("name", ["contents_of", "signature_of", "calling_line"])
def test_a_fault_of_ours_breaks_nothing(monkeypatch, name):
    from lessons_lib.instruments.tracing import hooks, retracing

    def fail(*args):
        raise RuntimeError("not readable")

    monkeypatch.setattr(retracing if name == "contents_of" else hooks, name, fail)
    fn = make()
    with watch_retracing() as watch, TraceCounter() as traces:
        assert fn(tf.constant([3.0])).numpy().tolist() == [3.0]
    assert traces.count == 1
    if name == "calling_line":
        assert [(row.function, row.line) for row in watch.rows] == [("<lambda>", None)]
    else:
        assert watch.notes == ("1 further trace could not be read.",)


def test_calls_that_raise_in_tracing_are_counted_and_told():
    @tf.function
    def picky(x):
        if x.shape[0] == 2:
            raise ValueError("two")
        return x

    @tf.function
    def outer(x):
        return picky(x)

    def attempt(fn, x):
        with pytest.raises(ValueError, match="two"):
            fn(x)

    with watch_retracing() as watch, TraceCounter() as traces:
        picky(tf.ones([1]))
        for _ in range(3):
            attempt(picky, tf.ones([2]))
        attempt(outer, tf.ones([2]))  # both of them raise
    assert (watch.new_traces, traces.count, watch.failed) == (1, 1, 5)
    note = watch.notes[0]
    assert note.startswith("picky raised ValueError while it was traced, called at test_hooks.py:")
    assert ": 3 calls without a trace" in note
    assert note in watch._repr_html_()
    with watch_retracing() as watch:
        attempt(tf.function(picky), tf.ones([2]))
    assert watch.failed
    assert f"{watch.failed} times a function raised in tracing" in repr(watch)
    assert watch.notes[0] in watch._repr_html_()


def test_a_call_that_raises_as_it_runs_has_its_trace():
    @tf.function
    def checked(x):
        tf.debugging.assert_positive(x)
        return x

    with watch_retracing() as watch:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError):
                checked(-tf.ones([2]))
    assert (watch.new_traces, watch.failed, watch.notes) == (1, 0, ())


def failing(x):
    return x + "text"


def own():
    raise KeyError("the program's own")


def in_callback():
    model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    raising = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: own())
    model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0, callbacks=[raising])


FAILING = {
    "traced": lambda: tf.function(failing)(tf.ones([1])),
    "nested": lambda: tf.function(lambda x: tf.function(failing)(x))(tf.ones([1])),
    "eager": lambda: tf.Variable([1.0]).assign([1.0, 2.0]),
    "own": own,
    "callback": in_callback,
}


def frames(run: Callable[[], Any]) -> list[str]:
    with pytest.raises(Exception) as raised:  # noqa: PT011 (of any kind)
        run()
    return [frame.f_code.co_name for frame, _ in traceback.walk_tb(raised.tb)]


@pytest.mark.parametrize("name", or_further(FAILING, ("traced", "eager", "own")))
def test_what_a_program_raises_shows_no_frames_of_ours(name: str) -> None:
    bare = frames(FAILING[name])
    with record(), watch_retracing():
        assert frames(FAILING[name]) == bare
    assert ("own" in bare) == (name in ("own", "callback"))
