"""Errors and interrupts, wherever they come."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

import lessons_lib as ll
from lessons_lib.common import runtime
from lessons_lib.recording import (
    call_watcher,
    gate,
    lifetimes,
    profile_folder,
    profiler,
    recorder,
    session,
)
from lessons_lib.recording.recorder import record
from tests.support.processes import still_works
from tests.support.tensors import new, scalar


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_propagates_and_what_was_seen_is_kept(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, record("broken") as recording:
        x = new(9)
        raise error
    assert caught.value is error
    assert (recording.peak_bytes, recording.kept_bytes, recording.exact) == (36, 36, True)
    assert recording.label == "broken"
    del x
    still_works()


def test_a_recording_cannot_be_read_while_it_runs() -> None:
    with record() as recording:
        with pytest.raises(RuntimeError, match="still running"):
            _ = recording.peak_bytes
        assert "still running" in repr(recording)
    assert recording.peak_bytes == 0


def test_a_record_is_used_once() -> None:
    watch = record()
    with watch:
        pass
    with pytest.raises(RuntimeError, match="used before"), watch:
        pass


@pytest.mark.parametrize("label", [None, 3, b"bytes"])
def test_a_label_is_text(label: Any) -> None:
    with pytest.raises(TypeError, match="label"):
        record(label)


STAGES = [
    (profiler.Profiler, "start"),
    (profiler.Profiler, "end"),
    (profiler, "read_profile"),
    (profile_folder.ProfileFolder, "profile"),
    (gate.Gate, "install"),
    (gate.Gate, "remove"),
    (call_watcher.Watcher, "install"),
    (call_watcher.Watcher, "remove"),
    (call_watcher.Watcher, "take"),
    (lifetimes.Ledger, "add"),
    (lifetimes.Ledger, "finish"),
    (session, "mark_with_clock"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), STAGES, ids=[name for _, name in STAGES])
def test_an_interrupt_at_each_stage(owner: Any, name: str, after: bool) -> None:
    real = getattr(owner, name)
    sent: list[bool] = []

    def interrupted(*args: Any) -> Any:
        if not sent and not after:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)
        result = real(*args)
        if not sent and after:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)
        return result

    with (
        mock.patch.object(owner, name, interrupted),
        pytest.raises(KeyboardInterrupt),
        record(),
    ):
        new(9)
    assert sent
    still_works()


class _At:
    """Sends an interrupt at the n-th line that the package runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.where: tuple[str, int] | None = None
        self._count = 0
        self._package = str(Path(ll.__file__).parent)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._package) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._count += 1
            if self._count == self.number:
                self.where = frame.f_code.co_name, frame.f_lineno
                signal.raise_signal(signal.SIGINT)
        return self._line


@pytest.mark.slow
def test_an_interrupt_at_any_line(temporary: Path) -> None:
    still_works()
    number, missed = 1, []
    while True:
        at = _At(number)
        before = sys.gettrace()
        try:
            sys.settrace(at)
            with record():
                new(9)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if recorder._session.open:
            missed.append(at.where)
            for left in list(recorder._session.open):
                left._end(None)
        if at.where is None:
            break
        # All of the beginning and of the end, and samples of the long reading in between.
        number += 1 if number < 350 else 7
    assert number > 350
    # Python looks for signals when it enters a function: no code can come before that.
    assert [name for name, _ in missed] in ([], ["__exit__"])
    assert list(temporary.glob("*lessons_lib*")) == []


def test_an_interrupt_before_a_call_costs_no_lines() -> None:
    x, c = new(9), scalar(2.0)

    def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return" and frame.f_code.co_name == "note":  # and its call is yet to come
            sys.settrace(before)
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    try:
        with record() as recording:
            first = x * c
            sys.settrace(interrupt)
            with contextlib.suppress(KeyboardInterrupt):
                x * c
            last = x * c
    finally:
        sys.settrace(before)
    found = [buffer.line.text for buffer in recording.buffers if buffer.line]
    assert found == ["first = x * c", "last = x * c"]
    del first, last


def test_an_interrupt_in_another_handlers_hands() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        real = profiler.read_profile

        def read(data: bytes) -> Any:
            signal.raise_signal(signal.SIGINT)
            return real(data)

        with mock.patch.object(profiler, "read_profile", read), record() as recording:
            x = new(9)
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
    assert recording.peak_bytes == 36
    del x


def test_a_block_that_a_forked_child_leaves_stays_its_parents() -> None:
    watch = record()
    recording = watch.__enter__()
    kept = new(9)
    with mock.patch.object(runtime, "home_process", 0):
        with pytest.raises(RuntimeError, match="spawn"):
            watch.__exit__(None, None, None)
        watch.__exit__(KeyError, KeyError(), None)  # the program's own error is enough
    watch.__exit__(None, None, None)
    assert (recording.kept_bytes, recording.exact) == (36, True)
    del kept
