"""One training step under the recorder: everything that the step uses is born where it is seen.

Every variable and the batch are given a fresh copy right before the step, so the step's memory is
complete and nothing has to be estimated.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from lessons_lib.common.internals.training import variable_behind
from lessons_lib.common.runtime import tf
from lessons_lib.common.system import LEAST_CHUNK, allocator_bytes
from lessons_lib.instruments.holders.object_types import tensor_bytes
from lessons_lib.instruments.training.inputs import OWN_ITERATOR
from lessons_lib.instruments.training.one_piece import one_piece
from lessons_lib.recording import composition
from lessons_lib.recording.allocator_counters import counters
from lessons_lib.recording.buffers import Floats, Ints
from lessons_lib.recording.recorder import is_recording, note_input, record
from lessons_lib.recording.recording import Recording


class Mode(StrEnum):
    """How a step runs."""

    EAGER = "eager"
    GRAPH = "graph"
    XLA = "xla"


@dataclass(frozen=True, slots=True)
class Step:
    """A training step that can be run.

    Attributes
    ----------
    name : str
    mode : Mode
    run : callable
        Takes the batch.
    variables : tuple of tf.Variable
        Those that it uses.
    """

    name: str
    mode: Mode
    run: Callable[[Any], Any]
    variables: tuple[tf.Variable, ...]


def traced(
    function: Callable[[Any], Any], spec: Any, mode: Mode, autograph: bool
) -> tuple[Callable[[Any], Any], list[tf.Variable]]:
    """Trace a step anew, and give it with the variables that it uses.

    Called as a concrete function, it does not make TensorFlow warn of retracing that is ours.
    """
    fresh = tf.function(function, jit_compile=mode is Mode.XLA, autograph=autograph)
    concrete = fresh.get_concrete_function(spec)
    graph = concrete.graph
    if any(op.type.startswith("IteratorGetNext") for op in graph.get_operations()):
        raise ValueError(OWN_ITERATOR)
    used = list(graph.variables)
    for captured, _ in graph.captures:
        # What only writes to a variable captures its handle alone.
        variable = variable_behind(captured)
        used += [] if variable is None else [variable]
    return concrete, used


@dataclass(frozen=True, slots=True)
class FunctionsRun:
    """What ran in a step that allocated.

    Attributes
    ----------
    graphs, compiled : tuple of str
        Names of functions that ran as graphs, and of those that XLA had compiled.
    others : bool
        Whether operations outside of functions allocated, too.
    """

    graphs: tuple[str, ...]
    compiled: tuple[str, ...]
    others: bool

    def mode(self) -> Mode:
        """Tell how a step ran that Python called."""
        if self.others or not (self.graphs or self.compiled):
            return Mode.EAGER
        return Mode.GRAPH if self.graphs else Mode.XLA


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A recorded step.

    Attributes
    ----------
    recording : Recording
        Of the copying and the step.
    started, ended : float
        When the step began and ended, in seconds from the recording's start.
    """

    recording: Recording
    started: float
    ended: float

    def window(self) -> tuple[int, int]:
        """Give the last event before the step, and the first one after it."""
        times = self.recording.buffers.times
        first = int(np.searchsorted(times, self.started, side="right")) - 1
        return max(first, 0), max(int(np.searchsorted(times, self.ended)), 1)

    def functions(self) -> FunctionsRun:
        """Tell which functions ran, of those that allocated."""
        store = self.recording.buffers
        first, stop = self.window() if len(store.times) else (0, 0)
        made = (store.born > first) & (store.born < stop)
        sites = [store.sites[i] for i in np.unique(store.site[made])]
        names = {(s.function, s.op == "XLA") for s in sites if s.function is not None}
        graphs, compiled = (
            tuple(sorted(name for name, is_compiled in names if is_compiled is wanted))
            for wanted in (False, True)
        )
        return FunctionsRun(graphs, compiled, any(site.function is None for site in sites))

    def series(self) -> tuple[Floats, Ints]:
        """Give the live bytes of each category during the step, and when they change."""
        store = self.recording.buffers
        if not len(store.times):
            return np.zeros(1), np.zeros((len(composition.ORDER), 1), np.int64)
        first, stop = self.window()
        times = np.maximum(store.times[first:stop] - self.started, 0.0)
        return times, composition.series(store)[:, first:stop]

    def peaks(self) -> tuple[int, int]:
        """Give the most bytes during the step: requested, and set aside by the allocator."""
        store = self.recording.buffers
        if not len(store.times):
            return 0, 0
        first, stop = self.window()
        peaks = []
        for sizes in (store.nbytes, store.reserved):
            delta = np.zeros(len(store.times), np.int64)
            born = store.born >= 0
            freed = born & (store.died >= 0)
            np.add.at(delta, store.born[born], sizes[born])
            np.subtract.at(delta, store.died[freed], sizes[freed])
            peaks.append(int(np.cumsum(delta)[first:stop].max(initial=0)))
        return peaks[0], peaks[1]


def record_step(step: Step, data: Any, room: int = 0) -> RecordedStep:
    """Record one step, after copying all that it uses.

    Parameters
    ----------
    step : Step
    data : nested structure of tensors
        The batch, as the step takes it.
    room : int
        Bytes that the step shall find in one piece.
    """
    gc.collect()
    with one_piece(room), record(f"{step.name} training step", share=1) as recording:
        for variable in step.variables:
            variable.assign(tf.raw_ops.DeepCopy(x=variable.read_value()))
        batch = tf.nest.map_structure(_copy, data, expand_composites=True)
        # Moments in the profile itself: a look at Python's clock could miss what is freed last.
        began = recording.step()
        result = step.run(batch)
        del result
        ended = recording.step()
    marks = recording.step_marks
    return RecordedStep(recording, marks[began].at, marks[ended].at)


def set_aside(step: Step, data: Any, room: int = 0) -> int | None:
    """Give the most bytes that the allocator sets aside for a step, all that it uses included.

    The allocator's own count: the step runs as it would unwatched, and in a fraction of the time.
    None where there is no such count, or a recording needs it.  It takes what `record_step` does.
    """
    if is_recording() or allocator_bytes() is None:
        return None
    parts = [variable.read_value() for variable in step.variables]
    parts += filter(tf.is_tensor, tf.nest.flatten(data, expand_composites=True))
    held = sum(-(-tensor_bytes(part) // LEAST_CHUNK) * LEAST_CHUNK for part in parts)
    del parts
    if step.mode is Mode.EAGER:  # a graph leaves no garbage that could be freed meanwhile
        gc.collect()
    with counters.unnoticed(), one_piece(room):
        before, _ = counters.read()
        step.run(data)
        _, peak = counters.read()
    return held + peak - before


def _copy(part: Any) -> Any:
    if not tf.is_tensor(part):
        return part
    copied = tf.raw_ops.DeepCopy(x=part)
    note_input()
    return copied


def unique(variables: Iterable[tf.Variable]) -> tuple[tf.Variable, ...]:
    """List variables with elements, each once."""
    found = {id(v): v for v in variables if v.shape.num_elements() != 0}
    return tuple(found.values())


__all__ = ["Mode", "RecordedStep", "Step", "record_step", "set_aside", "traced", "unique"]
