"""What one function only updates and another one reads is told by both: bytes come from shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lessons_lib as ll
from tests.support.sessions import cut_after

tf = ll.runtime.tf

SIZE = 64 * 64 * 4


def made_steps(target_is_read: bool) -> tuple[list[Any], Callable[[], None], Callable[[], None]]:
    """Make an actor, a critic and a slowly following copy, and a step that trains each of two."""
    actor, critic = (tf.Variable(tf.random.normal([64, 64])) for _ in range(2))
    target = tf.Variable(tf.ones([64, 64]), trainable=False)
    x = tf.random.normal([8, 64])

    @tf.function
    def train_critic() -> None:
        read = target if target_is_read else actor
        with tf.GradientTape() as tape:
            wanted = tf.tanh(x @ read) @ critic
            loss = tf.reduce_sum(tf.square(tf.stop_gradient(wanted) - x @ critic))
        critic.assign_sub(0.01 * tape.gradient(loss, critic))

    @tf.function
    def train_actor() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(x @ actor) @ critic)
        actor.assign_sub(0.01 * tape.gradient(loss, actor))
        target.assign(0.99 * target + 0.01 * actor)

    return [actor, critic, target], train_critic, train_actor


@pytest.mark.parametrize("critic_first", [True, False])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("target_is_read", [True, False])
def test_a_copy_is_a_weight_where_a_step_reads_it(
    target_is_read: bool, critic_first: bool, cut: bool
) -> None:
    with cut_after(3) if cut else ll.record(), ll.record() as rec:
        variables, *steps = made_steps(target_is_read)
        for step in steps if critic_first else reversed(steps):
            for _ in range(2):
                step()
    kept = {row.key: row.kept_bytes for row in rec.by_category().rows}
    weights, state = (3, 0) if target_is_read else (2, 1)
    assert kept.get("weights", 0) == weights * SIZE
    assert kept.get("optimizer state", 0) == state * SIZE
    assert len(variables) == 3
