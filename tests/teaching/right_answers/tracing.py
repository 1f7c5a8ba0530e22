"""Right answers to the exercises of `tracing`."""

from __future__ import annotations

from typing import Any

from lessons_lib.common.runtime import tf

_factor = tf.Variable(0.0)


def wave_converted(x: Any, factor: Any) -> Any:
    return _wave(x, tf.constant(factor, tf.float32))


@tf.function
def _wave(x: Any, factor: Any) -> Any:
    return tf.sin(factor * x) + 1.0


def wave_by_variable(x: Any, factor: Any) -> Any:
    _factor.assign(factor)
    return _wave_of_variable(x)


@tf.function
def _wave_of_variable(x: Any) -> Any:
    return 1.0 + tf.sin(_factor * x)


class _Wave:
    @tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
    def __call__(self, x: Any, factor: Any) -> Any:
        y = tf.sin(x * factor)
        return y + 1.0


@tf.function(input_signature=[tf.TensorSpec([None, None])])
def energy_with_signature(batch: Any) -> Any:
    return tf.reduce_sum(tf.tanh(batch * 2.0))


@tf.function(input_signature=[tf.TensorSpec(None)])
def energy_of_any_rank(batch: Any) -> Any:
    return tf.reduce_sum(tf.reduce_sum(tf.tanh(batch + batch), axis=-1))


def energy_around_a_function(batch: Any) -> Any:
    return _energy(batch) * 1.0


_energy = tf.function(lambda b: tf.reduce_sum(tf.tanh(2.0 * b)), reduce_retracing=True)


def lookup_by_variable(table: Any) -> Any:
    weights = tf.Variable(table, trainable=False)

    @tf.function
    def lookup(x: Any) -> Any:
        return tf.matmul(x, weights)

    return lookup


def lookup_by_lambda(table: Any) -> Any:
    weights = tf.convert_to_tensor(table)
    return tf.function(lambda x: x @ weights)


def lookup_transposed(table: Any) -> Any:
    columns = tf.constant(table.T.copy())

    @tf.function(input_signature=[tf.TensorSpec([None, table.shape[0]])])
    def lookup(x: Any) -> Any:
        return tf.linalg.matmul(x, columns, transpose_b=True)

    return lookup


@tf.function
def decay_by_while_loop(x: Any, n: int) -> Any:
    return tf.while_loop(
        lambda i, x: i < n,
        lambda i, x: (i + 1, 0.9 * tf.tanh(x) + 0.01),
        (tf.constant(0), x),
    )[1]


def decay_with_a_tensor(x: Any, n: int) -> Any:
    return _decay(x, tf.constant(n))


@tf.function
def _decay(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        x = 0.9 * tf.tanh(x) + 0.01
        i += 1
    return x


def decay_by_foldl(x: Any, n: int) -> Any:
    return _folded(x, tf.range(n))


@tf.function
def _folded(x: Any, steps: Any) -> Any:
    return tf.foldl(lambda x, _: 0.9 * tf.tanh(x) + 0.01, steps, initializer=x)


def decay_with_a_function_inside(x: Any, n: int) -> Any:
    @tf.function
    def run(x: Any) -> Any:
        for _ in tf.range(n):
            x = tf.tanh(x) * 0.9 + 0.01
        return x

    return run(x)


RIGHT = {
    "q1": (wave_converted, wave_by_variable, _Wave()),
    "q2": (energy_with_signature, energy_of_any_rank, energy_around_a_function),
    "q3": (lookup_by_variable, lookup_by_lambda, lookup_transposed),
    "q4": (
        decay_by_while_loop,
        decay_with_a_tensor,
        decay_with_a_function_inside,
        decay_by_foldl,
    ),
}
