"""Wrong answers to the exercises of `state`."""

from __future__ import annotations

from typing import Any

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.lessons.state import (
    embedding_gradient_solution,
    micro_gradient_solution,
)
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


def micro_gradient_whole(x: Any, w: Any, m: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ w)))
    return tape.gradient(loss, w)


def micro_gradient_one_tape(x: Any, w: Any, m: int) -> Any:
    # Micro-batches under one tape keep all their activations until its gradient.
    with tf.GradientTape() as tape:
        tape.watch(w)
        losses = [tf.reduce_mean(tf.square(tf.tanh(part @ w))) for part in tf.split(x, m)]
        loss = tf.add_n(losses) / m
    return tape.gradient(loss, w)


def micro_gradient_sum(x: Any, w: Any, m: int) -> Any:
    return m * micro_gradient_solution(x, w, m)


def embedding_gradient_scaled(table: Any, ids: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(table)
        loss = tf.reduce_sum(tf.square(tf.gather(table * 1.0, ids)))
    return tape.gradient(loss, table)


def embedding_gradient_dense(table: Any, ids: Any) -> Any:
    return tf.convert_to_tensor(embedding_gradient_solution(table, ids))


def embedding_gradient_one_hot(table: Any, ids: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(table)
        loss = tf.reduce_sum(tf.square(tf.one_hot(ids, table.shape[0]) @ table))
    return tape.gradient(loss, table)


def embedding_gradient_shapeless(table: Any, ids: Any) -> Any:
    return tf.IndexedSlices(2.0 * tf.gather(table, ids), ids)


def embedding_gradient_beyond(table: Any, ids: Any) -> Any:
    return tf.IndexedSlices(2.0 * tf.gather(table, ids), ids, [4, table.shape[1]])


def embedding_gradient_half(table: Any, ids: Any) -> Any:
    gradient = embedding_gradient_solution(table, ids)
    return tf.IndexedSlices(0.5 * gradient.values, gradient.indices, gradient.dense_shape)


def gelu_gradient_plain(x: Any, n: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(n):
            y = tf.nn.gelu(y)
        total = tf.reduce_sum(y)
    return tape.gradient(total, x)


def gelu_gradient_persistent(x: Any, n: int) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x
        for _ in range(n):
            y = tf.nn.gelu(y)
        total = tf.reduce_sum(y)
        return tape.gradient(total, x)


def gelu_gradient_relu(x: Any, n: int) -> Any:
    return tf.cast(x > 0, tf.float32)


def largest_batch_tries(step: Any, budget: int) -> Any:
    def peak(size: int) -> int:
        return ll.measure(lambda: step(size), repeats=1).peak_bytes

    few, many = 1, 2048
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if peak(middle) <= budget else (few, middle)
    return few


def largest_batch_fraction(step: Any, budget: int) -> Any:
    few = ll.measure(lambda: step(8), repeats=1).peak_bytes
    many = ll.measure(lambda: step(16), repeats=1).peak_bytes
    each = (many - few) / 8
    return (budget - few + 8 * each) / each


def largest_batch_fixed(step: Any, budget: int) -> Any:
    return budget * 8 // ll.measure(lambda: step(8), repeats=1).peak_bytes


WRONG = {
    "q1": (
        Wrong("the whole batch at once", micro_gradient_whole, Status.OVER_BUDGET),
        Wrong("one tape for all", micro_gradient_one_tape, Status.OVER_BUDGET),
        Wrong("the sum, not the mean", micro_gradient_sum, Status.WRONG_VALUE),
    ),
    "q2": (
        Wrong("gathers table * 1", embedding_gradient_scaled, Status.OVER_BUDGET),
        Wrong("makes it dense", embedding_gradient_dense, Status.OVER_BUDGET),
        Wrong("multiplies by one-hot", embedding_gradient_one_hot, Status.OVER_BUDGET),
        Wrong("no shape", embedding_gradient_shapeless, Status.WRONG_VALUE, "a dense_shape"),
        Wrong("of few rows", embedding_gradient_beyond, Status.WRONG_VALUE, "cannot be read"),
        Wrong("half of it", embedding_gradient_half, Status.WRONG_VALUE),
    ),
    "q3": (
        Wrong("plain gelu", gelu_gradient_plain, Status.OVER_BUDGET),
        Wrong("a persistent tape", gelu_gradient_persistent, Status.OVER_BUDGET),
        Wrong("the gradient of relu", gelu_gradient_relu, Status.WRONG_VALUE),
    ),
    "q4": (
        Wrong("tries until it is too much", largest_batch_tries, Status.OVER_BUDGET),
        Wrong("no whole number", largest_batch_fraction, Status.WRONG_VALUE, "expected"),
        Wrong("forgets the fixed part", largest_batch_fixed, Status.WRONG_VALUE),
    ),
}
