"""What only a gradient that nobody asks for would use is freed early: bytes come from shapes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.recording.categories import Category

tf = ll.runtime.tf

further = partial(pytest.param, marks=pytest.mark.further)

ROWS, CODES, HIDDEN, PIXELS = 16, 6, 40, 24
ACTIVATION = {"hidden": ROWS * HIDDEN * 4, "made": ROWS * PIXELS * 4, "score": ROWS * 4}


class Nets(tf.Module):
    """A generator, whose hidden layer is a loop or not, and a critic."""

    def __init__(self, *, loops: bool = False) -> None:
        super().__init__()
        self.first = tf.Variable(tf.random.normal([CODES, HIDDEN]), name="first")
        self.second = tf.Variable(tf.random.normal([HIDDEN, PIXELS]), name="second")
        self.critic = tf.Variable(tf.random.normal([PIXELS, 1]), name="critic")
        self.norm = tf.Variable(0.0)
        self.loops = loops

    def __call__(self, codes: Any) -> Any:
        hidden = tf.tanh(codes @ self.first)
        if self.loops:
            for _ in tf.range(3):
                hidden = tf.tanh(hidden)
        made = hidden @ self.second
        return tf.reduce_mean(tf.square(made @ self.critic))


def of_critic(nets: Nets, codes: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = nets(codes)
    return tape.gradient(loss, [nets.critic])


def of_all(nets: Nets, codes: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = nets(codes)
    return tape.gradient(loss, [nets.first, nets.second, nets.critic])


def of_all_for_an_effect(nets: Nets, codes: Any) -> Any:
    gradients = of_all(nets, codes)
    nets.norm.assign(tf.linalg.global_norm(gradients[:2]))
    return gradients[2]


def of_all_for_their_order(nets: Nets, codes: Any) -> Any:
    gradients = of_all(nets, codes)
    with tf.control_dependencies(gradients[:2]):
        return tf.identity(gradients[2])


def of_last_layers(nets: Nets, codes: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        loss = nets(codes)
    tape.gradient(loss, nets.first)  # which nobody takes
    return tape.gradient(loss, [nets.second, nets.critic])


@pytest.mark.parametrize(
    ("step", "needed"),
    [
        (of_critic, ["made", "score"]),
        (of_all, ["hidden", "made", "score"]),
        (of_all_for_an_effect, ["hidden", "made", "score"]),
        further(of_all_for_their_order, ["hidden", "made", "score"]),
        further(of_last_layers, ["hidden", "made", "score"]),
    ],
)
def test_activations_are_what_the_gradients_that_are_computed_use(step, needed):
    nets, codes = Nets(), tf.random.normal([ROWS, CODES])
    function = tf.function(step)
    function(nets, codes)
    with ll.record() as rec:
        function(nets, codes)
    found = [b.nbytes for b in rec.buffers if b.category is Category.ACTIVATIONS]
    assert sorted(found) == sorted(ACTIVATION[name] for name in needed)


@pytest.mark.parametrize(("step", "kept"), [(of_critic, 0), (of_all, 4)])
def test_what_a_loop_keeps_for_a_gradient_is_an_activation_if_that_is_asked_for(step, kept):
    nets, codes = Nets(loops=True), tf.random.normal([ROWS, CODES])
    function = tf.function(step)
    function(nets, codes)
    with ll.record() as rec:
        function(nets, codes)
    found = [b.nbytes for b in rec.buffers if b.category is Category.ACTIVATIONS]
    assert found.count(ACTIVATION["hidden"]) == kept
