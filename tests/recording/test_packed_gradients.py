"""Gradients are their layers', packed together or not: expected bytes come from shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.recording.categories import Category
from lessons_lib.recording.recording import Recording
from tests.support.processes import in_a_new_process

tf = ll.runtime.tf
layers = tf.keras.layers

ROWS, INPUTS, WIDE, UNITS = 8, 12, 10, 7
FLOAT = 4


def apart(gradients: Sequence[Any]) -> Sequence[Any]:
    return [0.5 * gradient for gradient in gradients]


def packed(gradients: Sequence[Any]) -> Sequence[Any]:
    """Work on all gradients at once, as strategies do to sum them up over devices."""
    pack = 0.5 * tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], 0)
    parts = tf.split(pack, [gradient.shape.num_elements() for gradient in gradients])
    return [tf.reshape(p, g.shape) for p, g in zip(parts, gradients, strict=True)]


def clipped(gradients: Sequence[Any]) -> Sequence[Any]:
    return tf.clip_by_global_norm(gradients, 0.1)[0]


def record_step(weights: Sequence[Any], forward: Any, change: Any) -> Recording:
    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(x) ** 2)
        for weight, gradient in zip(weights, change(tape.gradient(loss, weights)), strict=True):
            # Which writes the weight in place: the gradient's memory is not handed on to it.
            tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=0.1, delta=gradient)

    x = tf.random.normal([ROWS, INPUTS])
    step(x)
    with ll.record() as rec:
        step(x)
    return rec


def by_layer(rec: Recording, shapes: Sequence[tuple[int, ...]]) -> Counter[str | None]:
    found: Counter[str | None] = Counter()
    for b in rec.buffers:
        if b.category is Category.GRADIENTS and b.op == "MatMul" and b.shape in shapes:
            found[b.purpose.layer] += b.nbytes
    return found


SHAPES = (INPUTS, WIDE), (WIDE, UNITS)


@pytest.mark.parametrize("change", [apart, packed, clipped])
def test_gradients_stand_under_their_layers(change):
    wide, last = layers.Dense(WIDE, "tanh", name="wide"), layers.Dense(UNITS, name="last")
    last(wide(tf.ones([ROWS, INPUTS])))
    weights = [wide.kernel, last.kernel]
    found = by_layer(record_step(weights, lambda x: last(wide(x)), change), SHAPES)
    assert found == {"wide": INPUTS * WIDE * FLOAT, "last": WIDE * UNITS * FLOAT}


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        (apart, {"wide": INPUTS * WIDE, "last": WIDE * UNITS}),
        (packed, {None: WIDE * (INPUTS + UNITS)}),
    ],
)
def test_where_only_the_written_variable_tells_the_layer_packed_gradients_have_none(change, layers):
    first = tf.Variable(tf.random.normal(SHAPES[0]), name="wide/w")
    second = tf.Variable(tf.random.normal(SHAPES[1]), name="last/w")
    rec = record_step([first, second], lambda x: tf.tanh(x @ first) @ second, change)
    assert by_layer(rec, SHAPES) == {layer: size * FLOAT for layer, size in layers.items()}


@pytest.mark.child
@pytest.mark.slow
@pytest.mark.further
def test_gradients_of_replicas_stand_under_their_layers():
    printed = in_a_new_process("""
        import numpy as np
        import lessons_lib as ll
        from lessons_lib.recording.categories import Category

        tf = ll.runtime.tf
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        layers = tf.keras.layers
        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            wide, last = layers.Dense(10, name="wide"), layers.Dense(7, name="last")
            model = tf.keras.Sequential([tf.keras.Input([12]), wide, last])
            model.compile("sgd", "mse")
        with ll.record() as rec:
            model.fit(np.ones([32, 12], "f"), np.ones([32, 7], "f"), batch_size=8, verbose=0)
        found = {}
        for b in rec.buffers:
            if b.category is Category.GRADIENTS and b.op == "MatMul":
                layer = b.purpose.layer.rpartition("/")[2]
                found[layer] = found.get(layer, 0) + b.nbytes
        print(found["wide"], found["last"], len(found))
    """)
    steps, replicas = 4, 2
    each = [steps * replicas * rows * columns * FLOAT for rows, columns in SHAPES]
    assert printed.split()[-3:] == [*map(str, each), "2"]
