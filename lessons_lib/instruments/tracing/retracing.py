"""`watch_retracing`: the traces that a block of code makes, of whatever function.

Every trace is described while it is made, so a function may be gone when the block ends.  The
functions of libraries are included: Keras' training step, the functions of a ``tf.data`` pipeline.
Nothing of the user's is kept alive.  Seconds leave out what the watching itself costs.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lessons_lib.common.results import Result
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line
from lessons_lib.common.units import counted, format_bytes
from lessons_lib.instruments.tracing.graph_contents import contents_of
from lessons_lib.instruments.tracing.hooks import Listener, ObservedTrace, listening, observed
from lessons_lib.instruments.tracing.reasons import Key, Reason, TraceCause, reason_for
from lessons_lib.instruments.tracing.resolve import (
    RUN_EAGERLY,
    cached,
    definition_line,
    key_of,
    made_from,
    name_of,
    outside_names,
    unwrapped,
)
from lessons_lib.instruments.tracing.trace_report import Trace, TraceReport, advise, make_trace
from lessons_lib.instruments.tracing.watched import (
    WatchedFunction,
    WatchedTrace,
    advise_remade,
    captured_variables,
)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One new trace of a watched block.

    Attributes
    ----------
    function : str
        The traced function's name.
    trace : Trace
        Its entry.
    """

    function: str
    trace: Trace

    @property
    def reason(self) -> Reason:
        """Why it was needed."""
        return self.trace.reason

    @property
    def line(self) -> Line | None:
        """The user's line whose call made it."""
        return self.trace.line

    @property
    def seconds(self) -> float | None:
        """Time of the call that made it, or of the tracing alone when that call ran nothing."""
        first = self.trace.first_call_seconds
        return self.trace.trace_seconds if first is None else first


@dataclass(frozen=True, repr=False)
class RetracingWatch(Result):
    """What was traced in a block; complete once the block has ended.

    Attributes
    ----------
    reports : tuple of TraceReport
        One for each function that was traced, in the order of their first new trace.
    rows : tuple of TraceRow
        All new traces in the order in which they were finished.
    seconds : float
        Duration of the block.
    finished : bool
        False within the block.
    notes : tuple of str
        What could not be seen, and which functions raised while they were traced.
    failed : int
        How many times a function raised while it was traced: that leaves no trace, and the next
        such call begins again.
    """

    reports: tuple[TraceReport, ...] = ()
    rows: tuple[TraceRow, ...] = ()
    seconds: float = 0.0
    finished: bool = False
    notes: tuple[str, ...] = ()
    failed: int = 0

    @property
    def new_traces(self) -> int:
        """How many traces the block made."""
        return len(self.rows)

    @property
    def retraces(self) -> int:
        """How many of them an earlier trace of the same function might have served."""
        once = (TraceCause.FIRST, TraceCause.VARIABLES)
        return sum(row.trace.cause not in once for row in self.rows)

    @property
    def graph_bytes(self) -> int:
        """Bytes of the new traces' graphs; inner functions count in their callers' as well."""
        return sum(report.graph_bytes for report in self.reports)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to change, a sentence a function, for those where something should be."""
        sentences = (f"{r.name}: {r.advice}" for r in self.reports if r.advice)
        return tuple(dict.fromkeys(sentences))

    def report(self, name: str) -> TraceReport:
        """Give the report of a function by its name; of several, the first.

        Parameters
        ----------
        name : str
            With or without its module or class.

        Raises
        ------
        KeyError
            If no function of that name was traced in the block.
        """
        for found in self.reports:
            if name in (found.name, found.name.rpartition(".")[2]):
                return found
        known = ", ".join(dict.fromkeys(found.name for found in self.reports)) or "none"
        raise KeyError(f"no function named {name} was traced in the block; traced were: {known}")

    def __repr__(self) -> str:
        if not self.finished:
            return "<watching for traces; complete when the block ends>"
        if not self.rows:
            raised = f", {self.failed} times a function raised in tracing" if self.failed else ""
            return f"<no function was traced in the block{raised}>"
        functions = len(self.reports)
        return (
            f"<{counted(self.new_traces, 'new trace')} of {counted(functions, 'function')}, "
            f"{self.retraces} of them retracing, {format_bytes(self.graph_bytes)} of graphs>"
        )


class _Watcher(Listener):
    """Listens for traces and describes each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: dict[int, WatchedFunction] = {}
        self.order: list[tuple[WatchedFunction, WatchedTrace]] = []
        self.unread = 0
        self.of_loaded: list[int] = []  # bytes of TensorFlow's graphs around loaded functions
        self.failures: Counter[str] = Counter()  # by what is said of it
        self.eagerly = tf.config.functions_run_eagerly()

    def made(self, concrete: Any, options: Any, seen: ObservedTrace | None) -> None:
        """Describe a new trace (called by the hook)."""
        if seen is None:
            self.unread += 1
            return
        try:
            contents = contents_of(concrete.graph, outside_names(options.python_function))
            if seen.of_loaded:
                self.of_loaded.append(contents.graph_bytes)
                return
            variables = captured_variables(concrete.graph, contents)
            with self.lock:
                owner = self._owner(options)
                reason = reason_for(seen.key, owner.keys)
                number = owner.earlier + len(owner.entries) + 1
                entry = WatchedTrace(number, seen.key, reason, contents, seen, variables)
                owner.keys.append(seen.key)
                owner.entries.append(entry)
                self.order.append((owner, entry))
        except Exception:  # to watch must never break what is watched; it is counted, and told
            self.unread += 1

    def failed(self, options: Any, line: Line | None, error: BaseException) -> None:
        """Count a function that raised (called by the hook)."""
        name = name_of(options.python_function, options.name)
        called = "" if line is None else f", called at {line}"
        with self.lock:
            self.failures[f"{name} raised {type(error).__name__} while it was traced{called}"] += 1

    def _owner(self, options: Any) -> WatchedFunction:
        identity = options.polymorphic_type
        owner = self.owners.get(id(identity))
        if owner is None:
            python_function = options.python_function
            plain, instance = unwrapped(python_function)
            keys = [_known_key(*stored) for stored in cached(options.function_cache)]
            owner = WatchedFunction(
                identity,
                name_of(python_function, options.name),
                definition_line(python_function),
                made_from(python_function),
                str(getattr(plain, "__module__", "")),
                instance is not None,
                len(keys),
                keys,
                "" if instance is None else str(type(instance)),
            )
            self.owners[id(identity)] = owner
        return owner

    def settle(self, watch: RetracingWatch, seconds: float) -> None:
        """Fill the result in at the end of the block."""
        with self.lock:
            made: dict[int, Trace] = {
                id(entry): make_trace(
                    entry.number,
                    entry.key,
                    entry.reason,
                    entry.contents,
                    entry.seen,
                    owner.keys,
                    owner.whose,
                )
                for owner, entry in self.order
            }
            alike: dict[Hashable, list[WatchedFunction]] = {}
            for owner in self.owners.values():
                alike.setdefault(owner.likeness, []).append(owner)
            reports = tuple(
                _report(owner, [made[id(entry)] for entry in owner.entries], alike[owner.likeness])
                for owner in self.owners.values()
            )
            rows = tuple(TraceRow(owner.name, made[id(entry)]) for owner, entry in self.order)
        values = {
            "reports": reports, "rows": rows, "seconds": seconds, "notes": tuple(self._notes()),
            "finished": True, "failed": self.failures.total(),
        }  # fmt: skip
        for name, value in values.items():
            object.__setattr__(watch, name, value)  # the one moment at which a watch changes

    def _notes(self) -> Iterator[str]:
        if self.eagerly or tf.config.functions_run_eagerly():
            yield RUN_EAGERLY
        if self.of_loaded:
            yield (
                f"{counted(len(self.of_loaded), 'call')} of functions that were loaded went "
                f"through a small graph of TensorFlow's ({format_bytes(sum(self.of_loaded))} in "
                "all), which is no trace of the function."
            )
        for what, times in self.failures.most_common():
            yield f"{what}: {counted(times, 'call')} without a trace, each of which began anew."
        if self.unread:
            yield f"{counted(self.unread, 'further trace')} could not be read."


def _known_key(concrete: Any, context: tuple[tuple[str, Any], ...]) -> Key:
    seen = observed.get(concrete)
    return key_of(concrete, context) if seen is None else Key(seen.key.signature, context)


def _report(
    owner: WatchedFunction, traces: Sequence[Trace], alike: Sequence[WatchedFunction]
) -> TraceReport:
    remade = 1 if owner.likeness is None else len(alike)
    advice = advise(traces, owner.keys, owner.whose)
    causes = {trace.cause for trace in traces}
    if remade > 1 and causes <= {TraceCause.FIRST, TraceCause.VARIABLES}:
        advice = advise_remade(owner, alike)
    return TraceReport(
        name=owner.name,
        line=owner.line,
        traces=tuple(traces),
        earlier=owner.earlier,
        advice=advice,
        remade=remade,
    )


@contextmanager
def watch_retracing() -> Iterator[RetracingWatch]:
    """Watch which functions are traced in a block, why, and how long it takes.

    Returns
    -------
    RetracingWatch
        From ``with``: complete once the block has ended, also when it raised.

    Notes
    -----
    All threads are watched, and functions of libraries too.  Blocks may be nested; each sees the
    traces made within it.

    Examples
    --------
    >>> with watch_retracing() as watch:
    ...     model.fit(x, y)
    >>> watch.reports
    """
    watcher, watch = _Watcher(), RetracingWatch()
    began = time.perf_counter()
    try:
        with listening(watcher, timing=True):
            yield watch
    finally:
        watcher.settle(watch, time.perf_counter() - began)
