"""Wrong answers to the exercises of `eager_and_graph`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


def batches_gather(x: Any, m: int) -> Any:
    rows = x.shape[0] // m
    return [tf.gather(x, tf.range(i * rows, (i + 1) * rows)) for i in range(m)]


def batches_numpy(x: Any, m: int) -> Any:
    return np.split(x.numpy(), m)


def batches_strided(x: Any, m: int) -> Any:
    return [x[i::m] for i in range(m)]


def curve_eager(x: Any) -> Any:
    x = 2.0 * x
    x = x + 1.0
    x = tf.tanh(x)
    return 3.0 * x


def curve_numpy(x: Any) -> Any:
    return tf.constant(3.0 * np.tanh(2.0 * x.numpy() + 1.0))


@tf.function
def curve_inside(x: Any) -> Any:
    return 3.0 * tf.tanh(2.0 * (x + 1.0))


def first_rows_view(make_batch: Any, n: int) -> Any:
    return [make_batch(i)[0] for i in range(n)]


def first_rows_identity(make_batch: Any, n: int) -> Any:
    return [tf.identity(make_batch(i)[0]) for i in range(n)]


def first_rows_last(make_batch: Any, n: int) -> Any:
    return [tf.gather(make_batch(i), -1 % make_batch(i).shape[0]) for i in range(n)]


def collect_assign(make_row: Any, n: int) -> Any:
    table = tf.Variable(tf.zeros([n, make_row(0).shape[0]]))
    for i in range(n):
        table[i].assign(make_row(i))
    return table


def collect_scatter(make_row: Any, n: int) -> Any:
    table = tf.zeros([n, make_row(0).shape[0]])
    for i in range(n):
        table = tf.tensor_scatter_nd_update(table, [[i]], make_row(i)[tf.newaxis])
    # Under a name of its own, so that nothing is updated in place.
    return tf.Variable(table)


def collect_concat(make_row: Any, n: int) -> Any:
    table = make_row(0)[tf.newaxis]
    for i in range(1, n):
        table = tf.concat([table, make_row(i)[tf.newaxis]], axis=0)
    return tf.Variable(table)


def collect_sum(make_row: Any, n: int) -> Any:
    table = tf.Variable(tf.ones([n, make_row(0).shape[0]]))
    for i in range(n):
        table.scatter_nd_add([[i]], make_row(i)[tf.newaxis])
    return table


def collect_stacked(make_row: Any, n: int) -> Any:
    return tf.Variable(tf.stack([make_row(i) for i in range(n)]))


def collect_no_variable(make_row: Any, n: int) -> Any:
    rows = []
    for i in range(n):
        rows.append(make_row(i))
    return tf.stack(rows)


WRONG = {
    "q1": (
        Wrong("gathers the rows", batches_gather, Status.OVER_BUDGET),
        Wrong("splits a NumPy copy", batches_numpy, Status.WRONG_VALUE, "a NumPy array"),
        Wrong("takes every m-th row", batches_strided, Status.WRONG_VALUE),
    ),
    "q2": (
        Wrong("rebinds one name eagerly", curve_eager, Status.OVER_BUDGET),
        Wrong("computes in NumPy", curve_numpy, Status.OVER_BUDGET),
        Wrong("adds before it doubles", curve_inside, Status.WRONG_VALUE),
    ),
    "q3": (
        Wrong("keeps views", first_rows_view, Status.OVER_BUDGET),
        Wrong("identity of views", first_rows_identity, Status.OVER_BUDGET),
        Wrong("last rows", first_rows_last, Status.WRONG_VALUE),
    ),
    "q4": (
        Wrong(
            "stacks all rows", collect_stacked, Status.NOT_AS_ASKED, "rows were in memory at once"
        ),
        Wrong("no variable", collect_no_variable, Status.NOT_AS_ASKED, "asks for a tf.Variable"),
        Wrong("assigns to v[i]", collect_assign, Status.OVER_BUDGET),
        Wrong("scatters into a tensor", collect_scatter, Status.OVER_BUDGET),
        Wrong("grows by concat", collect_concat, Status.OVER_BUDGET),
        Wrong("adds to ones", collect_sum, Status.WRONG_VALUE),
    ),
}
