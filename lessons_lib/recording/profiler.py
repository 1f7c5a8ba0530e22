"""TensorFlow's profiler as a source of memory events: start it, stop it, give what it wrote.

TensorFlow writes a profile to a folder; see `lessons_lib.recording.profile_folder`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.runtime import held_back_stderr, require_home_process, tf
from lessons_lib.common.system import allocator_bytes
from lessons_lib.recording.profile_folder import ProfileFolder
from lessons_lib.recording.profile_format import ProfileError, read_profile
from lessons_lib.recording.segment import Segment

# This version writes a complaint about its own default to file descriptor 2 at each start.
_NOISY_START: Final = tf.__version__.startswith("2.20.")


@dataclass(slots=True)
class Profile:
    """What a session wrote, and the allocator's count when it began and when it ended."""

    data: bytes
    levels: tuple[int | None, int | None]

    def read(self) -> Segment:
        """Read it.

        Raises
        ------
        ProfileError
            If it is truncated, or not a profile.
        """
        segment = read_profile(self.data)
        segment.levels = self.levels
        return segment


class Profiler:
    """One session of TensorFlow's profiler, from `start` to `stop` or `cancel`."""

    def __init__(self) -> None:
        self._folder: ProfileFolder | None = None
        self._session: Any = None
        self._level: int | None = None

    def start(self) -> None:
        """Start the profiler.

        Raises
        ------
        ProfileError
            If another profiler runs, or no temporary folder can be written.
        RuntimeError
            In a forked child.
        """
        require_home_process()
        self._folder = ProfileFolder()
        # Level 2 has the memory events in every supported version (level 1 only in 2.21).
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
        )
        before = internals.running_profiler()
        level = allocator_bytes()
        try:
            with held_back_stderr() if _NOISY_START else contextlib.nullcontext():
                tf.profiler.experimental.start(self._folder.path, options=options)
            self._session = internals.running_profiler()
            self._level = _settled(level)
        except tf.errors.AlreadyExistsError:
            self._cancel(before)
            raise ProfileError(
                "TensorFlow's profiler is already running, started by something else, and only "
                "one can run: stop it first with tf.profiler.experimental.stop()"
            ) from None
        except BaseException:
            self._cancel(before)
            raise

    def stop(self) -> Segment:
        """Stop the profiler and read what it saw; see `end` for what it raises."""
        return self.end().read()

    def end(self) -> Profile:
        """Stop the profiler and give what it wrote, which can be read later.

        Raises
        ------
        ProfileError
            If the profile could not be written; the profiler is off all the same.
        """
        folder = self._folder
        if folder is None:
            raise ProfileError("this profiler session was not started: call start first")
        try:
            if internals.running_profiler() is not self._session:
                raise ProfileError(
                    "something inside the block stopped TensorFlow's profiler, so the end of the "
                    "recording is missing: remove that call of tf.profiler.experimental.stop()"
                )
            folder.make_room()
            level = allocator_bytes()
            try:
                tf.profiler.experimental.stop()
            except (tf.errors.OpError, OSError, RuntimeError, MemoryError) as error:
                raise ProfileError(
                    f"TensorFlow could not write its profile to {folder.path} "
                    f"({_first_line(error)}): make room there, or set TMPDIR to another folder"
                ) from None
            return Profile(folder.profile(), (self._level, _settled(level)))
        finally:
            self._cancel(None)

    def _cancel(self, before: Any) -> None:
        """Leave nothing on and nothing behind; a session of someone else's goes on."""
        running = internals.running_profiler()
        # When another session is found too late, TensorFlow keeps the new one in its books.
        if running is not None and running is not before and self._session in (None, running):
            with contextlib.suppress(Exception):
                tf.profiler.experimental.stop(save=False)
        self._session = None
        self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            self._folder.remove()
        self._folder = None


def _settled(before: int | None) -> int | None:
    """Give a level that was read just before, unless another thread has changed it since."""
    return before if before == allocator_bytes() else None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
