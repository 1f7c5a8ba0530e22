"""What takes over another one's memory: expected bytes come from shapes and dtypes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import lessons_lib as ll

tf = ll.runtime.tf

ROWS, CLASSES = 64, 50
LOGITS = ROWS * CLASSES * 4


def sparse(labels: Any, logits: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def dense(labels: Any, logits: Any) -> Any:
    return tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, CLASSES), logits)


def read_again(labels: Any, logits: Any) -> Any:
    loss = sparse(labels, logits)
    with tf.control_dependencies([loss]):
        return loss + tf.reduce_max(tf.stop_gradient(logits), axis=1)


@pytest.mark.parametrize(
    ("losses", "made"),
    [
        # The loss writes its gradient in the logits' place, where the backward pass uses it.
        (sparse, {"activations": 1}),
        (dense, {"activations": 1, "temporaries": 1}),
        # Something reads the logits after the loss, which takes memory of its own.
        (read_again, {"activations": 1, "temporaries": 1}),
    ],
)
def test_logits_in_whose_place_a_loss_writes_its_gradient_are_activations(losses, made):
    weight = tf.Variable(tf.random.normal([8, CLASSES]))

    @tf.function
    def step(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(losses(labels, tf.matmul(x, weight)))
        return loss, tape.gradient(loss, weight)

    batch = tf.random.normal([ROWS, 8]), tf.range(ROWS) % CLASSES
    step(*batch)
    with ll.record() as rec:
        step(*batch)
    # The kernel of earlier versions also takes a temporary of this size.
    outputs = (b for b in rec.buffers if b.kind == "output" and b.nbytes == LOGITS)
    found = Counter(str(b.category) for b in outputs)
    assert found == made
