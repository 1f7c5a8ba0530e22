"""The temporary folder that a profile is written to: where there is room, and never left behind.

A folder holds a locked file as long as its process lives.  What a killed process left is known by
a file that nobody locks any more, and is removed when the next process begins to record.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import tempfile
from typing import IO, Final

from lessons_lib.recording.profile_format import ProfileError

_PREFIX: Final = "lessons_lib-"
_LOCK: Final = "lock"
# Linux: a folder in memory makes each recording some milliseconds cheaper on a busy disk.
_MEMORY_FOLDER: Final = "/dev/shm"
_OTHERS: Final = (_MEMORY_FOLDER, "/var/tmp")
# A session's profile takes about 100 bytes an event; most have under 100,000.
_ROOM_BYTES: Final = 64 * 2**20


class ProfileFolder:
    """A new folder for one profile.

    Raises
    ------
    ProfileError
        If no temporary folder can be written.

    Attributes
    ----------
    path : str
        Where the profile is to be written.
    """

    def __init__(self) -> None:
        _remove_leftovers()
        self._folders: list[tuple[str, IO[bytes]]] = []
        try:
            self.path = self._make()
        except OSError as error:
            raise ProfileError(
                f"there is no temporary folder to record into ({error.strerror or error}): "
                "set TMPDIR to a folder that can be written"
            ) from None

    def _make(self) -> str:
        problem: OSError | None = None
        for base in sorted(_candidates(), key=_room, reverse=True):
            try:
                folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
                self._folders.append((folder, _locked(os.path.join(folder, _LOCK))))
                path = os.path.join(folder, "profile")
                os.mkdir(path)
                return path
            except OSError as error:
                problem = problem or error
        raise problem or FileNotFoundError(2, "no temporary folder")

    def make_room(self) -> None:
        """Have the profile written elsewhere if there is little room left here."""
        if _room(self.path) > 0:
            return
        with contextlib.suppress(OSError):
            other = self._make()
            os.rmdir(self.path)
            os.symlink(other, self.path)

    def profile(self) -> bytes:
        """Read what was written.

        Raises
        ------
        ProfileError
            If there is nothing.
        """
        for place, _, names in os.walk(self.path):
            for name in names:
                if name.endswith(".xplane.pb"):
                    with open(os.path.join(place, name), "rb") as file:
                        return file.read()
        raise ProfileError(
            "TensorFlow's profiler left no profile: make room in the temporary folder, "
            "or set TMPDIR to another one"
        )

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        for folder, lock in self._folders:
            lock.close()
            shutil.rmtree(folder, ignore_errors=True)
        self._folders = []


def _candidates() -> list[str]:
    """Give folders to try; of those with enough room the first is the best."""
    chosen = tempfile.gettempdir()
    first = [_MEMORY_FOLDER] if chosen == "/tmp" else []
    return list(dict.fromkeys([*first, chosen, *(f for f in _OTHERS if os.path.isdir(f))]))


def _room(folder: str) -> int:
    """Give 1 for a folder with enough room, and less than 0 for others, the nearer the fuller."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return -_ROOM_BYTES
    return 1 if free >= _ROOM_BYTES else free - _ROOM_BYTES


def _locked(path: str) -> IO[bytes]:
    """Open a file and lock it, if nobody else has; else raise."""
    file = open(path, "wb")  # noqa: SIM115 - it is held as long as the folder is
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
    return file


@functools.cache
def _remove_leftovers() -> None:
    """Remove the folders of dead processes; once a process."""
    if sys.platform == "win32":  # a folder in use could not be told
        return
    for base in _candidates():
        with contextlib.suppress(OSError):
            for name in filter(lambda name: name.startswith(_PREFIX), os.listdir(base)):
                if os.path.isfile(lock := os.path.join(base, name, _LOCK)):
                    with contextlib.suppress(OSError), _locked(lock):
                        shutil.rmtree(os.path.join(base, name), ignore_errors=True)
