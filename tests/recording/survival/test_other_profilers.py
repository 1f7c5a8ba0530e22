"""Profilers that others start and stop, before a block and within."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recorder import record
from tests.support.processes import still_works
from tests.support.tensors import new


def test_a_profiler_that_runs_already(temporary: Path, tmp_path: Path) -> None:
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(ProfileError, match="already running") as caught, record():
            pass
        assert str(caught.value).count(".") <= 4  # one sentence, with the call to make in it
    finally:
        tf.profiler.experimental.stop()
    assert any(tmp_path.rglob("*.xplane.pb"))  # theirs went on, and ended well
    still_works()


def test_a_profiler_session_that_tensorflows_books_do_not_know(tmp_path: Path) -> None:
    from tensorflow.python.profiler import profiler_v2

    other = profiler_v2._pywrap_profiler.ProfilerSession()
    other.start(str(tmp_path), {"host_tracer_level": 2})
    try:
        with pytest.raises(ProfileError, match="already running"), record():
            pass
    finally:
        other.export_to_tb()
    del other
    still_works()


def test_the_block_stops_the_profiler() -> None:
    with pytest.raises(ProfileError, match="inside the block stopped"), record() as recording:
        new(9)
        tf.profiler.experimental.stop()
    assert not recording.exact
    assert "stopped" in recording.notes[0]
    still_works()


def test_the_block_stops_the_profiler_and_fails() -> None:
    with pytest.raises(ZeroDivisionError), record() as recording:
        tf.profiler.experimental.stop()
        _ = 1 / 0
    assert "stopped" in recording.notes[0]
    still_works()


def test_the_block_starts_a_profiler_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="inside the block stopped"), record():
        tf.profiler.experimental.stop()
        tf.profiler.experimental.start(str(tmp_path))
    tf.profiler.experimental.stop()  # it is still theirs to stop
    assert any(tmp_path.rglob("*.xplane.pb"))
    still_works()


def test_the_block_tries_to_start_the_profiler(tmp_path: Path) -> None:
    with record() as recording:
        with pytest.raises(tf.errors.AlreadyExistsError):
            tf.profiler.experimental.start(str(tmp_path))
        x = new(9)
    assert recording.kept_bytes == 36
    del x


@pytest.mark.parametrize("lines", [False, True])
def test_a_session_that_asks_for_a_profile_of_its_own_is_refused(lines: bool) -> None:
    v1 = tf.compat.v1
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    metadata = v1.RunMetadata()
    with tf.Graph().as_default(), v1.Session() as session:
        y = tf.tanh(tf.ones([9]))
        with record(lines=lines) as recording:
            session.run(y)
            with pytest.raises(ProfileError, match=r"FULL_TRACE.*outside of the recording"):
                session.run(y, None, options, metadata)
            session.run(y, options=v1.RunOptions())
        assert recording.exact
        session.run(y, options=options, run_metadata=metadata)
    assert len(metadata.step_stats.dev_stats) > 0
    still_works()
