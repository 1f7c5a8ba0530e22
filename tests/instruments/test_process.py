"""`process_memory`: three views of one call, and nothing left running."""

from __future__ import annotations

import resource
import threading
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.common.units import MIB
from lessons_lib.instruments import process
from lessons_lib.instruments.process import process_memory, resident_bytes
from tests.support.tensors import ints, new, ready, scalar

pytestmark = pytest.mark.slow

ORIGINALS = {
    name: getattr(tracemalloc, name) for name in ("start", "stop", "reset_peak", "clear_traces")
}


def test_each_view_sees_its_own() -> None:
    ready(ints(256, 1024), scalar())

    def program() -> Any:
        tensor = new(256, 1024)  # 1 MiB of TensorFlow's
        array = np.ones(2 * MIB, np.uint8)  # 2 MiB of Python's
        return tensor, array

    found = process_memory(program)
    assert found.tensor_peak_bytes == found.tensor_kept_bytes == MIB
    assert 2 * MIB <= found.heap_peak_bytes < 3 * MIB
    assert 2 * MIB <= found.heap_kept_bytes < 3 * MIB
    assert found.recording.peak_bytes == MIB
    assert found.label == "program"


def test_samples_run_through_the_call() -> None:
    found = process_memory(lambda: time.sleep(0.2), interval=0.01)
    moments = [sample.at for sample in found.samples]
    assert moments == sorted(moments)
    assert len(found.samples) >= 3  # one at each end, and some in between
    assert all(sample.resident_bytes > 0 for sample in found.samples)
    assert found.resident_peak_bytes >= max(s.resident_bytes for s in found.samples)
    assert found.resident_before_bytes > 0
    assert found.resident_growth_bytes == found.resident_peak_bytes - found.resident_before_bytes


def test_a_very_short_call_has_samples_at_its_ends() -> None:
    assert len(process_memory(lambda: None, interval=3600).samples) >= 2


def _threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("lessons_lib")]


@pytest.mark.parametrize(
    ("program", "said"),
    # tracemalloc notes at least a pointer, a size and a traceback's pointer for each object.
    [(lambda: list(range(2**20)), True), (lambda: np.ones(2**22), False)],
    ids=["a million objects", "one array"],
)
def test_memory_of_the_meter_itself_is_said(program: Any, said: bool) -> None:
    notes = process_memory(program).notes
    assert any("what tracemalloc notes" in note for note in notes) == said


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_function_ends_everything(error: type[BaseException]) -> None:
    def program() -> None:
        raise error

    with pytest.raises(error):
        process_memory(program)
    assert _threads() == []
    assert not tracemalloc.is_tracing()


def test_tracemalloc_stays_on_where_it_was_on() -> None:
    tracemalloc.start()
    try:
        process_memory(lambda: None)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    process_memory(lambda: None)
    assert not tracemalloc.is_tracing()
    assert _threads() == []


def test_a_function_that_stops_tracemalloc() -> None:
    found = process_memory(tracemalloc.stop, interval=0.001)
    assert found.heap_peak_bytes >= 0
    assert not tracemalloc.is_tracing()


def test_meters_of_the_program_are_left_alone() -> None:
    array = np.ones(64 * MIB, np.uint8)
    del array
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start(7)
    try:
        gone = bytearray(50 * MIB)
        del gone
        peak = tracemalloc.get_traced_memory()[1]
        found = process_memory(lambda: bytearray(3 * MIB))
        assert tracemalloc.get_traced_memory()[1] == peak
        assert tracemalloc.get_traceback_limit() == 7
    finally:
        tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >= highest
    assert 3 * MIB <= found.heap_kept_bytes < 4 * MIB
    assert "tracemalloc itself" in found.notes[0]
    assert process_memory(lambda: None).notes == ()


def _starts_and_stops() -> Any:
    tracemalloc.start(5)
    assert tracemalloc.get_traceback_limit() == 5
    assert tracemalloc.get_traced_memory()[1] < MIB  # its own begins at nothing
    block = bytearray(10 * MIB)
    tracemalloc.stop()
    assert not tracemalloc.is_tracing()
    return block


def _resets_the_peak() -> Any:
    block = bytearray(10 * MIB)
    del block
    tracemalloc.reset_peak()


def _clears_the_traces() -> Any:
    block = bytearray(4 * MIB)
    tracemalloc.clear_traces()
    return block, bytearray(6 * MIB)


def _uses_nothing() -> Any:
    return bytearray(10 * MIB)


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize(
    "program", [_starts_and_stops, _resets_the_peak, _clears_the_traces, _uses_nothing]
)
def test_heap_of_a_function_that_uses_tracemalloc_is_seen(program: Any, on: bool) -> None:
    if on and program is _starts_and_stops:
        pytest.skip("a second start does nothing, with us or without")
    if on:
        tracemalloc.start()
    try:
        found = process_memory(program)
        assert tracemalloc.is_tracing() is on
    finally:
        tracemalloc.stop()
    assert 10 * MIB <= found.heap_peak_bytes < 11 * MIB
    assert found.heap_kept_bytes < 11 * MIB
    assert [getattr(tracemalloc, name) for name in ORIGINALS] == list(ORIGINALS.values())


def test_tracemalloc_that_the_function_starts_stays_on() -> None:
    try:
        found = process_memory(lambda: tracemalloc.start(3))
        assert tracemalloc.is_tracing()
        assert tracemalloc.get_traceback_limit() == 3
    finally:
        tracemalloc.stop()
    assert found.heap_peak_bytes < MIB


@pytest.mark.parametrize("interval", [0, -1, 0.0, float("nan"), float("inf"), 1e12, 10**400])
def test_absurd_intervals(interval: float) -> None:
    called: list[int] = []
    with pytest.raises(ValueError, match="interval"):
        process_memory(lambda: called.append(1), interval=interval)
    assert called == []


@pytest.mark.parametrize("interval", [None, "1", True, [], 1j])
def test_intervals_that_are_no_numbers(interval: Any) -> None:
    with pytest.raises(TypeError, match="interval"):
        process_memory(lambda: None, interval=interval)


@pytest.mark.parametrize("fn", [None, 5, "f()"])
def test_what_cannot_be_called(fn: Any) -> None:
    with pytest.raises(TypeError, match="function without arguments"):
        process_memory(fn)


def test_systems_without_the_kernels_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(process, "_STATUS", str(tmp_path / "missing"))
    found = process_memory(lambda: None)
    assert found.resident_peak_bytes == max(s.resident_bytes for s in found.samples)


def test_resident_memory_is_that_of_a_process_with_tensorflow() -> None:
    assert resident_bytes() > 50 * MIB
    assert tf is not None


def test_it_shows_itself() -> None:
    found = process_memory(lambda: None)
    assert "tensors 0 B" in repr(found)
    page = found._repr_html_()
    assert "resident set size (noisy)" in page
    assert page.count("≈") == 4  # the exact row has none
    assert "&lt;lambda&gt;" in page
