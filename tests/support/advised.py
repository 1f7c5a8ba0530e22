"""Functions to be traced, the advice on them, and what is left when it is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.equality import first_difference, snapshot
from lessons_lib.instruments.tracing import trace_report

Body = Callable[..., Any]


def traced(body: Body, calls: list[tuple[Any, ...]], **options: Any) -> tuple[Any, list[Any]]:
    """Call a new tf.function as often as there are arguments; give it and copied results."""
    fn = tf.function(body, **options)
    return fn, [snapshot(fn(*arguments)) for arguments in calls]


def advice_of(body: Body, calls: list[tuple[Any, ...]], traces: int) -> tuple[str, list[Any]]:
    fn, results = traced(body, calls)
    assert fn.experimental_get_tracing_count() == traces
    report = trace_report(fn)
    assert len(report.traces) == traces
    # The last trace's own sentence tells the same cause.
    assert bool(report.traces[-1].advice) is bool(report.advice)
    return report.advice, results


def followed(
    body: Body, calls: list[tuple[Any, ...]], results: list[Any], promised: int, **options: Any
) -> None:
    """Do what was advised: so many traces remain, and the results are equal."""
    fn, again = traced(body, calls, **options)
    assert fn.experimental_get_tracing_count() == promised
    assert first_difference(results, again) is None
