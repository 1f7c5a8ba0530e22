"""`compare`: ways of doing the same thing, measured side by side and checked against each other.

All functions are warmed up first and then called in turns, each round in another order, so that
none has the better moment.  Each call is recorded on its own; sizes are bytes and times seconds.
Results are compared with those of the first function that gives the same in each call (see
`lessons_lib.instruments.equality`): it is said when they differ, and nothing is hidden then.
Outside of TensorFlow's allocator nothing is seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lessons_lib.common.arguments import check_count, check_function, check_runs
from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.runtime import require_home_process
from lessons_lib.common.units import about_seconds, byte_range, format_bytes
from lessons_lib.instruments import equality
from lessons_lib.instruments.equality import Mismatch
from lessons_lib.instruments.measure import (
    Measurement,
    run_once,
    set_aside,
    summarise,
)
from lessons_lib.instruments.tracing import TraceCounter
from lessons_lib.recording.recording import Recording


@dataclass(frozen=True)
class Disagreement:
    """Two functions whose results differ, or one whose results differ from call to call.

    Attributes
    ----------
    first, second : str
        Labels of the functions; the same one for a function that disagrees with itself.
    difference : Mismatch
        Where, and how.
    """

    first: str
    second: str
    difference: Mismatch

    def __str__(self) -> str:
        if self.first == self.second:
            return (
                f"The result of {self.first!r} changes from call to call, {self.difference}; so "
                "it cannot be compared: fix its seed and its state."
            )
        return f"The results of {self.first!r} and {self.second!r} differ {self.difference}."


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """What several functions needed, and whether they gave the same result.

    Attributes
    ----------
    measurements : tuple of Measurement
        In the order given; also ``comparison["label"]``.
    traces : tuple of int
        Traces of ``tf.function`` that each function's calls made, those of the warm-up included.
    disagreements : tuple of Disagreement
        Empty when all results agree.
    agree : bool or None
        Whether all results agree; None when they hold nothing that could be compared.
    notes : tuple of str
        What a reader must know, in sentences.
    """

    measurements: tuple[Measurement, ...]
    traces: tuple[int, ...]
    disagreements: tuple[Disagreement, ...]
    agree: bool | None
    notes: tuple[str, ...] = ()

    def __getitem__(self, label: str) -> Measurement:
        for measurement in self.measurements:
            if measurement.label == label:
                return measurement
        known = ", ".join(repr(m.label) for m in self.measurements)
        raise KeyError(f"nothing was compared under the name {label!r}: choose one of {known}")

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements)

    def __len__(self) -> int:
        return len(self.measurements)

    @property
    def recordings(self) -> dict[str, Recording]:
        """Of each function, the call with the highest peak, by label."""
        return {m.label: m.recording for m in self.measurements}

    def __repr__(self) -> str:
        peaks = ", ".join(f"{m.label} {byte_range(*m.peak_range)}" for m in self.measurements)
        verdict = {True: "results agree", False: "RESULTS DIFFER", None: "results not compared"}
        return f"<Comparison: peak {peaks}; {verdict[self.agree]}>"


@summary_html.register
def _(result: Comparison) -> str:
    unsteady = {d.second for d in result.disagreements if d.first == d.second}
    wrong = {d.second for d in result.disagreements} - unsteady
    reference = next((m.label for m in result if m.label not in unsteady), None)

    def verdict(label: str) -> str:
        if result.agree is None:
            return "not compared"
        if label in unsteady:
            return "changes from call to call"
        if label in wrong:
            return "differs"
        return "the reference" if label == reference else "agrees"

    rows = [
        (
            m.label,
            byte_range(*m.peak_range),
            format_bytes(m.kept_bytes),
            format_bytes(m.recording.allocated_bytes),
            f"{int((m.recording.buffers.born >= 0).sum()):,}",
            about_seconds(m.seconds),
            f"{traces} ({m.new_traces})",
            verdict(m.label),
        )
        for m, traces in zip(result, result.traces, strict=True)
    ]
    headers = (
        "compared",
        "peak",
        "kept by the result",
        "allocated in all",
        "buffers",
        "time",
        "traces (after the warm-up)",
        "result",
    )
    table = html_table(headers, rows, align="lrrrrrrl")
    return table + notes_table([*result.disagreements, *result.notes])


@dataclass
class _Contender:
    """One function while it is being measured."""

    label: str
    fn: Callable[[], Any]
    rtol: float | None
    traces: TraceCounter = field(default_factory=TraceCounter)
    warm_traces: int = 0
    first: Any = None
    unsteady: Mismatch | None = None
    runs: list[tuple[Recording, int]] = field(default_factory=list)
    done: int = 0

    def look(self, result: Any) -> None:
        self.done += 1
        if self.done == 1:
            self.first = equality.snapshot(result)
        elif self.unsteady is None:
            again = equality.snapshot(result)
            self.unsteady = equality.first_difference(self.first, again, rtol=self.rtol)

    def warm(self) -> None:
        with self._named(), self.traces:
            result = self.fn()
        self.look(result)

    def run(self) -> None:
        with self._named(), self.traces:
            self.runs.append(run_once(self.fn, self.label, self.look))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"raised by {self.label!r}, one of the functions that compare called")
            raise


def compare(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int = 3,
    warmup: int = 1,
    *,
    rtol: float | None = None,
) -> Comparison:
    """Measure functions side by side, and check that they give the same result.

    Parameters
    ----------
    functions : mapping of str to callable
        Functions without arguments, by the names to show.  Each is called exactly
        ``warmup + repeats`` times.
    repeats : int
        How many calls of each are measured, at least 1.
    warmup : int
        How many calls of each come first, unmeasured, so that traces and caches are in place.
    rtol : float, optional
        Relative tolerance for results; by default the square root of the precision of their type
        (float32: 3.5e-4).  A hundredth of it is relative to an array's largest number,
        for sums that cancel out; not to a mask's, which is the same in both results and found in
        several places, or over 100 times all others.  Whole numbers and text must be equal.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError, ValueError
        If an argument is unusable; then nothing was called.
    Exception
        Whatever a function raises.

    Examples
    --------
    >>> compare({"eager": lambda: step(x), "graph": lambda: graph_step(x)})
    """
    _check(functions, rtol)
    repeats = check_count(repeats, "repeats", 1)
    warmup = check_count(warmup, "warmup", 0)
    require_home_process()
    check_runs("compare is called", "call it outside of the function")
    contenders = [_Contender(label, fn, rtol) for label, fn in functions.items()]
    with set_aside(warmup):
        for contender in contenders:
            for _ in range(warmup):
                contender.warm()
            contender.warm_traces = contender.traces.count
        for turn in range(repeats):
            first = turn % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                contender.run()
    return _comparison(contenders, warmup)


def _check(functions: Any, rtol: Any) -> None:
    if not isinstance(functions, Mapping):
        raise TypeError(
            f"compare takes a dict of functions by name, not {type(functions).__name__}: "
            'write compare({"eager": f, "graph": g})'
        )
    if not functions:
        raise ValueError("there is nothing to compare: give at least one function, by its name")
    for label, fn in functions.items():
        if not isinstance(label, str) or not label:
            raise TypeError(f"a function's name is text, not {label!r}: name it as tables show it")
        check_function(fn, f"compare (for {label!r})")
    numeric = isinstance(rtol, (int, float)) and not isinstance(rtol, bool)
    if rtol is not None and not (numeric and 0 <= rtol < float("inf")):
        raise ValueError(f"rtol is {rtol!r}: give a number of at least 0, such as 1e-3, or None")


def _comparison(contenders: list[_Contender], warmup: int) -> Comparison:
    measurements = [
        summarise(c.label, c.runs, c.traces.count - c.warm_traces, warmup) for c in contenders
    ]
    found = [
        Disagreement(c.label, c.label, c.unsteady) for c in contenders if c.unsteady is not None
    ]
    steady = [c for c in contenders if c.unsteady is None]
    for c in steady[1:]:
        differs = equality.first_difference(steady[0].first, c.first, rtol=c.rtol)
        if differs is not None:
            found.append(Disagreement(steady[0].label, c.label, differs))
    agree: bool | None = not found
    notes = [note for m in measurements for note in m.recording.notes]
    if not any(equality.holds_numbers(c.first) for c in contenders):
        if agree and len(contenders) > 1:
            notes.append(
                "The functions return nothing that can be compared: let each return its result."
            )
        agree = None if agree else False
    left_out = dict.fromkeys(text for c in contenders for text in equality.uncompared(c.first))
    if left_out:
        notes.append(f"Not compared, because there are no numbers in it: {', '.join(left_out)}.")
    return Comparison(
        measurements=tuple(measurements),
        traces=tuple(c.traces.count for c in contenders),
        disagreements=tuple(found),
        agree=agree,
        notes=tuple(dict.fromkeys(notes)),
    )
