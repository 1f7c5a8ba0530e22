"""Folders that cannot be written, and profiles that cannot be read."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import notes, profile_folder, profiler
from lessons_lib.recording.profile_format import ProfileError, read_profile
from lessons_lib.recording.recorder import record
from tests.support.processes import POSIX, in_a_new_process, still_works
from tests.support.tensors import ints, new, ready


def test_no_temporary_folder_can_be_written(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(profile_folder, "_OTHERS", ())
    for place in ("missing", "file"):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / place))
        with pytest.raises(ProfileError, match="TMPDIR"), record():
            pass


def test_a_temporary_folder_that_goes_away(temporary: Path) -> None:
    ready(ints(9), ints(3), ints(5))
    keep = []
    with record() as outer:
        keep.append(new(9))
        with record() as inner:
            keep.append(new(3))
    assert outer.kept_bytes == 48
    with pytest.raises(ProfileError, match="TMPDIR"), record() as outer:
        keep.append(new(9))
        with (
            mock.patch.object(tempfile, "mkdtemp", side_effect=OSError(28, "No space left")),
            record() as inner,
        ):
            keep.append(new(3))
        # The inner one was whole; inside the outer one nothing can be recorded any more.
        assert (inner.kept_bytes, inner.exact) == (12, True)
        with pytest.raises(ProfileError, match="TMPDIR"), record():
            pass
        keep.append(new(5))
    assert outer.kept_bytes == 48
    assert not outer.exact
    still_works()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), tf.errors.UnknownError(None, None, "disk")]
)
def test_a_profile_that_cannot_be_written(error: Exception, monkeypatch: Any) -> None:
    real = tf.profiler.experimental.stop

    def stop(save: bool = True) -> None:
        real(save=False)
        if save:
            raise error

    monkeypatch.setattr(tf.profiler.experimental, "stop", stop)
    with pytest.raises(ProfileError, match="make room") as caught, record() as recording:
        new(9)
    assert caught.value.__cause__ is None
    assert not recording.exact
    monkeypatch.undo()


def test_no_profile_is_found(monkeypatch: Any) -> None:
    real = tf.profiler.experimental.stop
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda save=True: real(save=False))
    with pytest.raises(ProfileError, match="left no profile"), record():
        pass
    monkeypatch.undo()


@pytest.mark.further
@pytest.mark.slow
@pytest.mark.child
@POSIX
def test_a_full_disk(tmp_path: Path) -> None:
    # A limit on the size of files is the nearest to a full disk that needs no rights.
    out = in_a_new_process(
        """
        import os, resource, signal, tempfile
        import lessons_lib as ll
        tf = ll.runtime.tf
        ll.preflight()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            with ll.record() as recording:
                for _ in range(200):
                    tf.ones([10])
        except ll.ProfileError as error:
            print("one sentence:", error)
        print(recording.exact, os.listdir(tempfile.gettempdir()))
        """,
        TMPDIR=str(tmp_path),
    )
    assert "one sentence:" in out
    assert "False []" in out


def _profile() -> bytes:
    taken: list[bytes] = []
    real = profiler.read_profile

    def read(data: bytes) -> Any:
        taken.append(data)
        return real(data)

    with mock.patch.object(profiler, "read_profile", read), record():
        new(9)
    return taken[0]


def test_a_truncated_profile() -> None:
    data = _profile()
    whole = read_profile(data)
    assert [event.requested for event in whole.memory if event.allocates] == [36]
    # Cut inside the last message, at whatever length: never another error, never more events.
    for size in (1, 10, len(data) // 2, len(data) - 1):
        with contextlib.suppress(ProfileError):
            assert len(read_profile(data[:size]).memory) <= len(whole.memory)
    with pytest.raises(ProfileError, match="truncated"):
        read_profile(data[:-1])


@pytest.mark.parametrize("data", [b"no profile at all", b"\xff" * 99, b"{}", b"\x0a\xff\xff\xff"])
def test_a_foreign_file_instead_of_a_profile(data: bytes) -> None:
    with pytest.raises(ProfileError, match="record again"):
        read_profile(data)


def test_an_empty_profile() -> None:
    segment = read_profile(b"")
    assert (segment.memory, segment.calls, segment.windows) == ([], {}, {})


def test_a_damaged_profile_in_a_recording() -> None:
    with (
        mock.patch.object(profile_folder.ProfileFolder, "profile", return_value=b"damaged"),
        pytest.raises(ProfileError, match="record again"),
        record() as recording,
    ):
        new(9)
    assert not recording.exact
    assert recording.peak_bytes == 0
    still_works()


def test_a_profile_that_does_not_fit_in_memory() -> None:
    with (
        mock.patch.object(profiler, "read_profile", side_effect=MemoryError),
        pytest.raises(ProfileError, match=re.escape(notes.TOO_LITTLE_MEMORY)),
        record() as recording,
    ):
        new(9)
    assert not recording.exact
    still_works()


def test_a_profiler_that_was_not_started_has_no_profile() -> None:
    with pytest.raises(ProfileError, match="call start first"):
        profiler.Profiler().end()
