"""Which picture shows which result: one table, by the result's class.

Importing this module registers them and loads nothing else: what draws a result is imported when
it is drawn, and matplotlib with it.  A result that is added gets a line in `PICTURES`; its two
functions are called as ``draw(result, ax=None, **options)``, which gives the axes, and as
``describe(result, **options)``, which gives the alternative text.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from lessons_lib.common.results import alt_text, draw
from lessons_lib.instruments.compare import Comparison
from lessons_lib.instruments.growth.result import Growth
from lessons_lib.instruments.keras_callback import FitMemory
from lessons_lib.instruments.live import LiveTensors
from lessons_lib.instruments.measure import Measurement
from lessons_lib.instruments.operations.atlas import OpAtlas
from lessons_lib.instruments.operations.op_memory import OpMemory
from lessons_lib.instruments.peak import Peak
from lessons_lib.instruments.process import ProcessMemory
from lessons_lib.instruments.sweep import Sweep
from lessons_lib.instruments.tracing import RetracingWatch, TraceReport
from lessons_lib.instruments.training import BatchEstimate, TrainingMemory
from lessons_lib.recording.breakdown import Breakdown, RecordingDiff
from lessons_lib.recording.recording import Recording

#: By class: the functions that draw and describe, as ``module.name`` within this package.
PICTURES: Final[dict[type, tuple[str, str]]] = {
    Recording: ("timeline.draw_recording", "alt_text.describe_recording"),
    Measurement: ("timeline.draw_measured", "alt_text.describe_measured"),
    Peak: ("timeline.draw_measured", "alt_text.describe_measured"),
    Breakdown: ("breakdown.draw_breakdown", "alt_text.describe_breakdown"),
    RecordingDiff: ("breakdown.draw_diff", "alt_text.describe_diff"),
    Comparison: ("comparison.draw_comparison", "comparison.describe_comparison"),
    Sweep: ("figures.draw_sweep", "figures.describe_sweep"),
    OpMemory: ("operations.draw_op", "operations.describe_op"),
    OpAtlas: ("atlas.draw_atlas", "atlas.describe_atlas"),
    ProcessMemory: ("process.draw_process", "process.describe_process"),
    TrainingMemory: ("training.draw_training", "training.describe_training"),
    BatchEstimate: ("batch_size.draw_batches", "batch_size.describe_batches"),
    FitMemory: ("keras_fit.draw_fit", "keras_fit.describe_fit"),
    TraceReport: ("traces.draw_traces", "traces.describe_traces"),
    RetracingWatch: ("traces.draw_watch", "traces.describe_watch"),
    Growth: ("growth.draw_growth", "growth.describe_growth"),
    LiveTensors: ("live.draw_live", "live.describe_live"),
}


def _later(place: str) -> Callable[..., Any]:
    """Give a function that imports another when it is called, and calls it."""
    module, _, name = place.partition(".")

    def call(result: Any, *args: Any, **options: Any) -> Any:
        found = getattr(import_module(f"lessons_lib.plots.{module}"), name)
        return found(result, *args, **options)

    return call


for _class, (_draw, _describe) in PICTURES.items():
    draw.register(_class, _later(_draw))
    alt_text.register(_class, _later(_describe))
