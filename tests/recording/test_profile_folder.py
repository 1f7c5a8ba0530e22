"""Where profiles are written: where there is room, and nothing is left behind."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

from lessons_lib.recording import profile_folder
from lessons_lib.recording.profile_folder import ProfileFolder
from lessons_lib.recording.recorder import record
from tests.support.tensors import new

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="locks and links")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give two folders, which are the only ones to try."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    new(9)
    monkeypatch.setattr(profile_folder, "_OTHERS", (str(second),))
    monkeypatch.setattr(tempfile, "tempdir", str(first))
    return first, second


def full(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    """Let folders have no room."""
    names = tuple(map(str, places))

    def room(place: str) -> int:
        return -1 if place.startswith(names) else 1

    monkeypatch.setattr(profile_folder, "_room", room)


def recorded_bytes() -> tuple[int, bool]:
    with record() as recording:
        x = new(9)
    del x
    return recording.peak_bytes, recording.exact


def test_another_folder_is_taken_when_the_first_is_full(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    full(monkeypatch, folders[0])
    folder = ProfileFolder()
    assert Path(folder.path).is_relative_to(folders[1])
    folder.remove()
    assert recorded_bytes() == (36, True)
    assert [list(place.iterdir()) for place in folders] == [[], []]


def test_another_folder_is_taken_when_the_first_is_missing(folders: tuple[Path, Path]) -> None:
    folders[0].rmdir()
    assert recorded_bytes() == (36, True)
    assert list(folders[1].iterdir()) == []


@POSIX
def test_a_folder_that_becomes_full_is_left_before_the_profile_is_written(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with record() as recording:
        x = new(9)
        (place,) = folders[0].iterdir()
        full(monkeypatch, folders[0])
    assert not place.exists()
    assert (recording.peak_bytes, recording.exact) == (36, True)
    assert [list(place.iterdir()) for place in folders] == [[], []]
    del x


@POSIX
def test_what_a_dead_process_left_is_removed_and_nothing_else(
    folders: tuple[Path, Path],
) -> None:
    alive = ProfileFolder()
    for name in ("lessons_lib-dead", "lessons_lib-no-lock", "other-dead"):
        (folders[0] / name).mkdir()
    (folders[0] / "lessons_lib-dead" / "lock").write_text("")
    (folders[0] / "other-dead" / "lock").write_text("")
    profile_folder._remove_leftovers.cache_clear()
    ProfileFolder().remove()
    names = {path.name for path in folders[0].iterdir()}
    assert names == {"lessons_lib-no-lock", "other-dead", Path(alive.path).parent.name}
    alive.remove()


def test_where_a_folder_in_use_cannot_be_told_none_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_folder, "_candidates", mock.Mock(return_value=[str(tmp_path)]))
    with mock.patch.object(sys, "platform", "win32"):
        profile_folder._remove_leftovers.__wrapped__()
        profile_folder._locked(str(tmp_path / "lock")).close()
    profile_folder._candidates.assert_not_called()
    assert (tmp_path / "lock").exists()
