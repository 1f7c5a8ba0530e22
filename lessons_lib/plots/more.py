"""Registers the pictures of the instruments; what draws them is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lessons_lib.common.results import alt_text, draw
from lessons_lib.instruments.measure import Measurement
from lessons_lib.instruments.peak import Peak
from lessons_lib.instruments.process import ProcessMemory
from lessons_lib.instruments.sweep import Sweep
from lessons_lib.instruments.training import BatchEstimate, TrainingMemory
from lessons_lib.plots import growth as _growth  # these register their own
from lessons_lib.plots import instruments as _instruments
from lessons_lib.plots import traces as _traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@draw.register(Measurement)
def _(result: Measurement, ax: Any = None, **options: Any) -> Axes:
    return draw(result.recording, ax, **options)


@alt_text.register(Measurement)
def _(result: Measurement, **options: Any) -> str:
    return alt_text(result.recording, **options)


@draw.register(Peak)
def _(result: Peak, ax: Any = None, **options: Any) -> Axes:
    return draw(result.recording, ax, **options)


@alt_text.register(Peak)
def _(result: Peak, **options: Any) -> str:
    return alt_text(result.recording, **options)


@draw.register(Sweep)
def _(result: Sweep, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.figures import draw_sweep

    return draw_sweep(result, ax, **options)


@alt_text.register(Sweep)
def _(result: Sweep, **options: Any) -> str:
    from lessons_lib.plots.figures import describe_sweep

    return describe_sweep(result)


@draw.register(ProcessMemory)
def _(result: ProcessMemory, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.process import draw_process

    return draw_process(result, ax, **options)


@alt_text.register(ProcessMemory)
def _(result: ProcessMemory, **options: Any) -> str:
    from lessons_lib.plots.process import describe_process

    return describe_process(result, **options)


@draw.register(TrainingMemory)
def _(result: TrainingMemory, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.training import draw_training

    return draw_training(result, ax, **options)


@alt_text.register(TrainingMemory)
def _(result: TrainingMemory, **options: Any) -> str:
    from lessons_lib.plots.training import describe_training

    return describe_training(result, **options)


@draw.register(BatchEstimate)
def _(result: BatchEstimate, ax: Any = None, **options: Any) -> Axes:
    from lessons_lib.plots.training import draw_batches

    return draw_batches(result, ax, **options)


@alt_text.register(BatchEstimate)
def _(result: BatchEstimate, **options: Any) -> str:
    from lessons_lib.plots.training import describe_batches

    return describe_batches(result, **options)


del _growth, _instruments, _traces
