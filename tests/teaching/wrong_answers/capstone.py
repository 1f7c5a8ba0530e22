"""Wrong answers to the exercises of `capstone`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.lessons.capstone import train_faulty, train_solution
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


def _left(fault: str) -> Any:
    """Make an answer that leaves one of the faults, and mends the others."""

    def train(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
        kept: list[Any] = []
        losses, errors, activity, first = [], [], [], []
        differences = tf.zeros([0, *y.shape])
        learning_rate = tf.function(lambda step: 0.05 / (1.0 + 0.1 * step))
        for step in range(steps):
            with tf.GradientTape(persistent=fault == "tapes") as tape:
                tape.watch([w1, w2])
                hidden = tf.tanh(x @ w1)
                difference = hidden @ w2 - y
                loss = tf.reduce_mean(tf.square(difference))
            match fault:
                case "tapes":
                    kept.append(tape)
                case "numpy":
                    kept.append(hidden.numpy().astype(np.float64))
                case "concat":
                    differences = tf.concat([differences, difference[tf.newaxis]], axis=0)
            losses.append(loss)
            errors.append(tf.reduce_mean(tf.abs(difference)))
            activity.append(tf.reduce_mean(tf.abs(hidden)))
            first.append(hidden[0] if fault == "views" else tf.gather(hidden, 0))
            del hidden, difference
            gradient1, gradient2 = tape.gradient(loss, [w1, w2])
            rate = learning_rate(step if fault == "traces" else tf.constant(float(step)))
            w1, w2 = w1 - rate * gradient1, w2 - rate * gradient2
        return {
            "losses": tf.stack(losses),
            "errors": tf.stack(errors),
            "activity": tf.stack(activity),
            "first": tf.stack(first),
            "w1": w1,
            "w2": w2,
        }

    return train


def train_weights(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    return train_solution(x, y, 1.1 * w1, w2, steps)


WRONG = {
    "q1": (
        Wrong("as it was", train_faulty, Status.OVER_BUDGET),
        Wrong("keeps the tapes", _left("tapes"), Status.OVER_BUDGET),
        Wrong("keeps rows as views", _left("views"), Status.OVER_BUDGET),
        Wrong("keeps NumPy copies", _left("numpy"), Status.OVER_BUDGET),
        Wrong("grows by concat", _left("concat"), Status.OVER_BUDGET),
        Wrong("a trace for each step", _left("traces"), Status.OVER_BUDGET),
        Wrong("other weights", train_weights, Status.WRONG_VALUE),
    ),
}
