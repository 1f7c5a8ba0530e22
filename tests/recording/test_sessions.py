"""Long recordings: cut into sessions and folded, they say what they would have said uncut."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lessons_lib.common.runtime import tf
from lessons_lib.recording import exactness, gradient_calls, lifetimes, recorder
from lessons_lib.recording.gate import Gate
from lessons_lib.recording.lifetimes import Ledger
from lessons_lib.recording.pacing import Rest
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.session import SESSION_EVENTS, Session
from lessons_lib.recording.session_checks import SessionCheck
from tests.support.exactness import CHECKS, Check
from tests.support.programs import Dropped, Graph, Loop, Machine, New, Program, Tape
from tests.support.random_programs import programs
from tests.support.sessions import cut_after
from tests.support.tensors import ints, new, ready, scalar


def figures(recording: Recording) -> dict[str, Any]:
    """Everything that a recording is asked for, but its times."""
    return {
        "peak": recording.peak_bytes,
        "kept": recording.kept_bytes,
        "allocated": recording.allocated_bytes,
        "by op": recording.by_op(),
        "by line": recording.by_line(),
        "by category": recording.by_category(),
        "by layer": recording.by_layer(),
        "at the peak": [(b.nbytes, b.site) for b in recording.at_peak()],
        "kept buffers": [
            (b.nbytes, b.site)
            for b in recording.buffers
            if b.freed_at is None or b.allocated_at is None
        ],
        "in all": recording.buffers.total,
        "exact": recording.exact,
    }


def recorded(program: Program, how: contextlib.AbstractContextManager[Any]) -> Recording:
    """Record a program that was run before."""
    machine = Machine()
    with how, record() as recording:
        machine.run(program)
    return recording


@pytest.mark.slow
@settings(max_examples=30)
@given(program=programs(8), events=st.integers(1, 120), rows=st.integers(1, 30))
@example((New("a", (7, 7), "float32"), Tape("a", None, 9, "t")), 20, 4)
@example((New("a", (31,), "float32"), Loop("a", 30), Graph("b", "a", 5)), 60, 8)
@example((New("a", (), "float32"), Dropped("a", "a", 1)), 1, 1)
def test_what_is_cut_is_as_uncut(program: Program, events: int, rows: int) -> None:
    Machine().run(program)
    ways = (contextlib.nullcontext(), cut_after(events, rows))
    whole, cut = (recorded(program, how) for how in ways)  # from one line: chains show it
    assert figures(cut) == figures(whole)
    assert max(cut.timeline()[1]) == whole.peak_bytes
    assert cut.timeline()[1][-1] == whole.kept_bytes


#: Whether a thread waits in front of the gate for too long is chance.
_IN_THREADS = "threads"


_ALONE = {name: check for name, check in CHECKS.items() if name != _IN_THREADS}


@pytest.mark.parametrize("check", _ALONE.values(), ids=_ALONE)
def test_the_recorder_is_exact_when_it_is_cut(check: Check) -> None:
    with cut_after(1):
        check(record)


def test_threads_that_are_cut_are_exact_or_it_is_said() -> None:
    made: list[Recording] = []

    @contextlib.contextmanager
    def kept(*args: Any, **kwargs: Any) -> Iterator[Recording]:
        with record(*args, **kwargs) as recording:
            made.append(recording)
            yield recording

    with cut_after(1):
        try:
            CHECKS[_IN_THREADS](kept)
        except AssertionError:
            assert not made[-1].exact
            assert made[-1].notes
        else:
            assert made[-1].exact


def test_a_long_loop_is_cut_and_folded() -> None:
    x, c = new(9), scalar(2.0)
    ready(ints(3))
    with cut_after(400, 100) as cuts, record() as recording:
        kept = [new(3)]
        for i in range(500):
            y = x * c
            if i == 300:
                z = x * c
        del y
    assert len(cuts) > 20
    assert recording.exact
    assert recording.peak_bytes == 12 + 3 * 36
    assert (recording.kept_bytes, recording.allocated_bytes) == (12 + 36, 12 + 501 * 36)
    assert len(recording.buffers) <= 100 < recording.buffers.total == 502
    assert [b.nbytes for b in recording.at_peak()] == [36, 36, 36, 12]
    (row,) = (row for row in recording.by_line().rows if "y = x * c" in row.line.text)  # type: ignore[union-attr]
    assert (row.buffers, row.allocated_bytes) == (500, 500 * 36)
    del z, kept


def test_recordings_inside_a_long_one() -> None:
    x, c = new(9), scalar(2.0)
    with cut_after(200, 40), record() as outer:
        keep = []
        inner = []
        for _ in range(10):
            old = keep[-1:]
            with record() as recording:
                for _ in range(50):
                    y = x * c
                keep.append(y)
                del old[:], y
            inner.append(recording)
    assert [(r.peak_bytes, r.kept_bytes, r.exact) for r in inner] == [(72, 36, True)] * 10
    assert (outer.kept_bytes, outer.peak_bytes, outer.allocated_bytes) == (360, 396, 500 * 36)
    assert outer.exact


def test_a_training_is_the_same_cut() -> None:
    model = tf.keras.Sequential([tf.keras.Input([8]), tf.keras.layers.Dense(4)])
    optimizer = tf.keras.optimizers.Adam()
    x = new(16, 8)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
        return loss

    for _ in range(3):
        step()
    with record() as whole:
        for _ in range(20):
            step()
    with cut_after(500) as cuts, record() as cut:
        for _ in range(20):
            step()
    assert len(cuts) > 3
    # Which buffers are forwarded depends on the executor; those of a MatMul never are.
    assert (cut.exact, cut.kept_bytes, whole.kept_bytes) == (True, 0, 0)
    made = [[row for row in r.by_op().rows if row.key == "MatMul"] for r in (cut, whole)]
    assert made[0][0].buffers == made[1][0].buffers >= 40
    assert made[0][0].allocated_bytes == made[1][0].allocated_bytes


def test_a_saved_folded_recording_is_loaded(tmp_path: Any) -> None:
    x, c = new(9), scalar(2.0)
    with cut_after(100, 10), record() as recording:
        for _ in range(50):
            x * c
    recording.save(tmp_path / "r.json")
    again = Recording.load(tmp_path / "r.json")
    assert again == recording
    assert again.buffers.total == 50


def test_a_function_that_takes_long_is_read_soon_until_it_is_known() -> None:
    gate = Gate(lambda: None)
    gate.allow(SESSION_EVENTS)
    gate._took(0.001)
    assert not gate.is_due
    gate._took(1.0)  # a loop may have written hundreds of thousands of events
    assert gate.is_due
    gate.learn((0.0, 1, 1.0), events=300)  # it was a large operation
    gate.allow(SESSION_EVENTS)
    gate._took(1.0)
    assert not gate.is_due
    gate.learn((0.0, 1000, 1.0), events=300_000)
    gate.allow(SESSION_EVENTS)
    gate._took(1.0)  # and this is another function
    assert gate.is_due
    assert gate.calls()[0] == 0  # no eager operations


def test_to_prepare_a_function_tells_not_how_long_it_takes() -> None:
    gate = Gate(lambda: None)
    gate.allow(SESSION_EVENTS)
    for seconds in (0.25, 5.0, 0.25):
        gate._functions += 1
        gate._took(seconds)
    assert gate.calls()[1:] == (3, 0.75)


def test_long_recordings_remember_little() -> None:
    x, c = tf.Variable(new(9)), scalar(2.0)
    with (
        cut_after(200),
        mock.patch.object(gradient_calls, "_MOST_KNOWN", 20),
        record() as recording,
    ):
        for _ in range(100):
            with tf.GradientTape() as tape:
                y = x * c
            tape.gradient(y, x)
        watcher = recorder._session.watcher
        assert watcher is not None
        known = watcher._gradients
        assert len(known.by_output) < 100
        assert len(known.chain) < 100
    assert "y = x * c" in {b.forward_line.text for b in recording.buffers if b.forward_line}
    rest = Rest(0.0, 5, readings=[(0.1, 7, 9), (0.2, 6, 8)])
    ledger = Ledger()
    ledger.checks.append(SessionCheck())
    ledger.rest(rest)
    assert (rest.peak, len(rest.readings)) == (9, 1)


def test_steps_of_a_long_recording_are_exact() -> None:
    x, c, big = new(9), scalar(2.0), new(250)
    kept: list[Any] = []
    few = mock.patch.object(lifetimes, "_POINTS", 2)  # of the curve, for each session
    with cut_after(200, rows=40), few, record() as recording:
        for _ in range(60):
            kept.append(x * c)
            big * c
            recording.step()
    assert len(recording.timeline()[0]) < 60
    assert [step.kept_bytes for step in recording.steps] == [36] * 60
    assert [step.peak_bytes for step in recording.steps] == [36 * n + 1000 for n in range(1, 61)]
    assert all(step.exact for step in recording.steps)


def test_a_long_recordings_curve_has_few_points_and_its_peak() -> None:
    x, c, big = new(9), scalar(2.0), new(5_000)
    with (
        cut_after(200) as cuts,
        mock.patch.object(lifetimes, "_MOST_POINTS", 64),
        record() as recording,
    ):
        for i in range(600):
            (big if i == 300 else x) * c
    assert len(cuts) > 3
    assert (recording.peak_bytes, recording.allocated_bytes) == (20_000, 599 * 36 + 20_000)


def test_a_fault_of_ours_between_two_sessions_is_said_and_the_program_goes_on() -> None:
    x, c = new(9), scalar(2.0)
    fault = mock.patch.object(Session, "cut", side_effect=ZeroDivisionError("ours"))
    with (
        pytest.raises(ProfileError, match=r"recorder itself failed.*ours.*report it"),
        cut_after(50),
        fault,
        record() as recording,
    ):
        products = [x * c for _ in range(300)]
    assert len(products) == 300
    assert not recording.exact
    assert "report it" in recording.notes[-1]
    with record() as recording:
        x * c
    assert recording.exact


def test_what_cannot_be_tried_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise ProfileError("the profiler is in use")

    with record() as recording:
        kept = new(9)
        monkeypatch.setattr(exactness, "exactness", fail)
    assert (recording.kept_bytes, recording.exact) == (36, False)
    assert "the profiler is in use" in recording.notes
    del kept
