"""Ways of holding tensors, arrays and objects: each with `keep`, and a twin without."""

from __future__ import annotations

import collections
import functools
import queue
import threading
from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from tests.support.growing.unit import Step, Trainer, unit


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
