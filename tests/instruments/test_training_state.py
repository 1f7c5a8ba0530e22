"""A model is left as it was, whatever happens in its step."""

from __future__ import annotations

import array
import collections
import copy
import itertools
import queue
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.training import (
    Category,
    training_memory,
)
from tests.support.trained import WIDTH

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

tf = ll.runtime.tf


class Noise(tf.keras.layers.Layer):
    """Draws from Keras' global generator."""

    def call(self, x):
        return x + 0.01 * tf.keras.random.normal(tf.shape(x))


class FromAMillion(tf.keras.metrics.Metric):
    """A metric that does not begin with 0."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.add_variable((), lambda shape, dtype: tf.fill(shape, 1e6), name="total")

    def update_state(self, y, y_pred, sample_weight=None):
        self.total.assign_add(1.0)

    def result(self):
        return self.total

    def reset_state(self):
        self.total.assign(1e6)


def noisy_model(eagerly: bool) -> object:
    layers = tf.keras.layers
    body = [layers.Dense(16), layers.BatchNormalization(), layers.Dropout(0.5), Noise()]
    model = tf.keras.Sequential([tf.keras.Input([WIDTH]), *body, layers.Dense(1)])
    model.compile("adam", "mse", metrics=[FromAMillion()], run_eagerly=eagerly)
    return model


class Gan(tf.keras.Model):
    """Two models with optimizers of their own, kept in attributes."""

    def __init__(self) -> None:
        super().__init__()
        layers = tf.keras.layers
        self.maker = tf.keras.Sequential([tf.keras.Input([8]), layers.Dense(64)])
        self.judge = tf.keras.Sequential([tf.keras.Input([64]), layers.Dense(1)])
        self.optimizers = {name: tf.keras.optimizers.Adam() for name in ("maker", "judge")}
        self.steps = 0
        self.built = True

    def train_step(self, real):
        self.steps += 1
        with tf.GradientTape(persistent=True) as tape:
            made = self.maker(tf.random.normal((4, 8)))
            good = -tf.reduce_mean(self.judge(made))
            bad = -good - tf.reduce_mean(self.judge(real))
        for name, loss in (("judge", bad), ("maker", good)):
            weights = getattr(self, name).trainable_variables
            self.optimizers[name].apply_gradients(
                zip(tape.gradient(loss, weights), weights, strict=True)
            )
        return {"loss": bad}


def everything(model: object) -> list[object]:
    """List what may not change: variables and what is built, and the next draws of generators."""
    metrics = model._compile_metrics if hasattr(model, "_compile_metrics") else None
    optimizers = [model.optimizer, *getattr(model, "optimizers", {}).values()]
    return [
        *(v.numpy().tolist() for v in model.variables),
        *([v.numpy().tolist() for v in o.variables] for o in optimizers if o is not None),
        *(o.built for o in optimizers if o is not None),
        metrics is not None and metrics.built,
        [v.numpy().tolist() for metric in model.metrics for v in metric.variables],
        getattr(model, "steps", 0),
        model.train_function is None,
        random.getstate(),
        str(np.random.get_state()),  # noqa: NPY002 - the global one
        str(vars(tf.keras.utils)["set_random_seed"]),
    ]


def gan(eagerly: bool) -> Gan:
    model = Gan()
    model.compile(run_eagerly=eagerly)
    for name, optimizer in model.optimizers.items():
        optimizer.build(getattr(model, name).trainable_variables)
    return model


@pytest.fixture(scope="module", autouse=True)
def _no_seed_is_left() -> Iterator[None]:
    """With a seed, each call of a random operation has a kernel of its own, which stays."""
    yield
    tf.random.set_seed(None)


@pytest.mark.each_value
@pytest.mark.parametrize("eagerly", [False, True], ids=["graph", "eager"])
@pytest.mark.parametrize("made", ["noisy", "trained", "gan"])
def test_everything_is_left_as_it_was(batch, made, eagerly):
    tf.keras.utils.set_random_seed(3)
    model = gan(eagerly) if made == "gan" else noisy_model(eagerly)
    data = (np.ones([16, 64], np.float32),) if made == "gan" else batch
    if made == "trained":
        model.fit(*batch, batch_size=64, verbose=0)
    before = everything(model)
    step = training_memory(model, *data)
    assert everything(model) == before
    if made == "gan":
        slots = sum(
            int(np.prod(v.shape)) * v.dtype.itemsize
            if hasattr(v.dtype, "itemsize")
            else v.value.dtype.size * int(np.prod(v.shape))
            for optimizer in model.optimizers.values()
            for v in optimizer.variables
        )
        # The optimizer that compile() made takes no part in the step.
        assert step.series.bytes[Category.OPTIMIZER][0] == slots


@pytest.mark.parametrize(
    "eagerly", [False, pytest.param(True, marks=pytest.mark.further)], ids=["graph", "eager"]
)
def test_training_goes_on_as_if_it_had_never_been_measured(batch, eagerly):
    losses, draws = [], []
    for measured in (False, True):
        tf.keras.utils.set_random_seed(11)
        model = noisy_model(eagerly)
        for _ in range(2):
            if measured:
                training_memory(model, *batch, budget=None)
            history = model.fit(*batch, batch_size=128, epochs=1, verbose=0, shuffle=True)
            losses.append(history.history["loss"])
        draws.append(
            [float(tf.random.normal(())), float(tf.keras.random.uniform(())), random.random()]
        )
    assert losses[:2] == losses[2:]
    assert draws[0] == draws[1]


class Memory:
    """What an agent learns from: each kind of what a step may change."""

    def __init__(self) -> None:
        self.kept = collections.deque([1, 2, 3], maxlen=3)
        self.order = collections.OrderedDict(b=2, a=1)
        self.order.move_to_end("b")
        self.counts = collections.Counter("aab")
        self.by_key = collections.defaultdict(list, a=[1])
        self.items, self.names, self.raw = [1], {"a"}, bytearray(b"a")
        self.waiting = queue.Queue()
        self.draws = np.random.default_rng(1)
        self.old_draws = np.random.RandomState(1)
        self.python_draws = random.Random(1)
        self.names_of = types.SimpleNamespace(k=1, items=[1])
        self.wrapped, self.listed = collections.UserDict(a=1), collections.UserList([1])
        self.chained = collections.ChainMap({"a": 1}, {"b": 2})
        self.numbers = array.array("i", [1])
        self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    def change(self) -> None:
        self.kept.append(4)
        self.order[str(len(self.order))] = 3
        self.order.move_to_end("a")
        self.counts["a"] += 1
        self.by_key["b"].append(1)
        self.items.append(2)
        self.names.add("b")
        self.raw += b"b"
        self.waiting.put(1)
        for draws in (self.draws, self.old_draws, self.python_draws):
            draws.random()
        self.names_of.k += 1
        self.names_of.items.append(2)
        self.wrapped[str(len(self.wrapped))] = 1
        self.listed.append(2)
        self.chained[str(len(self.chained))] = 3
        self.numbers.append(2)
        self.table.insert([str(len(self.numbers))], tf.constant([1], tf.int64))

    def state(self) -> list[object]:
        held = (self.kept, self.items, self.order.items(), self.counts.items())
        old_draws: Any = self.old_draws.get_state(legacy=False)["state"]
        return [
            *map(list, held),
            *(dict(self.by_key), {k: list(v) for k, v in self.by_key.items()}, set(self.names)),
            *(bytes(self.raw), self.waiting.qsize(), self.kept.maxlen),
            *(self.draws.bit_generator.state, old_draws["key"].tolist(), old_draws["pos"]),
            self.python_draws.getstate(),
            *(str(self.names_of), dict(self.wrapped), list(self.listed), dict(self.chained)),
            *(self.numbers.tolist(), int(self.table.size())),
        ]


def test_containers_and_generators_of_the_users_are_set_back():
    memory, weight = Memory(), tf.Variable(tf.ones([8, 4]))

    calls = 0

    class Agent:
        __slots__ = ("latest", "memory", "steps")

        def __init__(self):
            self.memory, self.steps = memory, 1

        def step(self, x):
            nonlocal calls
            calls += 1
            self.steps += 1
            self.latest = calls
            self.memory.change()
            weight.assign_sub(tf.matmul(x, x @ weight, transpose_a=True))

    agent, before = Agent(), copy.deepcopy(memory.state())
    ll.training_memory(agent.step, tf.ones([4, 8]))
    assert memory.state() == before
    assert (agent.steps, hasattr(agent, "latest")) == (1, False)
    ll.training_memory(lambda x: agent.step(x) or calls, tf.ones([4, 8]))
    assert memory.state() == before
    memory.change()  # all of it still works, and is seen to change
    after = memory.state()
    assert [a == b for a, b in zip(before, after, strict=True)].count(True) == 1  # maxlen


def test_what_a_step_closes_over_is_set_back():
    count, seen = 0, []

    def step(x):
        nonlocal count
        count += 1
        seen.append(count)
        return x * 2.0

    ll.training_memory(step, tf.ones([4]))
    assert (count, seen) == (0, [])
    step(tf.ones([4]))
    assert (count, seen) == (1, [1])


def test_what_classes_and_functions_hold_is_set_back():
    class Base:
        steps = 0
        seen = []  # noqa: RUF012 - as people write them

    class Trainer(Base):
        def step(self, x):
            Trainer.steps += 1
            Trainer.latest = Base.seen
            self.seen.append(helper(x))
            return x * 2.0

    def helper(x):
        helper.calls += 1
        return helper.calls

    helper.calls = 0
    trainer, x = Trainer(), tf.ones([4])
    ll.training_memory(trainer.step, x)
    assert (Trainer.steps, Base.seen, helper.calls) == (0, [], 0)
    assert {"steps", "latest"}.isdisjoint(vars(Trainer))
    ll.training_memory(lambda x: (helper(x), trainer.step(x)), x)
    assert (Trainer.steps, Base.seen, helper.calls) == (0, [], 0)
    trainer.step(x)
    assert (Trainer.steps, Base.steps, Base.seen, helper.calls) == (1, 0, [1], 1)


@pytest.mark.parametrize("graph", [False, True])
def test_a_step_that_uses_a_queue_is_refused_before_it_runs(graph):
    queue = tf.queue.FIFOQueue(2, [tf.float32])
    queue.enqueue(tf.ones([3]))

    def step():
        return queue.dequeue() * 2.0

    with pytest.raises(ValueError, match="or uses a queue"):
        ll.training_memory(tf.function(step) if graph else step)
    assert int(queue.size()) == 1


@pytest.mark.parametrize("drawn", [iter([1, 2, 3]), itertools.count(), (i for i in range(3))])
def test_a_step_that_draws_from_an_iterator_is_refused_before_it_runs(drawn):
    def step(x):
        return x * next(drawn)

    with pytest.raises(ValueError, match="draws from an iterator of its own"):
        ll.training_memory(step, tf.ones([4]))
    assert next(drawn) in (0, 1)  # the first is still there


@pytest.mark.parametrize("way", ["function", "method"])
def test_a_traced_function_within_a_step_counts_and_is_set_back(way):
    net, optimizer = tf.Module(), tf.keras.optimizers.Adam()
    net.w = tf.Variable(tf.ones([64, 8]))
    optimizer.build([net.w])
    generator = tf.random.Generator.from_seed(3)

    @tf.function
    def inner(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x + generator.normal(tf.shape(x))) @ net.w)
        optimizer.apply([tape.gradient(loss, net.w)], [net.w])

    class Trainer:
        def step(self, x):
            inner(x)

    def function(x):
        inner(x)

    x = tf.ones([4, 64])
    inner(x)  # traced before it is measured: no variable is asked for its handle any more
    state = [v.numpy().tolist() for v in (net.w, generator.state, *optimizer.variables)]
    memory = ll.training_memory(function if way == "function" else Trainer().step, x)
    assert state == [v.numpy().tolist() for v in (net.w, generator.state, *optimizer.variables)]
    # Adam: two slots, the count of steps (int64) and the learning rate (float32).
    assert memory.categories[Category.WEIGHTS] == 64 * 8 * 4
    assert memory.categories[Category.OPTIMIZER] == 2 * 64 * 8 * 4 + 8 + 4


@pytest.mark.parametrize("way", ["generator", "made within", "traced before"])
def test_variables_first_met_while_a_function_within_the_step_is_traced_are_set_back(way):
    generator, own = tf.random.Generator.from_seed(3), []

    @tf.function
    def shifted(x):
        if way == "made within":
            own[:] = own or [tf.Variable(tf.ones([4, 1]))]
            return x @ own[0].assign_add(tf.ones([4, 1]))
        return x + generator.normal([3, 4])

    def step(x):
        return tf.reduce_sum(shifted(x))

    if way == "traced before":
        step(tf.ones([3, 4]))
    before = generator.state.numpy()
    assert training_memory(step, tf.ones([3, 4])).peak_bytes > 0
    np.testing.assert_array_equal(generator.state.numpy(), before)
    assert own == []


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
