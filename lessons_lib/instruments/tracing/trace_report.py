"""`trace_report`: the ledger of a ``tf.function``, one entry for each trace.

An entry says what the trace was made for, why it was needed, and what its graph holds.  Sizes are
bytes, times are seconds.  The report is made of numbers and names and keeps no graph, tensor or
function alive.  Reading it traces nothing and calls nothing.

What it cannot see: memory that the runtime uses beside the graph (kernels, constants folded when
the graph first runs, XLA's programs), traces that TensorFlow has dropped, and calls that raised
while the function was traced, which leave nothing (`watch_retracing` counts them).  Times are known
only of traces that an instrument watched (`watch_retracing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lessons_lib.common.results import Result
from lessons_lib.common.runtime import require_home_process
from lessons_lib.common.source import Line
from lessons_lib.common.units import counted, format_bytes
from lessons_lib.instruments.tracing.advice import FunctionOwner, advise_function, advise_trace
from lessons_lib.instruments.tracing.graph_contents import (
    Capture,
    Constant,
    Contents,
    UnrolledLoop,
    contents_of,
)
from lessons_lib.instruments.tracing.hooks import ObservedTrace, observed
from lessons_lib.instruments.tracing.reasons import Key, Reason, TraceCause, reason_for
from lessons_lib.instruments.tracing.resolve import key_of, outside_names, resolve


@dataclass(frozen=True, repr=False)
class Trace:
    """One trace of a function.

    Attributes
    ----------
    number : int
        1 for the function's first trace.
    signature : str
        What it was made for: ``x: float32[2, 3], k=5``.
    reason : Reason
        Why it was needed, against which earlier trace.
    contents : Contents
        What its graph holds.
    advice : str
        What to change; empty when nothing need be.
    line : Line or None
        The user's line whose call made it; None when no instrument watched.
    trace_seconds, first_call_seconds : float or None
        Time to trace it; time of the call that did, with the first run.  None when not watched;
        the second also when the call ran nothing.
    """

    number: int
    signature: str
    reason: Reason
    contents: Contents
    advice: str = ""
    line: Line | None = None
    trace_seconds: float | None = None
    first_call_seconds: float | None = None

    @property
    def cause(self) -> TraceCause:
        """What made the trace necessary."""
        return self.reason.cause

    @property
    def ops(self) -> int:
        """Operations, those of inner graphs included, each inner graph once."""
        return self.contents.ops

    @property
    def graph_bytes(self) -> int:
        """Size of the serialised graph with its library of functions, constants included."""
        return self.contents.graph_bytes

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants that are written into the graph."""
        return self.contents.constant_bytes

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The largest constants, each with the line that put it there."""
        return self.contents.constants

    @property
    def captures(self) -> tuple[Capture, ...]:
        """Tensors and variables from outside that the graph refers to."""
        return self.contents.captures

    @property
    def captured_bytes(self) -> int:
        """Bytes of the captured tensors and variables whose size is known."""
        return sum(capture.nbytes or 0 for capture in self.captures)

    @property
    def unrolled(self) -> UnrolledLoop | None:
        """The Python loop that was copied into the graph step by step, most of all.

        None where no loop has 16 copies: a shorter one is not worth a change.
        """
        return self.contents.unrolled

    def __repr__(self) -> str:
        return (
            f"<trace {self.number}: {self.reason}; {self.ops} ops, "
            f"{format_bytes(self.graph_bytes)}>"
        )


@dataclass(frozen=True, repr=False)
class TraceReport(Result):
    """The traces of one ``tf.function``.

    Attributes
    ----------
    name : str
        The function's name.
    line : Line or None
        Where the user defined it; None for a library's function.
    traces : tuple of Trace
        In the order in which they were made.  From `watch_retracing`: those made in the block.
    earlier : int
        How many traces it had before the first one here (0 from `trace_report`).
    advice : str
        The one change that would help most; empty when nothing need be done.
    remade : int
        From `watch_retracing`: how many functions made from the same code were traced in the
        block to graphs that are alike, this one included.
    notes : tuple of str
        What else should be known.
    """

    name: str
    line: Line | None
    traces: tuple[Trace, ...]
    earlier: int = 0
    advice: str = ""
    remade: int = 1
    notes: tuple[str, ...] = ()

    @property
    def ops(self) -> int:
        """Operations of all the traces together."""
        return sum(trace.ops for trace in self.traces)

    @property
    def graph_bytes(self) -> int:
        """Bytes of all the traces' graphs together, constants included."""
        return sum(trace.graph_bytes for trace in self.traces)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the constants written into the traces' graphs."""
        return sum(trace.constant_bytes for trace in self.traces)

    @property
    def seconds(self) -> float | None:
        """Time of the first calls that were watched (else of the tracing); None if none was."""
        known = [seconds for trace in self.traces if (seconds := seconds_of(trace)) is not None]
        return sum(known) if known else None

    @property
    def causes(self) -> dict[TraceCause, int]:
        """How many traces each cause made, most first."""
        return dict(Counter(trace.cause for trace in self.traces).most_common())

    def __repr__(self) -> str:
        if not self.traces:
            return f"<{self.name}: not traced yet>"
        return f"<{self.name}: {headline(self)}>"


def seconds_of(trace: Trace) -> float | None:
    """Give the time of a trace's first call, or of its tracing, or None when not watched."""
    return trace.trace_seconds if trace.first_call_seconds is None else trace.first_call_seconds


def headline(report: TraceReport) -> str:
    """Say in a few words how many traces there are, how large, and what most were made for."""
    count = len(report.traces)
    new = "new " if report.earlier else ""
    text = f"{counted(count, f'{new}trace')}, {format_bytes(report.graph_bytes)}"
    text += " of graph" if count == 1 else " of graphs"
    later = Counter(argument_of(trace) for trace in report.traces if trace.reason.differences)
    if later:
        (cause, argument), times = later.most_common(1)[0]
        text += f", {times} for {cause}{f' of {argument}' if argument else ''}"
    return text


def argument_of(trace: Trace) -> tuple[TraceCause, str]:
    """Give a trace's cause and the argument that it lies in (empty for a first trace)."""
    found = trace.reason.differences
    return trace.cause, found[0].argument if found else ""


def alike_in_a_row(traces: Iterable[Trace]) -> list[list[Trace]]:
    """Group traces of one cause and argument that follow each other."""
    return [list(group) for _, group in groupby(traces, argument_of)]


def make_trace(
    number: int,
    key: Key,
    reason: Reason,
    contents: Contents,
    seen: ObservedTrace | None,
    earlier: Sequence[Key],
    owner: FunctionOwner,
) -> Trace:
    """Put an entry together; `earlier` are the keys of the traces before it."""
    nearest = () if reason.nearest is None else (earlier[reason.nearest - 1].signature,)
    return Trace(
        number=number,
        signature=key.signature.text,
        reason=reason,
        contents=contents,
        advice=advise_trace(reason, contents, (*nearest, key.signature), owner),
        line=None if seen is None else seen.line,
        trace_seconds=None if seen is None else seen.trace_seconds,
        first_call_seconds=None if seen is None else seen.first_call_seconds,
    )


def trace_report(fn: Any) -> TraceReport:
    """Report the traces of a ``tf.function``: why each was needed, and what it holds.

    Parameters
    ----------
    fn : tf.function, bound method, Keras function or concrete function
        The function; a method is reported for the instance it is bound to.  Of Keras' models,
        ``model.train_function`` and its like.

    Returns
    -------
    TraceReport
        Empty, and saying so, for a function that was not traced yet.

    Raises
    ------
    TypeError
        If `fn` is not traced by TensorFlow; the message says what to give instead.

    Examples
    --------
    >>> step(x, 1), step(x, 2)
    >>> trace_report(step).traces[1].reason
    """
    require_home_process()
    target = resolve(fn)
    names = {} if target.function is None else outside_names(target.function.python_function)
    keys: list[Key] = []
    traces: list[Trace] = []
    for concrete, context in target.traces:
        seen = observed.get(concrete)
        key = key_of(concrete, context)
        if seen is not None:  # described while its arguments were alive
            key = Key(seen.key.signature, context)
        contents = contents_of(concrete.graph, names)
        reason, number = reason_for(key, keys), len(traces) + 1
        traces.append(make_trace(number, key, reason, contents, seen, keys, target.owner))
        keys.append(key)
    return TraceReport(
        name=target.name,
        line=target.line,
        traces=tuple(traces),
        advice=advise(traces, keys, target.owner),
        notes=target.notes,
    )


def advise(traces: Sequence[Trace], keys: Sequence[Key], owner: FunctionOwner) -> str:
    """Give the one sentence for a function; `keys` may hold those of earlier traces as well."""
    return advise_function(
        [trace.reason for trace in traces],
        [trace.contents for trace in traces],
        [key.signature for key in keys],
        owner,
    )


def count_traces(fn: Any) -> int:
    """Count the traces that a ``tf.function`` has now.

    Parameters
    ----------
    fn : callable
        As for `trace_report`.

    Raises
    ------
    TypeError
        If `fn` is not traced by TensorFlow.
    """
    return len(resolve(fn).traces)
