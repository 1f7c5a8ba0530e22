"""A training step by category: bytes from shapes, and a model that is left as it was."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.training import (
    BatchEstimate,
    Category,
    Phase,
    training_memory,
)
from lessons_lib.recording import session
from lessons_lib.recording.buffers import BufferStore, Purpose, Site
from lessons_lib.recording.composition import held_since
from tests.support.trained import (
    BATCH,
    DEPTH,
    FLOAT,
    LAYER,
    WEIGHTS,
    WIDTH,
    build,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]


tf = ll.runtime.tf


@pytest.fixture(scope="module", params=[False, True], ids=["graph", "eager"])
def step(request, batch):
    return training_memory(build(run_eagerly=request.param), *batch)


def test_categories_add_up_exactly_to_what_the_recorder_saw(step):
    total = sum(step.series.bytes.values())
    assert sum(step.categories.values()) == step.peak_bytes == total.max()
    _times, live = step.recording.timeline()
    freed_before = -sum(b.nbytes for b in step.recording.buffers if b.allocated_at is None)
    # Growth over the block's start, plus what the old variables gave back in it.
    assert set(total.tolist()) <= set((live - freed_before).tolist())
    assert live.max() - freed_before == step.peak_bytes


def test_weights_optimizer_state_and_inputs_follow_from_shapes(step):
    first = {category: int(live[0]) for category, live in step.series.bytes.items()}
    assert first[Category.WEIGHTS] == WEIGHTS
    # Adam holds two slots a weight, a counter of 8 bytes and a learning rate of 4.
    assert first[Category.OPTIMIZER] == 2 * WEIGHTS + 12
    # The loss: its sum and its count.
    assert first[Category.METRICS] == 2 * FLOAT
    assert first[Category.INPUTS] == BATCH * (WIDTH + 1) * FLOAT


def test_sgd_has_no_state_to_speak_of(batch):
    step = training_memory(build("sgd"), *batch)
    assert step.series.bytes[Category.OPTIMIZER][0] == 12


@pytest.mark.each_value
@pytest.mark.parametrize("eagerly", [False, True], ids=["graph", "eager"])
@pytest.mark.parametrize(
    ("make", "slots"),
    [
        (lambda: tf.keras.optimizers.SGD(), 0),
        (lambda: tf.keras.optimizers.SGD(momentum=0.9), 1),
        (lambda: tf.keras.optimizers.RMSprop(), 1),
        (lambda: tf.keras.optimizers.Lion(), 1),
        (lambda: tf.keras.optimizers.Adam(), 2),
    ],
    ids=["sgd", "momentum", "rmsprop", "lion", "adam"],
)
def test_weights_and_state_are_counted_once_at_any_time(batch, make, slots, eagerly):
    # Some optimizers assign new tensors to their state; and a graph copies a weight that it updates
    # while the backward pass still reads it.
    step = training_memory(build(make(), run_eagerly=eagerly), *batch)
    assert set(step.series.bytes[Category.WEIGHTS].tolist()) == {WEIGHTS}
    state = step.series.bytes[Category.OPTIMIZER]
    # The counter may be there twice while it is counted up.
    assert slots * WEIGHTS + 12 <= state.min() <= state.max() <= slots * WEIGHTS + 12 + 64
    # In the end nothing is left but variables, the batch, and the loss.
    last = {category: int(live[-1]) for category, live in step.series.bytes.items()}
    assert last[Category.TEMPORARIES] + last[Category.ACTIVATIONS] < 128


def test_a_step_ends_where_it_ends_though_the_clocks_disagree(batch, monkeypatch):
    tie = session.mark_with_clock

    def late() -> tuple[int, float]:  # as where the thread is put off beside the marker
        number, at = tie()
        return number, at + 0.5

    monkeypatch.setattr(session, "mark_with_clock", late)
    step = training_memory(build("sgd", run_eagerly=True), *batch)
    last = {category: int(live[-1]) for category, live in step.series.bytes.items()}
    assert last[Category.TEMPORARIES] + last[Category.ACTIVATIONS] < 128
    assert step.categories[Category.ACTIVATIONS] >= DEPTH * LAYER


@pytest.mark.parametrize("eagerly", [False, True], ids=["graph", "eager"])
def test_a_variable_that_copies_when_read_is_counted_once(eagerly):
    rows, width = 256, 64
    ids = np.arange(32, dtype=np.int32).reshape(16, 2)
    model = tf.keras.Sequential(
        [
            tf.keras.Input([2], dtype="int32"),
            tf.keras.layers.Embedding(rows, width),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", run_eagerly=eagerly)
    step = training_memory(model, ids, np.zeros([16, 1], np.float32))
    weights = (rows * width + 2 * width + 1) * FLOAT
    assert set(step.series.bytes[Category.WEIGHTS].tolist()) == {weights}


def test_a_variable_passes_to_a_new_buffer_when_the_old_one_goes():
    first = Site(purpose=Purpose(Category.WEIGHTS, held=7, before=Category.OTHER))
    later = Site(purpose=Purpose(Category.WEIGHTS, held=7, before=Category.GRADIENTS))

    def since(*lives: tuple[int, int]) -> list[int]:
        """Tell for buffers of the variable since when they hold it; -1: never freed."""
        born, died = (np.array(column) for column in zip(*lives, strict=True))
        one = np.full(len(lives), 64)
        store = BufferStore(
            (first, later),
            np.array([0] + [1] * (len(lives) - 1)),
            one,
            one,
            born,
            died,
            np.arange(10.0),
        )
        return held_since(store).tolist()

    assert since((0, 4), (2, -1)) == [0, 4]
    # Written in place: what might have been taken over goes before the old buffer does.
    assert since((0, -1), (2, 3)) == [0, 2]
    never = 11
    assert since((0, 6), (2, 4)) == [0, never]
    assert since((0, 6), (2, -1), (3, 5)) == [0, 6, never]
    # Something still reads the old value after the block: the new one counts at once.
    assert since((0, -1), (2, -1)) == [0, 2]
    # Twice in the block.
    assert since((0, 3), (2, 6), (5, -1)) == [0, 3, 6]


def test_each_hidden_layer_keeps_one_activation(step):
    # tanh keeps its own output; the matmul's is freed (eager) or handed on (graph).  How far the
    # backward pass has come when a graph peaks depends on the order of execution.
    kept = {x.layer: x.activation_bytes for x in step.layers if x.layer.startswith("hidden")}
    assert kept
    assert set(kept.values()) == {LAYER}
    most = step.series.bytes[Category.ACTIVATIONS].max()
    assert DEPTH * LAYER <= most < DEPTH * LAYER + LAYER // 2


def test_eager_gradients_reach_exactly_the_weights_bytes(batch):
    step = training_memory(build(run_eagerly=True), *batch)
    most = step.series.bytes[Category.GRADIENTS].max()
    assert most == WEIGHTS


@pytest.mark.each_value
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adam"])
def test_phases_are_right_for_every_optimizer(optimizer, normalized):
    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input([64])])
    for _ in range(3):
        model.add(layers.Dense(64))
        if normalized:
            model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    model.compile(optimizer, "mse")
    rows = np.ones([512, 64], np.float32)
    step = training_memory(model, rows, rows)
    spans = {span.phase: span for span in step.phases}
    assert list(spans)[:2] == ["forward", "backward"]
    assert 0 == spans[Phase.FORWARD].start < spans[Phase.BACKWARD].start < spans[Phase.BACKWARD].end
    assert spans[Phase.FORWARD].end < spans[Phase.BACKWARD].end
    # A moving average is no update; and an update waits for its gradient.
    if Phase.UPDATE in spans:
        assert spans[Phase.BACKWARD].start < spans[Phase.UPDATE].start
    of_gradients = {
        b.purpose.phase for b in step.recording.buffers if b.category is Category.GRADIENTS
    }
    assert of_gradients <= {"backward"}


def test_xla_step_is_not_split(batch):
    step = training_memory(build(jit_compile=True), *batch)
    assert step.mode == "xla"
    assert any("XLA" in note for note in step.notes)
    assert step.categories[Category.ACTIVATIONS] == step.categories[Category.GRADIENTS] == 0
    assert step.categories[Category.OTHER] > 0
    assert sum(step.categories.values()) == step.peak_bytes


def test_dropout_and_batch_norm_leave_little_untold(batch):
    model = tf.keras.Sequential(
        [
            tf.keras.Input([WIDTH]),
            tf.keras.layers.Dense(WIDTH),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.ReLU(),
            tf.keras.layers.Dropout(0.5),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    step = training_memory(model, *batch)
    assert sum(step.categories.values()) == step.peak_bytes
    assert step.categories[Category.OTHER] <= step.peak_bytes // 20


@pytest.mark.parametrize("kind", ["metric", "own weight"])
def test_metrics_and_a_layers_own_writing_are_counted_once(kind):
    classes = 100
    if kind == "metric":
        model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(classes)])
        metric = tf.keras.metrics.MeanIoU(classes, sparse_y_pred=False)
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=[metric])
        step = training_memory(model, np.ones((8, 4)), np.ones((8,), np.int32))
        # The matrix of whole numbers, and sum and count of the loss.
        assert int(step.series.bytes[Category.METRICS][0]) == classes**2 * 8 + 2 * FLOAT
        return

    class Average(tf.keras.layers.Layer):
        def build(self, shape):
            self.mean = self.add_weight(shape=(16, WIDTH), trainable=False)

        def call(self, x):
            self.mean.assign(0.9 * self.mean + 0.1 * x)
            return x + self.mean

    model = tf.keras.Sequential(
        [tf.keras.Input([WIDTH], batch_size=16), Average(), tf.keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    step = training_memory(model, np.ones((16, WIDTH)), np.ones((16, 1)))
    weights = (16 * WIDTH + WIDTH + 1) * FLOAT
    assert set(step.series.bytes[Category.WEIGHTS].tolist()) == {weights}
    kept = sum(layer.activation_bytes for layer in step.layers)
    assert kept == step.categories[Category.ACTIVATIONS]


@pytest.mark.parametrize("eagerly", [True, False])
def test_moments_count_also_in_a_step_that_only_sums_up_gradients(eagerly):
    model = tf.keras.Sequential(
        [tf.keras.Input([WIDTH]), tf.keras.layers.Dense(WIDTH, use_bias=False)]
    )
    model.compile(
        tf.keras.optimizers.Adam(gradient_accumulation_steps=4), "mse", run_eagerly=eagerly
    )
    step = training_memory(model, np.ones((8, WIDTH), np.float32), np.ones((8, WIDTH), np.float32))
    # Two moments and the sums; an int64 counter and a float32 rate.
    assert step.categories[Category.OPTIMIZER] == 3 * WIDTH * WIDTH * FLOAT + 8 + FLOAT


def test_the_table_has_the_categories_the_layers_and_the_largest_batch(step):
    page = step._repr_html_()
    assert page.count("100 %") == 1
    assert "hidden0" in page
    assert "largest batch" not in page
    estimate = BatchEstimate(12, 1280, 1280, 1535, True, 11, 11, ((1024, 9), (1280, 11)))
    more = dataclasses.replace(step, largest_batch=estimate)._repr_html_()
    assert "largest batch" in more
    assert "1280" in more


def test_figures_are_noisy_where_what_is_shown_differs(step):
    mib = 2**20
    for peaks, sign in (
        ((mib, mib), ""),
        ((4 * mib + 4, 4 * mib), ""),  # a scalar more: both are 4 MiB
        ((1028, 1024), "≈ "),
        ((mib, 2 * mib), "≈ "),
    ):
        assert dataclasses.replace(step, peaks=peaks).noisy == sign
