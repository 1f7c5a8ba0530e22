"""What else is worth saying about a run: single steps, plateaus, garbage, small logs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Final

from lessons_lib.common.runtime import tf
from lessons_lib.common.units import KIB, MIB, format_bytes
from lessons_lib.instruments.growth.causes import Cause, Finding, about
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.trend import Series, Shape

#: This version loses a reference with each tensor that is made of a Python value.
LOSES_REFERENCES: Final = tf.__version__.startswith("2.16.")

#: What the heaps gain a call beside the causes is said from here on.
_UNNAMED_FLOOR: Final = 16 * KIB

_WATCHED: Final = (
    ("tensor_bytes", 4 * KIB),
    ("live_tensors", 1),
    ("variables", 1),
    ("concrete_functions", 1),
    ("graph_ops", 1),
    ("numpy_bytes", KIB),
    ("rss", 8 * MIB),
)


def _amount(series: Series, value: float) -> str:
    if series.unit == "bytes":
        return about(value) if series.name.startswith("resident") else format_bytes(round(value))
    return f"{value:.0f}"


def _risen(series: Series) -> int:
    """Give the number of the last measured call (from 1) that raised a series for good."""
    values = series.values
    top = values[-1]
    return next(i + 1 for i, value in enumerate(values) if min(values[i:]) >= top)


def remarks(evidence: Evidence, causes: tuple[Finding, ...], waiting: float) -> Iterator[str]:
    """Say in sentences what is not growth but could be taken for it.

    Parameters
    ----------
    evidence : Evidence
    causes : tuple of Finding
    waiting : float
        Tensor bytes per call that only the garbage collector freed.
    """
    for name, least in _WATCHED:
        series: Series = getattr(evidence, name)
        if not series.known:
            continue
        if series.first_step >= least and not series.grows and not causes:
            yield (
                f"The first calls added {_amount(series, series.first_step)} to the "
                f"{series.name}, once: that is not growth."
            )
        if series.shape in (Shape.STEP, Shape.PLATEAU) and series.rise >= least:
            yield (
                f"The {series.name} rose by {_amount(series, series.rise)} until call "
                f"{_risen(series)} and stayed there: a one-time step or a buffer that filled up, "
                "not growth."
            )
        if series.shape is Shape.LATE and series.rise >= least:
            yield (
                f"The {series.name} rose by {_amount(series, series.rise)} towards the end: call "
                "growth with more iterations to see whether that goes on."
            )
    unclear = [series.name for series in evidence if series.shape is Shape.UNCLEAR]
    if unclear and not causes:
        yield (
            f"The {' and the '.join(unclear)} rose, but no more than such ups and downs do by "
            "chance: call growth with more iterations to see whether that goes on."
        )
    if waiting >= 64 * KIB:
        yield (
            f"Each call leaves {about(waiting)} of tensors in reference cycles, "
            "which wait for Python's garbage collector"
            + ("." if gc.isenabled() else ", and it is switched off (gc.disable).")
        )
    heap = evidence.python_heap
    small = heap.known and heap.slope > heap.noise and heap.shape is Shape.GROWS
    if small and not causes:
        yield (
            f"Python's heap gains {about(heap.slope)} a call, as a log of numbers does: too "
            "little to be called growth."
        )
    yield from _unnamed(evidence, causes)
    unheld = any(cause.cause is Cause.PYTHON_OBJECTS and not cause.held for cause in causes)
    if LOSES_REFERENCES and unheld:
        yield (
            f"TensorFlow {tf.__version__} itself leaks some 340 B of Python's heap with each "
            "tensor that is made of a Python value, and nothing holds them: use a newer version."
        )
    if evidence.tensor_bytes.values and not evidence.tensor_bytes.known:
        yield (
            "TensorFlow's allocator reports no figures in this process, so tensors that only C++ "
            "code holds (datasets' buffers, constants) are not seen."
        )


def _unnamed(evidence: Evidence, causes: tuple[Finding, ...]) -> Iterator[str]:
    """Say when the heaps gain much more than the causes account for."""
    heaps = (("Python's heap", evidence.python_heap), ("the C library's heap", evidence.c_heap))
    gains = [(name, heap.slope) for name, heap in heaps if heap.known and heap.grows]
    named = sum(cause.bytes_per_call for cause in causes)
    most = max((slope for _, slope in gains), default=0.0)
    if most < _UNNAMED_FLOOR or most < 2 * named:
        return
    text = " and ".join(f"{name} {about(slope)}" for name, slope in gains)
    yield (
        f"Each call adds to {text}, "
        + ("much more than is named: " if causes else "and nothing is named that could hold it: ")
        + "objects of libraries (a Keras model's, for one) and native code are counted there alone."
    )
