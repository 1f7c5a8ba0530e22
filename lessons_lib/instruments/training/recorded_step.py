"""One training step under the recorder: everything that the step uses is born where it is seen.

Every variable and the batch are given a fresh copy right before the step, and the variables
another one right after it: so the step's memory is complete, nothing has to be estimated, and
``holders`` can tell which buffer each variable held.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.training.variable_buffers import Holding, copies, holdings
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A recorded step.

    Attributes
    ----------
    recording : Recording
        Of the copying, the step, and the copying after it.
    started, ended : float
        When the step began and ended, in seconds from the recording's start.
    variables : tuple of tf.Variable
        What the step may change, variables without elements left out.
    parts : int
        How many tensors the batch has.
    """

    recording: Recording
    started: float
    ended: float
    variables: tuple[tf.Variable, ...]
    parts: int

    def held(self) -> tuple[list[Holding], frozenset[int]]:
        """Give what each variable held, and the buffers of the batch."""
        store = self.recording.buffers
        found = copies(store)
        moments = store.times[store.born[found]]
        count = len(self.variables)
        before = found[moments < self.started]
        return (
            holdings(
                store,
                before[:count].tolist(),
                found[moments >= self.ended][-count:].tolist(),
                int(np.searchsorted(store.times, self.started)),
                int(np.searchsorted(store.times, self.ended)),
            ),
            frozenset(before[count : count + self.parts].tolist()),
        )

    def peak_bytes(self) -> int:
        """Give the most bytes alive at once during the step, variables and batch included."""
        times, live = self.recording.timeline()
        inside = (times >= self.started) & (times < self.ended)
        # The copies took the place of buffers that the recording did not see being born.
        base = sum(int(np.prod(v.shape)) * v.dtype.size for v in self.variables)
        return base + int(live[inside].max(initial=0))


def variables_of(model: Any) -> list[tf.Variable]:
    """List all variables that a step may change: the model's, the optimizer's, the metrics'."""
    found: dict[int, tf.Variable] = {}
    for variable in (*model.variables, *model.optimizer.variables, *_metric_variables(model)):
        value = getattr(variable, "value", variable)
        if isinstance(value, tf.Variable):
            found[id(value)] = value
    return list(found.values())


def _metric_variables(model: Any) -> list[Any]:
    with contextlib.suppress(Exception):  # metrics that were not built yet have none
        return [v for metric in model.metrics for v in metric.variables]
    return []


def mode_of(model: Any) -> str:
    """Tell how a model runs its step: ``"eager"``, ``"graph"`` or ``"xla"``."""
    if model.run_eagerly or tf.config.functions_run_eagerly():
        return "eager"
    return "xla" if model.jit_compile is True else "graph"


def step_function(model: Any, mode: str, data: Any) -> tuple[Callable[[Any], Any], Any]:
    """Make the step, and give the graph that it runs (None in eager mode)."""
    if mode == "eager":
        return model.train_step, None
    # A fresh trace, made under our notes, shows which operation belongs to what.  Called as a
    # concrete function, it does not make TensorFlow warn of retracing that is ours.
    function = tf.function(
        lambda data: model.train_step(data), jit_compile=mode == "xla", autograph=False
    )
    traced = function.get_concrete_function(data)
    return lambda data: traced(data), traced.graph


def _copies(parts: Any) -> Any:
    return tf.nest.map_structure(lambda part: tf.raw_ops.DeepCopy(x=part), parts)


def record_step(
    model: Any, step: Callable[[Any], Any], data: Any, variables: list[tf.Variable]
) -> RecordedStep:
    """Record one step, between two rounds of copying."""
    source = tf.nest.map_structure(tf.convert_to_tensor, data)
    gc.collect()
    with record(f"{model.name} training step") as recording:
        _renew(variables)
        batch = _copies(source)
        started = time.perf_counter()
        result = step(batch)
        del result
        ended = time.perf_counter()
        _renew(variables)
    return RecordedStep(
        recording,
        started - recording.started_at,
        ended - recording.started_at,
        tuple(v for v in variables if v.shape.num_elements()),
        len(tf.nest.flatten(batch)),
    )


def _renew(variables: list[tf.Variable]) -> None:
    for variable in variables:
        variable.assign(tf.raw_ops.DeepCopy(x=variable.read_value()))
