"""Exercises of lesson 02, "See which operations allocate, in eager and in graph mode".

S stands for the bytes of the float32 tensor in play: ``4 · rows · width``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, WrongAnswer
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Promise, Quantity, Size
from lessons_lib.teaching.exercises.result import Status


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


# --- q1 -------------------------------------------------------------------------------------


def batches_starter(x: Any, m: int) -> Any:
    """Return the rows of x as a list of m equal parts, in order, without copying them."""
    ...


def batches_solution(x: Any, m: int) -> Any:
    """Return the rows of x as a list of m equal parts, in order, without copying them."""
    return tf.split(x, m)


def _batches_wrong_gather(x: Any, m: int) -> Any:
    rows = x.shape[0] // m
    return [tf.gather(x, tf.range(i * rows, (i + 1) * rows)) for i in range(m)]


def _batches_wrong_numpy(x: Any, m: int) -> Any:
    return np.split(x.numpy(), m)


def _batches_wrong_strided(x: Any, m: int) -> Any:
    return [x[i::m] for i in range(m)]


q1 = Exercise(
    key="eager_and_graph.q1",
    title="Cut a tensor into batches for nothing",
    prompt="""
    Write `batches(x, m)`: the rows of x as a list of m equal parts. Rows whose bytes are a
    multiple of 64 can be views of x, so this can be had without allocating at all.
    """,
    starter=batches_starter,
    solution_code=batches_solution,
    inputs=lambda size, seed: Inputs((normal(seed, size["rows"], size["width"]), size["m"])),
    shown={"rows": 1024, "width": 512, "m": 8},
    graded=({"rows": 1536, "width": 512, "m": 12}, {"rows": 1024, "width": 1024, "m": 16}),
    promises=(Promise(Quantity.PEAK, lambda size: _s(size) // 8, why="an eighth of x"),),
    hints=(
        "Which operations of the lesson's list take nothing? Along which axis?",
        "`tf.split(x, m)` along axis 0, or slices `x[a:b]`.",
    ),
    wrong=(
        WrongAnswer("gathers the rows", _batches_wrong_gather, Status.OVER_BUDGET),
        WrongAnswer("splits a NumPy copy", _batches_wrong_numpy, Status.OVER_BUDGET),
        WrongAnswer("takes every m-th row", _batches_wrong_strided, Status.WRONG_VALUE),
    ),
)

# --- q2 -------------------------------------------------------------------------------------


def curve_starter(x: Any) -> Any:
    """Return ``3 · tanh(2 · x + 1)``."""
    ...


@tf.function
def curve_solution(x: Any) -> Any:
    """Return ``3 · tanh(2 · x + 1)``."""
    return 3.0 * tf.tanh(2.0 * x + 1.0)


def _curve_wrong_eager(x: Any) -> Any:
    x = 2.0 * x
    x = x + 1.0
    x = tf.tanh(x)
    return 3.0 * x


def _curve_wrong_numpy(x: Any) -> Any:
    return tf.constant(3.0 * np.tanh(2.0 * x.numpy() + 1.0))


@tf.function
def _curve_wrong_inside(x: Any) -> Any:
    return 3.0 * tf.tanh(2.0 * (x + 1.0))


q2 = Exercise(
    key="eager_and_graph.q2",
    title="Four operations in one buffer",
    prompt="""
    Write `curve(x)`: 3 · tanh(2 · x + 1), element by element. However carefully you rebind names,
    eager mode needs two buffers at a time. The budget is one and a half.
    """,
    starter=curve_starter,
    solution_code=curve_solution,
    inputs=lambda size, seed: Inputs((normal(seed, size["rows"], size["width"]),)),
    shown={"rows": 512, "width": 512},
    graded=({"rows": 1024, "width": 512}, {"rows": 768, "width": 1024}),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: 3 * _s(size) // 2,
            floor=_s,
            why="one and a half times the result",
        ),
    ),
    hints=(
        "In which mode may an operation write its output over an input that nobody needs any more?",
        "Decorate the function with `@tf.function`.",
    ),
    wrong=(
        WrongAnswer("rebinds one name eagerly", _curve_wrong_eager, Status.OVER_BUDGET),
        WrongAnswer("computes in NumPy", _curve_wrong_numpy, Status.OVER_BUDGET),
        WrongAnswer("adds before it doubles", _curve_wrong_inside, Status.WRONG_VALUE),
    ),
)

# --- q3 -------------------------------------------------------------------------------------


def first_rows_starter(make_batch: Any, n: int) -> Any:
    """Return a list of the first rows of ``make_batch(0)`` to ``make_batch(n - 1)``."""
    ...


def first_rows_solution(make_batch: Any, n: int) -> Any:
    """Return a list of the first rows of ``make_batch(0)`` to ``make_batch(n - 1)``."""
    return [tf.gather(make_batch(i), 0) for i in range(n)]


def _first_rows_wrong_view(make_batch: Any, n: int) -> Any:
    return [make_batch(i)[0] for i in range(n)]


def _first_rows_wrong_identity(make_batch: Any, n: int) -> Any:
    return [tf.identity(make_batch(i)[0]) for i in range(n)]


def _first_rows_wrong_last(make_batch: Any, n: int) -> Any:
    return [tf.gather(make_batch(i), -1 % make_batch(i).shape[0]) for i in range(n)]


class _Batches:
    """Makes batches from a seed, anew at each call."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size, self.seed = size, seed

    def __call__(self, i: int) -> Any:
        return normal(self.seed + i, self.size["rows"], self.size["width"])


q3 = Exercise(
    key="eager_and_graph.q3",
    title="Keep a row, not the whole batch",
    prompt="""
    `make_batch(i)` makes a batch. Write `first_rows(make_batch, n)`: a list of the first row of
    each of n batches. What counts is what your list keeps alive: n rows, not n batches.
    """,
    starter=first_rows_starter,
    solution_code=first_rows_solution,
    inputs=lambda size, seed: Inputs((_Batches(size, seed), size["n"])),
    shown={"rows": 512, "width": 512, "n": 8},
    graded=({"rows": 512, "width": 512, "n": 12}, {"rows": 384, "width": 1024, "n": 16}),
    promises=(
        Promise(
            Quantity.KEPT,
            lambda size: 2 * size["n"] * floats(size["width"]),
            floor=lambda size: size["n"] * floats(size["width"]),
            why="two rows for each batch",
        ),
    ),
    hints=(
        "`batch[0]` is a view of an aligned batch, and a view keeps the whole buffer alive. So "
        "does `tf.identity` of it.",
        "An operation that computes makes a buffer of its own: `tf.gather(batch, 0)`, or "
        "`batch[0] + 0.0`.",
    ),
    wrong=(
        WrongAnswer("keeps views", _first_rows_wrong_view, Status.OVER_BUDGET),
        WrongAnswer("identity of views", _first_rows_wrong_identity, Status.OVER_BUDGET),
        WrongAnswer("last rows", _first_rows_wrong_last, Status.WRONG_VALUE),
    ),
)

# --- q4 -------------------------------------------------------------------------------------


def collect_starter(make_row: Any, n: int) -> Any:
    """Return a variable of shape (n, width) whose row i is ``make_row(i)``, written in place."""
    ...


def collect_solution(make_row: Any, n: int) -> Any:
    """Return a variable of shape (n, width) whose row i is ``make_row(i)``, written in place."""
    table = tf.Variable(tf.zeros([n, make_row(0).shape[0]]))
    for i in range(n):
        table.scatter_nd_update([[i]], make_row(i)[tf.newaxis])
    return table


def _collect_wrong_assign(make_row: Any, n: int) -> Any:
    table = tf.Variable(tf.zeros([n, make_row(0).shape[0]]))
    for i in range(n):
        table[i].assign(make_row(i))
    return table


def _collect_wrong_scatter(make_row: Any, n: int) -> Any:
    table = tf.zeros([n, make_row(0).shape[0]])
    for i in range(n):
        table = tf.tensor_scatter_nd_update(table, [[i]], make_row(i)[tf.newaxis])
    # Under a name of its own, so that nothing is updated in place.
    return tf.Variable(table)


def _collect_wrong_concat(make_row: Any, n: int) -> Any:
    table = make_row(0)[tf.newaxis]
    for i in range(1, n):
        table = tf.concat([table, make_row(i)[tf.newaxis]], axis=0)
    return tf.Variable(table)


def _collect_wrong_sum(make_row: Any, n: int) -> Any:
    table = tf.Variable(tf.ones([n, make_row(0).shape[0]]))
    for i in range(n):
        table.scatter_nd_add([[i]], make_row(i)[tf.newaxis])
    return table


class _Rows:
    """Makes rows from a seed, anew at each call."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size, self.seed = size, seed

    def __call__(self, i: int) -> Any:
        return normal(self.seed + i, self.size["width"])


q4 = Exercise(
    key="eager_and_graph.q4",
    title="Write rows in place (hard)",
    prompt="""
    `make_row(i)` makes row i. Write `collect(make_row, n)`: a variable of shape `(n, width)` with
    these rows, written one after the other. Every allocation counts here: ways that copy the
    whole variable for each row allocate n times its size.
    """,
    starter=collect_starter,
    solution_code=collect_solution,
    inputs=lambda size, seed: Inputs((_Rows(size, seed), size["n"])),
    shown={"width": 16384, "n": 16},
    graded=({"width": 16384, "n": 24}, {"width": 24576, "n": 20}),
    promises=(
        Promise(
            Quantity.ALLOCATED,
            lambda size: 6 * floats(size["n"], size["width"]),
            floor=lambda size: floats(size["n"], size["width"]),
            why="six times the variable",
        ),
    ),
    hints=(
        "`variable[i].assign(row)` copies the whole variable from its second call on.",
        "`variable.scatter_nd_update([[i]], row[tf.newaxis])` writes into the variable's buffer.",
    ),
    wrong=(
        WrongAnswer("assigns to v[i]", _collect_wrong_assign, Status.OVER_BUDGET),
        WrongAnswer("scatters into a tensor", _collect_wrong_scatter, Status.OVER_BUDGET),
        WrongAnswer("grows by concat", _collect_wrong_concat, Status.OVER_BUDGET),
        WrongAnswer("adds to ones", _collect_wrong_sum, Status.WRONG_VALUE),
    ),
)

EXERCISES = (q1, q2, q3, q4)
