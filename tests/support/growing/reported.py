"""The kinds of trouble that people report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from tests.support.growing.unit import Step, unit


def python_number_in_the_key(wrap: Callable[[int], Any]) -> Step:
    weights, x = tf.Variable(tf.ones([16, 16])), tf.ones([4, 16])

    @tf.function
    def update(x: Any, t: Any) -> Any:
        for _ in range(3):
            x = tf.nn.relu(x @ weights) / (1.0 + tf.cast(t, tf.float32))
        return tf.reduce_sum(x)

    return lambda i: update(x, wrap(i))


def new_shapes(**options: Any) -> Step:
    weights = tf.Variable(tf.ones([16, 16]))
    score = tf.function(lambda tokens: tf.reduce_mean(tokens @ weights), **options)
    return lambda i: score(tf.ones([i + 1, 16]))


def session_loop(*, inside: bool) -> Step:
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        session = v1.Session(graph=graph)
        a, scale = v1.placeholder(tf.float32, [8, 8]), v1.placeholder(tf.float32, [])
        total = tf.reduce_sum(a @ a)
        scaled = total * scale
    feed = np.ones((8, 8), np.float32)

    def step(i: int) -> None:
        with graph.as_default():
            if inside:
                session.run(total * float(i), {a: feed})
            else:
                session.run(scaled, {a: feed, scale: i})

    return step


def small_model() -> Any:
    model = tf.keras.Sequential([tf.keras.Input([32]), tf.keras.layers.Dense(8)])
    model.compile("adam", "mse")
    return model


def model_a_round(*, reuse: bool, clear: bool = False) -> Step:
    x = np.ones([8, 32], np.float32)
    first = small_model()

    def step(_: int) -> None:
        if clear:
            tf.keras.backend.clear_session()
        model = first if reuse else small_model()
        model.fit(x, x[:, :8], verbose=0)

    return step


def appended(record: Callable[[Any, Any], Any]) -> Step:
    weights, x, history = tf.Variable(tf.ones([64, 64])), tf.ones([4, 64]), []

    def step(_: int) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights) ** 2)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(1e-4 * gradient)
        history.append(record(loss, gradient))

    return step


def scalars(keep: bool) -> Step:
    x, losses = tf.ones([8]), []
    return lambda _: losses.append(tf.reduce_sum(x) if keep else 1.0)


def tape_around_loop(_: int) -> None:
    weights = tf.Variable(tf.ones([64, 64]) / 64)
    with tf.GradientTape() as tape:
        losses = [tf.reduce_mean(tf.tanh(unit() @ weights)) for _ in range(4)]
        total = tf.add_n(losses)
    tape.gradient(total, weights)


def images(n: int) -> Any:
    data = tf.data.Dataset.range(n).map(lambda i: tf.fill([64, 64], tf.cast(i, tf.float32)))
    options = tf.data.Options()
    # The end of an iterator that TensorFlow tunes may wait a minute for the thread that does.
    options.autotune.enabled = False
    return data.with_options(options)


def shuffled_iterators(*, keep: bool) -> Step:
    kept: list[Any] = []
    dataset = images(40).shuffle(16)

    def step(_: int) -> None:
        iterator = iter(dataset)
        next(iterator)
        if keep:
            kept.append(iterator)

    return step


def cached_datasets(*, keep: bool) -> Step:
    kept: list[Any] = []

    def step(_: int) -> None:
        dataset = images(16).cache()
        for _element in dataset:
            pass
        if keep:
            kept.append(dataset)

    return step


def filling_cache(*, decoded: bool) -> Step:
    source = tf.data.Dataset.range(1000)
    if not decoded:
        source = source.cache()
    source = source.map(lambda i: tf.fill([64, 64], tf.cast(i, tf.float32)))
    reader = iter(source.cache() if decoded else source)

    def step(_: int) -> None:
        next(reader)

    return step


def variables(*, kept: bool, assigned: bool = False) -> Step:
    owner = tf.Module()
    owner.saved = []
    single = tf.Variable(unit())
    latest: list[Any] = []

    def step(i: int) -> None:
        if assigned:
            single.assign(unit(i))
            return
        variable = tf.Variable(unit(i))
        if kept:
            owner.saved.append(variable)
        latest[:] = [variable]

    return step


def baked_constant(*, traced_each_time: bool) -> Step:
    table = np.random.default_rng(0).random((64, 64), np.float32)
    total = tf.function(lambda x, k: tf.reduce_sum(table * x) + k)
    one = tf.constant(1.0)
    return lambda i: total(one, i if traced_each_time else np.float32(i))


def grown_state(*, fixed: bool) -> Step:
    state = {"buffer": tf.zeros([0, 64])}
    room = tf.Variable(tf.zeros([200, 64]))
    best = tf.function(lambda buffer: tf.reduce_max(buffer))
    best_of = tf.function(lambda size: tf.reduce_max(room[:size]))

    def step(i: int) -> None:
        if fixed:
            room[i].assign(tf.fill([64], np.float32(i)))
            best_of(tf.constant(i + 1))
        else:
            row = tf.fill([1, 64], np.float32(i))
            state["buffer"] = tf.concat([state["buffer"], row], 0)
            best(state["buffer"])

    return step


def distinct_numbers(wrap: Callable[[float], Any]) -> Step:
    def step(i: int) -> None:
        for k in range(200):
            tf.constant(wrap(200.0 * i + k + 0.5))

    return step


def distinct_attributes(i: int) -> None:
    tf.nn.leaky_relu(tf.ones([4]), alpha=0.001 * (i + 1))


def unrolled(_: int) -> None:
    # AutoGraph would warn of a construct that it cannot convert, and pytest keeps what is logged.
    @tf.function(autograph=False)
    def chain(x: Any) -> Any:
        for _ in range(4):
            x = tf.tanh(x)
        return x

    chain(tf.ones([4]))


def predictions(reduce: Callable[[Any], Any]) -> Step:
    x = np.ones([256, 32], np.float32)  # the predictions: 256 × 8 float32, 8 KiB

    class Keep(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[Any] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.kept.append(reduce(self.model.predict_on_batch(x)))

    model, keep = small_model(), Keep()
    return lambda _: model.fit(x[:8], x[:8, :8], verbose=0, callbacks=[keep])


def plain_calls(_: int) -> None:
    for _ in range(50):
        tf.zeros([1])


def traced_calls() -> Step:
    same, x = tf.function(lambda x: x), tf.zeros([6, 7])

    def step(_: int) -> None:
        for _ in range(20):
            same(x)

    return step


def layer_calls() -> Step:
    dense, x = tf.keras.layers.Dense(4), tf.zeros([1, 4])

    def step(_: int) -> None:
        for _ in range(5):
            dense(x)

    return step
