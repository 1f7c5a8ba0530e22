"""Measure and draw TensorFlow's memory: every buffer, to the byte, with the line that made it.

Import this package before any other TensorFlow work::

    import lessons_lib as ll

    with ll.record() as rec:
        y = step(x)
    rec.plot()

Importing it loads TensorFlow quietly, with an allocator that reports every buffer on an ordinary
CPU.  See ``ll.preflight()`` for whether figures are exact in this process.  In a notebook,
``%load_ext lessons_lib`` adds the magics ``%mem`` and ``%%mem``.
"""

from __future__ import annotations

from typing import Any

from lessons_lib import runtime
from lessons_lib.atlas import op_atlas
from lessons_lib.budget import MemoryBudgetExceeded, budget
from lessons_lib.callback import MemoryCallback
from lessons_lib.compare import compare
from lessons_lib.growth import Cause, growth
from lessons_lib.live import live_tensors
from lessons_lib.measure import Measurement, measure
from lessons_lib.op_memory import op_memory
from lessons_lib.pictures import more as _more  # registers what draws each result
from lessons_lib.preflight import Preflight, preflight
from lessons_lib.process import ProcessMemory, process_memory
from lessons_lib.profiler import ProfileError
from lessons_lib.recorder import record
from lessons_lib.recording import Recording
from lessons_lib.tracing import TraceCause, count_traces, trace_report, watch_retracing
from lessons_lib.training import training_memory
from lessons_lib.units import format_bytes, parse_bytes
from lessons_lib.verdicts import Lesson

del _more
__version__ = "0.1.0"
__all__ = [
    "Cause",
    "Lesson",
    "Measurement",
    "MemoryBudgetExceeded",
    "MemoryCallback",
    "Preflight",
    "ProcessMemory",
    "ProfileError",
    "Recording",
    "TraceCause",
    "budget",
    "compare",
    "count_traces",
    "format_bytes",
    "growth",
    "live_tensors",
    "load_ipython_extension",
    "measure",
    "op_atlas",
    "op_memory",
    "parse_bytes",
    "preflight",
    "process_memory",
    "record",
    "runtime",
    "trace_report",
    "training_memory",
    "unload_ipython_extension",
    "watch_retracing",
]


def load_ipython_extension(shell: Any) -> None:
    """Add ``%mem`` and ``%%mem``; called by ``%load_ext lessons_lib``."""
    from lessons_lib import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics; called by ``%unload_ext lessons_lib``."""
    from lessons_lib import magics

    magics.unload(shell)
