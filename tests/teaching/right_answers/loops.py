"""Right answers to the exercises of `loops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf


@tf.function
def last_state_in_a_graph(x: Any, w: Any, n: int) -> Any:
    for _ in tf.range(n):
        x = tf.tanh(x @ w)
    return x


def last_state_in_numpy(x: Any, w: Any, n: int) -> Any:
    state, weight = x.numpy(), w.numpy()
    for _ in range(n):
        state = state @ weight
        np.tanh(state, out=state)
    return tf.convert_to_tensor(state)


def last_state_by_names(x: Any, w: Any, n: int) -> Any:
    state = x
    for _ in range(n):
        product = tf.matmul(state, w)
        state = tf.tanh(product)
        del product
    return state


def means_as_floats(x: Any, w: Any, n: int) -> Any:
    means = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        means.append(float(tf.reduce_mean(x)))
    return tf.constant(means)


def means_in_an_array(x: Any, w: Any, n: int) -> Any:
    means = np.zeros(n, np.float32)
    for i in range(n):
        x = tf.tanh(x @ w)
        means[i] = tf.reduce_mean(x)
    return tf.convert_to_tensor(means)


@tf.function
def means_in_a_graph(x: Any, w: Any, n: int) -> Any:
    means = tf.TensorArray(tf.float32, size=n, element_shape=[])
    for i in tf.range(n):
        x = tf.tanh(x @ w)
        means = means.write(i, tf.reduce_mean(x))
    return means.stack()


def last_gradient_by_hand(x: Any, w: Any, n: int) -> Any:
    for _ in range(n - 1):
        x = tf.tanh(x @ w)
    y = tf.tanh(x @ w)
    return tf.matmul(x, 1.0 - y * y, transpose_a=True)


def last_gradient_of_a_variable(x: Any, w: Any, n: int) -> Any:
    v = tf.Variable(w)
    for _ in range(n - 1):
        x = tf.tanh(x @ w)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.tanh(x @ v))
    return tape.gradient(total, v)


def last_gradient_without_recording(x: Any, w: Any, n: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        with tape.stop_recording():
            for _ in range(n - 1):
                x = tf.tanh(x @ w)
        y = tf.tanh(x @ w)
    return tape.gradient(y, w)


def history_by_stack(x: Any, w: Any, n: int) -> Any:
    states = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        states.append(x)
    return tf.stack(states)


def history_by_concat_at_the_end(x: Any, w: Any, n: int) -> Any:
    states = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        states.append(x[tf.newaxis])
    return tf.concat(states, axis=0)


def history_in_numpy(x: Any, w: Any, n: int) -> Any:
    states = np.empty((n, *x.shape), np.float32)
    for i in range(n):
        x = tf.tanh(x @ w)
        states[i] = x.numpy()
    return tf.constant(states)


def history_by_numpy_stack(x: Any, w: Any, n: int) -> Any:
    states = []
    for _ in range(n):
        x = tf.tanh(x @ w)
        states.append(x.numpy())
    return tf.constant(np.stack(states))


def _steps(x: Any, w: Any, steps: int) -> Any:
    for _ in range(steps):
        x = tf.tanh(x @ w)
    return x


def chain_by_recompute_grad(x: Any, w: Any, n: int) -> Any:
    k = int(n**0.5)
    block = tf.recompute_grad(lambda x, w: _steps(x, w, k))
    rest = tf.recompute_grad(lambda x, w: _steps(x, w, n % k))
    with tf.GradientTape() as tape:
        tape.watch(w)
        for _ in range(n // k):
            x = block(x, w)
        if n % k:
            x = rest(x, w)
        total = tf.reduce_sum(x)
    return tape.gradient(total, w)


def chain_by_custom_gradient(x: Any, w: Any, n: int) -> Any:
    def block(steps: int) -> Any:
        @tf.custom_gradient
        def run(x: Any, w: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                with tf.GradientTape() as inner:
                    inner.watch([x, w])
                    y = _steps(x, w, steps)
                return inner.gradient(y, [x, w], output_gradients=upstream)

            return _steps(tf.stop_gradient(x), tf.stop_gradient(w), steps), gradient

        return run

    k = round(n**0.5)
    sizes = [k] * (n // k) + [n % k] * bool(n % k)
    with tf.GradientTape() as tape:
        tape.watch(w)
        for size in sizes:
            x = block(size)(x, w)
    return tape.gradient(x, w)


def chain_by_hand(x: Any, w: Any, n: int) -> Any:
    # The gradient of a step by its formula; blocks are run again from their beginnings.
    k = round(n**0.5)
    starts = []
    for i in range(n):
        if i % k == 0:
            starts.append(x)
        x = tf.tanh(x @ w)
    upstream, total = tf.ones_like(x), tf.zeros_like(w)
    end = n
    while starts:
        begin = (len(starts) - 1) * k
        states = [starts.pop()]
        for _ in range(begin, end):
            states.append(tf.tanh(states[-1] @ w))
        while len(states) > 1:
            y = states.pop()
            delta = upstream * (1.0 - y * y)
            total += tf.matmul(states[-1], delta, transpose_a=True)
            upstream = tf.matmul(delta, w, transpose_b=True)
        end = begin
    return total


RIGHT = {
    "q1": (last_state_in_a_graph, last_state_in_numpy, last_state_by_names),
    "q2": (means_as_floats, means_in_an_array, means_in_a_graph),
    "q3": (last_gradient_by_hand, last_gradient_of_a_variable, last_gradient_without_recording),
    "q4": (
        history_by_stack,
        history_by_concat_at_the_end,
        history_in_numpy,
        history_by_numpy_stack,
    ),
    "q5": (chain_by_recompute_grad, chain_by_custom_gradient, chain_by_hand),
}
