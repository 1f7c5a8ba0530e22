"""`record`: watch TensorFlow's memory during a block of code.

One profiler session serves all open recordings, because TensorFlow allows only one.  When a
recording inside another one ends, the session is stopped, read, and started again, so that the
inner recording is finished at once; the outer one goes on.  So does a long recording: its sessions
are read one after the other and folded together.  Other threads wait meanwhile in front
of TensorFlow (see `lessons_lib.recording.gate`); what they still do in that moment is missing from
the outer recording, which then says so.

This module holds the package's only mutable global state: the open session.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final

from lessons_lib.common import internals, runtime
from lessons_lib.common.interrupts import DeferredSignals
from lessons_lib.common.units import counted, format_bytes
from lessons_lib.recording import exactness, profile_format, profiler
from lessons_lib.recording.buffers import BufferStore
from lessons_lib.recording.call_log import CallLog, Watcher
from lessons_lib.recording.gate import Gate, work_of_other_threads
from lessons_lib.recording.lifetimes import Ledger, Window
from lessons_lib.recording.profile_format import ProfileError, Segment
from lessons_lib.recording.profiler import Profile, Profiler
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.session_checks import Change, Completeness, completeness

#: After so many events, about, a session is read and the next one begins: longer ones would take
#: more memory than they need (1 KiB an event while TensorFlow writes them out).
SESSION_EVENTS: Final = 60_000
_TOO_LITTLE_MEMORY: Final = (
    "there was too little memory to read a part of what TensorFlow's profiler had written, so it "
    "is missing: give the process more memory"
)
_LOST: Final = (
    "Some allocations were not reported (the profiler was disturbed, or, in TensorFlow 2.16, a "
    "thread ended and another one followed): these bytes may be off"
)
_CHANGED: Final = (
    "Some allocations were not reported, or may not have been: other threads worked at {times} "
    "when a recording that overlaps with this one ended and the profiler had to start again. "
    "These bytes may be off"
)


class _Session:
    """The open profiler session, what was read so far, and who still needs it.

    Its methods are called with `lock` held.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: list[record] = []
        self.ledger: Ledger | None = None
        self.profiler: Profiler | None = None
        self.watcher: Watcher | None = None
        self.gate = Gate(self.cut)
        #: When the session's clock was 0, on Python's, and the moment before it.
        self.began = 0.0
        self.change: Change | None = None
        #: Whether buffers are seen at all; None where nothing could have been.
        self.probe: exactness.Exactness | None = None
        #: Why the profiler could not be started again for recordings that are still open.
        self.failure: ProfileError | None = None
        self.marks = 0
        self._busy = False

    def enter(self, recording: record) -> None:
        if not self.open:
            self.failure = self.change = None
            self._start()
            self.ledger = Ledger()
            self.gate.begin()
        elif self.failure is not None:
            raise self.failure
        assert self.ledger is not None
        self.open.append(recording)
        if recording.lines and self.watcher is None:
            self.gate.remove()  # it is to lie outside of the watcher's wrappers
            self.watcher = Watcher()
            self.watcher.install()
            self.gate.install()
        before = time.perf_counter()
        recording.window = self.ledger.begin(self.mark())
        recording.started_at = (before + time.perf_counter()) / 2

    def mark(self) -> int:
        self.marks += 1
        profiler.mark(profile_format.WINDOW, self.marks)
        return self.marks

    def _start(self) -> None:
        started = Profiler()
        started.start()
        self.profiler = started
        # Ties the session's clock, which starts at 0, to Python's.
        self.began = time.perf_counter()
        self.gate.allow(SESSION_EVENTS)

    def cut(self) -> None:
        """Fold in what the session has seen so far, and go on in a new one.

        The gate calls this at the boundary of a call, when the session has become long.
        """
        with DeferredSignals(), self.lock:
            if self._busy or not self.open or not self.gate.is_due:
                return
            if os.getpid() != runtime.home_process:
                return
            with _collection_paused(), contextlib.suppress(ProfileError):
                self._next()

    def leave(self, recording: record) -> None:
        """Close a recording: stop, read, and start again for those that are still open.

        Raises
        ------
        ProfileError
            If the end of the recording is missing; it can be finished all the same.
        """
        self.open = [other for other in self.open if other is not recording]
        self._next()

    def _next(self) -> None:
        """Read the session that runs, and start the next one if a recording is still open."""
        assert self.ledger is not None
        change, began = self.change, self.began
        self._busy, calls = True, self.gate.calls()
        try:
            profile, log, failure = self._change()
            segment = Segment()
            try:
                if profile is not None:
                    segment = profile.read()
                    self.gate.learn(calls, segment.events)
            except ProfileError as error:
                failure = error
            except MemoryError:
                failure = ProfileError(_TOO_LITTLE_MEMORY)
            intact = failure is None and profile is not None
            self.ledger.add(segment, log, began, change, intact)
        finally:
            self._busy = False
        if failure is not None:
            raise failure

    def _change(self) -> tuple[Profile | None, CallLog, ProfileError | None]:
        """End the session, and begin the next one if a recording is still open."""
        current, self.profiler = self.profiler, None
        watcher, last = self.watcher, not self.open
        profile, log, failure = None, CallLog(), self.failure
        quiet = last or self.gate.close()
        before = None if last else work_of_other_threads()
        try:
            if current is not None:
                profile = current.end()
        except ProfileError as error:
            failure = error
        finally:
            if last:
                self.gate.remove()
            if watcher is not None:
                log = watcher.take()
                if last:
                    watcher.remove()
                    self.watcher = None
            self._probe()
            if not last:
                self._start_again()
                idle = None if before is None else before == work_of_other_threads()
                self.change = Change(quiet, idle)
            self.gate.open()
        return profile, log, failure

    def _probe(self) -> None:
        """Ask whether buffers are seen, with no profiler of ours running.

        Not before TensorFlow is set up: the program may still have to configure its devices.
        """
        if not internals.runtime_is_set_up():
            return
        try:
            self.probe = exactness.exactness()
        except ProfileError as error:
            self.probe = exactness.Exactness(False, (str(error),), "")

    def _start_again(self) -> None:
        try:
            self._start()
        except ProfileError as error:
            # The recording that ends now is whole; those around it will say what is missing.
            self.began = time.perf_counter()
            self.failure = error

    def finish(self, recording: record) -> None:
        """Cut a closed recording out of the run; drop the run when nobody needs it."""
        assert self.ledger is not None
        window = recording.window
        checks = self.ledger.checks[window.session :]
        store, seconds = self.ledger.finish(window)
        recording.settle(store, seconds, completeness(checks))
        if not self.open:
            self.ledger = None


_session: Final = _Session()


def note_inputs(tensors: Iterable[Any]) -> None:
    """Say within a recording which tensors are a batch; strings are left out."""
    if (watcher := _session.watcher) is not None:
        watcher.noter.inputs(tensors)


class record(contextlib.AbstractContextManager[Recording]):  # noqa: N801 - used like a function
    """Watch every buffer that TensorFlow allocates or frees during a block.

    Parameters
    ----------
    label : str
        A name for the recording, shown in tables and pictures.
    lines : bool
        Whether eager operations are tied to source lines; this costs a microsecond or two an
        operation.  Operations of graphs are tied to theirs when they were called in a recording
        with lines.

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

    def __init__(self, label: str = "", lines: bool = True) -> None:
        if not isinstance(label, str):
            raise TypeError(f"a recording's label is text, not {label!r}: give text, or nothing")
        self.label = label
        self.lines = bool(lines)
        self.window = Window(0, 0)
        self.started_at = 0.0
        self._recording: Recording | None = None
        self._failed = self._ended = False
        self._notes: tuple[str, ...] = ()

    def __enter__(self) -> Recording:
        if self._recording is not None:
            raise RuntimeError("this record() was used before: write a new `with ll.record():`")
        runtime.require_home_process()
        recording = Recording.open(self.label)
        try:
            with _session.lock, DeferredSignals():
                if internals.runtime_is_set_up():
                    exactness.exactness()
                _session.enter(self)
                self._recording = recording
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
        with DeferredSignals(), _collection_paused(), _session.lock:
            self._ended = True
            self.window.end_mark = _session.mark()
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
        notes = (*(probe.notes if probe is not None else ()), *self._notes)
        self._recording.close(
            seconds=seconds,
            buffers=store,
            exact=found.whole and not self._failed and (probe is None or probe.exact),
            notes=notes if found.whole or self._failed else (*notes, _missing(found)),
            versions=versions(),
            missing_bytes=found.missing_bytes,
            started_at=self.started_at,
        )


def _missing(found: Completeness) -> str:
    """Say in a sentence what a recording lacks."""
    said = _LOST
    if found.changes:
        said = _CHANGED.format(times=counted(found.changes, "moment"))
    return f"{said} by {format_bytes(found.missing_bytes)}." if found.missing_bytes else f"{said}."


@contextlib.contextmanager
def _collection_paused() -> Iterator[None]:
    """Keep the garbage collector off: a profile makes many objects at once, and no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def versions() -> dict[str, str]:
    """Give the versions that figures depend on."""
    return {"python": platform.python_version(), "tensorflow": runtime.tf.__version__}
