"""The garbage collector is off where it must be, and as the program had it afterwards."""

from __future__ import annotations

import gc
import threading
import types
from typing import Any

import pytest

from lessons_lib.common import gc_control
from lessons_lib.common.gc_control import collection_paused, frames_of_threads


@pytest.mark.parametrize("on", [True, False])
def test_no_collection_begins_while_frames_of_threads_are_listed(
    monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    seen: list[bool] = []

    def listed() -> dict[int, Any]:
        seen.append(gc.isenabled())
        return {}

    monkeypatch.setattr(gc_control, "sys", types.SimpleNamespace(_current_frames=listed))
    if not on:
        gc.disable()
    try:
        assert frames_of_threads() == {}
        assert gc.isenabled() is on
    finally:
        gc.enable()
    assert seen == [False]


def test_the_collector_stays_off_until_the_last_thread_leaves() -> None:
    inside, leave, left = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with collection_paused():
            inside.set()
            leave.wait()
        left.set()

    thread = threading.Thread(target=work)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collection_paused():
        thread.start()
        inside.wait()
        raise ZeroDivisionError
    assert not gc.isenabled()
    assert thread.ident in frames_of_threads()
    leave.set()
    thread.join()
    assert left.is_set()
    assert gc.isenabled()
