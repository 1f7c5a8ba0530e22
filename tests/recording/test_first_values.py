"""Whose the constants are that variables begin with."""

from __future__ import annotations

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

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(dense(x))
        weights = dense.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    x = tf.ones((10, 200))
    with ll.record() as rec:
        step(x)
        step(x)
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
