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

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lessons_lib.common import runtime
from lessons_lib.common.system import resident_bytes
from lessons_lib.common.units import format_bytes, parse_bytes
from lessons_lib.instruments.budget import MemoryBudgetExceeded, budget
from lessons_lib.instruments.compare import compare
from lessons_lib.instruments.growth import Cause, growth
from lessons_lib.instruments.keras_callback import MemoryCallback
from lessons_lib.instruments.live import live_tensors
from lessons_lib.instruments.measure import Measurement, measure
from lessons_lib.instruments.operations.atlas import op_atlas
from lessons_lib.instruments.operations.op_memory import op_memory
from lessons_lib.instruments.peak import Peak, in_graph, peak
from lessons_lib.instruments.preflight import Preflight, preflight
from lessons_lib.instruments.process import ProcessMemory, process_memory
from lessons_lib.instruments.sweep import sweep
from lessons_lib.instruments.tracing import TraceCause, count_traces, trace_report, watch_retracing
from lessons_lib.instruments.training import training_memory
from lessons_lib.plots import registry as _registry  # which picture shows which result
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from lessons_lib.teaching.claims import Lesson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

del _registry
__version__ = "0.1.0"
__all__ = [
    "Cause",
    "Lesson",
    "Measurement",
    "MemoryBudgetExceeded",
    "MemoryCallback",
    "Peak",
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
    "in_graph",
    "live_tensors",
    "load_ipython_extension",
    "measure",
    "op_atlas",
    "op_memory",
    "parse_bytes",
    "peak",
    "preflight",
    "process_memory",
    "record",
    "resident_bytes",
    "runtime",
    "sweep",
    "timelines",
    "trace_report",
    "training_memory",
    "unload_ipython_extension",
    "watch_retracing",
]


def timelines(recordings: Mapping[str, Recording], **options: Any) -> Axes:
    """Draw recordings side by side, with the same axes, the same colours and one legend.

    Parameters
    ----------
    recordings : mapping of str to Recording
        What to draw, by title; a result that has a ``recording``, such as that of `peak`, will do.
    **options
        ``limit``, ``colours``, ``max_named``, ``lines``: as for a recording's ``plot``.

    Returns
    -------
    matplotlib.axes.Axes
        The first; it shows the whole figure when it is a cell's last expression.

    Raises
    ------
    TypeError, ValueError
        If it is no mapping of titles to recordings, or an empty one.
    """
    from lessons_lib.plots.timeline import timelines as draw_timelines

    if isinstance(recordings, Mapping):
        recordings = {t: getattr(made, "recording", made) for t, made in recordings.items()}
    first: Axes = draw_timelines(recordings, **options)[0]
    return first


def load_ipython_extension(shell: Any) -> None:
    """Add ``%mem`` and ``%%mem``; called by ``%load_ext lessons_lib``."""
    from lessons_lib.notebook import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics; called by ``%unload_ext lessons_lib``."""
    from lessons_lib.notebook import magics

    magics.unload(shell)
