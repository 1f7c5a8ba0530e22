"""Training steps by category and layer: what shapes say is what a recording says, to the byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.recording import Recording
from tests.support.cases import or_further

pytestmark = pytest.mark.slow

tf = ll.runtime.tf
keras = tf.keras
layers = tf.keras.layers

FLOAT = 4
BATCH = 4
#: Shapes, axes and scalars are smaller; all tensors of the networks' data are as large or larger.
SMALL = 64

Sizes = dict[str, int]


class Net(NamedTuple):
    """A model, its input, and the bytes that each layer saves for the backward pass."""

    model: Any
    x: Any
    saved_eager: Sizes
    saved_graph: Sizes
    #: How many gradients a layer's weights get in a graph.
    sums: dict[str, int] = {}  # noqa: RUF012 - a constant
    #: What may be freed a moment later in a graph, by another thread.
    late: Sizes = {}  # noqa: RUF012 - a constant


def convolution() -> Net:
    body = [
        layers.Conv2D(5, 3, name="conv"),
        layers.ReLU(name="relu"),
        layers.MaxPooling2D(name="pool"),
        layers.Flatten(),
        layers.Dense(7, name="head"),
    ]
    # The loss squares the output; a convolution's own output is rectified in place, or freed.
    saved = {
        "relu": BATCH * 8 * 8 * 5 * FLOAT,
        "pool": BATCH * 4 * 4 * 5 * FLOAT,
        "head": BATCH * 7 * FLOAT,
    }
    model = keras.Sequential([keras.Input((10, 10, 3)), *body])
    return Net(model, tf.ones((BATCH, 10, 10, 3)), saved, saved)


def transformer() -> Net:
    length, width, heads, size, wide = 6, 16, 2, 8, 24
    x = keras.Input((length, width))
    attention = layers.MultiHeadAttention(heads, size, name="attention")
    normalized = layers.LayerNormalization(name="norm")(x + attention(x, x))
    model = keras.Model(x, layers.Dense(wide, "tanh", name="dense")(normalized), name="block")
    rows = BATCH * length * FLOAT
    data, vectors, scores, one = width * rows, heads * size * rows, heads * length * rows, rows
    graph = {
        **{f"attention/{name}": vectors for name in ("query", "key", "value")},
        "attention": scores + vectors,  # after the softmax; the values' means
        "attention/attention_output": data,  # the residual is added in place
        # Mean, -mean, and the root's inverse in the variance's place; that times gamma, and the
        # output, which is a sum of two products in the place of one of them.
        "norm": 3 * one + 2 * data,
        "dense": wide * rows,  # bias and tanh in place
    }
    eager = {
        # A tape also holds what it needs no more than the shape of.
        **{name: 2 * vectors for name in graph if name.count("/") and "output" not in name},
        "attention": 2 * scores + vectors,
        "attention/attention_output": data,
        "block": data,
        "norm": 4 * one + 6 * data,
        "dense": 2 * wide * rows,
    }
    return Net(model, tf.ones((BATCH, length, width)), eager, graph)


def lstm() -> Net:
    steps, inputs, units = 5, 12, 9
    state = BATCH * units * FLOAT
    model = keras.Sequential(
        [
            keras.Input((steps, inputs)),
            layers.LSTM(units, name="lstm"),
            layers.Dense(7, name="head"),
        ]
    )
    head = BATCH * 7 * FLOAT
    # Four gates, c, h and tanh(c).  The last c is needed no more and gives its place to its tanh;
    # the last h is copied out of the loop.
    graph = {"lstm/lstm_cell": (steps * 7 - 2) * state, "lstm": state, "head": head}
    # Keras runs the cell once before the loop.  Each run: two products for the four gates, the
    # logits of three gates, four gates, two products, tanh(c); h of each step, and c but the last.
    run = 2 * 4 + 3 + 4 + 2 + 1
    eager = {
        "lstm/lstm_cell": ((steps + 1) * run + steps + steps - 1) * state,
        "lstm": 2 * state + steps * BATCH * inputs * FLOAT,  # first states; the input, by steps
        "head": head,
    }
    # A loop adds its steps' gradients up, from zeros.
    sums = {"lstm/lstm_cell": steps + 1}
    return Net(
        model, tf.ones((BATCH, steps, inputs)), eager, graph, sums, {"lstm/lstm_cell": state}
    )


#: An optimizer; how many slots it assigns anew; and how many tensors of a weight's size Keras'
#: formulas make besides: lr·g; m·momentum and lr·g; and for Adam (g-m)·(1-b1), (g²-v)·(1-b2),
#: m·alpha / (sqrt(v) + epsilon).
OPTIMIZERS = {
    "sgd": (lambda: keras.optimizers.SGD(), 0, 1),
    "momentum": (lambda: keras.optimizers.SGD(momentum=0.9), 1, 2),
    "adam": (lambda: keras.optimizers.Adam(), 0, 2 + 3 + 4),
}
COUNTER = 8


def nbytes(variable: Any) -> int:
    return int(np.prod(variable.shape)) * FLOAT


def recorded(net: Net, optimizer: Any, *, graph: bool) -> Recording:
    model = net.model

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(net.x, training=True)))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    run = tf.function(step) if graph else step
    run()
    with ll.record() as rec:
        run()
    assert rec.exact
    return rec


def short(net: Net, layer: str | None) -> str:
    return (layer or "").removeprefix(f"{net.model.name}/")


def by_layer(net: Net, rec: Recording, category: Category) -> Sizes:
    found: Counter[str] = Counter()
    for b in rec.buffers:
        copied = (b.op or "").startswith("Assign")  # as something reads the old value still
        if b.category is category and b.allocated_at is not None and not copied:
            found[short(net, b.purpose.layer)] += b.nbytes
    return dict(found)


def saved(net: Net, rec: Recording) -> Sizes:
    """Give the layers' activations that are alive when the last layer has made its own."""
    born, died = rec.buffers.born, rec.buffers.died
    large = {
        i: short(net, b.purpose.layer)
        for i, b in enumerate(rec.buffers)
        if b.category is Category.ACTIVATIONS and b.purpose.layer and b.nbytes > SMALL
    }
    end = max(born[i] for i, layer in large.items() if layer == net.model.layers[-1].name)
    found: Counter[str] = Counter()
    for i, layer in large.items():
        if born[i] <= end and not 0 <= died[i] <= end:
            found[layer] += rec.buffers[i].nbytes
    return dict(found)


@pytest.mark.each_value
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", [convolution, transformer, lstm])
def test_a_step_is_what_shapes_say(make: Callable[[], Net], optimizer: str, graph: bool) -> None:
    net = make()
    make_optimizer, slots, temporaries = OPTIMIZERS[optimizer]
    rec = recorded(net, make_optimizer(), graph=graph)
    weights: Counter[str] = Counter()
    for variable in net.model.trainable_variables:
        weights[short(net, variable.path.rpartition("/")[0])] += nbytes(variable)

    found, expected = saved(net, rec), net.saved_graph if graph else net.saved_eager
    for layer, size in net.late.items() if graph else ():
        found[layer] -= size * (found[layer] == expected[layer] + size)
    assert found == expected
    sums = net.sums if graph else {}
    gradients = {layer: size * sums.get(layer, 1) for layer, size in weights.items()}
    assert by_layer(net, rec, Category.GRADIENTS) == gradients
    state = {layer: slots * size for layer, size in weights.items() if slots}
    assert by_layer(net, rec, Category.OPTIMIZER) == {**state, "": COUNTER}
    own = {
        (b.op, b.category)
        for b in rec.buffers
        if graph and b.allocated_at is not None and b.kind is None
    }
    assert own <= {("BiasAddGrad", Category.TEMPORARIES)}  # what kernels allocate without a word
    if not graph:  # what a graph computes in place depends on what is ready first
        update = sum(
            b.nbytes
            for b in rec.buffers
            if b.category is Category.TEMPORARIES and b.purpose.phase is Phase.UPDATE and b.shape
        )
        assert update == temporaries * weights.total()

    rows = {row.key: row for row in rec.by_category().rows}
    assert rows["gradients"].allocated_bytes == sum(gradients.values())
    if not graph:
        assert rows["optimizer state"].kept_bytes == slots * weights.total() + COUNTER
    for breakdown in (rec.by_category(), rec.by_layer()):
        assert sum(row.allocated_bytes for row in breakdown.rows) == rec.allocated_bytes
        assert sum(row.peak_bytes for row in breakdown.rows) == rec.at_peak().nbytes
        assert sum(row.kept_bytes for row in breakdown.rows) == sum(
            b.nbytes for b in rec.buffers if b.allocated_at is not None and b.freed_at is None
        )


def test_what_recompute_grad_keeps_in_eager_mode_are_activations():
    weights = [tf.Variable(tf.random.normal((32, 32))) for _ in range(3)]

    @tf.recompute_grad
    def block(h: Any, w: Any) -> Any:
        return tf.tanh(tf.matmul(h, w)) * 2.0

    h = tf.random.normal((64, 32))
    with ll.record() as rec:
        with tf.GradientTape() as tape:
            for weight in weights:
                h = block(h, weight)
            loss = tf.reduce_sum(h)
        tape.gradient(loss, weights)
    activations = [b.nbytes for b in rec.buffers if b.category is Category.ACTIVATIONS]
    # Each block's output is kept, which the next one is computed from anew, and so is the last.
    assert [n for n in activations if n > 64] == [64 * 32 * FLOAT] * 3


CLIPPED: dict[str, Callable[[Any], Any]] = {
    "by norm": lambda g: [tf.clip_by_norm(tf.convert_to_tensor(v), 1.0) for v in g],
    "by all norms": lambda g: tf.clip_by_global_norm(g, 1.0)[0],
    "not": lambda g: g,
}


@pytest.mark.parametrize("how", or_further(CLIPPED, {"by norm"}))
def test_what_clipping_makes_of_a_gradient_is_its_layers(how: str) -> None:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Embedding(50, 7, name="emb"), layers.Dense(11, name="a"), layers.Dense(3, name="b")]
    )
    x = tf.ones([2, 5], tf.int32)
    model(x)
    optimizer = tf.keras.optimizers.Adagrad()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(CLIPPED[how](gradients), model.trainable_variables)

    step(x)
    with ll.record() as rec:
        step(x)
    kernels = {(7, 11): "a", (11,): "a", (11, 3): "b", (3,): "b"}
    found = [
        (b.shape, (b.purpose.layer or "").rpartition("/")[2])
        for b in rec.buffers
        if b.category is Category.GRADIENTS and b.shape in kernels
    ]
    assert {shape for shape, _ in found} == set(kernels)
    assert found == [(shape, kernels[shape]) for shape, _ in found]


@pytest.mark.parametrize("nested", [False, True])
def test_joined_gradients_of_a_table_are_gradients_also_in_a_function_of_a_function(nested):
    table = tf.Variable(tf.ones((20, 8)))

    def step(rows):
        with tf.GradientTape() as tape:
            joined = tf.concat([tf.gather(table, rows), tf.gather(table, rows + 1)], axis=1)
            loss = tf.reduce_sum(tf.square(joined))
        table.scatter_sub(tape.gradient(loss, table))

    inner = tf.function(step)
    run = tf.function(lambda rows: inner(rows)) if nested else inner
    rows = tf.range(2)
    run(rows)
    with ll.record() as rec:
        run(rows)
    found = {
        (b.shape, b.category, b.purpose.phase)
        for b in rec.buffers
        if b.op == "ConcatV2" and b.dtype == "float32"
    }
    assert found == {
        ((2, 16), Category.ACTIVATIONS, Phase.FORWARD),
        ((4, 8), Category.GRADIENTS, Phase.BACKWARD),
    }
