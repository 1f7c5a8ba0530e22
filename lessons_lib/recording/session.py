"""The open profiler session, which serves all open recordings.

TensorFlow allows only one.  When a recording inside another one ends, the session is stopped, read,
and started again, so that the inner recording is finished at once; the outer one goes on.  So does
a long recording: its sessions are read one after the other and folded together, and after its
beginning the profiler rests between them (see `lessons_lib.recording.pacing`).  Other threads wait
meanwhile in front of TensorFlow (see `lessons_lib.recording.gate`); what they still do in that
moment is missing from the outer recording, which then says so.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from typing import Final, Protocol

from lessons_lib.common import internals, runtime
from lessons_lib.common.gc_control import collection_paused
from lessons_lib.common.interrupts import DeferredSignals
from lessons_lib.recording import exactness, notes
from lessons_lib.recording.allocator_counters import counters
from lessons_lib.recording.buffers import BufferStore
from lessons_lib.recording.call_log import CallLog
from lessons_lib.recording.call_watcher import Watcher
from lessons_lib.recording.gate import Gate, work_of_other_threads
from lessons_lib.recording.lifetimes import Ledger
from lessons_lib.recording.markers import mark_moment, mark_with_clock
from lessons_lib.recording.pacing import WINDOW_EVENTS, Pacing, Rest
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.profiler import Profile, Profiler
from lessons_lib.recording.segment import Segment
from lessons_lib.recording.session_checks import Change, Completeness, completeness
from lessons_lib.recording.window import Window

#: After so many events, about, a session is read and the next one begins: longer ones would take
#: more memory than they need (1 KiB an event while TensorFlow writes them out).
SESSION_EVENTS: Final = 60_000
_RETRY_SECONDS: Final = 1.0


class OpenRecording(Protocol):
    """What a session needs of a recording."""

    lines: bool
    chains: bool
    share: float | None
    window: Window
    started_at: float

    def settle(self, store: BufferStore, seconds: float, found: Completeness) -> None:
        """Fill the recording in; called once."""


class Session:
    """The open profiler session, what was read so far, and who still needs it.

    Its methods are called with `lock` held.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: list[OpenRecording] = []
        self.ledger: Ledger | None = None
        self.profiler: Profiler | None = None
        self.watcher: Watcher | None = None
        self.gate = Gate(self.due)
        self.rested_functions = 0
        #: When the session's clock was 0, on Python's, and the moment before it.
        self.began = 0.0
        self.change: Change | None = None
        #: Whether buffers are seen at all; None where nothing could have been.
        self.probe: exactness.Exactness | None = None
        #: Why the profiler could not be started again for recordings that are still open.
        self.failure: ProfileError | None = None
        self.pacing = Pacing()
        #: While the profiler rests in a long recording.
        self.rest: Rest | None = None
        self._busy = False

    def enter(self, recording: OpenRecording) -> None:
        """Open a recording, and the session if it is the first one."""
        if not self.open:
            self.failure = self.change = None
            self.pacing = Pacing()
            self._start()
            self.ledger = Ledger()
            self.gate.begin()
        elif self.failure is not None:
            raise self.failure
        else:
            self.resume()
        assert self.ledger is not None
        self.open.append(recording)
        if recording.lines and self.watcher is None:
            self.gate.remove()  # it is to lie outside of the watcher's wrappers
            self.watcher = Watcher()
            self.watcher.install()
            self.gate.install()
        if self.watcher is not None:
            self.watcher.chains = any(other.chains for other in self.open)
        mark, recording.started_at = mark_with_clock()
        recording.window = self.ledger.begin(mark)

    def _start(self) -> None:
        started = Profiler()
        started.start()
        self.profiler = started
        # Ties the session's clock, which starts at 0, to Python's.
        self.began = self.pacing.began = time.perf_counter()
        windows = self.ledger is not None and self.pacing.may_rest(self._share())
        self.gate.allow(min(WINDOW_EVENTS, SESSION_EVENTS) if windows else SESSION_EVENTS)

    def cut(self) -> None:
        """Fold in what the session has seen so far, and go on in a new one.

        The gate calls this at the boundary of a call, when the session has become long.
        """
        with DeferredSignals(), self.lock:
            if self._busy or not self.open or not self.gate.is_due:
                return
            if os.getpid() != runtime.home_process:
                return
            with collection_paused(), contextlib.suppress(ProfileError):
                self._next(rest=self.pacing.may_rest(self._share()))

    def _share(self) -> float | None:
        """Give the largest share that an open recording asks for; None is the default."""
        asked = [recording.share for recording in self.open]
        return None if None in asked else max((share for share in asked if share), default=None)

    def due(self) -> None:
        """Do what is due at the boundary of a call; the gate calls this.

        A fault of ours must not reach the program: it is said by the recordings that are open.
        """
        try:
            if self.rest is None:
                self.cut()
            else:
                self._look(self.rest)
        except Exception as fault:
            self.failure = ProfileError(f"the recorder itself failed ({fault!r}): report it")
            self.gate.allow(math.inf)

    def _look(self, rest: Rest) -> None:
        """Read the counters while the profiler rests, and go on watching when it is time."""
        now = time.perf_counter()
        current, peak = counters.read()
        rest.note(now, current, peak)
        self.rested_functions += self.gate.calls()[1]
        self.gate.rest()
        if now < rest.until and peak <= self.pacing.highest:
            return
        self.pacing.highest = max(self.pacing.highest, peak)
        if os.getpid() == runtime.home_process:
            with DeferredSignals(), self.lock:
                self.resume()

    def moment(self) -> int:
        """Mark the present moment, in the profile or among the readings of a rest."""
        number, rest = mark_moment(), self.rest
        if rest is not None:
            rest.mark(number, time.perf_counter(), *counters.read())
        return number

    def resume(self) -> None:
        """Let the profiler run again, if it rests."""
        rest = self.rest
        if rest is None or self.ledger is None:
            return
        current, peak = counters.read()
        rest.end = time.perf_counter()
        rest.note(rest.end, current, peak)
        self._busy = True
        self.gate.close()
        try:
            self._start()
            if self.watcher is not None:
                self.watcher.pause(False)
        except ProfileError:  # the program may use the profiler itself meanwhile
            rest.until = rest.end + _RETRY_SECONDS
            self.gate.rest()
            return
        finally:
            self.gate.open()
            self._busy = False
        self.rest = None
        self.pacing.rested(rest.end - rest.begin, self.rested_functions)
        self.ledger.rest(rest)
        self.change = Change(quiet=True, idle=None, rested=True)

    def leave(self, recording: OpenRecording) -> None:
        """Close a recording: stop, read, and start again for those that are still open.

        Raises
        ------
        ProfileError
            If the end of the recording is missing; it can be finished all the same.
        """
        self.open = [other for other in self.open if other is not recording]
        self._next()

    def _next(self, rest: bool = False) -> None:
        """Read the session that runs, and start the next one if a recording is still open.

        With `rest`, the next one starts later.
        """
        assert self.ledger is not None
        change, began = self.change, self.began
        self._busy, calls = True, self.gate.calls()
        stopped = time.perf_counter()
        try:
            profile, log, failure = self._change(rest)
            segment = Segment()
            try:
                if profile is not None:
                    segment = profile.read()
                    self.gate.learn(calls, segment.events)
            except ProfileError as error:
                failure = error
            except MemoryError:
                failure = ProfileError(notes.TOO_LITTLE_MEMORY)
            intact = failure is None and profile is not None
            self.ledger.add(segment, log, began, change, intact)
            self.pacing.watched_events += segment.events
            self.pacing.saw(self.ledger.checks[-1].highest)
            if self.rest is not None:
                self.rest.until = self.pacing.rest_until(self._share(), calls[1], stopped)
            else:
                self.pacing.watched_whole(stopped)
        finally:
            self._busy = False
        if failure is not None:
            raise failure

    def _change(self, rest: bool = False) -> tuple[Profile | None, CallLog, ProfileError | None]:
        """End the session, and begin the next one, or a rest, if a recording is still open."""
        current, self.profiler = self.profiler, None
        watcher, last = self.watcher, not self.open
        profile, log, failure = None, CallLog(), self.failure
        quiet = last or self.gate.close()
        before = None if last else work_of_other_threads()
        level = None if last else self._in_use()[0]
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
            if watcher is not None and not last:
                watcher.take()  # the probe's own calls, which no profile of ours shows
            if last:
                counters.release()
            elif rest:
                self.rest = Rest(time.perf_counter(), counters.read()[0], until=math.inf)
                self.rested_functions = 0
                if watcher is not None:
                    watcher.pause(True)
                self.gate.rest()
            else:
                self._start_again()
                above = None if level is None else max(0, (self._in_use()[1] or 0) - level)
                idle = None if before is None else before == work_of_other_threads()
                self.change = Change(quiet, idle, above=above)
            self.gate.open()
        return profile, log, failure

    def _in_use(self) -> tuple[int, int] | tuple[None, None]:
        """Give the bytes in use, and at least their peak since this was last asked."""
        return counters.look() if internals.runtime_is_set_up() else (None, None)

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

    def finish(self, recording: OpenRecording) -> None:
        """Cut a closed recording out of the run; drop the run when nobody needs it."""
        assert self.ledger is not None
        window = recording.window
        checks = self.ledger.checks[window.session :]
        store, seconds = self.ledger.finish(window)
        recording.settle(store, seconds, completeness(checks))
        if not self.open:
            self.ledger = None
