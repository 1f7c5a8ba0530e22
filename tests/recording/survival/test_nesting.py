"""Blocks in blocks, and blocks of several threads."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import (
    session,
)
from lessons_lib.recording.recorder import record
from tests.support.tensors import ints, new, ready, scalar


def test_blocks_in_blocks() -> None:
    ready(ints(9), ints(3), ints(5), ints(7))
    with record("outer") as outer:
        a = new(9)
        for n in (3, 5):
            with record("inner") as inner:
                with record("innermost") as innermost:
                    b = new(n)
                c = new(7)
                del b, c
            assert innermost.peak_bytes == innermost.kept_bytes == 4 * n
            assert (inner.peak_bytes, inner.kept_bytes) == (4 * n + 28, 0)
        del a
    assert (outer.peak_bytes, outer.kept_bytes) == (36 + 20 + 28, 0)
    assert outer.allocated_bytes == 36 + (12 + 28) + (20 + 28)
    assert outer.exact
    assert outer.notes == ()


def test_an_exception_through_several_blocks() -> None:
    x = []
    with pytest.raises(ZeroDivisionError), record() as outer:
        x.append(new(9))
        with record() as inner:
            x.append(new(3))
            _ = 1 / 0
    assert (inner.kept_bytes, outer.kept_bytes) == (12, 48)


def test_blocks_of_threads_overlap() -> None:
    first_open, second_open, first_closed = (threading.Event() for _ in range(3))
    found: dict[str, Any] = {}

    def first() -> None:
        with record() as found["first"]:
            first_open.set()
            second_open.wait(20)
        first_closed.set()

    def second() -> None:
        first_open.wait(20)
        with record() as found["second"]:
            second_open.set()
            first_closed.wait(20)
            found["x"] = new(9)

    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found["second"].kept_bytes == 36
    assert found["first"].kept_bytes == 0


def test_threads_that_follow_each_other_are_seen_or_said_to_be_missing() -> None:
    kept: list[Any] = []
    with record() as recording:
        for _ in range(6):
            thread = threading.Thread(target=lambda: kept.append(new(9) * scalar(2.0)))
            thread.start()
            thread.join()
    seen = (recording.kept_bytes, recording.allocated_bytes) == (6 * 36, 12 * 36)
    assert seen == recording.exact
    # TensorFlow 2.16 loses what a thread did when a later one gets its number.
    assert seen or tf.__version__.startswith("2.16.")


def test_many_threads_record_at_once() -> None:
    problems: list[BaseException] = []
    kept: list[int] = []

    def work(k: int) -> None:
        try:
            for _ in range(5):
                with record():
                    x = new(9)
                del x
            kept.append(k)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert sorted(kept) == list(range(6))


def test_what_another_thread_does_in_between_is_said_to_be_missing() -> None:
    x = new(9)
    real = session.Session._start

    def slow(self: Any) -> None:
        if self.open:  # the session starts again for the outer block
            keep.append(new(5))
        real(self)

    keep: list[Any] = []
    with mock.patch.object(session.Session, "_start", slow), record() as outer:
        y = x * scalar(2.0)
        with record() as inner:
            pass
        z = x * scalar(2.0)
    assert inner.exact
    assert keep
    assert not outer.exact
    assert "not reported" in outer.notes[0]
    del y, z


def test_a_block_inside_python_inside_a_graph() -> None:
    inside: list[Any] = []

    def python(a: Any) -> Any:
        with record() as recording:
            b = a * scalar(2.0)
        inside.append(recording)
        return b

    graph = tf.function(lambda x: tf.py_function(python, [x], tf.float32))
    graph(new(9))
    with record() as outer:
        y = graph(new(9))
    assert inside[-1].peak_bytes == 36
    assert outer.kept_bytes == 36
    del y
