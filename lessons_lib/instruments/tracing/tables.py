"""Tables of traces, as a notebook shows them: a function's ledger, and what a block traced.

Traces of one cause that follow each other are folded.  Seconds are measured, so they come after
"≈"; everything else is exact.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from lessons_lib.common.results import html_table, summary_html
from lessons_lib.common.units import about_seconds, format_bytes
from lessons_lib.instruments.tracing.graph_contents import Capture, CaptureKind
from lessons_lib.instruments.tracing.retracing import RetracingWatch
from lessons_lib.instruments.tracing.trace_report import (
    Trace,
    TraceReport,
    alike_in_a_row,
    argument_of,
    headline,
    seconds_of,
)

#: Of a row of traces with one cause, so many are shown before the rest is folded.
_SHOWN: Final = 3
HEADERS: Final = (
    "trace",
    "why",
    "signature",
    "ops",
    "graph",
    "constants",
    "captured",
    "first call",
)


def _constants_text(trace: Trace) -> str:
    if not trace.constant_bytes:
        return "0"
    largest = trace.constants[0]
    where = f" ({largest.line})" if largest.line is not None and largest.nbytes >= 1024 else ""
    return format_bytes(trace.constant_bytes) + where


def _captures_text(trace: Trace) -> str:
    def one(capture: Capture) -> str:
        size = "" if capture.nbytes is None else f" {format_bytes(capture.nbytes)}"
        kind = "" if capture.kind is CaptureKind.TENSOR else f" ({capture.kind})"
        return f"{capture.name}{size}{kind}"

    texts = [one(capture) for capture in trace.captures[:3]]
    if rest := trace.captures[3:]:
        texts.append(f"{len(rest)} more {format_bytes(sum(c.nbytes or 0 for c in rest))}")
    return ", ".join(texts) or "none"


def seconds_text(seconds: float | None) -> str:
    """Write seconds that were measured, or that they are not known."""
    if seconds is None:
        return "not watched"
    return about_seconds(seconds)


def _row(trace: Trace) -> tuple[object, ...]:
    return (
        trace.number,
        trace.reason,
        trace.signature,
        trace.ops,
        format_bytes(trace.graph_bytes),
        _constants_text(trace),
        _captures_text(trace),
        seconds_text(seconds_of(trace)),
    )


def _rows(traces: Iterable[Trace]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for alike in alike_in_a_row(traces):
        cause, argument = argument_of(alike[0])
        folded = alike[_SHOWN - 1 : -1] if len(alike) > _SHOWN + 1 else []
        rows += map(_row, alike[: _SHOWN - 1] if folded else alike)
        if folded:
            size = format_bytes(sum(trace.graph_bytes for trace in folded))
            why = f"{cause} of {argument}" if argument else str(cause)
            count = f"… {len(folded)} more"
            rows.append((count, why, "", sum(t.ops for t in folded), size, "", "", ""))
            rows.append(_row(alike[-1]))
    return rows


@summary_html.register
def _(result: TraceReport) -> str:
    place = f" ({result.line.described})" if result.line is not None else ""
    if not result.traces:
        text = f"{result.name}{place}: not traced yet, so there is nothing to report."
        return "".join(f"<p>{html.escape(line)}</p>" for line in (text, *result.notes))
    caption = f"{result.name}{place}: {headline(result)}"
    table = html_table(HEADERS, _rows(result.traces), caption=caption, align="lllrrllr")
    lines = [line for line in (result.advice, *result.notes) if line]
    return table + "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _why(report: TraceReport) -> str:
    return ", ".join(
        f"{cause} × {count}" if count > 1 else str(cause) for cause, count in report.causes.items()
    )


@summary_html.register
def _(result: RetracingWatch) -> str:
    if not result.rows:
        lines = (repr(result).strip("<>"), *result.notes)
        return "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    rows = [
        (
            report.name,
            len(report.traces),
            report.earlier,
            _why(report),
            seconds_text(report.seconds),
            format_bytes(report.graph_bytes),
            _lines(report),
        )
        for report in result.reports
    ]
    headers = ("function", "new traces", "earlier", "why", "first calls", "graphs", "called at")
    caption = repr(result).strip("<>")
    table = html_table(headers, rows, caption=caption, align="lrrlrrl")
    lines = (*result.advice, *result.notes)
    return table + "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _lines(report: TraceReport) -> str:
    lines = dict.fromkeys(str(trace.line) for trace in report.traces if trace.line is not None)
    shown = list(lines)[:3]
    return ", ".join(shown) + (" …" if len(lines) > 3 else "") if shown else "a library"
