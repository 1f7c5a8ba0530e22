"""The exercises of lesson 07, "Your own code": scripts with several memory faults.

`train_faulty` trains a small network and computes what is wanted.  Each of its five faults is of
another kind: tapes that stay, views that keep whole layers, a trace for each step, a history grown
by `concat`, and NumPy copies in float64.  They are to be named (q2); then its peak is brought
under a budget, with a single trace, without changing what it computes (q1).  For q3 another script
is drawn.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, DiagnosisQuestion, Fault
from lessons_lib.teaching.exercises.drawn import DrawnQuestion
from lessons_lib.teaching.exercises.exercise import Exercise, Inputs
from lessons_lib.teaching.exercises.inputs import floats, normal
from lessons_lib.teaching.exercises.lessons.capstone_scripts import CAUSES, SCRIPTS, look
from lessons_lib.teaching.exercises.limits import Limit, Quantity, Size
from lessons_lib.teaching.exercises.question import Question


def train_faulty(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    """Train two layers on x and y; give figures of each step and the final weights.

    Parameters
    ----------
    x, y : float32 tensors, shapes (rows, features) and (rows, outputs)
        The data.
    w1, w2 : float32 tensors, shapes (features, hidden) and (hidden, outputs)
        The weights at the start.
    steps : int
        Each step uses all rows.

    Returns
    -------
    dict
        ``losses``, ``errors`` and ``activity``, shape (steps,): mean squared error, mean absolute
        error, mean absolute value of the hidden layer; ``first``, shape (steps, hidden): the
        hidden layer's first row; ``w1`` and ``w2``.
    """
    tapes, losses, first, layers = [], [], [], []
    differences = tf.zeros([0, *y.shape])

    @tf.function
    def learning_rate(step: Any) -> Any:
        return 0.05 / (1.0 + 0.1 * step)

    for step in range(steps):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([w1, w2])
            hidden = tf.tanh(x @ w1)
            difference = hidden @ w2 - y
            loss = tf.reduce_mean(tf.square(difference))
        tapes.append(tape)
        rate = learning_rate(step)
        gradient1, gradient2 = tape.gradient(loss, [w1, w2])
        w1, w2 = w1 - rate * gradient1, w2 - rate * gradient2
        losses.append(loss)
        first.append(hidden[0])
        layers.append(hidden.numpy().astype(np.float64))
        differences = tf.concat([differences, difference[tf.newaxis]], axis=0)
    return {
        "losses": tf.stack(losses),
        "errors": tf.reduce_mean(tf.abs(differences), axis=(1, 2)),
        "activity": tf.constant([np.abs(layer).mean() for layer in layers], tf.float32),
        "first": tf.stack(first),
        "w1": w1,
        "w2": w2,
    }


def train_starter(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    """Compute what ``train_faulty`` computes, within the budget."""
    ...


def train_solution(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    """Compute what ``train_faulty`` computes, within the budget."""
    losses, errors, activity, first = [], [], [], []

    @tf.function(input_signature=[tf.TensorSpec([])])
    def learning_rate(step: Any) -> Any:
        return 0.05 / (1.0 + 0.1 * step)

    for step in range(steps):
        with tf.GradientTape() as tape:
            tape.watch([w1, w2])
            hidden = tf.tanh(x @ w1)
            difference = hidden @ w2 - y
            loss = tf.reduce_mean(tf.square(difference))
        # One number, or one row's copy, is all that is wanted of each large tensor.
        losses.append(loss)
        errors.append(tf.reduce_mean(tf.abs(difference)))
        activity.append(tf.reduce_mean(tf.abs(hidden)))
        first.append(tf.gather(hidden, 0))
        del hidden, difference
        gradient1, gradient2 = tape.gradient(loss, [w1, w2])
        del tape
        rate = learning_rate(float(step))
        w1, w2 = w1 - rate * gradient1, w2 - rate * gradient2
    return {
        "losses": tf.stack(losses),
        "errors": tf.stack(errors),
        "activity": tf.stack(activity),
        "first": tf.stack(first),
        "w1": w1,
        "w2": w2,
    }


def _data(size: Size, seed: int) -> Inputs:
    rows, features = size["rows"], size["features"]
    hidden, outputs = size["hidden"], size["outputs"]
    x = normal(seed, rows, features)
    y = tf.sin(3.0 * x @ normal(seed + 3, features, outputs, scale=1 / math.sqrt(features)))
    w1 = normal(seed + 1, features, hidden, scale=1 / math.sqrt(features))
    w2 = normal(seed + 2, hidden, outputs, scale=1 / math.sqrt(hidden))
    return Inputs((x, y, w1, w2, size["steps"]))


def _budget(size: Size) -> int:
    hidden = floats(size["rows"], size["hidden"])
    outputs = floats(size["rows"], size["outputs"])
    weights = floats(size["hidden"], size["features"] + size["outputs"])
    # A row's copy for each step, and a buffer of a few bytes for each of its numbers.
    kept = size["steps"] * (floats(size["hidden"]) + 256)
    return 4 * hidden + 4 * outputs + 4 * weights + 2 * kept


_q1 = Exercise(
    key="capstone.q1",
    title="Bring a training script under a budget",
    prompt="""
    `capstone.train_faulty(x, y, w1, w2, steps)` trains a small network and works, but its memory
    grows with the number of steps. It has five memory faults of different kinds. Find them with
    the instruments of these lessons, then write `train` with the same arguments and the same
    results: a dict with `losses`, `errors`, `activity`, `first`, `w1` and `w2`. The budget has
    room for a step on all rows, but not for leaving any of the faults.
    """,
    starter=train_starter,
    solution_code=train_solution,
    inputs=_data,
    shown={"rows": 2048, "features": 16, "hidden": 128, "outputs": 64, "steps": 10},
    graded=(
        {"rows": 1024, "features": 16, "hidden": 128, "outputs": 64, "steps": 8},
        {"rows": 1536, "features": 32, "hidden": 96, "outputs": 48, "steps": 12},
    ),
    limits=(
        Limit(
            Quantity.PEAK,
            _budget,
            floor=lambda size: size["steps"] * floats(size["hidden"]),
            why="4 · (hidden layer + outputs + weights), and twice what is returned",
        ),
        Limit(Quantity.TRACES, lambda size: 1, why="one for all steps"),
    ),
    hints=(
        "`ll.record()` around ten steps, then `.plot()` and `.by_line()`: what stays from step to "
        "step, and which line made it? NumPy's arrays are not in that picture.",
        "Look at what each list holds: tapes, rows that are views, float64 arrays. Which of their "
        "numbers are returned in the end? Compute these at once, in the step.",
        "`learning_rate(step)` gets a Python number. `differences` is copied as a whole in every "
        "step, for one number each. Free `hidden` and `difference` before the gradient is taken.",
    ),
    tolerance=1e-3,
)

# --- q2, q3 --------------------------------------------------------------------------------------


def _look_at_training(program: Any) -> tuple[Any, ...]:
    arguments = _data(_q1.shown, 3).arguments
    return look(lambda: program(*arguments))


_q2 = Diagnosis(
    key="capstone.q2",
    title="Name the five faults",
    prompt="""
    The script trains a small network and works, but its memory grows with the number of steps.
    Five of its lines are faults, each of another kind. Name them: `{line: cause, …}`, five pairs.
    NumPy's arrays are in no recording: look for them in the listing.
    """,
    program=train_faulty,
    evidence=_look_at_training,
    causes=CAUSES,
    faults=(
        Fault("tapes.append(tape)", "tape", "Each tape keeps the step's hidden layer and more."),
        Fault(
            "rate = learning_rate(step)",
            "trace",
            "`step` is a Python number, so each step is a trace.",
        ),
        Fault("first.append(hidden[0])", "view", "A row keeps the whole hidden layer."),
        Fault(
            "layers.append(hidden.numpy().astype(np.float64))",
            "numpy",
            "Each hidden layer stays as an array of twice its bytes, for one mean.",
        ),
        Fault(
            "differences = tf.concat([differences, difference[tf.newaxis]], axis=0)",
            "concat",
            "All differences so far are copied in every step, for one mean each.",
        ),
    ),
    near={
        "losses.append(loss)": "a loss is one number.",
        "with tf.GradientTape(persistent=True) as tape:": "one tape that goes at the end of its "
        "step does no harm: which line keeps it?",
    },
    hints=(
        "Each list that is filled in the loop: is it numbers, views, tapes or arrays?",
        "Five kinds out of seven: a tape that stays, a row that is a view, a trace for each step, "
        "a tensor that is copied as a whole in each step, and arrays in float64.",
    ),
)


q1 = Question(_q1)
q2 = DiagnosisQuestion(_q2)
q3 = DrawnQuestion(*SCRIPTS)
EXERCISES: Final = (q1, q2, q3)
