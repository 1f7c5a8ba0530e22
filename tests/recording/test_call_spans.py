"""In which call an event lies: spans made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lessons_lib.common.source import Place
from lessons_lib.recording.call_log import Call, CallLog
from lessons_lib.recording.call_spans import CallSpans
from lessons_lib.recording.profile_format import CAPTURED
from lessons_lib.recording.segment import MemoryEvent, Segment

THREAD, NUMBER = 4, 0
EVENT = MemoryEvent(0, THREAD, True, 1, 36, 256, 256, "cpu", 0, "", "", 0, "")


def call(number: int) -> Call:
    return Call(Place("program.py", number), "", None)


def spans(times: list[tuple[int, int]], calls: int, doubtful: list[int]) -> CallSpans:
    log = CallLog({NUMBER: [call(i) for i in range(calls)]}, {NUMBER: doubtful} if doubtful else {})
    return CallSpans(Segment(calls={THREAD: times}, threads={THREAD: NUMBER}), log)


def at(found: CallSpans, time: int) -> int | None:
    made = found.call(replace(EVENT, time=time))
    return None if made is None or made.place is None else made.place.number


def test_the_innermost_call_counts() -> None:
    found = spans([(10, 90), (20, 30), (40, 50)], 3, [])
    assert [at(found, time) for time in (5, 15, 25, 35, 45, 60, 95)] == [None, 0, 1, 0, 2, 0, None]


def test_a_thread_whose_calls_do_not_pair_with_their_marks_has_none() -> None:
    assert at(spans([(10, 90)], 2, []), 50) is None


@pytest.mark.parametrize(("doubtful", "calls"), [([0], (1, 2)), ([1], (0, 2)), ([2], (0, 1))])
def test_a_call_that_an_interrupt_prevented_takes_no_other_ones_place(
    doubtful: list[int], calls: tuple[int, int]
) -> None:
    found = spans([(10, 20), (30, 40)], 3, doubtful)
    assert (at(found, 15), at(found, 35)) == calls


def test_an_interrupted_call_that_was_made_is_one_of_the_others() -> None:
    found = spans([(10, 20), (30, 40)], 2, [1])
    assert (at(found, 15), at(found, 35)) == (0, 1)


def test_a_graph_is_its_step_and_a_mapped_function_its_pipelines() -> None:
    segment = Segment(
        calls={THREAD: [(10, 90)]},
        threads={THREAD: NUMBER},
        started={3: (THREAD, 20), 4: (THREAD, 95), 5: (8, 20)},
        iterators={
            THREAD: [(0, 99, "Iterator::Batch"), (10, 90, CAPTURED)],
            9: [(0, 99, CAPTURED)],
        },
    )
    found = CallSpans(segment, CallLog({NUMBER: [call(0)]}))
    started = [found.started(step) for step in (3, 4, 5, 6)]
    assert started == [call(0), None, None, None]
    assert found.iterator(replace(EVENT, time=50)) == "Iterator::Batch"
    assert found.iterator(replace(EVENT, time=50, thread=9)) == CAPTURED
    assert found.iterator(replace(EVENT, time=50, thread=1)) == ""


@pytest.mark.parametrize(
    ("thread", "time", "iterator"),
    [
        (1, 50, "Iterator::Shuffle"),  # the one that waits for a function
        (1, 80, ""),  # of two nobody knows which
        (1, 5, ""),  # none waits
        (2, 50, ""),  # no thread of the pool
    ],
)
def test_work_of_the_pool_that_a_sessions_end_cut_off_is_the_only_waiting_iterators(
    thread: int, time: int, iterator: str
) -> None:
    waiting = [(0, 99, "Iterator::Shuffle"), (10, 90, CAPTURED)]
    other = [(60, 99, "Iterator::Map"), (70, 90, CAPTURED)]
    found = CallSpans(Segment(iterators={THREAD: waiting, 9: other}, pool={1}), CallLog({}))
    assert found.iterator(replace(EVENT, time=time, thread=thread)) == iterator


@pytest.mark.parametrize(
    ("op", "iterator"), [("Fill", "Iterator::Root::Map"), ("Tanh", ""), ("Mul", "")]
)
def test_work_of_the_pool_that_was_cut_off_is_the_pipelines_that_ran_the_operation_before(
    op: str, iterator: str
) -> None:
    found = CallSpans(
        Segment(
            iterators={1: [(0, 20, "Iterator::Root::Map")], 2: [(0, 20, "Iterator::Root::Batch")]},
            pool={1, 2},
        ),
        CallLog({}),
    )
    for thread, ran in ((1, "Fill"), (1, "Mul"), (2, "Mul")):  # of two nobody knows which
        assert found.iterator(replace(EVENT, time=10, thread=thread, op=ran))
    assert found.iterator(replace(EVENT, time=30, thread=1, op=op)) == iterator
