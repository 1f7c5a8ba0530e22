"""Wrong answers to the exercises of `tracing`."""

from __future__ import annotations

from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


@tf.function
def wave_number(x: Any, factor: Any) -> Any:
    return tf.sin(factor * x) + 1.0


@tf.function(reduce_retracing=True)
def wave_relaxed(x: Any, factor: Any) -> Any:
    return tf.sin(factor * x) + 1.0


def wave_eager(x: Any, factor: Any) -> Any:
    x = factor * x
    x = tf.sin(x)
    return x + 1.0


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def wave_order(x: Any, factor: Any) -> Any:
    return tf.sin(factor * (x + 1.0))


@tf.function
def energy_shapes(batch: Any) -> Any:
    return tf.reduce_sum(tf.tanh(2.0 * batch))


def energy_eager(batch: Any) -> Any:
    return tf.reduce_sum(tf.tanh(2.0 * batch))


@tf.function(reduce_retracing=True)
def energy_mean(batch: Any) -> Any:
    return tf.reduce_mean(tf.tanh(2.0 * batch))


def make_lookup_baked(table: Any) -> Any:
    return tf.function(lambda x: x @ table)


def make_lookup_inside(table: Any) -> Any:
    @tf.function
    def lookup(x: Any) -> Any:
        return x @ tf.constant(table)

    return lookup


def make_lookup_transposed(table: Any) -> Any:
    weights = tf.transpose(tf.constant(table))
    return tf.function(lambda x: x @ weights)


@tf.function
def decay_unrolled(x: Any, n: int) -> Any:
    for _ in range(n):
        x = 0.9 * tf.tanh(x) + 0.01
    return x


def decay_eager(x: Any, n: int) -> Any:
    for _ in range(n):
        x = 0.9 * tf.tanh(x) + 0.01
    return x


@tf.function
def decay_once(x: Any, n: int) -> Any:
    if n > 0:
        x = 0.9 * tf.tanh(x) + 0.01
    return x


WRONG = {
    "q1": (
        Wrong("a trace for each number", wave_number, Status.OVER_BUDGET),
        Wrong("reduce_retracing alone", wave_relaxed, Status.OVER_BUDGET),
        Wrong("no graph at all", wave_eager, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("adds before the sine", wave_order, Status.WRONG_VALUE),
    ),
    "q2": (
        Wrong("a trace for each shape", energy_shapes, Status.OVER_BUDGET),
        Wrong("the mean", energy_mean, Status.WRONG_VALUE),
    ),
    "q3": (
        Wrong("the array itself inside", make_lookup_baked, Status.OVER_BUDGET),
        Wrong("tf.constant inside", make_lookup_inside, Status.OVER_BUDGET),
        Wrong("transposed", make_lookup_transposed, Status.WRONG_VALUE),
    ),
    "q4": (
        Wrong("unrolls the loop", decay_unrolled, Status.NOT_AS_ASKED, "no graph with a loop"),
        Wrong("no graph at all", decay_eager, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("one step only", decay_once, Status.WRONG_VALUE),
    ),
}
