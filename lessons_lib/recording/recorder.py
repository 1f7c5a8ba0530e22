"""`record`: watch TensorFlow's memory during a block of code.

This module holds the package's only mutable global state: the open session.
"""

from __future__ import annotations

import contextlib
import os
import platform
from types import TracebackType
from typing import Final

from lessons_lib.common import internals, runtime
from lessons_lib.common.gc_control import collection_paused
from lessons_lib.common.interrupts import DeferredSignals
from lessons_lib.common.system import resident_bytes
from lessons_lib.recording import exactness, notes
from lessons_lib.recording.buffers import BufferStore
from lessons_lib.recording.markers import mark_moment
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.session import Session
from lessons_lib.recording.session_checks import Completeness
from lessons_lib.recording.step_log import StepLog, listening
from lessons_lib.recording.window import Window

_session: Final = Session()


def note_input() -> None:
    """Say within a recording that this thread's latest operation made a part of a batch."""
    if (watcher := _session.watcher) is not None:
        watcher.note_input()


class record(contextlib.AbstractContextManager[Recording]):  # noqa: N801 - used like a function
    """Watch every buffer that TensorFlow allocates or frees during a block.

    Parameters
    ----------
    label : str
        A name for the recording, shown in tables and pictures.
    lines : bool
        Whether eager operations are tied to source lines; this costs some microseconds an
        operation.  Operations of graphs are tied to theirs when they were called in a recording
        with lines.
    share : float, optional
        How much of the time watching may take, over 0 and up to 1.  After the first seconds, a
        recording is watched in windows, and in between the allocator's counters are read; 1
        watches all.  Without it, a thousand small steps are watched whole, and then 3 %.
    chains : bool
        Whether eager operations, too, are tied to all lines that called one another; this costs
        some microseconds more.  See `Recording.by_line`.

    Returns
    -------
    Recording
        From ``with``: finished, and readable, once the block has ended, also when it raised.

    Raises
    ------
    lessons_lib.recording.profile_format.ProfileError
        If TensorFlow's profiler is used by something else, or no temporary folder can be written.
        Within the block, from ``tf.compat.v1.Session.run`` with ``RunOptions.FULL_TRACE``.

    Notes
    -----
    The whole process is watched, with all its threads.  Blocks may be nested.  Not seen: memory
    outside TensorFlow's allocator (NumPy, Python, strings' characters), among it tensors that
    adopted a NumPy array's memory, which about one in four ``tf.constant(array)`` do.

    Examples
    --------
    >>> with record("one matmul") as rec:
    ...     y = x @ x
    >>> rec.peak_bytes
    """

    def __init__(
        self,
        label: str = "",
        lines: bool = True,
        *,
        share: float | None = None,
        chains: bool = False,
    ) -> None:
        if share is not None and not (isinstance(share, (int, float)) and 0 < share <= 1):
            raise ValueError(f"share is a part of the time, over 0 and up to 1, not {share!r}")
        if not isinstance(label, str):
            raise TypeError(f"a recording's label is text, not {label!r}: give text, or nothing")
        self.label = label
        self.lines = bool(lines) or bool(chains)
        self.chains = bool(chains)
        self.share = share
        self.window = Window(0, 0)
        self.started_at = 0.0
        self._recording: Recording | None = None
        self._failed = self._ended = False
        self._notes: tuple[str, ...] = ()
        self._steps = StepLog(_session.moment)
        self._resident: int | None = None

    def __enter__(self) -> Recording:
        if self._recording is not None:
            raise RuntimeError("this record() was used before: write a new `with ll.record():`")
        runtime.require_home_process()
        recording = Recording.open(self.label, self._steps)
        try:
            with _session.lock, DeferredSignals():
                # Within a recording the profiler is busy: the probe is made when it stops.
                if not _session.open and internals.runtime_is_set_up():
                    exactness.exactness()
                _session.enter(self)
                self._recording = recording
                listening.add(self._steps)
            return recording
        except BaseException:
            with _session.lock, DeferredSignals():
                if self in _session.open:
                    with contextlib.suppress(ProfileError):
                        _session.leave(self)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._end(error)
        except BaseException:
            self._end(error)  # does something only if an interrupt came before it could be held
            raise

    def _end(self, error: BaseException | None) -> None:
        if self._ended:
            return
        if os.getpid() != runtime.home_process:  # the parent records, and its profile is not ours
            if error is None:
                runtime.require_home_process()
            return
        with DeferredSignals(), collection_paused(), _session.lock:
            self._ended = True
            listening.remove(self._steps)
            self._resident = resident_bytes()  # before the profile is read, which takes memory
            _session.resume()
            self.window.end_mark = mark_moment()
            self.window.newest_tensor = internals.newest_tensor_number()
            failure: ProfileError | None = None
            try:
                _session.leave(self)
            except ProfileError as problem:
                failure, self._failed = problem, True
                self._notes = (str(problem),)
            _session.finish(self)
        if failure is not None and error is None:
            raise failure

    def settle(self, store: BufferStore, seconds: float, found: Completeness) -> None:
        """Fill the recording in; called once by the session."""
        assert self._recording is not None
        # What failed has been said already, with what to do about it.
        probe = _session.probe
        said = (*(probe.notes if probe is not None else ()), *self._notes)
        if not found.whole and not self._failed:
            said = (*said, notes.missing(found))
        rests = self.window.rests
        self._recording.close(
            seconds=seconds,
            buffers=store,
            exact=found.whole and not rests and not self._failed and (probe is None or probe.exact),
            notes=(*said, *notes.rested(rests, seconds, _session.pacing.seen)),
            versions=versions(),
            missing_bytes=found.missing_bytes,
            unwatched=tuple(
                (rest.begin - self.window.begin_at, rest.end - self.window.begin_at)
                for rest in rests
            ),
            resident_bytes=self._resident,
            step_marks=self._steps.marks_from(self.started_at, self.window.moments),
            started_at=self.started_at,
        )


def exactness_here() -> exactness.Exactness:
    """Find out whether every buffer is reported, also within a recording, which goes on.

    Raises
    ------
    lessons_lib.recording.profile_format.ProfileError
        If the profiler cannot be used now.
    """
    with _session.lock:
        if _session.open and not exactness.exactness.cache_info().currsize:
            with runtime.held_back_stderr():
                internals.set_runtime_up()
            with record(lines=False):  # at its end the profiler stops, and the probe is made
                pass
        return exactness.exactness()


def is_recording() -> bool:
    """Tell whether a recording is open, in any thread."""
    return bool(_session.open)


def versions() -> dict[str, str]:
    """Give the versions that figures depend on."""
    return {"python": platform.python_version(), "tensorflow": runtime.tf.__version__}
