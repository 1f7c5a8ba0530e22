"""The leak clinic's programs: each grows in its own way, with a fixed twin beside it.

The functions here are shown to learners as source, under the plain name ``make_step``, so nothing
in their text tells what is wrong with them.  ``ROWS`` differs from learner to learner.  A step
gives one number for each i, the same in both twins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause

ROWS: Final = 128

Maker = Callable[[], Callable[[int], Any]]


@dataclass(frozen=True)
class ProgramFault:
    """What is wrong with a program.

    Attributes
    ----------
    cause : Cause
        The name of the cause.
    faulty, fixed : callable
        Each makes a step.
    why : str
        What happens, and what to do about it.
    """

    cause: Cause
    faulty: Maker
    fixed: Maker
    why: str


# --- gradients in a history -------------------------------------------------------------------


def _make_descent_faulty() -> Any:
    weights = tf.Variable(tf.ones([ROWS, 64]))
    history = []

    def step(i: int) -> Any:
        x = tf.fill([16, ROWS], 0.01 * (i + 1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weights))
        gradient = tape.gradient(loss, weights)
        history.append(gradient)
        return float(tf.norm(gradient))

    return step


def _make_descent_fixed() -> Any:
    weights = tf.Variable(tf.ones([ROWS, 64]))
    history = []

    def step(i: int) -> Any:
        x = tf.fill([16, ROWS], 0.01 * (i + 1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weights))
        history.append(float(tf.norm(tape.gradient(loss, weights))))
        return history[-1]

    return step


# --- rows that are views ----------------------------------------------------------------------


def _make_sampler_faulty() -> Any:
    examples = []

    def step(i: int) -> Any:
        batch = tf.sin(tf.reshape(tf.range(ROWS * 256, dtype=tf.float32), [ROWS, 256]) + float(i))
        examples.append(batch[0])
        return float(tf.reduce_sum(examples[-1]))

    return step


def _make_sampler_fixed() -> Any:
    examples = []

    def step(i: int) -> Any:
        batch = tf.sin(tf.reshape(tf.range(ROWS * 256, dtype=tf.float32), [ROWS, 256]) + float(i))
        examples.append(float(tf.reduce_sum(batch[0])))
        return examples[-1]

    return step


# --- a Python number --------------------------------------------------------------------------


def _make_schedule_faulty() -> Any:
    @tf.function
    def update(x: Any, epoch: Any) -> Any:
        for _ in range(4):
            x = tf.tanh(x) / (1.0 + 0.1 * epoch)
        return tf.reduce_sum(x)

    x = tf.ones([ROWS, 16])
    return lambda i: float(update(x, i))


def _make_schedule_fixed() -> Any:
    @tf.function
    def update(x: Any, epoch: Any) -> Any:
        for _ in range(4):
            x = tf.tanh(x) / (1.0 + 0.1 * epoch)
        return tf.reduce_sum(x)

    x = tf.ones([ROWS, 16])
    return lambda i: float(update(x, tf.cast(np.float32(i), tf.float32)))


# --- a function for each round ----------------------------------------------------------------


def _make_pipeline_faulty() -> Any:
    stages = {}

    def step(i: int) -> Any:
        def scale(x: Any) -> Any:
            for _ in range(4):
                x = tf.sin(x) + 0.01 * i
            return tf.reduce_mean(x)

        stages[i] = tf.function(scale)
        return float(stages[i](tf.ones([ROWS, 8])))

    return step


def _make_pipeline_fixed() -> Any:
    @tf.function
    def scale(x: Any, shift: Any) -> Any:
        for _ in range(4):
            x = tf.sin(x) + shift
        return tf.reduce_mean(x)

    def step(i: int) -> Any:
        return float(scale(tf.ones([ROWS, 8]), tf.cast(np.float32(0.01 * i), tf.float32)))

    return step


# --- operations in a session's loop -----------------------------------------------------------


def _make_session_faulty() -> Any:
    graph = tf.Graph()
    session = tf.compat.v1.Session(graph=graph)

    def step(i: int) -> Any:
        with graph.as_default():
            table = tf.constant(np.full([ROWS, 32], 0.5, np.float32))
            total = tf.reduce_sum(tf.tanh(table)) + float(i)
        return float(session.run(total))

    return step


def _make_session_fixed() -> Any:
    graph = tf.Graph()
    with graph.as_default():
        table = tf.constant(np.full([ROWS, 32], 0.5, np.float32))
        shift = tf.compat.v1.placeholder(tf.float32, [])
        total = tf.reduce_sum(tf.tanh(table)) + shift
    session = tf.compat.v1.Session(graph=graph)
    return lambda i: float(session.run(total, {shift: float(i)}))


# --- a variable for each round ----------------------------------------------------------------


def _make_ensemble_faulty() -> Any:
    model = tf.Module()
    model.members = []

    def step(i: int) -> Any:
        member = tf.Variable(tf.fill([ROWS, 64], 0.1 * i))
        model.members.append(member)
        return float(tf.reduce_mean(member))

    return step


def _make_ensemble_fixed() -> Any:
    member = tf.Variable(tf.zeros([ROWS, 64]))

    def step(i: int) -> Any:
        member.assign(tf.fill([ROWS, 64], 0.1 * i))
        return float(tf.reduce_mean(member))

    return step


# --- predictions kept as arrays ---------------------------------------------------------------


def _make_monitor_faulty() -> Any:
    log = []

    def step(i: int) -> Any:
        prediction = tf.cos(tf.fill([ROWS, 128], 0.1 * i))
        log.append({"round": i, "prediction": prediction.numpy()})
        return float(log[-1]["prediction"].mean())

    return step


def _make_monitor_fixed() -> Any:
    log = []

    def step(i: int) -> Any:
        prediction = tf.cos(tf.fill([ROWS, 128], 0.1 * i))
        log.append({"round": i, "mean": float(prediction.numpy().mean())})
        return log[-1]["mean"]

    return step


# --- iterators that stay open -----------------------------------------------------------------


def _make_reader_faulty() -> Any:
    data = tf.data.Dataset.range(64).map(lambda k: tf.fill([ROWS, 16], 0.5)).shuffle(32)
    readers = []

    def step(i: int) -> Any:
        readers.append(iter(data))
        return float(tf.reduce_mean(next(readers[-1]))) + i

    return step


def _make_reader_fixed() -> Any:
    data = tf.data.Dataset.range(64).map(lambda k: tf.fill([ROWS, 16], 0.5)).shuffle(32)
    return lambda i: float(tf.reduce_mean(next(iter(data)))) + i


#: In an order in which every second one has a cause of its own.
FAULTS: Final = (
    ProgramFault(
        Cause.RETAINED_TENSORS,
        _make_descent_faulty,
        _make_descent_fixed,
        "The history holds every gradient as a tensor. Keep the number that you want of it.",
    ),
    ProgramFault(
        Cause.RETAINED_TENSORS,
        _make_sampler_faulty,
        _make_sampler_fixed,
        "batch[0] is a view: each kept row keeps its whole batch alive. Keep a number or a copy.",
    ),
    ProgramFault(
        Cause.RETRACING,
        _make_schedule_faulty,
        _make_schedule_fixed,
        "A Python number is part of the key of a trace, so each epoch is traced anew, and all "
        "traces stay. Pass a tensor.",
    ),
    ProgramFault(
        Cause.RETRACING,
        _make_pipeline_faulty,
        _make_pipeline_fixed,
        "Each round makes a tf.function and traces it, and the dict keeps them all. Make one, and "
        "pass what changes as a tensor.",
    ),
    ProgramFault(
        Cause.GRAPH_GROWTH,
        _make_session_faulty,
        _make_session_fixed,
        "Each round adds operations and a constant to the same graph. Build once and feed.",
    ),
    ProgramFault(
        Cause.VARIABLES,
        _make_ensemble_faulty,
        _make_ensemble_fixed,
        "Each round makes a variable, and the module owns them all. Make one and assign to it.",
    ),
    ProgramFault(
        Cause.PYTHON_OBJECTS,
        _make_monitor_faulty,
        _make_monitor_fixed,
        "The log keeps whole NumPy arrays; no tensor is alive. Keep a summary.",
    ),
    ProgramFault(
        Cause.DATASET_BUFFERS,
        _make_reader_faulty,
        _make_reader_fixed,
        "Each kept iterator holds a shuffle buffer of its own. Keep one dataset and let its "
        "iterators go.",
    ),
)
