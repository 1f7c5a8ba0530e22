"""Right answers to the exercise of `capstone`."""

from __future__ import annotations

from typing import Any

from lessons_lib.common.runtime import tf


def train_in_one_graph(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    @tf.function
    def one(w1: Any, w2: Any, number: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w1, w2])
            hidden = tf.tanh(x @ w1)
            difference = hidden @ w2 - y
            loss = tf.reduce_mean(difference**2)
        g1, g2 = tape.gradient(loss, [w1, w2])
        rate = 0.05 / (1.0 + 0.1 * number)
        error, active = tf.reduce_mean(tf.abs(difference)), tf.reduce_mean(tf.abs(hidden))
        return w1 - rate * g1, w2 - rate * g2, loss, error, active, hidden[0]

    figures: dict[str, list[Any]] = {"losses": [], "errors": [], "activity": [], "first": []}
    for step in range(steps):
        w1, w2, *found = one(w1, w2, tf.constant(float(step)))
        for kept, value in zip(figures.values(), found, strict=True):
            kept.append(value + 0.0)
    return {**{name: tf.stack(kept) for name, kept in figures.items()}, "w1": w1, "w2": w2}


def train_with_variables(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    v1, v2 = tf.Variable(w1), tf.Variable(w2)
    losses, errors, activity, first = [], [], [], []
    for step in range(steps):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ v1)
            difference = hidden @ v2 - y
            loss = tf.reduce_mean(tf.square(difference))
        losses.append(float(loss))
        errors.append(float(tf.reduce_mean(tf.abs(difference))))
        activity.append(float(tf.reduce_mean(tf.abs(hidden))))
        first.append(tf.constant(hidden[0].numpy()))
        del hidden, difference
        rate = 0.05 / (1.0 + 0.1 * step)
        for v, g in zip((v1, v2), tape.gradient(loss, (v1, v2)), strict=True):
            v.assign_sub(rate * g)
        del tape
    return {
        "losses": tf.constant(losses),
        "errors": tf.constant(errors),
        "activity": tf.constant(activity),
        "first": tf.stack(first),
        "w1": v1,
        "w2": v2,
    }


def train_with_arrays(x: Any, y: Any, w1: Any, w2: Any, steps: int) -> Any:
    names = ("losses", "errors", "activity", "first")
    kept = [tf.TensorArray(tf.float32, size=steps) for _ in names]
    for step in range(steps):
        with tf.GradientTape() as tape:
            tape.watch((w1, w2))
            hidden = tf.tanh(x @ w1)
            difference = hidden @ w2 - y
            loss = tf.reduce_mean(difference * difference)
        values = (
            loss,
            tf.reduce_mean(tf.abs(difference)),
            tf.reduce_mean(tf.abs(hidden)),
            tf.gather(hidden, 0),
        )
        kept = [array.write(step, value) for array, value in zip(kept, values, strict=True)]
        del hidden, difference
        g1, g2 = tape.gradient(loss, (w1, w2))
        del tape
        rate = 0.05 / (1.0 + 0.1 * step)
        w1, w2 = w1 - rate * g1, w2 - rate * g2
    figures = {name: array.stack() for name, array in zip(names, kept, strict=True)}
    return {**figures, "w1": w1, "w2": w2}


RIGHT = {"q1": (train_in_one_graph, train_with_variables, train_with_arrays)}
