"""What a model takes as a batch, and what is said of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.training import (
    Category,
    inputs,
    training_memory,
)
from tests.support.trained import ENCODER, FLOAT, WIDTH, Encoder, build

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

tf = ll.runtime.tf


@pytest.mark.parametrize(
    ("model", "x", "y", "error", "says"),
    [
        (object(), 4, 4, TypeError, "Keras model or a training step"),
        ("uncompiled", 4, 4, ValueError, "compile"),
        ("good", 4, 3, ValueError, "same number of examples"),
        ("good", 0, 0, ValueError, "at least 1"),
    ],
)
def test_wrong_arguments_get_one_clear_sentence(model, x, y, error, says):
    if model == "uncompiled":
        model = tf.keras.Sequential([tf.keras.Input([WIDTH]), tf.keras.layers.Dense(1)])
    elif model == "good":
        model = build()
    with pytest.raises(error, match=says) as caught:
        training_memory(model, np.ones([x, WIDTH], np.float32), np.ones([y, 1], np.float32))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (tf.data.Dataset.range(3), 1, "holds x and y already"),
        ({"x": tf.data.Dataset.range(3)}, 1, "holds x and y already"),
        (None, None, "the batch is empty"),
        ([[1.0, 2.0], [3.0, 4.0]], 1, "holds a float, which has no examples"),
        (tf.constant(1.0), tf.constant(1.0), "holds a scalar tensor, which has no examples"),
        ("text", 1, "holds a str"),
        ((row for row in [1]), None, "a generator or iterator loses"),
    ],
)
def test_what_is_no_batch_gets_one_clear_sentence(x, y, says):
    y = None if y is None else np.ones([2, 1], np.float32)
    with pytest.raises(TypeError, match=says) as caught:
        training_memory(build(), x, y)
    assert "\n" not in str(caught.value)


def inputs_of(step: object) -> int:
    return int(step.series.bytes[Category.INPUTS][0])


def test_inputs_are_cast_as_fit_casts_them(batch):
    x, y = batch
    rows = len(x) * (WIDTH + 1)
    assert inputs_of(training_memory(build(), x.astype(np.float64), y)) == rows * FLOAT
    assert inputs_of(training_memory(build(), x, y.astype(np.float64))) == rows * FLOAT
    assert inputs_of(training_memory(build(), x, y)) == rows * FLOAT


@pytest.mark.further
def test_sample_weights_datasets_and_dicts_are_taken(batch):
    x, y = batch
    weights = np.ones(len(x), np.float64)
    weighted = training_memory(build(), x, y, weights)
    assert inputs_of(weighted) == len(x) * (WIDTH + 2) * FLOAT
    data = tf.data.Dataset.from_tensor_slices((x, y, weights.astype(np.float32))).batch(64)
    assert inputs_of(training_memory(build(), data)) == 64 * (WIDTH + 2) * FLOAT
    parts = {name: tf.keras.Input([WIDTH], name=name) for name in ("left", "right")}
    model = tf.keras.Model(parts, tf.keras.layers.Dense(1)(parts["left"] + parts["right"]))
    model.compile("sgd", "mse")
    both = training_memory(model, {"left": x, "right": x}, y)
    assert inputs_of(both) == len(x) * (2 * WIDTH + 1) * FLOAT


def test_ragged_and_sparse_inputs_are_taken():
    class Sums(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)
            self.dense.build((None, 1))
            self.built = True

        def train_step(self, data):
            x, y = data
            if isinstance(x, tf.RaggedTensor):
                row = tf.reduce_sum(x, axis=1, keepdims=True)
            else:
                row = tf.sparse.reduce_sum(x, axis=1, keepdims=True)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self.dense(tf.reshape(row, (-1, 1))) - y) ** 2)
            weights = self.dense.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {"loss": loss}

    y = np.ones((3, 1), np.float32)
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]])
    sparse = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0], [3, 4])
    # Values and row splits; indices, values and shape.
    sizes = {"ragged": (6 * 4 + 4 * 8, ragged), "sparse": (3 * 2 * 8 + 3 * 4 + 2 * 8, sparse)}
    for expected, x in sizes.values():
        model = Sums()
        model.compile("sgd")
        data = tf.data.Dataset.from_tensors((x, y))
        assert inputs_of(training_memory(model, data)) == expected + y.nbytes


def test_a_model_without_y_is_measured():
    x = np.ones((16, 32), np.float32)
    for data in ((x,), (x, None), (tf.data.Dataset.from_tensors(x),)):
        model = Encoder()
        model.compile("adam")
        step = training_memory(model, *data)
        first = {c: int(live[0]) for c, live in step.series.bytes.items()}
        assert first[Category.WEIGHTS] == ENCODER
        assert first[Category.OPTIMIZER] == 2 * ENCODER + 12
        assert first[Category.INPUTS] == x.nbytes


def test_a_steps_data_are_its_arguments_or_one():
    x, y = tf.ones([4, 2]), tf.ones([4, 1])
    data = tf.data.Dataset.from_tensors((x, y))
    two, one = (inputs.of_step(step, data, None, None) for step in (lambda x, y: x, lambda b: b))
    assert (len(two.data), two.size) == (2, 4)
    assert (len(one.data), len(one.data[0]), one.size) == (1, 2, 4)
    assert len(inputs.of_step(max, data, None, None).data) == 2  # Python cannot tell what it takes
    with pytest.raises(ValueError, match="dataset is empty"):
        inputs.of_step(lambda x, y: x, data.take(0), None, None)
    with pytest.raises(TypeError, match="batch is empty"):
        inputs.of_step(lambda x: x, [], None, None)


def test_a_sequence_of_keras_gives_its_first_batch():
    class Batches(tf.keras.utils.PyDataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)

    assert inputs.of_model(Batches(), None, None).size == 4


def test_a_sparse_batch_is_repeated_to_another_size():
    part = tf.sparse.from_dense([[1.0, 0.0], [0.0, 2.0]])
    sized, none, fixed = inputs.Batch((part, None, tf.ones([3])), None, 2).sized(3)
    assert tf.sparse.to_dense(sized).numpy().tolist() == [[1, 0], [0, 2], [1, 0]]
    assert none is None
    assert fixed.shape == [3]
