"""A training step by category: bytes from shapes, and a model that is left as it was."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.training import Category, largest_batch, training_memory
from lessons_lib.instruments.training.batch_size import fit_line
from lessons_lib.instruments.training.step_phases import Stages, watched
from lessons_lib.instruments.training.variable_buffers import holdings
from lessons_lib.recording.buffers import BufferStore, Site

tf = ll.runtime.tf

WIDTH, DEPTH, BATCH = 128, 3, 256
FLOAT = 4
LAYER = BATCH * WIDTH * FLOAT
#: Kernels, biases, and the head with one output.
WEIGHTS = (DEPTH * (WIDTH * WIDTH + WIDTH) + WIDTH + 1) * FLOAT


def build(optimizer: object = "adam", **options: object) -> object:
    layers = [tf.keras.layers.Dense(WIDTH, "tanh", name=f"hidden{i}") for i in range(DEPTH)]
    model = tf.keras.Sequential([tf.keras.Input([WIDTH]), *layers, tf.keras.layers.Dense(1)])
    model.compile(optimizer, "mse", **options)
    return model


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(BATCH, WIDTH)).astype(np.float32),
        rng.normal(size=(BATCH, 1)).astype(np.float32),
    )


@pytest.fixture(scope="module", params=[False, True], ids=["graph", "eager"])
def step(request, batch):
    return training_memory(build(run_eagerly=request.param), *batch)


def test_categories_add_up_exactly_to_what_the_recorder_saw(step):
    total = sum(step.series.bytes.values())
    assert sum(step.categories.values()) == step.peak_bytes == total.max()
    _times, live = step.recording.timeline()
    freed_before = -sum(b.nbytes for b in step.recording.buffers if b.allocated_at is None)
    # Growth over the block's start, plus what the old variables gave back in it.
    assert total[-1] == live[-1] - freed_before
    assert live.max() - freed_before == step.peak_bytes


def test_weights_optimizer_state_and_inputs_follow_from_shapes(step):
    first = {category: int(live[0]) for category, live in step.series.bytes.items()}
    assert first[Category.WEIGHTS] == WEIGHTS
    # Adam holds two slots a weight; beside them stand a few scalars and metrics.
    assert 2 * WEIGHTS <= first[Category.OPTIMIZER] < 2 * WEIGHTS + 128
    assert first[Category.INPUTS] == BATCH * (WIDTH + 1) * FLOAT


def test_sgd_has_no_state_to_speak_of(batch):
    step = training_memory(build("sgd"), *batch)
    assert step.series.bytes[Category.OPTIMIZER][0] < 128


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
    assert slots * WEIGHTS <= state.min() <= state.max() < slots * WEIGHTS + 128
    # In the end nothing is left but variables, the batch, and the loss.
    last = {category: int(live[-1]) for category, live in step.series.bytes.items()}
    assert last[Category.TEMPORARIES] + last[Category.ACTIVATIONS] < 128


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
    # Buffers of 64 bytes: copy 0 before the step, 1 made in it, copy 2 after it frees 1.
    # Events:    0 born 0 | 1 born 1 | 2 died 0 | 3 born 2 | 4 died 1
    one = np.array([64, 64, 64])
    store = BufferStore(
        (Site(op="DeepCopy"), Site(op="Mul")),
        np.array([0, 1, 0]),
        one,
        one,
        np.array([0, 1, 3]),
        np.array([2, 4, -1]),
        np.arange(5.0),
    )
    (holding,) = holdings(store, [0], [2], started=1, ended=3)
    assert (holding.first, holding.last, holding.since, holding.moved) == (0, 1, 2, True)
    # A copy whose old value is still read: the old buffer stays, so the new one counts at once.
    kept = dataclasses.replace(store, died=np.array([-1, 4, -1]))
    (holding,) = holdings(kept, [0], [2], started=1, ended=3)
    assert (holding.last, holding.since) == (1, 1)
    # Written in place: the second copy frees the first.
    in_place = dataclasses.replace(store, died=np.array([4, 2, -1]))
    (holding,) = holdings(in_place, [0], [2], started=1, ended=3)
    assert (holding.last, holding.moved) == (0, False)


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
    assert WEIGHTS <= most < WEIGHTS + 64


def test_graph_hands_buffers_on_and_says_so(batch):
    graph = training_memory(build(), *batch)
    assert graph.forwarded_bytes >= LAYER
    eager = training_memory(build(run_eagerly=True), *batch)
    assert eager.forwarded_bytes == 0


def test_phases_come_in_order(step):
    assert [phase.name for phase in step.phases] == ["forward", "backward", "update"]
    starts = [phase.start for phase in step.phases]
    assert starts == sorted(starts)


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


def test_the_model_is_left_as_it_was(batch):
    model = build(metrics=["mae"])
    model.fit(*batch, batch_size=64, verbose=0)
    gradient = tf.GradientTape.gradient
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    metrics = [v.numpy() for metric in model.metrics for v in metric.variables]
    training_memory(model, *batch)
    after = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    again = [v.numpy() for metric in model.metrics for v in metric.variables]
    assert all(np.array_equal(a, b) for a, b in zip(metrics, again, strict=True))
    assert tf.GradientTape.gradient is gradient
    assert "apply" not in vars(model.optimizer)
    assert all("call" not in vars(layer) for layer in model.layers)


def test_a_failing_step_leaves_the_model_as_it_was(batch):
    class Broken(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)
            self.calls = 0

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            self.dense.kernel.assign(tf.zeros_like(self.dense.kernel))
            raise RuntimeError("a fault of the user's")

    model = Broken()
    model.compile("sgd", "mse", run_eagerly=True)
    model(batch[0])
    before = model.get_weights()
    with pytest.raises(RuntimeError, match="a fault of the user's"):
        training_memory(model, *batch)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    with ll.record() as rec:  # no profiler was left running
        pass
    assert rec.peak_bytes == 0


@pytest.mark.parametrize(
    ("model", "x", "y", "error", "says"),
    [
        (object(), 4, 4, TypeError, "Keras model"),
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
    ("x", "says"),
    [
        (tf.data.Dataset.range(3), r"x, y = next\(iter\(dataset\)\)"),
        (None, "holds a NoneType, which has no examples"),
        ([[1.0, 2.0], [3.0, 4.0]], "holds a float, which has no examples"),
        ("text", "holds a str"),
    ],
)
def test_what_is_no_batch_gets_one_clear_sentence(x, says):
    with pytest.raises(TypeError, match=says) as caught:
        training_memory(build(), x, np.ones([2, 1], np.float32))
    assert "\n" not in str(caught.value)


def test_largest_batch_is_run_and_fits(batch):
    budget = WEIGHTS * 3 + 40 * LAYER
    step = training_memory(build(run_eagerly=True), *batch, budget=budget)
    found = step.largest_batch
    assert found.verified
    assert 0 < found.peak_bytes <= budget
    # One example more may not be far off, but much more cannot fit.
    assert found.peak_bytes > 0.8 * budget
    assert found.batch in [size for size, _ in found.measured]


@pytest.mark.parametrize("fixed", [0, 1000])
def test_search_finds_the_last_batch_that_fits(fixed):
    tried: list[int] = []

    def peak_of(batch: int) -> int:
        tried.append(batch)
        return fixed + 10 * batch

    found = largest_batch(peak_of, 5005, [10, 20, 40], available_bytes=10**9)
    assert found.batch == (5005 - fixed) // 10
    assert found.verified
    assert len(tried) <= 3 + 6


def test_search_is_not_finer_than_the_peaks_are_sure():
    tried: list[int] = []

    def peak_of(batch: int) -> int:
        tried.append(batch)
        return 10 * batch + 60 * (len(tried) % 2)  # the same batch peaks 60 bytes higher or lower

    found = largest_batch(peak_of, 5005, [100, 200, 400], available_bytes=10**9)
    _fixed, slope, spread = fit_line(found.measured[:3])
    assert found.verified
    assert found.measured[-1] == (found.batch, found.peak_bytes)
    # There would be room for more examples, but no more than the peaks are uncertain.
    assert slope < 5005 - found.peak_bytes < spread


def test_search_does_not_run_what_the_machine_cannot_hold():
    found = largest_batch(lambda b: 10 * b, 5000, [10, 20], available_bytes=1000)
    assert not found.verified
    assert "available" in found.note


def test_search_survives_a_law_that_is_no_line():
    found = largest_batch(lambda b: b * b, 10_000, [10, 20, 40], available_bytes=10**9)
    assert found.verified
    assert found.peak_bytes <= 10_000
    assert 40 <= found.batch <= 100


def test_nothing_fits():
    found = largest_batch(lambda b: 100 + b, 50, [1, 2], available_bytes=10**9)
    assert found.batch == 0
    assert not found.verified


def test_fit_line_reads_an_exact_line():
    fixed, slope, spread = fit_line([(1, 13), (2, 16), (4, 22)])
    assert fixed == pytest.approx(10)
    assert slope == pytest.approx(3)
    assert spread == pytest.approx(0)


def test_phases_need_notes():
    assert Stages().phase(None, 1.0) is None


def test_watched_notes_nothing_outside(batch):
    model = build(run_eagerly=True)
    with watched(model) as stages:
        pass
    model.train_on_batch(*batch)
    assert stages.notes == []
