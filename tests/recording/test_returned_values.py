"""What a traced function returns belongs to its caller: expected bytes come from shapes."""

from __future__ import annotations

from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.recording.recording import Recording

tf = ll.runtime.tf

SIZE = 32 * 16 * 4


def kept_by(rec: Recording) -> dict[str, int]:
    return {row.key: row.kept_bytes for row in rec.by_category().rows if row.kept_bytes}


def gradient_of(weight: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(weight)
        loss = tf.reduce_sum(tf.square(tf.matmul(x, weight)))
    return tape.gradient(loss, weight)


def stepped(weight: Any, momentum: Any, x: Any) -> Any:
    momentum = 0.9 * momentum + gradient_of(weight, x)  # in the gradient's own memory
    return weight - 0.01 * momentum, momentum


def with_gradient(weight: Any, momentum: Any, x: Any) -> Any:
    gradient = gradient_of(weight, x)
    return tf.reshape(gradient, [-1]), 0.9 * momentum


def clipped(weight: Any, momentum: Any, x: Any) -> Any:
    (gradient,), _ = tf.clip_by_global_norm([gradient_of(weight, x) / 8.0], 1.0)
    return tf.clip_by_value(gradient, -1.0, 1.0)


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        (stepped, {"other": 2 * SIZE}),
        (with_gradient, {"gradients": SIZE, "other": SIZE}),
        (clipped, {"gradients": SIZE}),
        (lambda _, momentum, x: (tf.tanh(x @ momentum), x @ momentum), {"other": 2 * 8 * 16 * 4}),
    ],
    ids=["a step", "a gradient", "clipped", "no training"],
)
def test_what_a_function_returns_is_no_temporary_and_a_gradient_only_as_such(step, kept):
    function = tf.function(step)
    arguments = tf.random.normal([32, 16]), tf.zeros([32, 16]), tf.ones([8, 32])
    function(*arguments)
    with ll.record() as rec:
        result = function(*arguments)
    assert kept_by(rec) == kept
    del result


def test_what_a_step_returns_of_its_forward_pass_is_no_activation_of_a_later_one():
    @tf.function
    def step(weight: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weight)
            moved = tf.matmul(x, weight) + 1.0  # of which the sum's gradient needs the shape alone
            loss = tf.reduce_sum(tf.tanh(2.0 * moved))
        return moved, tf.reduce_sum(tape.gradient(loss, weight))

    weight, x = tf.Variable(tf.ones([32, 16])), tf.ones([8, 32])
    step(weight.read_value(), x)
    with ll.record() as rec:
        moved, _ = step(weight.read_value(), x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight)
        tape.gradient(loss, weight)
    assert kept_by(rec)["other"] >= 8 * 16 * 4
    assert kept_by(rec).get("activations", 0) < 8 * 16 * 4
    del moved
