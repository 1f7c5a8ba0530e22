"""Exercises of lesson 06, "State and batches": what a training step keeps.

S stands for the bytes of the batch's activations, W for those of the weights.
"""

from __future__ import annotations

import math
import random
from typing import Any

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs, WrongAnswer
from lessons_lib.teaching.exercises.inputs import floats, integers, normal
from lessons_lib.teaching.exercises.limits import Promise, Quantity, Size
from lessons_lib.teaching.exercises.result import Status

# --- q1 -------------------------------------------------------------------------------------


def micro_gradient_starter(x: Any, w: Any, m: int) -> Any:
    """Return the gradient by w of ``mean(tanh(x @ w)²)``, from m micro-batches of equal size."""
    ...


def micro_gradient_solution(x: Any, w: Any, m: int) -> Any:
    """Return the gradient by w of ``mean(tanh(x @ w)²)``, from m micro-batches of equal size."""
    total = tf.zeros_like(w)
    for part in tf.split(x, m):
        with tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_mean(tf.square(tf.tanh(part @ w))) / m
        total += tape.gradient(loss, w)
        del tape, loss
    return total


def _micro_gradient_wrong_whole(x: Any, w: Any, m: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ w)))
    return tape.gradient(loss, w)


def _micro_gradient_wrong_one_tape(x: Any, w: Any, m: int) -> Any:
    # Micro-batches under one tape keep all their activations until its gradient.
    with tf.GradientTape() as tape:
        tape.watch(w)
        losses = [tf.reduce_mean(tf.square(tf.tanh(part @ w))) for part in tf.split(x, m)]
        loss = tf.add_n(losses) / m
    return tape.gradient(loss, w)


def _micro_gradient_wrong_sum(x: Any, w: Any, m: int) -> Any:
    return m * micro_gradient_solution(x, w, m)


q1 = Exercise(
    key="state.q1",
    title="The same gradient from micro-batches",
    prompt="""
    Write `micro_gradient(x, w, m)`: the gradient by `w` of the mean of `tanh(x @ w)²` over the
    whole batch, computed from m micro-batches, so that only one micro-batch's activations are
    alive at a time. The value is that of the whole batch.
    """,
    starter=micro_gradient_starter,
    solution_code=micro_gradient_solution,
    inputs=lambda size, seed: Inputs(
        (
            normal(seed, size["rows"], size["width"]),
            normal(seed + 1, size["width"], size["width"], scale=1 / math.sqrt(size["width"])),
            size["m"],
        )
    ),
    shown={"rows": 4096, "width": 128, "m": 8},
    graded=(
        {"rows": 4096, "width": 160, "m": 8},
        {"rows": 8192, "width": 128, "m": 16},
    ),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: (
                6 * floats(size["rows"] // size["m"], size["width"])
                + 4 * floats(size["width"], size["width"])
            ),
            floor=lambda size: floats(size["width"], size["width"]),
            why="six activations of one micro-batch and four weights",
        ),
    ),
    hints=(
        "Each micro-batch needs a tape of its own, and its gradient must be taken before the next.",
        "The mean over the batch is the mean of the micro-batches' means: divide each loss by m "
        "and add the gradients up.",
    ),
    wrong=(
        WrongAnswer("the whole batch at once", _micro_gradient_wrong_whole, Status.OVER_BUDGET),
        WrongAnswer("one tape for all", _micro_gradient_wrong_one_tape, Status.OVER_BUDGET),
        WrongAnswer("the sum, not the mean", _micro_gradient_wrong_sum, Status.WRONG_VALUE),
    ),
)

# --- q2 -------------------------------------------------------------------------------------


def embedding_gradient_starter(table: Any, ids: Any) -> Any:
    """Return the gradient by the table of the sum of squares of its rows ``ids``."""
    ...


def embedding_gradient_solution(table: Any, ids: Any) -> Any:
    """Return the gradient by the table of the sum of squares of its rows ``ids``."""
    with tf.GradientTape() as tape:
        tape.watch(table)
        rows = tf.gather(table, ids)
        loss = tf.reduce_sum(tf.square(rows))
    return tape.gradient(loss, table)


def _embedding_gradient_wrong_scaled(table: Any, ids: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(table)
        loss = tf.reduce_sum(tf.square(tf.gather(table * 1.0, ids)))
    return tape.gradient(loss, table)


def _embedding_gradient_wrong_dense(table: Any, ids: Any) -> Any:
    return tf.convert_to_tensor(embedding_gradient_solution(table, ids))


def _embedding_gradient_wrong_one_hot(table: Any, ids: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(table)
        loss = tf.reduce_sum(tf.square(tf.one_hot(ids, table.shape[0]) @ table))
    return tape.gradient(loss, table)


def _embedding_gradient_wrong_half(table: Any, ids: Any) -> Any:
    gradient = embedding_gradient_solution(table, ids)
    return tf.IndexedSlices(0.5 * gradient.values, gradient.indices, gradient.dense_shape)


q2 = Exercise(
    key="state.q2",
    title="A gradient as small as the rows it touches",
    prompt="""
    Write `embedding_gradient(table, ids)`: the gradient by `table` of the sum of the squares of the
    rows `ids`. Only these rows have a gradient other than zero, and it can be kept as
    `tf.IndexedSlices`. A check accepts that form.
    """,
    starter=embedding_gradient_starter,
    solution_code=embedding_gradient_solution,
    inputs=lambda size, seed: Inputs(
        (
            normal(seed, size["rows"], size["width"]),
            integers(seed + 1, size["count"], size["rows"]),
        )
    ),
    shown={"rows": 8192, "width": 64, "count": 256},
    graded=(
        {"rows": 16384, "width": 64, "count": 256},
        {"rows": 8192, "width": 160, "count": 300},
    ),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: floats(size["rows"], size["width"]) // 4,
            why="a quarter of the table",
        ),
    ),
    hints=(
        "The gradient of `tf.gather` of the table itself is sparse. What makes it dense?",
        "Gather from `table`, not from something computed from it, and return what the tape gives.",
    ),
    wrong=(
        WrongAnswer("gathers table * 1", _embedding_gradient_wrong_scaled, Status.OVER_BUDGET),
        WrongAnswer("makes it dense", _embedding_gradient_wrong_dense, Status.OVER_BUDGET),
        WrongAnswer("multiplies by one-hot", _embedding_gradient_wrong_one_hot, Status.OVER_BUDGET),
        WrongAnswer("half of it", _embedding_gradient_wrong_half, Status.WRONG_VALUE),
    ),
)

# --- q3 -------------------------------------------------------------------------------------


def gelu_gradient_starter(x: Any, n: int) -> Any:
    """Return the gradient by x of the sum of ``gelu`` applied n times to x."""
    ...


def gelu_gradient_solution(x: Any, n: int) -> Any:
    """Return the gradient by x of the sum of ``gelu`` applied n times to x."""

    @tf.custom_gradient
    def light_gelu(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.nn.gelu(x)
            return tape.gradient(y, x, output_gradients=upstream)

        # Without stop_gradient the outer tape would record what gelu does inside.
        return tf.nn.gelu(tf.stop_gradient(x)), gradient

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(n):
            y = light_gelu(y)
        total = tf.reduce_sum(y)
    return tape.gradient(total, x)


def _gelu_gradient_wrong_plain(x: Any, n: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(n):
            y = tf.nn.gelu(y)
        total = tf.reduce_sum(y)
    return tape.gradient(total, x)


def _gelu_gradient_wrong_persistent(x: Any, n: int) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x
        for _ in range(n):
            y = tf.nn.gelu(y)
        total = tf.reduce_sum(y)
        return tape.gradient(total, x)


def _gelu_gradient_wrong_relu(x: Any, n: int) -> Any:
    return tf.cast(x > 0, tf.float32)


q3 = Exercise(
    key="state.q3",
    title="An activation that keeps one tensor instead of five",
    prompt="""
    Under a tape, each `tf.nn.gelu` keeps several tensors. Write `gelu_gradient(x, n)`: the
    gradient by `x` of the sum after n times gelu, with a gradient of your own for gelu that keeps
    only its input and computes the rest again.
    """,
    starter=gelu_gradient_starter,
    solution_code=gelu_gradient_solution,
    inputs=lambda size, seed: Inputs((normal(seed, size["rows"], size["width"]) + 1.0, size["n"])),
    shown={"rows": 512, "width": 128, "n": 16},
    graded=({"rows": 512, "width": 160, "n": 16}, {"rows": 768, "width": 128, "n": 20}),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: (size["n"] + 14) * floats(size["rows"], size["width"]),
            floor=lambda size: floats(size["rows"], size["width"]),
            why="n + 14 of x",
        ),
    ),
    hints=(
        "`@tf.custom_gradient` lets a function give its value and its own gradient function.",
        "In the gradient function, use a tape around one `tf.nn.gelu(x)`. Compute the value from "
        "`tf.stop_gradient(x)`, or the outer tape records the inside of gelu all the same.",
    ),
    wrong=(
        WrongAnswer("plain gelu", _gelu_gradient_wrong_plain, Status.OVER_BUDGET),
        WrongAnswer("a persistent tape", _gelu_gradient_wrong_persistent, Status.OVER_BUDGET),
        WrongAnswer("the gradient of relu", _gelu_gradient_wrong_relu, Status.WRONG_VALUE),
    ),
    tolerance=1e-3,
)

# --- q4 -------------------------------------------------------------------------------------


def largest_batch_starter(step: Any, budget: int) -> Any:
    """Return the largest batch size for which ``step(size)`` peaks at no more than budget bytes."""
    ...


def largest_batch_solution(step: Any, budget: int) -> Any:
    """Return the largest batch size for which ``step(size)`` peaks at no more than budget bytes."""
    few, more = 8, 16
    low = ll.measure(lambda: step(few), repeats=1).peak_bytes
    high = ll.measure(lambda: step(more), repeats=1).peak_bytes
    each = (high - low) // (more - few)
    fixed = low - few * each
    return (budget - fixed) // each


def _largest_batch_wrong_tries(step: Any, budget: int) -> Any:
    def peak(size: int) -> int:
        return ll.measure(lambda: step(size), repeats=1).peak_bytes

    size = 8
    while peak(size) <= budget:
        size += 8
    while peak(size) > budget:
        size -= 1
    return size


def _largest_batch_wrong_fixed(step: Any, budget: int) -> Any:
    return budget * 8 // ll.measure(lambda: step(8), repeats=1).peak_bytes


class _Step:
    """A step whose peak is ``fixed + size · each``."""

    def __init__(self, size: Size, seed: int) -> None:
        chance = random.Random(seed)
        self.width, self.fixed = size["width"], size["fixed"] + chance.randrange(200)
        self.layers = chance.randrange(3, 6)

    def __call__(self, batch: int) -> None:
        weights = tf.fill([self.fixed, self.width], 1.0)
        activations = [tf.fill([batch, self.width], float(i)) for i in range(self.layers)]
        del weights, activations

    def largest(self, budget: int) -> int:
        """Give the right answer."""
        row = floats(self.width)
        return (budget - self.fixed * row) // (self.layers * row)


def _training_step(size: Size, seed: int) -> Inputs:
    step = _Step(size, seed)
    # Half a row more, so that the shapes' own few bytes don't decide.
    row = floats(size["width"])
    return Inputs((step, size["rows"] * row + row // 2))


q4 = Exercise(
    key="state.q4",
    title="The largest batch that fits, without trying it (hard)",
    prompt="""
    `step(size)` runs a training step with a batch of that size and returns nothing. Its peak is a
    fixed part plus so many bytes for each example. Write `largest_batch(step, budget)`: the largest
    batch size whose peak is not above `budget` bytes. The budget is all there is: your function
    must not go over it on the way.
    """,
    starter=largest_batch_starter,
    solution_code=largest_batch_solution,
    inputs=_training_step,
    shown={"rows": 1024, "width": 512, "fixed": 256},
    graded=(
        {"rows": 1500, "width": 512, "fixed": 300},
        {"rows": 900, "width": 1024, "fixed": 200},
    ),
    promises=(
        Promise(
            Quantity.PEAK,
            lambda size: size["rows"] * floats(size["width"]) + floats(size["width"]) // 2,
            why="the budget that is given to your function",
        ),
    ),
    hints=(
        "Two small batches give you the two unknowns: the fixed part, and the bytes an example.",
        "`ll.measure(lambda: step(8), repeats=1).peak_bytes`, the same for 16, and a straight "
        "line through both.",
    ),
    wrong=(
        WrongAnswer("tries until it is too much", _largest_batch_wrong_tries, Status.OVER_BUDGET),
        WrongAnswer("forgets the fixed part", _largest_batch_wrong_fixed, Status.WRONG_VALUE),
    ),
    expected=lambda inputs: inputs.arguments[0].largest(inputs.arguments[1]),
    seconds=60.0,
)

EXERCISES = (q1, q2, q3, q4)
