"""Claims of lesson 00, "Start here"."""

from __future__ import annotations

from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("00_start_here")


@CLAIMS.add(
    1,
    "To see TensorFlow's memory you need a GPU and its profiler's web page.",
    "false",
    measured=lambda rec, check: (
        f"peak {format_bytes(rec.peak_bytes)}: {len(rec.buffers)} buffers, each with its line, "
        f"on {', '.join(check.devices)}"
    ),
    advice="Put `with ll.record() as rec:` around the lines in question.",
    was=("00.1",),
)
def _(rec, check):
    rows = rec.by_line().rows
    return check.exact and [row.peak_bytes for row in rows] == [MIB, MIB]


@CLAIMS.add(
    2,
    "The process's memory tells how much the tensors take.",
    "false",
    measured="tensors {seen.tensor_peak_bytes!b}, Python's heap {seen.heap_peak_bytes!n}, "
    "the process {seen.resident_growth_bytes!n}",
    advice="Ask ll.record about tensors, tracemalloc about Python, the system about the process.",
    was=("00.2",),
)
def _(seen):
    return (
        seen.tensor_peak_bytes == 2 * MIB
        and seen.heap_peak_bytes >= 64 * MIB
        and seen.resident_growth_bytes > 8 * seen.tensor_peak_bytes
    )
