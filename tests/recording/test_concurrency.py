"""Recordings of several threads: each is whole, or says that it is not."""

from __future__ import annotations

import sys
import threading
from typing import Any
from unittest import mock

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import gate, notes
from lessons_lib.recording import session as sessions
from lessons_lib.recording.gate import Gate
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.session_checks import (
    Change,
    Completeness,
    SessionCheck,
    completeness,
)
from tests.support.sessions import cut_after
from tests.support.tensors import ints, new, ready, scalar

THREADS, OPERATIONS = 4, 3


def work(number: int, rounds: int, found: list[tuple[Recording, int, int]]) -> None:
    """Record what this thread does, over and over: so many births, and one release less."""
    size = 1000 + number
    for number_of_round in range(rounds):
        with record(lines=number_of_round % 2 == 0) as recording:
            for _ in range(OPERATIONS):
                tensor = new(size)
            del tensor
        mine = [b for b in recording.buffers if b.nbytes == 4 * size]
        born = sum(b.allocated_at is not None for b in mine)
        found.append((recording, born, sum(b.freed_at is not None for b in mine)))


def in_threads(rounds: int) -> tuple[int, int]:
    """Record in several threads at once; count what was short, and what of it was called exact."""
    found: list[tuple[Recording, int, int]] = []
    ready(*(ints(1000 + number) for number in range(THREADS)), scalar())
    threads = [
        threading.Thread(target=work, args=(number, rounds, found)) for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == THREADS * rounds
    short = [recording for recording, *counts in found if counts != [OPERATIONS, OPERATIONS]]
    return len(short), sum(recording.exact for recording in short)


@pytest.mark.slow
def test_of_a_thousand_recordings_every_short_one_says_so() -> None:
    _, silent = in_threads(250)
    assert silent == 0


def test_without_the_gate_recordings_are_short_and_say_so() -> None:
    with mock.patch.object(Gate, "close", return_value=False):
        for _ in range(
            20
        ):  # whether one is short is chance, and that none is in all of them is not
            short, silent = in_threads(25)
            assert silent == 0
            if short:
                break
        else:
            pytest.fail("no recording was short without the gate")


def test_a_thread_that_works_while_the_session_changes_waits() -> None:
    ready(ints(9), ints(5))
    real = sessions.Session._start
    kept: list[Any] = []
    done: list[bool] = []

    def start(self: Any) -> None:
        if self.open:  # the session starts again for the outer block
            thread = threading.Thread(target=lambda: kept.append(new(5)))
            thread.start()
            thread.join(0.2)
            done.append(not thread.is_alive())
        real(self)

    with mock.patch.object(sessions.Session, "_start", start), record() as outer:
        with record():
            pass
        while not kept:
            pass
    assert done == [False]
    assert (outer.kept_bytes, outer.exact) == (20, True)


def test_threads_that_allocate_while_sessions_change() -> None:
    sizes = [2000 + number for number in range(THREADS)]
    ready(*map(ints, sizes), scalar())

    def allocate(size: int) -> None:
        for _ in range(200):
            new(size)

    threads = [threading.Thread(target=allocate, args=(size,)) for size in sizes]
    with cut_after(1000) as cuts, record() as recording:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(cuts) > 10
    births = [
        sum(b.nbytes == 4 * size and b.allocated_at is not None for b in recording.buffers)
        for size in sizes
    ]
    assert births == [200] * THREADS
    # A release between two sessions is not seen, or only later, when its place is used again;
    # then it is known how much that was.
    left = sum(b.reserved_bytes for b in recording.buffers if b.freed_at is None)
    assert left <= recording.missing_bytes
    assert recording.exact == (recording.missing_bytes == 0)


def test_a_pipeline_at_work_is_seen_or_said_to_be_missing() -> None:
    size = 4096
    data = tf.data.Dataset.range(60).map(lambda i: tf.fill([size], tf.cast(i, tf.float32)))
    with record() as outer:
        taken = []
        for element in data.prefetch(2):
            with record():
                pass
            taken.append(element)
    kept = sum(b.nbytes == 4 * size and b.freed_at is None for b in outer.buffers)
    assert kept == 60 or not outer.exact
    # Not exact: then it is said by how much the peak may be off.
    assert outer.exact or " off by " in " ".join(outer.notes)


def session(begin: int | None, end: int | None, change: Change | None = None) -> SessionCheck:
    return SessionCheck(levels=(begin, end), change=change)


QUIET = Change(quiet=True, idle=None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (session(0, 256), session(256, 512, QUIET), Completeness(True, 0, 0)),
        (session(0, 256), session(512, 512, QUIET), Completeness(False, 256, 1)),
        (session(0, 512), session(256, 512, QUIET), Completeness(False, 256, 1)),
        (session(0, 256), session(256, 512, Change(False, None)), Completeness(False, 0, 1)),
        (
            session(0, 256),
            session(256, 512, Change(False, None, above=512)),
            Completeness(False, 0, 1, 512),
        ),
        (
            SessionCheck(levels=(0, 256), missing_bytes=256),
            session(256, 512, Change(False, None, above=512)),
            Completeness(False, 256, 1),
        ),
        (session(0, None), session(256, 512, QUIET), Completeness(False, 0, 1)),
        (session(0, 256), session(None, 512, QUIET), Completeness(False, 0, 1)),
    ],
)
def test_what_lies_between_two_sessions(
    before: SessionCheck, after: SessionCheck, expected: Completeness
) -> None:
    assert completeness([before, after]) == expected


@pytest.mark.parametrize(
    ("lost", "above", "says"),
    [
        (0, 0, "the peak off by at most 0 B and what is kept by at most 0 B; more may be"),
        (0, 512, "the peak off by at most 512 B and what is kept by at most 0 B; more may be"),
        (256, 512, "the peak off by at most 768 B and what is kept by at most 256 B; more"),
        (256, None, "the peak, what is kept and what was allocated may be off by 256 B or more."),
        (0, None, "what was allocated may be off, by how much is not known."),
    ],
)
def test_what_a_change_may_have_hidden_is_said(lost: int, above: int | None, says: str) -> None:
    said = notes.missing(Completeness(False, lost, 2, above))
    assert "at 2 moments when the profiler was stopped, to be read, and started again" in said
    assert says in said


@pytest.mark.parametrize(("idle", "whole"), [(True, True), (False, False), (None, False)])
def test_a_pipeline_may_hide_what_adds_up_to_nothing(idle: bool | None, whole: bool) -> None:
    before = session(0, 256)
    before.pipeline = True
    assert completeness([before, session(256, 256, Change(True, idle))]).whole == whole


def test_work_of_other_threads_is_none_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "_TASKS", "/nowhere")
    assert gate.work_of_other_threads() is None
    with mock.patch.object(sys, "platform", "darwin"):
        assert gate.work_of_other_threads() is None
