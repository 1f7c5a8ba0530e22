"""Exercises of lesson 02, "See which operations allocate, in eager and in graph mode".

S stands for the bytes of the float32 tensor in play: ``4 · rows · width``.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.evidence import recorded_by_line
from lessons_lib.teaching.exercises.exercise import Attempt, Exercise, Inputs
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question
from lessons_lib.teaching.exercises.requirements import is_variable


def _s(size: Size) -> int:
    return floats(size["rows"], size["width"])


# --- q1 -------------------------------------------------------------------------------------


def batches_starter(x: Any, m: int) -> Any:
    """Return the rows of x as a list of m equal parts, in order, without copying them."""
    ...


def batches_solution(x: Any, m: int) -> Any:
    """Return the rows of x as a list of m equal parts, in order, without copying them."""
    return tf.split(x, m)


_q1 = Exercise(
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
    limits=(Limit(Quantity.PEAK, lambda size: _s(size) // 8, why="an eighth of x"),),
    hints=(
        "Which operations of the lesson's list take nothing? Along which axis?",
        "`tf.split(x, m)` along axis 0, or slices `x[a:b]`.",
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


_q2 = Exercise(
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
    limits=(
        Limit(
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
)

# --- q3 -------------------------------------------------------------------------------------


def first_rows_starter(make_batch: Any, n: int) -> Any:
    """Return a list of the first rows of ``make_batch(0)`` to ``make_batch(n - 1)``."""
    ...


def first_rows_solution(make_batch: Any, n: int) -> Any:
    """Return a list of the first rows of ``make_batch(0)`` to ``make_batch(n - 1)``."""
    return [tf.gather(make_batch(i), 0) for i in range(n)]


def _batches(size: Size, seed: int) -> Inputs:
    """Give a function that makes batches from a seed, anew at each call."""
    numbers = normal(seed, size["rows"], size["width"])
    return Inputs((lambda i: numbers + float(i), size["n"]))


_q3 = Exercise(
    key="eager_and_graph.q3",
    title="Keep a row, not the whole batch",
    prompt="""
    `make_batch(i)` makes a batch. Write `first_rows(make_batch, n)`: a list of the first row of
    each of n batches, as tensors. What counts is what your list keeps alive: n rows, not n batches.
    """,
    starter=first_rows_starter,
    solution_code=first_rows_solution,
    inputs=_batches,
    shown={"rows": 512, "width": 512, "n": 8},
    graded=({"rows": 512, "width": 512, "n": 12}, {"rows": 384, "width": 1024, "n": 16}),
    limits=(
        Limit(
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
)

#: How many rows an answer may hold at once: the present one, the last one, and one to look at.
_ROWS_ALIVE: Final = 3

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


class _Rows:
    """Makes rows from a seed, anew at each call, and counts how many are alive at a time."""

    def __init__(self, size: Size, seed: int) -> None:
        self.numbers = normal(seed, size["width"])
        self.alive = self.most = 0

    def __call__(self, i: int) -> Any:
        row = self.numbers + float(i)
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(row, self._gone).atexit = False
        return row

    def _gone(self) -> None:
        self.alive -= 1


def _row_by_row(evidence: Attempt) -> str:
    rows = evidence.inputs.arguments[0]
    if rows.most <= _ROWS_ALIVE:
        return ""
    return (
        f"The values are right, but {rows.most} rows were in memory at once beside the variable: "
        "write each row into the variable when you have made it."
    )


_q4 = Exercise(
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
    requires=(is_variable, _row_by_row),
    shown={"width": 16384, "n": 16},
    graded=({"width": 16384, "n": 24}, {"width": 24576, "n": 20}),
    limits=(
        Limit(
            Quantity.ALLOCATED,
            lambda size: 8 * floats(size["n"], size["width"]),
            floor=lambda size: floats(size["n"], size["width"]),
            why="eight times the variable",
        ),
    ),
    hints=(
        "`variable[i].assign(row)` copies the whole variable from its second call on.",
        "`variable.scatter_nd_update([[i]], row[tf.newaxis])` writes into the variable's buffer.",
    ),
)

# --- q5 -------------------------------------------------------------------------------------
# Axes are given: without them TensorFlow makes them from a NumPy array, whose memory it adopts now
# and then, so that the table would count a buffer more or less.


def first_normalised(x: Any) -> Any:
    """Return the first row of x, moved and scaled to mean 0 and variance 1."""
    centred = x - tf.reduce_mean(x, axis=[0, 1])
    squares = tf.square(centred)
    scale = tf.sqrt(tf.reduce_mean(squares, axis=[0, 1]))
    normalised = centred / scale
    return normalised[0]


def _normalise(program: Any) -> tuple[Any, ...]:
    return recorded_by_line("first_normalised(x)", program, normal(3, 1024, 512), keep=True)


_q5 = Diagnosis(
    key="eager_and_graph.q5",
    title="Which line costs, and why",
    prompt="""
    `first_normalised(x)` gives one row, 2 KiB. For x of 2 MiB it needs 6 MiB at the peak, and
    keeps 2 MiB. Two lines are at fault: one makes the peak higher than it must be, one keeps too
    much. Name them with their causes: `{line: cause, line: cause}`.
    """,
    program=first_normalised,
    evidence=_normalise,
    causes={
        "copy": "it copies a tensor that is there already",
        "name": "a temporary outlives its last use, since a name holds it",
        "view": "what it gives shares a larger buffer, and keeps all of it",
        "graph": "it runs in a graph, which keeps its inputs",
    },
    faults=(
        Fault(
            "squares = tf.square(centred)",
            "name",
            "Nothing reads `squares` after its mean is taken, but the name holds 2 MiB until the "
            "function ends. Within one expression, the temporary would be gone.",
            also=("scale = tf.sqrt(tf.reduce_mean(squares, axis=[0, 1]))",),
        ),
        Fault(
            "return normalised[0]",
            "view",
            "A row whose bytes are a multiple of 64 shares the buffer of its tensor: 2 KiB keep "
            "2 MiB. `tf.gather(normalised, 0)` copies the row.",
        ),
    ),
    near={
        "centred = x - tf.reduce_mean(x, axis=[0, 1])": "`centred` is used again, two lines below.",
        "normalised = centred / scale": "its buffer is needed; the question is who keeps it.",
    },
    hints=(
        "Which names hold 2 MiB each when the peak is reached, and which of them is read again?",
        "At the end one buffer stays that is made in the line of `normalised`. What in the "
        "program still shares it?",
    ),
)


q1 = Question(_q1)
q2 = Question(_q2)
q3 = Question(_q3)
q4 = Question(_q4)
q5 = DiagnosisQuestion(_q5)
EXERCISES: Final = (q1, q2, q3, q4, q5)
