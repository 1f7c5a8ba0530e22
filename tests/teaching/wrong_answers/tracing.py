"""Wrong answers to the exercises of `tracing`."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def wave_half(x: Any, factor: Any) -> Any:
    return tf.sin(tf.cast(factor * x, tf.float16)) + 1.0


def wave_filled(x: Any, factor: Any) -> Any:
    return tf.fill(x.shape, tf.reduce_mean(tf.sin(factor * x) + 1.0))


def energy_numpy(batch: Any) -> Any:
    x = batch.numpy()
    x *= 2.0
    np.tanh(x, out=x)
    return x.sum()


def decay_numpy(x: Any, n: int) -> Any:
    y = x.numpy()
    for _ in range(n):
        np.tanh(y, out=y)
        y *= 0.9
        y += 0.01
    return tf.convert_to_tensor(y)


def make_lookup_plain(table: Any) -> Any:
    weights = tf.constant(table)
    return lambda x: x @ weights


WRONG = {
    "q1": (
        Wrong("in float16", wave_half, Status.WRONG_VALUE, "dtype float16"),
        Wrong("fills with the mean", wave_filled, Status.WRONG_VALUE, "elements differ"),
        Wrong("a trace for each number", wave_number, Status.OVER_BUDGET),
        Wrong("reduce_retracing alone", wave_relaxed, Status.OVER_BUDGET),
        Wrong("no graph at all", wave_eager, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("adds before the sine", wave_order, Status.WRONG_VALUE),
    ),
    "q2": (
        Wrong("no graph at all", energy_eager, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("in NumPy", energy_numpy, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("a trace for each shape", energy_shapes, Status.OVER_BUDGET),
        Wrong("the mean", energy_mean, Status.WRONG_VALUE),
    ),
    "q3": (
        Wrong("a plain function", make_lookup_plain, Status.NOT_AS_ASKED, "a tf.function"),
        Wrong("the array itself inside", make_lookup_baked, Status.OVER_BUDGET),
        Wrong("tf.constant inside", make_lookup_inside, Status.OVER_BUDGET),
        Wrong("transposed", make_lookup_transposed, Status.WRONG_VALUE),
    ),
    "q4": (
        Wrong("in NumPy", decay_numpy, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("unrolls the loop", decay_unrolled, Status.NOT_AS_ASKED, "no graph with a loop"),
        Wrong("no graph at all", decay_eager, Status.NOT_AS_ASKED, "no graph ran"),
        Wrong("one step only", decay_once, Status.WRONG_VALUE),
    ),
}
