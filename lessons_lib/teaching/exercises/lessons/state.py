"""Exercises of lesson 06, "State and batches": what a training step keeps.

S stands for the bytes of the batch's activations, W for those of the weights.
"""

from __future__ import annotations

import math
import random
from typing import Any, Final

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.evidence import recorded_by_line
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs
from lessons_lib.teaching.exercises.inputs import floats, integers, normal
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question

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


_q1 = Exercise(
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
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: (
                8 * floats(size["rows"] // size["m"], size["width"])
                + 4 * floats(size["width"], size["width"])
            ),
            floor=lambda size: floats(size["width"], size["width"]),
            why="eight activations of one micro-batch and four weights",
        ),
    ),
    hints=(
        "Each micro-batch needs a tape of its own, and its gradient must be taken before the next.",
        "The mean over the batch is the mean of the micro-batches' means: divide each loss by m "
        "and add the gradients up.",
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


_q2 = Exercise(
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
    limits=(
        Limit(
            Quantity.PEAK,
            lambda size: floats(size["rows"], size["width"]) // 4,
            why="a quarter of the table",
        ),
    ),
    hints=(
        "The gradient of `tf.gather` of the table itself is sparse. What makes it dense?",
        "Gather from `table`, not from something computed from it, and return what the tape gives.",
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


_q3 = Exercise(
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
    graded=({"rows": 384, "width": 128, "n": 16}, {"rows": 512, "width": 96, "n": 20}),
    limits=(
        Limit(
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


def _training_step(size: Size, seed: int) -> Inputs:
    """Give a step whose peak is ``fixed + batch · each``."""
    chance = random.Random(seed)
    width, row = size["width"], floats(size["width"])
    fixed, layers = size["fixed"] + chance.randrange(200), chance.randrange(3, 6)
    # Half a row more, so that the shapes' own few bytes don't decide.
    budget = size["rows"] * row + row // 2

    def step(batch: int) -> None:
        weights = tf.fill([fixed, width], 1.0)
        activations = [tf.fill([batch, width], float(i)) for i in range(layers)]
        del weights, activations

    return Inputs((step, budget), right=(budget - fixed * row) // (layers * row))


_q4 = Exercise(
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
    limits=(
        Limit(
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
    tolerance=0.0,
    seconds=60.0,
)

# --- q5 -------------------------------------------------------------------------------------
# Axes are given for the same reason as in loops.q6.


def accumulate(x: Any, w: Any, m: int) -> Any:
    """Return the gradient with respect to w, from m parts of the batch."""
    gradients = []
    for part in tf.split(x, m):
        with tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_mean(tf.tanh(part @ w), axis=[0, 1]) / m
        gradients.append(tape.gradient(loss, w))
    return tf.add_n(gradients)


def _accumulate(program: Any) -> tuple[Any, ...]:
    x, w = normal(3, 128, 512), normal(4, 512, 512, scale=0.05)
    return recorded_by_line("accumulate(x, w, 8)", program, x, w, 8)


_q5 = Diagnosis(
    key="state.q5",
    title="Small batches, large peak",
    prompt="""
    `accumulate(x, w, m)` cuts the batch into m parts so that its step needs less memory. Yet its
    peak is higher than that of the whole batch, and grows with m. Which line holds what should be
    gone, and what is it? `{line: cause}`
    """,
    program=accumulate,
    evidence=_accumulate,
    causes={
        "activations": "the activations of all parts wait for the backward pass",
        "gradients": "the gradient of each part is kept, and each is as large as the weights",
        "weights": "the weights are copied for each part",
        "optimizer": "the optimizer's state grows",
    },
    faults=(
        Fault(
            "gradients.append(tape.gradient(loss, w))",
            "gradients",
            "m gradients of 1 MiB wait in the list. Adding each to one total needs two at a time: "
            "the total and the new one.",
            also=("gradients = []", "return tf.add_n(gradients)"),
        ),
    ),
    near={
        "loss = tf.reduce_mean(tf.tanh(part @ w), axis=[0, 1]) / m": "each part has a tape of its "
        "own, so its activations are gone when the gradient is there.",
        "for part in tf.split(x, m):": "the parts are views: they take nothing.",
    },
    hints=(
        "How large is one part's activation, and how large is one gradient? Which of them is there "
        "m times at the peak?",
        "In the table by line, look at the number of buffers at the peak.",
    ),
)


q1 = Question(_q1)
q2 = Question(_q2)
q3 = Question(_q3)
q4 = Question(_q4)
q5 = DiagnosisQuestion(_q5)
EXERCISES: Final = (q1, q2, q3, q4, q5)
