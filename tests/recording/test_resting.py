"""Long recordings are watched in windows: what is said of the time in which the profiler rests."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.system import allocator_bytes
from lessons_lib.recording import exactness, pacing, recorder
from lessons_lib.recording.call_log import CallLog
from lessons_lib.recording.lifetimes import Ledger
from lessons_lib.recording.pacing import Pacing, Rest
from lessons_lib.recording.recorder import record
from lessons_lib.recording.rows import freed_first
from lessons_lib.recording.segment import MemoryEvent, Segment
from tests.support.sessions import cut_after
from tests.support.tensors import new, scalar


@contextlib.contextmanager
def resting(until: float) -> Iterator[None]:
    """Have the profiler rest until a time on Python's clock; free nothing of earlier tests."""
    gc.collect()
    with mock.patch.object(Pacing, "rest_until", return_value=until):
        yield


def test_what_is_not_watched_is_said() -> None:
    x, c = new(9), scalar(2.0)
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        for _ in range(300):
            x * c
        watcher = recorder._session.watcher
        assert watcher is not None
        assert watcher.log.threads == {}  # nothing is noted for nobody
    ((begin, end),) = recording.unwatched
    assert 0 < begin < end <= recording.seconds
    assert not recording.exact
    assert "Watched whole" in recording.notes[-1]
    assert 0 < recording.allocated_bytes < 300 * 36
    assert (recording.peak_bytes, recording.kept_bytes) == (36, 0)


def test_all_is_watched_when_that_is_asked_for() -> None:
    x, c = new(9), scalar(2.0)
    with cut_after(200) as cuts, resting(math.inf), record(share=1) as recording:
        for _ in range(300):
            x * c
    assert len(cuts) > 10
    assert (recording.unwatched, recording.exact) == ((), True)
    assert recording.allocated_bytes == 300 * 36


def test_a_higher_peak_is_followed_by_a_window() -> None:
    x, c, big = new(9), scalar(2.0), new(500_000)
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        for _ in range(200):
            x * c
        for _ in range(60):
            big * c
    assert len(recording.unwatched) == 2
    # It was first seen in the counters, and then it was watched.
    assert recording.peak_bytes == 2_000_000
    assert max(recording.timeline()[1]) >= 2_000_000
    assert {b.line.text for b in recording.buffers if b.nbytes == 2_000_000} == {"big * c"}


def test_what_is_made_unwatched_and_freed_later_counts_as_nothing() -> None:
    x, c, big = new(9), scalar(2.0), new(500_000)
    kept: list[Any] = []
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        for _ in range(100):
            x * c
        kept += [x * c for _ in range(50)]  # while the profiler rests
        for _ in range(30):
            big * c  # and now it does not
        kept.clear()
    assert recording.unwatched
    assert recording.kept_bytes == 0


def test_what_stays_of_the_time_that_nobody_watched_counts() -> None:
    x, c = new(50_000), scalar(2.0)
    kept: list[Any] = []
    gc.collect()
    before = allocator_bytes()
    with cut_after(200), resting(0.0), record(share=0.5) as recording:
        for i in range(600):
            y = x * c
            if i % 10 == 0:
                kept.append(y)
            del y
    after = allocator_bytes()
    assert before is not None
    assert after is not None
    assert len(recording.unwatched) > 1
    # Requested bytes of what was watched, and of the rest what the allocator set aside for it.
    assert 60 * 200_000 <= recording.kept_bytes <= after - before
    # A buffer may get a piece that was there, of less than twice its size.
    assert 61 * 200_000 <= recording.peak_bytes < after - before + 400_000
    assert any(row.key == "not watched" and row.kept_bytes for row in recording.by_op().rows)
    assert any(row.key == "not watched" and row.kept_bytes for row in recording.by_line().rows)
    assert recording.allocated_bytes >= recording.kept_bytes
    assert recording.timeline()[1].tolist()[-1] == recording.kept_bytes


def test_what_takes_the_place_of_something_older_stays() -> None:
    x, c, big = new(9), scalar(2.0), new(500_000)
    old = [new(9) for _ in range(20)]
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        for i in range(20):
            old[i] = x * c
        for _ in range(50):
            big * c
    assert recording.unwatched
    assert recording.kept_bytes == 0
    del old


@pytest.mark.parametrize("gone", ["data", "variable", "older"])
def test_what_a_living_variable_holds_is_not_taken_for_freed(gone: str) -> None:
    x, c, big = new(9), scalar(2.0), new(500_000)
    older = new(1_000_000) * c
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        data, variable, last = big * c, tf.Variable(new(50_000)), tf.Variable(new(60_000))
        for _ in range(100):
            x * c
        assert recorder._session.rest is not None
        data = None if gone == "data" else data
        variable = None if gone == "variable" else variable
        older = None if gone == "older" else older
    kept = {"data": 2_000_000, "variable": 200_000, "last": 240_000}
    kept.pop(gone, None)
    found = [b.nbytes for b in recording.buffers if b.freed_at is None and b.nbytes > 100_000]
    if gone == "older":  # it has no row: what cannot be known to live may be taken for freed
        assert {kept["variable"], kept["last"]} <= set(found)
    else:
        assert sorted(found) == sorted(kept.values())
        assert abs(recording.kept_bytes - sum(kept.values())) < 5_000  # a few small ones
    del variable, last, data, older


@pytest.mark.parametrize("filled", [False, True])
def test_a_variable_that_was_given_a_buffer_unwatched_has_one(filled: bool) -> None:
    x, c, big, variable = new(9), scalar(2.0), new(500_000), tf.Variable(new(50_000))

    def replace() -> None:
        held = variable.value()  # which still has the old buffer when the new one is written
        variable.assign_sub(held)

    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        replace()
        for _ in range(100):
            x * c
        assert recorder._session.rest is not None
        replace()
        filler = new(50_000) if filled else None
        while recorder._session.rest is not None:  # until the higher peak is seen
            big * c
        replace()
    alive = [b for b in recording.buffers if b.freed_at is None and b.purpose.held]
    assert [b.nbytes for b in alive] == [200_000]
    del filler


def test_what_the_program_holds_of_a_variable_stays_beside_its_new_buffer() -> None:
    variable = tf.Variable(new(50_000))
    with record() as recording:
        held = variable.assign_sub(variable).value()
        variable.assign_add(held)
    alive = [b.nbytes for b in recording.buffers if b.freed_at is None and b.purpose.held]
    assert alive == [200_000, 200_000]
    del held


@pytest.mark.parametrize(
    ("ranks", "sizes", "excess", "expected"),
    [
        ([0, 0, 0], [300, 200, 100], 0, []),
        ([0, 0, 0], [400, 200, 100], 300, [2, 1]),  # the latest first
        ([3, 1, 3], [100, 200, 100], 200, [1]),  # the lower rank first
        ([1, 3, 3], [300, 100, 100], 290, [0]),  # and something of 10 bytes was made
        ([1, 3, 3], [900, 100, 100], 200, [2, 1]),
        ([0, 0, 0], [900, 900, 900], 300, []),  # none of them
        ([0, 0, 0], [900, 500, 400], 895, [0]),  # one rather than two
    ],
)
def test_what_was_freed_first(
    ranks: list[int], sizes: list[int], excess: int, expected: list[int]
) -> None:
    born = np.arange(3)
    assert freed_first(np.array(ranks), born, np.array(sizes), excess) == expected


def test_what_was_freed_unwatched_may_be_followed_at_its_place() -> None:
    def made(size: int) -> Segment:
        event = MemoryEvent(1, 0, True, 1, size, size, size, "cpu", 0, "", "", 0, "")
        return Segment(memory=[event])

    for rests in (True, False):
        ledger = Ledger()
        ledger.add(made(36), CallLog(), 0.0)
        if rests:
            ledger.rest(Rest(1.0, 36, readings=[(1.5, 36, 36)]))
        ledger.add(made(40), CallLog(), 2.0)
        assert [check.intact for check in ledger.checks] == [True, rests]


def test_steps_that_nobody_watched_are_told_by_the_counters() -> None:
    x, c, big = new(9), scalar(2.0), new(500_000)
    kept: list[Any] = []
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        big * c
        for _ in range(100):
            kept.append(x * c)
            big * c
            recording.step()
    assert recording.unwatched
    unwatched = [step for step in recording.steps if not step.exact]
    assert len(unwatched) > 50
    # The allocator sets aside pieces of 256 bytes, or one that it has, of up to twice the size.
    assert all(256 <= step.kept_bytes < 5000 for step in unwatched)
    assert all(2_000_000 <= step.peak_bytes < 4_100_000 for step in unwatched)
    assert "≈ 2" in repr(recording.steps)
    assert [step.kept_bytes for step in recording.steps if step.exact] == [36] * (
        100 - len(unwatched)
    )


def test_a_recording_inside_one_that_rests_is_whole() -> None:
    x, c = new(9), scalar(2.0)
    with cut_after(200), resting(math.inf), record(share=0.5) as outer:
        for _ in range(100):
            x * c
        with record() as inner:
            y = x * c
        del y
    assert (inner.peak_bytes, inner.kept_bytes, inner.exact, inner.unwatched) == (36, 36, True, ())
    assert not outer.exact


def test_the_programs_own_meter_is_left_alone() -> None:
    x, c = new(9), scalar(2.0)
    meter = tf.config.experimental.get_memory_info
    tf.config.experimental.reset_memory_stats("CPU:0")
    base = meter("CPU:0")["current"]
    new(1_000_000)
    before = meter("CPU:0")["peak"]
    assert before >= base + 4_000_000
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        for _ in range(100):
            x * c
        assert meter("CPU:0")["peak"] == before
        tf.config.experimental.reset_memory_stats("CPU:0")
        assert meter("CPU:0")["peak"] < before
    assert recording.unwatched
    assert meter("CPU:0")["peak"] < before


def test_the_try_of_the_allocator_is_not_in_the_programs_meter() -> None:
    meter, tried = tf.config.experimental.get_memory_info, exactness.exactness.__wrapped__
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = meter("CPU:0")["peak"]
    assert tried().exact
    assert meter("CPU:0")["peak"] == before
    with mock.patch.object(exactness.counters, "unnoticed", contextlib.nullcontext):
        tried()
    assert meter("CPU:0")["peak"] >= before + 2**20


@pytest.mark.parametrize("share", [0, -1, 1.5, "all"])
def test_a_share_is_a_part_of_the_time(share: Any) -> None:
    with pytest.raises(ValueError, match="share"):
        record(share=share)


def test_watching_takes_its_share_with_the_beginning_made_up_for() -> None:
    now = 0.0
    with mock.patch.object(pacing.time, "perf_counter", side_effect=lambda: now):
        paces = Pacing()
        lost = 0.0
        for _ in range(12):  # sessions of the beginning: 1 s of calls, of which 0.5 s are added
            now += 1.0
            stopped = now
            now += 0.5  # is read
            paces.watched_whole(stopped)
            lost += 1.0
        shares = []
        for _ in range(200):
            paces.began = now
            now += 0.2
            stopped = now
            now += 0.1
            until = paces.rest_until(None, 10, stopped)
            # What a window adds is known once calls were timed without the profiler.
            paces.rested(until - now, round(100 * (until - now)))  # 10 ms a call
            lost += 0.1 + (0.2 - 10 * 0.01)
            now = until
            shares.append(lost / now)
    assert shares[0] > 0.1  # the beginning weighs at first
    assert max(shares[150:]) <= pacing.SHARE


def test_a_long_rest_keeps_few_readings_and_the_highest_of_them() -> None:
    rest = Rest(0.0, 36)
    most = pacing._MOST_READINGS
    for moment in range(most + 1):
        rest.note(float(moment), 36, 9_000 if moment == 7 else moment)
    assert len(rest.readings) == most // 2 + 1
    assert rest.readings[3] == (7.0, 36, 9_000)  # of the pair of the moments 6 and 7
    assert rest.readings[-1] == (float(most), 36, most)


def test_what_runs_unwatched_runs_as_without() -> None:
    v1, x, c = tf.compat.v1, new(9), scalar(2.0)
    graph = tf.Graph()
    with graph.as_default():
        product = v1.constant(2.0) * 3.0
    session = v1.Session(graph=graph)
    with cut_after(200), resting(math.inf), record(share=0.5) as recording:
        for _ in range(100):
            x * c
        made = tf.constant([1.0, 2.0])
        assert session.run(product) == 6.0
    session.close()
    assert recording.unwatched
    assert made.numpy().tolist() == [1.0, 2.0]
