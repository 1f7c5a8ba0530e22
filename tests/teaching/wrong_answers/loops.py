"""Wrong answers to the exercises of `loops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.result import Status
from tests.teaching.wrong_answers import Wrong


def last_state_list(x: Any, w: Any, n: int) -> Any:
    states = [x]
    for _ in range(n):
        states.append(tf.tanh(states[-1] @ w))
    return states[-1]


def last_state_numpy(x: Any, w: Any, n: int) -> Any:

    states = [x.numpy()]
    for _ in range(n):
        states.append(np.tanh(states[-1] @ w.numpy()))
    return tf.constant(states[-1])


def last_state_order(x: Any, n: int, w: Any) -> Any:
    for _ in range(n):
        x = tf.tanh(x @ w)
    return x


def last_state_recursive(x: Any, w: Any, n: int) -> Any:
    # The caller's name for a state lives until the call that it made returns.
    y = tf.tanh(x @ w)
    return y if n == 1 else last_state_recursive(y, w, n - 1)


def last_state_count(x: Any, w: Any, n: int) -> Any:
    for _ in range(n - 1):
        x = tf.tanh(x @ w)
    return x


def state_means_stack(x: Any, w: Any, n: int) -> Any:
    states = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        states.append(x)
    return tf.reduce_mean(tf.stack(states), axis=(1, 2))


def state_means_row(x: Any, w: Any, n: int) -> Any:
    # Aligned rows share the whole state's buffer.
    rows = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        rows.append((tf.reduce_mean(x), x[0]))
    return tf.stack([mean for mean, _ in rows])


def state_means_square(x: Any, w: Any, n: int) -> Any:
    means = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        means.append(tf.reduce_mean(x * x))
    return tf.stack(means)


def last_step_gradient_stop(x: Any, w: Any, n: int) -> Any:
    # The right value, but the tape's entry for tanh still holds each step's output.
    with tf.GradientTape() as tape:
        tape.watch(w)
        for _ in range(n):
            x = tf.tanh(tf.stop_gradient(x) @ w)
        total = tf.reduce_sum(x)
    return tape.gradient(total, w)


def last_step_gradient_all(x: Any, w: Any, n: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        for _ in range(n):
            x = tf.tanh(x @ w)
        total = tf.reduce_sum(x)
    return tape.gradient(total, w)


def history_concat(x: Any, w: Any, n: int) -> Any:
    states = tf.zeros([0, *x.shape])
    for _ in range(n):
        x = tf.tanh(x @ w)
        states = tf.concat([states, x[tf.newaxis]], axis=0)
    return states


def history_first(x: Any, w: Any, n: int) -> Any:
    states = []
    for _ in range(n):
        states.append(x)
        x = tf.tanh(x @ w)
    return tf.stack(states)


def chain_gradient_plain(x: Any, w: Any, n: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        for _ in range(n):
            x = tf.tanh(x @ w)
        total = tf.reduce_sum(x)
    return tape.gradient(total, w)


def chain_gradient_one_block(x: Any, w: Any, n: int) -> Any:
    @tf.recompute_grad
    def whole(x: Any, w: Any) -> Any:
        for _ in range(n):
            x = tf.tanh(x @ w)
        return x

    with tf.GradientTape() as tape:
        tape.watch(w)
        total = tf.reduce_sum(whole(x, w))
    return tape.gradient(total, w)


def chain_gradient_stop(x: Any, w: Any, n: int) -> Any:
    for _ in range(n - 1):
        x = tf.tanh(x @ w)
    with tf.GradientTape() as tape:
        tape.watch(w)
        total = tf.reduce_sum(tf.tanh(x @ w))
    return tape.gradient(total, w)


def last_step_gradient_unwatched(x: Any, w: Any, n: int) -> Any:
    for _ in range(n - 1):
        x = tf.tanh(x @ w)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.tanh(x @ w))
    return tape.gradient(total, w)


def history_numpy_concat(x: Any, w: Any, n: int) -> Any:
    states = np.zeros((0, *x.shape), np.float32)
    for _ in range(n):
        x = tf.tanh(x @ w)
        states = np.concatenate([states, x.numpy()[np.newaxis]])
    return tf.constant(states)


def history_list(x: Any, w: Any, n: int) -> Any:
    states = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        states.append(x)
    return states


WRONG = {
    "q1": (
        Wrong("keeps every state in a list", last_state_list, Status.OVER_BUDGET),
        Wrong("keeps every state in NumPy", last_state_numpy, Status.OVER_BUDGET),
        Wrong("another order", last_state_order, Status.ERROR, "has the order (x, n, w)"),
        Wrong("calls itself", last_state_recursive, Status.OVER_BUDGET),
        Wrong("one step too few", last_state_count, Status.WRONG_VALUE),
    ),
    "q2": (
        Wrong("stacks all states", state_means_stack, Status.OVER_BUDGET),
        Wrong("keeps one row of each state", state_means_row, Status.OVER_BUDGET),
        Wrong("means of squares", state_means_square, Status.WRONG_VALUE),
    ),
    "q3": (
        Wrong("watches nothing", last_step_gradient_unwatched, Status.WRONG_VALUE, "did not watch"),
        Wrong("stop_gradient in a recorded loop", last_step_gradient_stop, Status.OVER_BUDGET),
        Wrong("differentiates all steps", last_step_gradient_all, Status.WRONG_VALUE),
    ),
    "q4": (
        Wrong("grows an array", history_numpy_concat, Status.OVER_BUDGET, "np.concatenate"),
        Wrong("never stacks", history_list, Status.WRONG_VALUE, "tf.stack"),
        Wrong("grows a tensor by concat", history_concat, Status.OVER_BUDGET),
        Wrong("starts one state too early", history_first, Status.WRONG_VALUE),
    ),
    "q5": (
        Wrong("one tape around the loop", chain_gradient_plain, Status.OVER_BUDGET),
        Wrong("the whole loop as one block", chain_gradient_one_block, Status.OVER_BUDGET),
        Wrong("only the last step", chain_gradient_stop, Status.WRONG_VALUE),
    ),
}
