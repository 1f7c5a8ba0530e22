"""Right answers to the exercises of `growth`."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf


def mean_by_running_sum() -> Any:
    total, count = 0.0, 0

    def step(batch: Any) -> Any:
        nonlocal total, count
        total += float(tf.reduce_mean(batch * batch))
        count += 1
        return total / count

    return step


def mean_by_keras_metric() -> Any:
    mean = tf.keras.metrics.Mean()

    def step(batch: Any) -> Any:
        mean.update_state(tf.reduce_mean(tf.square(batch)))
        return mean.result()

    return step


def mean_by_variables() -> Any:
    total, count = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def step(batch: Any) -> Any:
        total.assign_add(tf.reduce_mean(tf.square(batch)))
        count.assign_add(1.0)
        return total / count

    return step


def mean_of_small_tensors() -> Any:
    losses = []

    def step(batch: Any) -> Any:
        losses.append(tf.reduce_mean(tf.square(batch)))
        return tf.reduce_mean(tf.stack(losses))

    return step


def window_by_deque(k: int) -> Any:
    recent: Any = collections.deque(maxlen=k)

    def step(batch: Any) -> Any:
        recent.append(float(tf.reduce_max(batch)))
        return sum(recent) / len(recent)

    return step


def window_by_array(k: int) -> Any:
    recent, count = np.zeros(k, np.float32), 0

    def step(batch: Any) -> Any:
        nonlocal count
        recent[count % k] = batch.numpy().max()
        count += 1
        return recent[: min(count, k)].mean()

    return step


class _Window:
    def __init__(self, k: int) -> None:
        self.k, self.recent = k, []

    def __call__(self, batch: Any) -> Any:
        self.recent = [*self.recent, tf.reduce_max(batch)][-self.k :]
        return tf.add_n(self.recent) / len(self.recent)


def evaluate_at_once(values: Any) -> Any:
    with tf.Graph().as_default():
        fed = tf.compat.v1.placeholder(tf.float32, [None])
        doubled = 2.0 * fed + 1.0
        with tf.compat.v1.Session() as session:
            return list(session.run(doubled, {fed: values}))


def evaluate_by_variable(values: Any) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        held = tf.compat.v1.get_variable("held", shape=[], use_resource=True)
        fed = tf.compat.v1.placeholder(tf.float32, [])
        load = held.assign(fed)
        result = held.read_value() * 2.0 + 1.0
        out = []
        with tf.compat.v1.Session() as session:
            for value in values:
                session.run(load, {fed: value})
                out.append(session.run(result))
        return out


def evaluate_a_session_each(values: Any) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        fed = tf.compat.v1.placeholder(tf.float32)
        result = fed * 2.0 + 1.0
    graph.finalize()
    out = []
    for value in values:
        with tf.compat.v1.Session(graph=graph) as session:
            out.append(float(session.run(result, {fed: value})))
    return out


def average_by_name(shape: Any) -> Any:
    average = tf.zeros(shape)

    def step(batch: Any) -> Any:
        nonlocal average
        average = 0.9 * average + 0.1 * batch
        return tf.reduce_mean(average * average)

    return step


def average_in_numpy(shape: Any) -> Any:
    average = np.zeros(shape, np.float32)

    def step(batch: Any) -> Any:
        nonlocal average
        average *= 0.9
        average += 0.1 * batch.numpy()
        return float(np.mean(average**2))

    return step


def average_by_assign(shape: Any) -> Any:
    average = tf.Variable(tf.zeros(shape))

    def step(batch: Any) -> Any:
        average.assign(average * 0.9)
        average.assign_add(0.1 * batch)
        return tf.reduce_mean(tf.square(average))

    return step


RIGHT = {
    "q1": (mean_by_running_sum, mean_by_keras_metric, mean_by_variables, mean_of_small_tensors),
    "q2": (window_by_deque, window_by_array, _Window),
    "q3": (evaluate_at_once, evaluate_by_variable, evaluate_a_session_each),
    "q4": (average_by_name, average_in_numpy, average_by_assign),
}
