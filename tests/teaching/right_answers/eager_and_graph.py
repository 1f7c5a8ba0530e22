"""Right answers to the exercises of `eager_and_graph`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf


def batches_by_slices(x: Any, m: int) -> Any:
    k = x.shape[0] // m
    return [x[i * k : (i + 1) * k] for i in range(m)]


def batches_by_slice_op(x: Any, m: int) -> Any:
    k = x.shape[0] // m
    return tuple(tf.slice(x, [i * k, 0], [k, -1]) for i in range(m))


def batches_by_reshape(x: Any, m: int) -> Any:
    blocks = tf.reshape(x, [m, -1, x.shape[1]])
    return [blocks[i] for i in range(m)]


def curve_compiled_once(x: Any) -> Any:
    return _curve(x)


_curve = tf.function(lambda x: 3.0 * tf.math.tanh(tf.add(2.0 * x, 1.0)))


@tf.function(input_signature=[tf.TensorSpec([None, None])])
def curve_with_signature(x: Any) -> Any:
    y = x * 2.0
    y = y + 1.0
    y = tf.tanh(y)
    return y * 3.0


def curve_with_a_function_inside(x: Any) -> Any:
    @tf.function
    def inner(x: Any) -> Any:
        return 3.0 * tf.tanh(2.0 * x + 1.0)

    return inner(x)


def rows_by_sum(make_batch: Any, n: int) -> Any:
    return [make_batch(i)[0] + 0.0 for i in range(n)]


def rows_by_numpy(make_batch: Any, n: int) -> Any:
    rows = []
    for i in range(n):
        rows.append(tf.constant(make_batch(i)[0].numpy()))
    return rows


def rows_by_gather_nd(make_batch: Any, n: int) -> Any:
    rows = []
    for i in range(n):
        batch = make_batch(i)
        rows.append(tf.gather_nd(batch, [0]))
    return rows


def collect_into_numpys_zeros(make_row: Any, n: int) -> Any:
    table = tf.Variable(np.zeros((n, make_row(0).shape[0]), np.float32))
    for i in range(n):
        table.scatter_nd_update([[i]], [make_row(i)])
    return table


def collect_by_slices(make_row: Any, n: int) -> Any:
    first = make_row(0)
    table = tf.Variable(tf.zeros([n, first.shape[0]]))
    for i in range(n):
        table.scatter_update(tf.IndexedSlices(make_row(i)[None], [i]))
    return table


def collect_by_adding(make_row: Any, n: int) -> Any:
    table = tf.Variable(lambda: tf.zeros([n, make_row(0).shape[0]]))
    for i in range(n):
        table.scatter_nd_add([[i]], tf.expand_dims(make_row(i), 0))
    return table


RIGHT = {
    "q1": (batches_by_slices, batches_by_slice_op, batches_by_reshape),
    "q2": (curve_compiled_once, curve_with_signature, curve_with_a_function_inside),
    "q3": (rows_by_sum, rows_by_numpy, rows_by_gather_nd),
    "q4": (collect_into_numpys_zeros, collect_by_slices, collect_by_adding),
}
