"""Steps that grow, each in its own way, and twins that don't: makers, so that each has fresh state.

A maker returns a function of the call's number.  Sizes are small: a kept unit is 16 KiB, a
[64, 64] float32.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import queue
import sqlite3
import tempfile
import threading
import warnings
import zlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lessons_lib.common.runtime import tf

UNIT = 64 * 64 * 4
Step = Callable[[int], Any]


def unit(i: int = 0) -> Any:
    return tf.fill([64, 64], np.float32(i))


# --- the kinds of trouble that people report ---------------------------------------------------


def python_number_in_the_key(wrap: Callable[[int], Any]) -> Step:
    weights, x = tf.Variable(tf.ones([16, 16])), tf.ones([4, 16])

    @tf.function
    def update(x: Any, t: Any) -> Any:
        for _ in range(3):
            x = tf.nn.relu(x @ weights) / (1.0 + tf.cast(t, tf.float32))
        return tf.reduce_sum(x)

    return lambda i: update(x, wrap(i))


def new_shapes(**options: Any) -> Step:
    weights = tf.Variable(tf.ones([16, 16]))
    score = tf.function(lambda tokens: tf.reduce_mean(tokens @ weights), **options)
    return lambda i: score(tf.ones([i + 1, 16]))


def session_loop(*, inside: bool) -> Step:
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        session = v1.Session(graph=graph)
        a, scale = v1.placeholder(tf.float32, [8, 8]), v1.placeholder(tf.float32, [])
        total = tf.reduce_sum(a @ a)
        scaled = total * scale
    feed = np.ones((8, 8), np.float32)

    def step(i: int) -> None:
        with graph.as_default():
            if inside:
                session.run(total * float(i), {a: feed})
            else:
                session.run(scaled, {a: feed, scale: i})

    return step


def small_model() -> Any:
    model = tf.keras.Sequential([tf.keras.Input([32]), tf.keras.layers.Dense(8)])
    model.compile("adam", "mse")
    return model


def model_a_round(*, reuse: bool, clear: bool = False) -> Step:
    x = np.ones([8, 32], np.float32)
    first = small_model()

    def step(_: int) -> None:
        if clear:
            tf.keras.backend.clear_session()
        model = first if reuse else small_model()
        model.fit(x, x[:, :8], verbose=0)

    return step


def appended(record: Callable[[Any, Any], Any]) -> Step:
    weights, x, history = tf.Variable(tf.ones([64, 64])), tf.ones([4, 64]), []

    def step(_: int) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights) ** 2)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(1e-4 * gradient)
        history.append(record(loss, gradient))

    return step


def tape_around_loop(_: int) -> None:
    weights = tf.Variable(tf.ones([64, 64]) / 64)
    with tf.GradientTape() as tape:
        losses = [tf.reduce_mean(tf.tanh(unit() @ weights)) for _ in range(4)]
        total = tf.add_n(losses)
    tape.gradient(total, weights)


def images(n: int) -> Any:
    return tf.data.Dataset.range(n).map(lambda i: tf.fill([64, 64], tf.cast(i, tf.float32)))


def shuffled_iterators(*, keep: bool) -> Step:
    kept: list[Any] = []
    dataset = images(40).shuffle(16)

    def step(_: int) -> None:
        iterator = iter(dataset)
        next(iterator)
        if keep:
            kept.append(iterator)

    return step


def cached_datasets(*, keep: bool) -> Step:
    kept: list[Any] = []

    def step(_: int) -> None:
        dataset = images(16).cache()
        for _element in dataset:
            pass
        if keep:
            kept.append(dataset)

    return step


def filling_cache(*, decoded: bool) -> Step:
    source = tf.data.Dataset.range(1000)
    if not decoded:
        source = source.cache()
    source = source.map(lambda i: tf.fill([64, 64], tf.cast(i, tf.float32)))
    reader = iter(source.cache() if decoded else source)

    def step(_: int) -> None:
        next(reader)

    return step


def variables(*, kept: bool, assigned: bool = False) -> Step:
    owner = tf.Module()
    owner.saved = []
    single = tf.Variable(unit())
    latest: list[Any] = []

    def step(i: int) -> None:
        if assigned:
            single.assign(unit(i))
            return
        variable = tf.Variable(unit(i))
        if kept:
            owner.saved.append(variable)
        latest[:] = [variable]

    return step


def baked_constant(*, traced_each_time: bool) -> Step:
    table = np.random.default_rng(0).random((64, 64), np.float32)
    total = tf.function(lambda x, k: tf.reduce_sum(table * x) + k)
    one = tf.constant(1.0)
    return lambda i: total(one, i if traced_each_time else np.float32(i))


def grown_state(*, fixed: bool) -> Step:
    state = {"buffer": tf.zeros([0, 64])}
    room = tf.Variable(tf.zeros([200, 64]))
    best = tf.function(lambda buffer: tf.reduce_max(buffer))
    best_of = tf.function(lambda size: tf.reduce_max(room[:size]))

    def step(i: int) -> None:
        if fixed:
            room[i].assign(tf.fill([64], np.float32(i)))
            best_of(tf.constant(i + 1))
        else:
            row = tf.fill([1, 64], np.float32(i))
            state["buffer"] = tf.concat([state["buffer"], row], 0)
            best(state["buffer"])

    return step


def distinct_numbers(wrap: Callable[[float], Any]) -> Step:
    def step(i: int) -> None:
        for k in range(200):
            tf.constant(wrap(200.0 * i + k + 0.5))

    return step


def distinct_attributes(i: int) -> None:
    tf.nn.leaky_relu(tf.ones([4]), alpha=0.001 * (i + 1))


def unrolled(_: int) -> None:
    # AutoGraph would warn of a construct that it cannot convert, and pytest keeps what is logged.
    @tf.function(autograph=False)
    def chain(x: Any) -> Any:
        for _ in range(4):
            x = tf.tanh(x)
        return x

    chain(tf.ones([4]))


def predictions(reduce: Callable[[Any], Any]) -> Step:
    x = np.ones([256, 32], np.float32)  # the predictions: 256 × 8 float32, 8 KiB

    class Keep(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[Any] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.kept.append(reduce(self.model.predict_on_batch(x)))

    model, keep = small_model(), Keep()
    return lambda _: model.fit(x[:8], x[:8, :8], verbose=0, callbacks=[keep])


def plain_calls(_: int) -> None:
    for _ in range(50):
        tf.zeros([1])


def traced_calls() -> Step:
    same, x = tf.function(lambda x: x), tf.zeros([6, 7])

    def step(_: int) -> None:
        for _ in range(20):
            same(x)

    return step


def layer_calls() -> Step:
    dense, x = tf.keras.layers.Dense(4), tf.zeros([1, 4])

    def step(_: int) -> None:
        for _ in range(5):
            dense(x)

    return step


# --- ways of holding ---------------------------------------------------------------------------


class Trainer:
    seen: ClassVar[list[Any]] = []

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.saved: list[Any] = []

    def step(self, i: int) -> None:
        loss = unit(i)
        self.saved.append(loss if self.keep else float(loss[0, 0]))


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Net(tf.keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = tf.keras.layers.Dense(4)
        self.outputs_seen: list[Any] = []

    def call(self, x: Any) -> Any:
        return self.dense(x)


def attribute(keep: bool) -> Step:
    return Trainer(keep).step


def class_attribute(keep: bool) -> Step:
    Trainer.seen.clear()

    def step(i: int) -> None:
        if keep:
            Trainer.seen.append(unit(i))
        else:
            unit(i)

    return step


def dictionary(keep: bool) -> Step:
    registry: dict[Any, Any] = {}

    def step(i: int) -> None:
        registry[f"step {i}" if keep else "latest"] = {"gradient": unit(i)}

    return step


def closures(keep: bool) -> Step:
    callbacks: list[Any] = []

    def step(i: int) -> None:
        value = unit(i)
        callbacks[len(callbacks) if keep else 0 :] = [lambda: value]

    return step


def generator(keep: bool) -> Step:
    def produce() -> Any:
        kept: list[Any] = []
        while True:
            kept.append(unit())
            if not keep:
                kept.clear()
            yield

    running = produce()
    return lambda _: next(running)


def memoized(keep: bool) -> Step:
    @functools.lru_cache(maxsize=None if keep else 2)
    def feature(i: int) -> Any:
        return unit(i)

    def step(i: int) -> None:
        feature(i)

    return step


def default_argument(keep: bool) -> Step:
    def remember(i: int, memory: list[Any] = []) -> None:  # noqa: B006 - that is the point
        memory[len(memory) if keep else 0 :] = [unit(i)]

    return lambda i: remember(i)


def thread(keep: bool) -> Step:
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    done: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def worker() -> None:
        mine: list[Any] = []
        while True:
            job = jobs.get()
            mine.append(job)
            if not keep:
                mine.clear()
            del job
            done.put(True)

    threading.Thread(target=worker, daemon=True).start()

    def step(i: int) -> None:
        jobs.put(unit(i))
        done.get()

    return step


def bounded(keep: bool) -> Step:
    recent: collections.deque[Any] = collections.deque(maxlen=1000 if keep else 3)
    return lambda i: recent.append(unit(i))


def slots(keep: bool) -> Step:
    boxes: list[Slotted] = []

    def step(i: int) -> None:
        boxes[len(boxes) if keep else 0 :] = [Slotted(unit(i))]

    return step


def partial(keep: bool) -> Step:
    def append(memory: list[Any], i: int) -> None:
        memory[len(memory) if keep else 0 :] = [unit(i)]

    return functools.partial(append, [])


def exceptions(keep: bool) -> Step:
    errors: list[Exception] = []

    def step(i: int) -> None:
        value = unit(i)
        try:
            raise ValueError(str(value.shape))
        except ValueError as error:
            if keep:
                errors.append(error)

    return step


def tapes(keep: bool) -> Step:
    kept: list[Any] = []

    def step(i: int) -> None:
        x = unit(i)
        with tf.GradientTape() as tape:
            tape.watch(x)
            tf.tanh(x)
        kept[len(kept) if keep else 0 :] = [tape]

    return step


def keras_subclass(keep: bool) -> Step:
    net = Net()
    x = tf.ones([64, 4])

    def step(_: int) -> None:
        output = net(x)
        net.outputs_seen.append(output if keep else float(output[0, 0]))

    return step


def module(keep: bool) -> Step:
    owner = tf.Module()
    owner.states = []

    def step(i: int) -> None:
        owner.states.append(unit(i))
        if not keep:
            del owner.states[:-1]

    return step


def ragged(keep: bool) -> Step:
    kept: list[Any] = []

    def step(_: int) -> None:
        value = tf.RaggedTensor.from_row_lengths(tf.ones([1000]), [400, 600])
        kept[len(kept) if keep else 0 :] = [value]

    return step


def nested(keep: bool) -> Step:
    trainer = Trainer(keep)
    trainer.log = collections.defaultdict(lambda: {"runs": []})  # type: ignore[attr-defined]

    def step(i: int) -> None:
        runs = trainer.log["today"]["runs"]  # type: ignore[attr-defined]
        runs[len(runs) if keep else 0 :] = [(i, [Slotted(unit(i))])]

    return step


def table(keep: bool) -> Step:
    entries = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, tf.zeros([64]))
    return lambda i: entries.insert(tf.constant([i if keep else 0], tf.int64), tf.ones([1, 64]))


def arrays(keep: bool) -> Step:
    log: list[Any] = []

    def step(i: int) -> None:
        value = np.full((64, 64), i, np.float32)
        log.append({"step": i, "prediction": value if keep else float(value.mean())})

    return step


def array_cache(keep: bool) -> Step:
    cache: dict[int, Any] = {}

    def step(i: int) -> None:
        cache[i if keep else 0] = np.full((64, 64), i, np.float32)

    return step


def texts(keep: bool) -> Step:
    lines: list[str] = []

    def step(i: int) -> None:
        lines.append(f"{i} " * 5000 if keep else f"step {i}: fine")

    return step


def objects(keep: bool) -> Step:
    registry: dict[int, Any] = {}

    def step(i: int) -> None:
        trainer = Trainer(keep)
        trainer.myself = trainer  # type: ignore[attr-defined]
        registry[i if keep else 0] = trainer

    return step


def functions(keep: bool) -> Step:
    made: dict[int, Any] = {}
    x = tf.ones([4])

    def step(i: int) -> None:
        made[i if keep else 0] = tf.function(lambda x: tf.reduce_sum(x) * 2.0, autograph=False)
        made[i if keep else 0](x)

    return step


def concrete(keep: bool) -> Step:
    made: list[Any] = []

    def double(x: Any) -> Any:
        return tf.tanh(x) * 2.0

    def step(_: int) -> None:
        traced = tf.function(double, autograph=False)
        made[len(made) if keep else 0 :] = [traced.get_concrete_function(tf.TensorSpec([4]))]

    return step


def sliced_datasets(keep: bool) -> Step:
    datasets: list[Any] = []

    def step(i: int) -> None:
        table = tf.fill([256, 256], np.float32(i))
        dataset = tf.data.Dataset.from_tensor_slices(table).batch(8)
        next(iter(dataset))
        datasets[len(datasets) if keep else 0 :] = [dataset]

    return step


def shared_arrays(keep: bool) -> Step:
    views: list[Any] = []

    def step(i: int) -> None:
        views[len(views) if keep else 0 :] = [np.asarray(unit(i) + 1.0)]

    return step


def rows(keep: bool) -> Step:
    examples: list[Any] = []

    def step(i: int) -> None:
        row = unit(i)[0]  # 256 bytes, which share and pin 16 KiB
        examples.append(row if keep else float(row[0]))

    return step


# --- what looks like growth and is none --------------------------------------------------------


def one_time_step(i: int, store: dict[int, Any]) -> None:
    if i in (8, 9):
        store[i] = tf.ones([256, 256])


def sawtooth() -> Step:
    batch: list[Any] = []

    def step(i: int) -> None:
        batch.append(unit(i))
        if len(batch) == 6:
            batch.clear()

    return step


def fills_up() -> Step:
    memory: dict[int, Any] = {}

    def step(i: int) -> None:
        memory[i % 12] = unit(i)

    return step


def cycles(i: int) -> None:
    holder = Trainer(True)
    holder.step(i)
    holder.myself = holder  # type: ignore[attr-defined]


def failing_quietly(_: int) -> None:
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        tf.ones([2, 3]) @ tf.ones([2, 3])


def log_of_numbers() -> Step:
    history: list[Any] = []
    return lambda i: history.append({"loss": float(i), "text": f"step {i}", "pair": (i, 2.0 * i)})


# --- native memory, and what libraries hold ----------------------------------------------------


def interpreters(keep: bool) -> Step:
    weights = np.ones((64, 64), np.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])  # type: ignore[untyped-decorator]
    def score(x: Any) -> Any:
        return x @ tf.constant(weights)

    concrete = score.get_concrete_function()
    model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], score).convert()
    by_request: dict[int, Any] = {}

    def step(i: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated, and part of TensorFlow all the same
            interpreter = tf.lite.Interpreter(model_content=model)
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], [256, 64])
        interpreter.allocate_tensors()
        by_request[i if keep else 0] = interpreter

    return step


def databases(keep: bool) -> Step:
    opened: dict[int, Any] = {}

    def step(i: int) -> None:
        if not keep and opened:
            opened[0].close()
        base = opened[i if keep else 0] = sqlite3.connect(":memory:")
        base.execute("create table words (word text)")
        base.executemany("insert into words values (?)", [("x" * 100,)] * 1000)

    return step


def compressors(keep: bool) -> Step:
    streams: list[Any] = []

    def step(_: int) -> None:
        streams[len(streams) if keep else 0 :] = [zlib.compressobj(9)]

    return step


def lost_native_memory(keep: bool) -> Step:
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]

    def step(_: int) -> None:
        address = library.malloc(50_000)
        ctypes.memset(address, 1, 50_000)
        if not keep:
            library.free(address)

    return step


class Words(tf.Module):  # type: ignore[misc]
    """A model with a lookup table of 2,000 words, if it has one at all."""

    def __init__(self, table: bool) -> None:
        super().__init__()
        words = tf.strings.as_string(tf.range(2000))
        values = tf.lookup.KeyValueTensorInitializer(words, tf.range(2000))
        self.table = tf.lookup.StaticHashTable(values, -1) if table else None

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)  # type: ignore[untyped-decorator]
    def number(self, word: Any) -> Any:
        return tf.strings.length(word) if self.table is None else self.table.lookup(word)


def reloaded(table: bool) -> Step:
    folder = tempfile.TemporaryDirectory()
    tf.saved_model.save(Words(table), folder.name)
    word = tf.constant("7")

    def step(_: int) -> None:
        tf.saved_model.load(folder.name).number(word)

    step.folder = folder  # type: ignore[attr-defined]
    return step


def made_tables(keep: bool) -> Step:
    """Make a table and drop it; TensorFlow keeps those that have a name."""
    keys = tf.range(2000)

    def step(_: int) -> None:
        values = tf.lookup.KeyValueTensorInitializer(keys, keys)
        tf.lookup.StaticHashTable(values, -1, experimental_is_anonymous=not keep)

    return step


def net_called_on_new_inputs(anew: bool) -> Step:
    entry = tf.keras.Input((8,))
    net = tf.keras.Model(entry, tf.keras.layers.Dense(4)(entry))

    def step(_: int) -> None:
        net(tf.keras.Input((8,)) if anew else tf.ones([1, 8]))

    return step


def layer_called_on_new_inputs(anew: bool) -> Step:
    shared, entry = tf.keras.layers.Dense(4), tf.keras.Input((8,))
    shared(entry)
    return lambda _: shared(tf.keras.Input((8,)) if anew else tf.ones([1, 8]))


class Link:
    """Holds the one before."""

    def __init__(self, before: Link | None, i: int) -> None:
        self.before = before
        self.entries = [[i] for _ in range(50)]


def linked(keep: bool) -> Step:
    run = Trainer(True)

    def step(i: int) -> None:
        run.saved[:] = [Link(run.saved[0] if keep and run.saved else None, i)]

    return step


def library_objects(keep: bool) -> Step:
    specs: list[Any] = []

    def step(i: int) -> None:
        specs[len(specs) if keep else 0 :] = [tf.TensorSpec([i], name=f"input_{i}")]

    return step


def saved_datasets(saved: bool) -> Step:
    folder = tempfile.TemporaryDirectory()

    def step(i: int) -> None:
        dataset = tf.data.Dataset.from_tensor_slices(np.full((64, 64), i, np.float32)).batch(16)
        if saved:
            dataset.save(f"{folder.name}/{i}")

    step.folder = folder  # type: ignore[attr-defined]
    return step


def tensors_of_arrays(keep: bool) -> Step:
    history: list[Any] = []

    def step(i: int) -> None:
        # TensorFlow adopts NumPy's memory when it happens to lie as it needs it.
        history[len(history) if keep else 0 :] = [tf.constant(np.full((64, 64), i, np.float32))]

    return step


def variables_of_arrays(keep: bool) -> Step:
    history: list[Any] = []

    def step(i: int) -> None:
        history[len(history) if keep else 0 :] = [tf.Variable(np.full((64, 64), i, np.float32))]

    return step


def replaced_sets(keep: bool) -> Step:
    registry: dict[str, Any] = {"seen": set()}

    def step(i: int) -> None:
        registry["seen"] = {f"{i}-{k}" for k in range(100)} | (registry["seen"] if keep else set())

    return step


def one_operation(anew: bool) -> Step:
    graph = tf.Graph()

    def step(_: int) -> None:
        with graph.as_default():
            if anew:
                tf.no_op()

    return step


def scalars(keep: bool) -> Step:
    x, losses = tf.ones([8]), []
    return lambda _: losses.append(tf.reduce_sum(x) if keep else 1.0)


def objects_of_tensors(keep: bool) -> Step:
    kept: list[Any] = []

    def step(i: int) -> None:
        box = np.empty(2, object)
        box[0] = unit(i)
        kept[len(kept) if keep else 0 :] = [box]

    return step
