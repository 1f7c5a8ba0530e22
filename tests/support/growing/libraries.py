"""Native memory, and what libraries hold: each with a flag that makes it grow."""

from __future__ import annotations

import ctypes
import sqlite3
import tempfile
import warnings
import zlib
from typing import Any

import numpy as np

from lessons_lib.common.runtime import tf
from tests.support.growing.unit import Step, Trainer, unit


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


def objects_of_tensors(keep: bool) -> Step:
    kept: list[Any] = []

    def step(i: int) -> None:
        box = np.empty(2, object)
        box[0] = unit(i)
        kept[len(kept) if keep else 0 :] = [box]

    return step
