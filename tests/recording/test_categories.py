"""What buffers are for: expected bytes come from shapes and types, names from the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.recording import composition
from lessons_lib.recording.buffers import FOLDED
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.recording import Recording

tf = ll.runtime.tf
keras = tf.keras
layers = tf.keras.layers

FLOAT = 4


def born(rec: Recording, category: Category, **site: Any) -> int:
    """Add up the bytes of all buffers that were allocated for a category.

    In a graph a weight may take over the memory of its gradient.
    """
    return sum(
        b.nbytes
        for b in rec.buffers
        if category in (b.category, b.purpose.before)
        and b.allocated_at is not None
        and all(getattr(b.purpose, name) == value for name, value in site.items())
    )


def step_of(model: Any, loss: Callable[[Any], Any], optimizer: Any, *, graph: bool) -> Any:
    """Make a custom training step."""

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(model(x))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))
        return value

    return tf.function(step) if graph else step


def regularized() -> tuple[Any, Any]:
    dense = layers.Dense(96, kernel_regularizer="l2")
    return keras.Sequential([keras.Input((64,)), dense]), tf.random.normal((8, 64))


def attention() -> tuple[Any, Any]:
    x = keras.Input((8, 32))
    y = layers.LayerNormalization()(layers.MultiHeadAttention(4, 16)(x, x))
    return keras.Model(x, y), tf.random.normal((4, 8, 32))


def tied() -> tuple[Any, Any]:
    class Tied(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embed = layers.Embedding(50, 24)
            self.dense = layers.Dense(24)

        def call(self, x: Any) -> Any:
            return tf.matmul(self.dense(self.embed(x)), self.embed.embeddings, transpose_b=True)

    model = Tied()
    x = tf.zeros((4, 3), tf.int32)
    model(x)
    return model, x


def weight_bytes(model: Any) -> int:
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables) * FLOAT


@pytest.mark.parametrize("make", [regularized, tied])
def test_gradients_of_an_eager_step_are_as_large_as_the_weights(make):
    model, x = make()
    optimizer = keras.optimizers.SGD(momentum=0.9)
    step = step_of(
        model, lambda y: tf.reduce_mean(y**2) + sum(model.losses), optimizer, graph=False
    )
    step(x)
    with ll.record() as rec:
        step(x)
    assert born(rec, Category.GRADIENTS) == weight_bytes(model)
    # Momentum is assigned anew at each step, as is the counter; weights are written in place.
    assert born(rec, Category.OPTIMIZER) == weight_bytes(model) + 8


@pytest.mark.parametrize("make", [regularized, tied])
def test_gradients_in_a_graph_are_found_through_forwarding(make):
    model, x = make()
    step = step_of(
        model,
        lambda y: tf.reduce_mean(y**2) + sum(model.losses),
        keras.optimizers.SGD(),
        graph=True,
    )
    step(x)
    with ll.record() as rec:
        step(x)
    largest = max(int(np.prod(v.shape)) for v in model.trainable_variables) * FLOAT
    assert born(rec, Category.GRADIENTS) >= largest
    assert all(
        b.purpose.phase is not Phase.FORWARD for b in rec.buffers if b.category == "gradients"
    )


def separable() -> tuple[Any, Any]:
    body = [layers.SeparableConv2D(16, 3), layers.GroupNormalization(4), layers.Dense(5)]
    return keras.Sequential([keras.Input((12, 12, 8)), *body]), tf.ones((4, 12, 12, 8))


def subclassed() -> tuple[Any, Any]:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = layers.Dense(24, "tanh"), layers.Dense(7)

        def call(self, x: Any) -> Any:
            return self.outer(self.inner(x))

    model, x = Net(), tf.ones((4, 16))
    model(x)  # which makes the variables, after it has asked for the shapes
    return model, x


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("make", [separable, subclassed])
def test_gradients_and_slots_are_told_by_layer(make, graph):
    model, x = make()
    optimizer = keras.optimizers.SGD(momentum=0.9)
    step = step_of(model, lambda y: tf.reduce_mean(y**2), optimizer, graph=graph)
    step(x)
    with ll.record() as rec:
        step(x)
    weights = model.trainable_variables
    found = {
        layer: sum(
            b.nbytes
            for b in rec.buffers
            if b.allocated_at is not None
            and b.category is Category.GRADIENTS
            and b.purpose.layer == layer
        )
        for layer in {v.path.rpartition("/")[0] for v in weights}
    }
    assert found == {
        layer: sum(
            int(np.prod(v.shape)) * FLOAT for v in weights if v.path.rpartition("/")[0] == layer
        )
        for layer in found
    }
    slots = {b.purpose.variable for b in rec.buffers if b.category is Category.OPTIMIZER}
    assert slots == {f"{v.path}/momentum" for v in weights} | {optimizer.iterations.path}


def test_slots_of_plain_variables_bear_their_names():
    weight = tf.Variable(tf.ones((8, 4)), name="w")
    with ll.record() as rec:
        keras.optimizers.SGD(momentum=0.9).build([weight])
    assert "w/momentum" in {b.purpose.variable for b in rec.buffers}


def test_a_clipped_gradient_is_a_gradient():
    model, x = regularized()

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        gradients, norm = tf.clip_by_global_norm(
            tape.gradient(loss, model.trainable_variables), 1.0
        )
        for gradient, weight in zip(gradients, model.trainable_variables, strict=True):
            weight.assign_sub(0.1 * gradient)
        return norm

    step(x)
    with ll.record() as rec:
        step(x)
    # The clipped gradients may take over the memory of those that came out of the tape.
    assert weight_bytes(model) <= born(rec, Category.GRADIENTS) <= 2 * weight_bytes(model)


def test_a_model_that_is_made_in_the_block_keeps_weights_and_state():
    with ll.record() as rec:
        model, _x = regularized()
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    kept = {row.key: row.kept_bytes for row in rec.by_category().rows}
    assert kept["weights"] == weight_bytes(model)
    assert 2 * weight_bytes(model) <= kept["optimizer state"] < 2 * weight_bytes(model) + 64
    names = {b.purpose.variable for b in rec.buffers if b.category is Category.OPTIMIZER}
    kernel = model.trainable_variables[0].path
    assert {f"{kernel}/momentum", f"{kernel}/velocity"} <= names


def test_variables_that_only_the_update_reads_are_state_whoever_made_them():
    weight = tf.Variable(tf.ones((32, 16)), name="w")
    slot = tf.Variable(tf.zeros((32, 16)), name="slot")
    other = tf.Variable(tf.zeros((7,)), name="elsewhere")

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weight) ** 2)
        slot.assign(0.9 * slot + tape.gradient(loss, weight))
        weight.assign_sub(0.1 * slot)
        other.assign(other + 1.0)

    x = tf.ones((8, 32))
    step(x)
    with ll.record() as rec:
        step(x)
    of = {b.purpose.variable: b.category for b in rec.buffers if b.purpose.held}
    assert of["slot"] is Category.OPTIMIZER
    assert of["elsewhere"] is Category.OTHER


@pytest.mark.parametrize("graph", [False, True])
def test_variables_of_the_users_are_weights_once_a_gradient_was_taken_of_them(graph):
    x = tf.ones([8, 64])
    with ll.record() as rec:
        module = tf.Module()
        module.w, module.count = tf.Variable(tf.ones([64, 16])), tf.Variable(tf.zeros([300]))

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ module.w)
            module.w.assign_sub(0.1 * tape.gradient(loss, module.w))
            module.count.assign_add(tf.ones([300]))

        tf.function(step)() if graph else step()
    kept = {row.key: row.kept_bytes for row in rec.by_category().rows}
    assert kept["weights"] == 64 * 16 * FLOAT
    assert sum(kept.values()) - kept["weights"] >= 300 * FLOAT  # of which no gradient was taken


@pytest.mark.parametrize("graph", [False, True])
def test_layers_keep_their_names(graph):
    # TensorFlow calls the scope of `conv2d` `conv2d_1` in a graph, which is another layer's name.
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, name="conv2d", activation="relu"),
            layers.Conv2D(5, 3, name="conv2d_1", activation="tanh"),
            layers.UpSampling2D(2, name="blow_up"),
        ]
    )
    x = tf.random.normal((2, 8, 8, 3))
    step = step_of(model, tf.reduce_mean, keras.optimizers.SGD(), graph=graph)
    step(x)
    with ll.record() as rec:
        step(x)
    kept = {
        b.purpose.layer.rpartition("/")[2]: b.nbytes
        for b in rec.buffers
        if b.category is Category.ACTIVATIONS and len(b.shape or ()) == 4 and b.op != "Tile"
    }
    assert kept["conv2d"] == 2 * 6 * 6 * 4 * FLOAT
    assert kept["conv2d_1"] == 2 * 4 * 4 * 5 * FLOAT
    assert {"conv2d", "conv2d_1", "blow_up"} <= {row.key for row in rec.by_layer().rows}
    of_gradients = {b.purpose.layer for b in rec.buffers if b.category is Category.GRADIENTS}
    assert {(name or "").rpartition("/")[2] for name in of_gradients} == {"conv2d", "conv2d_1"}


@pytest.mark.parametrize("graph", [False, True])
def test_modules_and_scopes_of_the_users_are_layers(graph):
    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__(name="net")
            self.weight = tf.Variable(tf.ones((16, 24)), name="w")

        @tf.Module.with_name_scope
        def __call__(self, x: Any) -> Any:
            with tf.name_scope("inner"):
                mean, _ = tf.nn.moments(x, axes=[0])  # opens a scope of TensorFlow's own
                return tf.tanh(tf.matmul(x - mean, self.weight))

    net = Net()

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(net(x))
        gradient = tape.gradient(loss, net.weight)
        net.weight.assign_sub(0.1 * gradient)
        return loss

    run = tf.function(step) if graph else step
    x = tf.ones((8, 16))
    run(x)
    with ll.record() as rec:
        run(x)
    of = {b.purpose.layer for b in rec.buffers if b.op in ("MatMul", "Tanh", "SquaredDifference")}
    assert of <= {"net/inner"} | ({"w"} if graph else set())
    assert "net/inner" in of
    assert born(rec, Category.GRADIENTS) == 16 * 24 * FLOAT


def test_a_graph_of_tensorflow_1_has_categories_and_layers():
    v1 = tf.compat.v1
    rows, inputs, units = 8, 30, 20
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, inputs])
        with v1.variable_scope("hidden"):
            w = v1.get_variable("w", [inputs, units], initializer=v1.ones_initializer())
            b = v1.get_variable("b", [units], initializer=v1.zeros_initializer())
            h = tf.tanh(tf.matmul(x, w) + b)
        loss = tf.reduce_sum(tf.square(h))
        train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session.run(v1.global_variables_initializer())
        feed = {x: np.ones((rows, inputs), np.float32)}
        session.run(train, feed)
        with ll.record() as rec:
            session.run(train, feed)
    found = {row.key: row.allocated_bytes for row in rec.by_category().rows}
    assert found["gradients"] == (inputs + 1) * units * FLOAT
    assert found["activations"] == rows * units * FLOAT
    assert "hidden" in {row.key for row in rec.by_layer().rows}


@pytest.mark.parametrize(("optimizer", "slots"), [("Momentum", 1), ("Adam", 2)])
def test_slots_that_begin_as_a_constant_are_copied_once(optimizer, slots):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("hidden"):
            shape = [60, 20]
            weight = v1.get_variable("w", shape, initializer=v1.random_uniform_initializer(seed=1))
            # Both the bias and its slots begin as a constant: copies of them cannot be told apart.
            bias = v1.get_variable("b", [20], initializer=v1.zeros_initializer())
        loss = tf.reduce_sum(tf.square(tf.matmul(tf.ones([8, 60]), weight) + bias))
        made = v1.train.MomentumOptimizer(0.1, 0.9), v1.train.AdamOptimizer(0.1)
        train = made[slots - 1].minimize(loss)
        with ll.record() as rec:
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train)
    size = 60 * 20 * FLOAT
    kept = {row.key: row.kept_bytes for row in rec.by_category().rows}
    assert (kept["weights"], kept["optimizer state"]) == (size, slots * size)
    assert kept.get("temporaries", 0) < size
    layers_kept = {row.key: row.kept_bytes for row in rec.by_layer().rows}
    assert layers_kept["hidden"] == (1 + slots) * (size + 20 * FLOAT)
    folded = [b for b in rec.buffers if b.kind == FOLDED and b.nbytes == size]
    (constant,) = {(b.op, b.line and b.line.text) for b in folded}
    assert constant == ("Fill", "train = made[slots - 1].minimize(loss)")


def test_what_cannot_be_told_is_other():
    with ll.record() as rec:
        kept = tf.random.normal((100,)) + 1
    del kept
    assert {row.key for row in rec.by_category().rows} == {"other"}


@pytest.mark.slow
@pytest.mark.parametrize("graph", [False, True])
def test_parts_add_up_at_every_moment_and_survive_a_file(graph, tmp_path):
    model, x = attention()
    step = step_of(model, tf.reduce_mean, keras.optimizers.Adam(), graph=graph)
    with ll.record() as rec:
        step(x)
        step(x)
    born_before = np.zeros(len(rec.buffers.times), np.int64)
    for b, died in zip(rec.buffers, rec.buffers.died, strict=True):
        if b.allocated_at is None:
            born_before[died:] += b.nbytes
    live = rec.timeline()[1][1:-1]
    assert np.array_equal(composition.series(rec.buffers).sum(axis=0), live + born_before)
    assert composition.series(rec.buffers).min() >= 0
    for breakdown in (rec.by_category(), rec.by_layer()):
        assert sum(row.allocated_bytes for row in breakdown.rows) == rec.allocated_bytes
        assert sum(row.peak_bytes for row in breakdown.rows) == rec.at_peak().nbytes
    rec.save(tmp_path / "rec.json")
    again = Recording.load(tmp_path / "rec.json")
    assert again.by_category() == rec.by_category()
    assert again.by_layer() == rec.by_layer()
