"""Whose the constants are that variables begin with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.recording import composition
from lessons_lib.recording.buffers import FOLDED
from lessons_lib.recording.categories import Category

tf = ll.runtime.tf

FLOAT = 4


@pytest.mark.parametrize("initializer", ["glorot_uniform", "ones"])
def test_variables_that_are_made_while_a_function_is_traced_are_told(initializer):
    """Their first values are constants, which are computed before a function gives them away."""
    dense = tf.keras.layers.Dense(300, name="d", kernel_initializer=initializer)
    optimizer = tf.keras.optimizers.Adagrad(0.01)
    x = tf.ones((10, 200))
    with ll.record() as rec:
        train_in_a_function(dense, x, optimizer)
    kept = {row.key: row.kept_bytes for row in rec.by_category().rows}
    size = (200 * 300 + 300) * FLOAT
    assert kept["weights"] == size
    assert kept["optimizer state"] == size + 8  # and the number of steps
    assert {row.key: row.kept_bytes for row in rec.by_layer().rows}["d"] >= 2 * size
    live = composition.series(rec.buffers)[composition.ORDER.index(Category.WEIGHTS)]
    assert live.max() == size  # what was computed on trial is no weight


def test_a_constant_that_a_function_keeps_is_not_its_variables():
    variable = tf.Variable(tf.zeros((40, 50)))

    @tf.function
    def reset() -> Any:
        variable.assign(tf.fill((40, 50), 2.0) + 1.0)

    with ll.record() as rec:
        reset()
    (kept,) = (b for b in rec.buffers if b.nbytes == 40 * 50 * FLOAT and b.freed_at is None)
    assert (kept.kind, kept.purpose.variable) == (FOLDED, None)


UNITS = (40, 40, 40, 30)


def train_in_a_function(model: Any, x: Any, optimizer: Any = None) -> None:
    optimizer = optimizer or tf.keras.optimizers.Adam()

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    step(x)
    step(x)


def train_by_fit(model: Any, x: Any) -> None:
    model.compile("adam", "mse")
    model.fit(x, tf.zeros((len(x), UNITS[-1])), epochs=2, verbose=0)


def train_with_one_slot(model: Any, x: Any) -> None:
    model.compile("adagrad", "mse")
    model.fit(x, tf.zeros((len(x), UNITS[-1])), epochs=2, verbose=0)


@pytest.mark.parametrize(
    ("train", "slots"),
    [
        (train_in_a_function, ("momentum", "velocity")),
        pytest.param(train_by_fit, ("momentum", "velocity"), marks=pytest.mark.further),
        pytest.param(train_with_one_slot, ("accumulator",), marks=pytest.mark.further),
    ],
)
def test_slots_that_begin_as_one_constant_have_a_buffer_each(train, slots):
    """Equal constants become one; the last variable that is written keeps it."""
    layers = [tf.keras.layers.Dense(n, name=f"d{i}") for i, n in enumerate(UNITS)]
    model = tf.keras.Sequential([tf.keras.Input((40,)), *layers], name="net")
    with ll.record() as rec:
        train(model, tf.ones((10, 40)))
    kept = [
        (b.purpose.variable, b.purpose.layer, b.nbytes)
        for b in rec.buffers
        if b.category is Category.OPTIMIZER and b.freed_at is None and b.nbytes > 8  # no counter
    ]
    expected = [
        (f"net/d{i}/{name}/{slot}", f"net/d{i}", size * FLOAT)
        for i, n in enumerate(UNITS)
        for name, size in (("kernel", 40 * n), ("bias", n))
        for slot in slots
    ]
    assert sorted(kept, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("values", "written", "expected"),
    [
        ((0.0, 0.0), 0, {None: 1}),
        ((0.0, 0.0), 1, {"a/w": 1, "b/w": 1}),
        ((0.0, 0.0, 0.0), 1, {"a/w": 1, None: 1}),
        ((0.0, 1.0), 0, {"a/w": 1, "b/w": 1}),
        ((0.0, 1.0, 0.0), 1, {"a/w": 1, "b/w": 1, "c/w": 1}),
    ],
)
def test_what_variables_share_is_nobodys_until_one_is_left(values, written, expected):
    variables: list[Any] = []

    @tf.function
    def run(more: Any) -> None:
        if not variables:
            for name, value in zip("abc", values, strict=False):
                with tf.name_scope(name):
                    first = lambda value=value: tf.fill((40, 50), value)  # noqa: E731
                    variables.append(tf.Variable(first, name="w", shape=(40, 50)))
        for variable in variables[:written]:
            variable.assign_add(more)

    more = tf.ones((40, 50))
    with ll.record() as rec:
        run(more)
    size = 40 * 50 * FLOAT
    kept = [b.purpose for b in rec.buffers if b.freed_at is None and b.nbytes == size]
    assert Counter(p.variable for p in kept) == expected
    assert all(p.layer == (p.variable and p.variable[0]) for p in kept)


def test_a_handle_lives_as_long_as_its_variable_and_is_no_part_of_a_step():
    x = tf.ones((10, 40))
    with ll.record() as rec:
        weight, other = tf.Variable(tf.ones((40, 20))), tf.Variable(tf.ones((20,)))
        optimizer = tf.keras.optimizers.SGD()
        with tf.GradientTape() as tape:
            y = tf.tanh(x @ weight + other)
        variables = [weight, other]
        gradients = tape.gradient(y, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        del tape, gradients
    handles = [b for b in rec.buffers if b.dtype == "resource"]
    assert len(handles) == 4  # the optimizer's learning rate and counter have one each
    assert {(b.category, b.purpose.phase) for b in handles} == {(Category.OTHER, None)}
    kept = {row.key: row.kept_bytes for row in rec.by_category().rows}
    assert kept["activations"] == 10 * 20 * FLOAT  # y
    assert kept["temporaries"] == 0
