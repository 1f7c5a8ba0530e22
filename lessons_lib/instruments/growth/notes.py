"""What else is worth saying about a run: single steps, plateaus, garbage, small logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from lessons_lib.common.gc_control import collects_by_itself
from lessons_lib.common.runtime import tf
from lessons_lib.common.units import KIB, MIB, format_bytes
from lessons_lib.instruments.growth.causes import Cause, Finding, about
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.observation import Observation
from lessons_lib.instruments.growth.trend import Series, Shape

#: This version loses a reference with each tensor that is made of a Python value.
LOSES_REFERENCES: Final = tf.__version__.startswith("2.16.")
#: Of a rise: less than this is no part of it.
_SCATTER: Final = 0.02
#: Garbage that waits for the collector is said from here on, in bytes a call.
_WAITING_FLOOR: Final = 64 * KIB


class _Watched(NamedTuple):
    """A series of which single steps are said."""

    name: str
    least: float  # smaller steps are not worth a sentence
    written: Callable[[float], str]


def _number(value: float) -> str:
    return f"{value:.0f}"


def _exactly(value: float) -> str:
    return format_bytes(round(value))


_WATCHED: Final = (
    _Watched("tensor_bytes", 4 * KIB, _exactly),
    _Watched("live_tensors", 1, _number),
    _Watched("variables", 1, _number),
    _Watched("concrete_functions", 1, _number),
    _Watched("graph_ops", 1, _number),
    _Watched("c_heap", MIB, about),
    _Watched("rss", 8 * MIB, about),
)


def _risen(series: Series) -> int:
    """Give the number of the last measured call (from 1) that raised a series for good.

    Small ups and downs after it do not count, as of numbers that are made anew.
    """
    values = series.values
    top = values[-1] - _SCATTER * series.rise
    return next(i + 1 for i, value in enumerate(values) if min(values[i:]) >= top)


def run_notes(
    evidence: Evidence, seen: Observation, causes: tuple[Finding, ...], waiting: float
) -> Iterator[str]:
    """Say in sentences what is not growth but could be taken for it.

    Parameters
    ----------
    evidence : Evidence
    seen : Observation
    causes : tuple of Finding
    waiting : float
        Tensor bytes per call that only the garbage collector freed.
    """
    parts_grow = evidence.live_tensor_bytes.grows or evidence.variable_bytes.grows
    for watched in _WATCHED:
        # The allocator hands a large chunk out whole, so a sum may stand still while a part grows.
        if watched.name != "tensor_bytes" or not parts_grow:
            yield from _single_steps(getattr(evidence, watched.name), watched, causes)
    unclear = [series.name for series in evidence if series.shape is Shape.UNCLEAR]
    if unclear and not causes:
        yield (
            f"The {' and the '.join(unclear)} rose, but no more than such ups and downs do by "
            "chance: call growth with more iterations to see whether that goes on."
        )
    if waiting >= _WAITING_FLOOR and collects_by_itself():
        yield (
            f"Each call leaves {about(waiting)} of tensors in reference cycles, "
            "which wait for Python's garbage collector."
        )
    if not causes:
        yield from _small(evidence, seen)
    yield from _of_this_process(evidence, causes)
    if evidence.python_objects.grows or evidence.live_tensors.grows:  # else it is full already
        yield from dict.fromkeys(seen.notes)


def _single_steps(series: Series, watched: _Watched, causes: tuple[Finding, ...]) -> Iterator[str]:
    if not series.known:
        return
    if series.first_step >= watched.least and not series.grows and not causes:
        yield (
            f"The first calls added {watched.written(series.first_step)} to the "
            f"{series.name}, once: that is not growth."
        )
    if series.shape in (Shape.STEP, Shape.PLATEAU) and series.rise >= watched.least:
        yield (
            f"The {series.name} rose by {watched.written(series.rise)} until call "
            f"{_risen(series)} and stayed there: a one-time step or a buffer that filled up, "
            "not growth."
        )
    if series.shape is Shape.LATE and series.rise >= watched.least:
        yield (
            f"The {series.name} rose by {watched.written(series.rise)} towards the end: call "
            "growth with more iterations to see whether that goes on."
        )


def _small(evidence: Evidence, seen: Observation) -> Iterator[str]:
    """Say what rises though it is too little to be called growth."""
    gain = seen.heap.python + seen.heap.numpy
    notes = [group for group in seen.objects if group.is_note]
    if any(group.is_bounded for group in seen.groups):
        gain = 0.0  # what is full loses as much: old objects, which nobody saw being made
    if notes and gain > 0:
        yield (
            f"Python's heap gains {about(gain)} a call, as a log of numbers and texts does "
            f"({notes[0].held.holder}): too little to be called growth."
        )
    elif gain > 0 and evidence.python_blocks.grows:
        yield f"Python's heap gains {about(gain)} a call: too little to be called growth."
    if evidence.tensor_bytes.grows and (hidden := evidence.hidden_bytes.slope) > 0:
        yield (
            f"Tensors for which Python has no object gain {about(hidden)} a call: too little to be "
            "called growth."
        )
    if evidence.c_heap.grows:
        yield (
            f"The C library's heap gains {about(evidence.c_heap.slope)} a call: too little to be "
            "called growth, as its figure is noisy."
        )


def _is_mostly_unheld(finding: Finding) -> bool:
    """Tell whether what was seen to hold Python's objects holds less than half of them."""
    held = sum(thing.nbytes * thing.per_call for thing in finding.held)
    return finding.cause is Cause.PYTHON_OBJECTS and 2 * held < finding.bytes_per_call


def _of_this_process(evidence: Evidence, causes: tuple[Finding, ...]) -> Iterator[str]:
    if LOSES_REFERENCES and any(_is_mostly_unheld(finding) for finding in causes):
        yield (
            f"TensorFlow {tf.__version__} itself leaks some 340 B of Python's heap with each "
            "tensor that is made of a Python value, and nothing holds them: use a newer version."
        )
    if evidence.tensor_bytes.values and not evidence.tensor_bytes.known:
        yield (
            "TensorFlow's allocator reports no figures in this process, so tensors that only C++ "
            "code holds (datasets' buffers, constants) are not seen."
        )
