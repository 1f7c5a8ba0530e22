"""Tracing of ``tf.function``: which traces there are, why, and what they hold.

`trace_report` is the report of one function, `watch_retracing` that of a block, `TraceCounter`
counts traces for other instruments.  Below them: `nodes` and `signatures` (what a trace was made
for), `reasons` (why it was needed), `advice` (what to change), `graph_contents` (what its graph
holds), `resolve` (the function behind what is handed over), `hooks` (notices traces while they are
made), `watched` (functions of a block, made again), `tables` (for notebooks).
"""

from __future__ import annotations

from lessons_lib.common import runtime  # noqa: F401 - loads TensorFlow quietly, before any part of it
from lessons_lib.instruments.tracing import tables  # noqa: F401 - registers the tables
from lessons_lib.instruments.tracing.graph_contents import (
    Capture,
    CaptureKind,
    Constant,
    Contents,
    UnrolledLoop,
)
from lessons_lib.instruments.tracing.hooks import TraceCounter, unobserved
from lessons_lib.instruments.tracing.reasons import Difference, Reason, TraceCause
from lessons_lib.instruments.tracing.retracing import RetracingWatch, TraceRow, watch_retracing
from lessons_lib.instruments.tracing.trace_report import (
    Trace,
    TraceReport,
    count_traces,
    trace_report,
)

__all__ = [
    "Capture",
    "CaptureKind",
    "Constant",
    "Contents",
    "Difference",
    "Reason",
    "RetracingWatch",
    "Trace",
    "TraceCause",
    "TraceCounter",
    "TraceReport",
    "TraceRow",
    "UnrolledLoop",
    "count_traces",
    "trace_report",
    "unobserved",
    "watch_retracing",
]
