"""A training step that is given as a function: what it holds, and what it may not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.training import (
    Category,
    training_memory,
)
from tests.support.cases import first_of_each
from tests.support.trained import (
    ENCODER,
    FLOAT,
    WIDTH,
    Encoder,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]


tf = ll.runtime.tf


@pytest.mark.parametrize("graph", [False, True])
def test_a_step_is_measured_that_is_given_as_a_function(graph):
    model = Encoder()
    x = tf.ones((16, 32))
    model(x)
    optimizer = tf.keras.optimizers.SGD(momentum=0.9)
    optimizer.build(model.trainable_variables)

    def step(rows, scale):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows) - scale * rows) ** 2)
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    before = [v.numpy().tolist() for v in (*model.variables, *optimizer.variables)]
    found = training_memory(tf.function(step) if graph else step, x, np.ones((16, 1), np.float32))
    assert [v.numpy().tolist() for v in (*model.variables, *optimizer.variables)] == before
    assert (found.label, found.mode) == ("step", "graph" if graph else "eager")
    first = {c: int(live[0]) for c, live in found.series.bytes.items()}
    assert first[Category.WEIGHTS] == ENCODER
    assert first[Category.OPTIMIZER] == ENCODER + 12
    assert first[Category.INPUTS] == 16 * 33 * FLOAT


def test_a_step_that_takes_batches_itself_is_refused_before_it_runs():
    batches = iter(tf.data.Dataset.range(3))

    @tf.function
    def step(x):
        return x + tf.cast(next(batches), tf.float32)

    with pytest.raises(ValueError, match="an iterator of its own"):
        training_memory(step, tf.ones((2,)))
    assert int(next(batches)) == 0


class Loop:
    """A trainer that holds what its loop takes batches from."""

    def __init__(self, batches: Any) -> None:
        self.batches = {"train": batches}

    def take(self) -> Any:
        return next(self.batches["train"])

    def taking(self) -> Any:
        return tf.cast(self.take(), tf.float32) * 2

    def given(self, x: Any) -> Any:
        return x * 2


@pytest.mark.parametrize("kind", ["tf.data", "NumPy", "generator"])
def test_an_eager_step_that_takes_batches_itself_is_refused_before_it_runs(kind):
    data = tf.data.Dataset.range(3)
    batches = {
        "tf.data": lambda: iter(data),
        "NumPy": data.as_numpy_iterator,
        "generator": lambda: (n for n in range(3)),
    }[kind]()
    loop = Loop(batches)
    for step in (lambda: tf.cast(next(batches), tf.float32), loop.taking):
        with pytest.raises(ValueError, match="an iterator of its own"):
            training_memory(step)
    training_memory(loop.given, tf.ones((2,)))
    assert int(next(batches)) == 0


@pytest.mark.parametrize("graph", [False, True])
def test_own_variables_are_weights_where_a_gradient_is_taken_of_them(graph):
    weight = tf.Variable(tf.ones([WIDTH, WIDTH]))
    average = tf.Variable(tf.zeros([WIDTH, WIDTH]))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(x @ weight))
        gradient = tape.gradient(loss, weight)
        average.assign(0.9 * average + gradient)
        weight.assign_sub(0.1 * average)

    measured = training_memory(tf.function(step) if graph else step, np.ones((8, WIDTH), "f4"))
    assert set(measured.series.bytes[Category.WEIGHTS].tolist()) == {WIDTH * WIDTH * FLOAT}
    if graph:  # which shows that only the update reads the other one
        state = set(measured.series.bytes[Category.OPTIMIZER].tolist())
        assert state == {WIDTH * WIDTH * FLOAT}
    else:
        assert measured.categories[Category.OTHER] >= WIDTH * WIDTH * FLOAT


def test_a_module_with_tuples_and_dicts_of_variables_can_be_measured():
    module = tf.Module()
    module.pair = (tf.Variable(tf.ones([WIDTH])), {"b": tf.Variable(tf.zeros([WIDTH]))})
    held = tf.__internal__.tracking.wrap(module.pair)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * held[0] + held[1]["b"])
        for variable, gradient in zip(
            (held[0], held[1]["b"]), tape.gradient(loss, [held[0], held[1]["b"]]), strict=True
        ):
            variable.assign_sub(gradient)

    measured = training_memory(step, np.ones((8, WIDTH), "f4"))
    assert measured.series.bytes[Category.WEIGHTS].max() == 2 * WIDTH * FLOAT
    assert (held[0].numpy() == 1).all()
    assert (held[1]["b"].numpy() == 0).all()


def test_a_step_that_makes_nothing_needs_nothing():
    step = training_memory(lambda: None)
    assert (step.peak_bytes, sum(step.categories.values())) == (0, 0)


@pytest.mark.parametrize(
    ("inner", "outer", "mode"),
    first_of_each(
        [
            ({"jit_compile": True}, lambda f: lambda x: f(x), "xla"),
            (None, lambda f: lambda x: f(x), "eager"),
            ({"jit_compile": False}, lambda f: lambda x: f(x), "graph"),
            ({"jit_compile": True}, lambda f: lambda x: f(x * tf.ones_like(x)), "eager"),
        ],
        keep=2,
    ),
)
def test_a_step_that_calls_a_function_runs_as_that_does(inner, outer, mode):
    weights = tf.Variable(tf.ones([WIDTH, WIDTH]))

    def update(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ weights) ** 2.0)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))

    function = update if inner is None else tf.function(update, **inner)
    step = training_memory(outer(function), tf.ones([16, WIDTH]))
    assert step.mode == mode
    compiled = inner is not None and inner["jit_compile"]
    who = "The step" if mode == "xla" else "update"
    told = [f"{who} is compiled with XLA" in note for note in step.notes]
    assert any(told) == compiled
    assert len(step.peaks) == (3 if mode == "graph" else 2)
    assert sum(step.categories.values()) == step.peak_bytes
