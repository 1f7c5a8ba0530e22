"""Operations of ``tf.data`` functions get their line where it is certain, and else none.

The bytes tell the operations apart: the profile knows no other difference between two functions.
What is made is called inputs, by the transformation that keeps it.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import pipelines
from lessons_lib.recording.keepers import Keepers
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.segment import Segment

FLOAT = 4
#: A name that no other test's iterator has.
DRAW = "pipelines_draw"


def one(x: Any) -> Any:
    return tf.random.uniform([64, 101], name=DRAW) * tf.cast(x, tf.float32)


def two(x: Any) -> Any:
    return tf.random.uniform([64, 103], name=DRAW) * tf.cast(x, tf.float32)


def wide(x: Any) -> Any:
    flipped = tf.reverse(x, [0], name="pipelines_flip")
    return tf.pad(flipped, [[0, 0], [0, 4]], name="pipelines_pad")


def made(function: Callable[..., Any], parallel: int | None = None) -> Any:
    return tf.data.Dataset.range(3).map(function, num_parallel_calls=parallel)


def lines(recording: Recording, columns: int) -> dict[str | None, set[str | None]]:
    """Give the functions' lines, as numbers within them, by operation."""
    found: dict[str | None, set[str | None]] = {}
    for b in recording.buffers:
        if b.nbytes == 64 * columns * FLOAT and b.allocated_at is not None:
            found.setdefault(b.op, set()).add(None if b.line is None else b.line.text)
    return found


def body(function: Callable[..., Any], number: int = 1) -> set[str | None]:
    return {inspect.getsource(function).splitlines()[number].strip()}


def run(*steps: Callable[[], Any]) -> Recording:
    with record() as recording:
        for step in steps:
            step()
    return recording


@pytest.mark.parametrize("parallel", [None, 2])
def test_operations_of_a_pipeline_have_their_lines(parallel: int | None) -> None:
    data = made(one, parallel)
    found = run(lambda: list(data.map(wide).batch(3).prefetch(1)))
    assert lines(found, 101) == {"RandomUniform": body(one), "ReverseV2": body(wide)}
    assert lines(found, 105) == {"Pad": body(wide, 2)}
    again = iter(data)  # from before the recording
    assert lines(run(lambda: next(again)), 101)["RandomUniform"] == body(one)


def test_pipelines_within_pipelines_and_fits() -> None:
    nested = tf.data.Dataset.range(2).interleave(lambda i: made(one).map(lambda x: x), 2)
    assert lines(run(lambda: list(nested)), 101)["RandomUniform"] == body(one)
    model = tf.keras.Sequential([tf.keras.Input([105]), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    rows = tf.data.Dataset.from_tensors(np.ones((64, 101), np.float32))
    data = rows.map(lambda x: (wide(x), tf.zeros([64, 1])))
    found = lines(run(lambda: model.fit(data, verbose=0)), 101)
    assert found["ReverseV2"] == body(wide)


@tf.function
def taken(iterator: Any) -> Any:
    return next(iterator)


@pytest.mark.parametrize("how", ["iterated", "from before, in a graph", "reduced", "single"])
def test_no_line_is_another_functions(how: str) -> None:
    data, other = made(one), made(two)
    before = iter(data) if how == "from before, in a graph" else None
    reduce = tf.function(lambda: data.reduce(tf.zeros([64, 101]), lambda s, x: s + x))
    step: Callable[[], Any] = {
        "iterated": lambda: list(data),
        "from before, in a graph": lambda: taken(before),
        "reduced": reduce,
        "single": lambda: data.take(1).get_single_element(),
    }[how]
    found = run(lambda: list(other), step)
    for columns, others in ((101, body(two)), (103, body(one))):
        assert lines(found, columns)["RandomUniform"] <= {None, *body(one), *body(two)} - others
    # What only lives, and does not run, takes nobody's line.
    assert lines(run(lambda: list(other)), 103)["RandomUniform"] == (
        {None} if before else body(two)
    )


def test_a_pipeline_is_walked_once_and_only_for_a_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, walked = pipelines._graphs_of, []
    monkeypatch.setattr(pipelines, "_graphs_of", lambda it: (walked.append(id(it)), real(it))[1])
    data = made(one)
    iterators = iter(data), iter(data)
    assert walked == []
    for iterator in iterators:
        assert lines(run(functools.partial(next, iterator)), 101)["RandomUniform"] == body(one)
    assert [walked.count(id(iterator)) for iterator in iterators] == [1, 1]


def test_an_iterator_that_a_graph_makes_is_known_when_it_runs_again() -> None:
    data = made(one)
    first = tf.function(lambda: next(iter(tf.data.Dataset.zip((data, data)))))
    first()
    assert lines(run(first), 101)["RandomUniform"] == body(one)


def test_functions_of_one_line_agree() -> None:
    assert lines(run(lambda: (list(made(one)), list(made(one)))), 101)["RandomUniform"] == body(one)


def test_a_data_pipeline_is_named_by_what_keeps_it() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.ones((32, 250), np.float32))
    data = data.map(lambda x: x * 2, num_parallel_calls=2).shuffle(8).batch(4).prefetch(2)
    with record() as rec:
        for _ in data:
            pass
    assert {row.key for row in rec.by_category().rows} == {"inputs"}

    def large(keeper: str) -> int:
        return sum(b.nbytes for b in rec.buffers if b.purpose.layer == keeper and b.nbytes >= 1000)

    assert large("tf.data Prefetch") == 32 * 250 * FLOAT
    # Elements; the doubled ones may lie in the same memory.
    assert 32 * 250 * FLOAT <= large("tf.data Shuffle") <= 2 * 32 * 250 * FLOAT
    assert "tf.data Shuffle" in {row.key for row in rec.by_layer().rows}


@pytest.mark.parametrize("maps", [1, 2, 3])
def test_what_a_cache_keeps_is_its_own_whoever_made_it(maps: int) -> None:
    data = tf.data.Dataset.range(10)
    for _ in range(maps):
        data = data.map(lambda i: tf.zeros((64, 64)) + tf.cast(tf.reduce_sum(i), tf.float32))
    data = data.cache()
    with record() as rec:
        iterator = iter(data)
        for _ in iterator:
            pass
        del _
    kept = {row.key: row.kept_bytes for row in rec.by_layer().rows}
    caches = [name for name in kept if "Cache" in name]
    assert [kept[name] for name in caches] == [10 * 64 * 64 * FLOAT]


def unadopted() -> Any:
    """Give an array whose place in memory TensorFlow cannot take over: it copies the array."""
    room = np.ones(64 * 64 + 1, np.float32)
    start = int(room.ctypes.data % 64 == 0)
    return room[start : start + 64 * 64].reshape(64, 64)


@pytest.mark.parametrize(
    ("make", "keeper"),
    [
        (unadopted, "Cache"),
        pytest.param(lambda: tf.fill((64, 64), 1.0), "Cache", marks=pytest.mark.further),
        (lambda: tf.fill((64, 64), 1.0), "Shuffle"),
    ],
)
def test_what_a_generator_made_is_its_keepers(make: Any, keeper: str) -> None:
    def generated() -> Iterator[Any]:
        for _ in range(10):
            yield make()

    spec = tf.TensorSpec((64, 64), tf.float32)
    data = tf.data.Dataset.from_generator(generated, output_signature=spec)
    data = data.cache() if "Cache" in keeper else data.shuffle(10)
    options = tf.data.Options()
    # A prefetch that TensorFlow adds would still be at work when the recording ends.
    options.experimental_optimization.inject_prefetch = False
    data = data.with_options(options)
    with record() as rec:
        iterator = iter(data)
        next(iterator) if keeper == "Shuffle" else [None for _ in iterator]
    kept = {row.key: row.kept_bytes for row in rec.by_layer().rows}
    # One element was taken out of the shuffle.  A generator that goes on has a number, int64.
    elements, rest = divmod(kept[f"tf.data {keeper}"], 64 * 64 * FLOAT)
    assert (elements, rest in (0, 8)) == (9 if keeper == "Shuffle" else 10, True)


def test_batches_of_a_parallel_map_are_inputs() -> None:
    # TensorFlow fuses the two, and allocates batches in threads of its own.
    data = tf.data.Dataset.from_tensor_slices(np.ones((32, 250), np.float32))
    data = data.map(lambda x: x * 2, num_parallel_calls=2).batch(4)
    with record() as rec:
        for _ in data:
            pass
    assert {row.key for row in rec.by_category().rows} == {"inputs"}
    batches = {b.purpose.layer for b in rec.buffers if b.nbytes == 4 * 250 * FLOAT}
    assert batches <= {"tf.data MapAndBatch", "tf.data ParallelBatch", "tf.data Batch"}


def square(i: Any) -> Any:
    return tf.fill((64, 64), tf.cast(i * i, tf.float32))


def cube(i: Any) -> Any:
    return tf.fill((64, 64), tf.cast(i * i * i, tf.float32))


KEEPING: dict[str, Callable[[Any], Any]] = {
    "Shuffle": lambda data: data.shuffle(8),
    "Cache": lambda data: data.cache(),
    "Window": lambda data: data.window(8).flat_map(lambda inner: inner),
}


@pytest.mark.parametrize(
    "keepers",
    [
        ("Shuffle", "Cache"),
        pytest.param(("Window", "Shuffle"), marks=pytest.mark.further),
        ("Shuffle",),
    ],
)
def test_pipelines_of_like_names_are_told_apart(keepers: tuple[str, ...]) -> None:
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    ran, made = [], [square, cube]
    with record() as rec:
        for keeper, function in zip(keepers, made, strict=False):
            data = tf.data.Dataset.range(8).map(function, num_parallel_calls=2)
            ran.append(iter(KEEPING[keeper](data).with_options(options)))
            [None for _ in ran[-1]] if "Cache" in keeper else next(ran[-1])
    kept = [b for b in rec.buffers if b.nbytes == 64 * 64 * FLOAT and b.freed_at is None]
    # A shuffle gave one away; a cache and a window keep all.
    expected = {f"tf.data {keeper}": 8 - (keeper == "Shuffle") for keeper in keepers}
    assert Counter(b.purpose.layer for b in kept) == expected


def test_of_pipelines_that_cannot_be_told_apart_no_transformation_is_named() -> None:
    paths = ["Iterator::Root::Shuffle::ParallelMapV2", "Iterator::Root::Window::ParallelMapV2"]

    def named(count: int) -> str | None:
        spans = [(10 * i, 10 * i + 5, path) for i, path in enumerate(paths[:count])]
        return Keepers(Segment(iterators={0: spans})).of_element("Iterator::ParallelMap").layer

    assert [named(count) for count in (2, 1, 0)] == ["tf.data", "tf.data Shuffle", "tf.data"]


ROW = 251 * FLOAT  # no multiple of 16: TensorFlow copies slices whose place is not aligned
ROWS = np.ones((4, 251), np.float32)


def sliced(_: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(ROWS).batch(4)


def looked_up(i: Any) -> Any:
    return tf.data.Dataset.from_tensors(tf.gather(ROWS, [i]))


def drawn(i: Any) -> Any:
    return tf.data.Dataset.from_tensors(tf.fill((4, 251), tf.cast(i, tf.float32)))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (sliced, {"tf.data TensorSlice": 4 * ROW, "tf.data Cache": 2 * 4 * ROW}),
        (looked_up, {"tf.data": 4 * ROW, "tf.data Cache": 2 * ROW}),
        (drawn, {"tf.data Cache": 2 * 4 * ROW}),
    ],
)
def test_constants_of_a_function_are_no_elements_that_a_cache_keeps(
    function: Callable[..., Any], expected: dict[str, int]
) -> None:
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    data = (
        tf.data.Dataset.range(2)
        .interleave(function, 2, num_parallel_calls=2)
        .cache()
        .with_options(options)
    )
    with record() as rec:
        iterator = iter(data)
        for _ in iterator:
            pass
        del _
    kept: Counter[str | None] = Counter()
    for b in rec.buffers:
        if b.freed_at is None and b.nbytes >= ROW:
            kept[b.purpose.layer] += b.nbytes
    assert kept == expected


def test_a_cache_in_a_file_keeps_nothing(tmp_path: Path) -> None:
    data = made(one).cache(str(tmp_path / "elements")).shuffle(3)
    with record() as rec:
        for _ in data:
            pass
    names = {b.purpose.layer for b in rec.buffers if b.nbytes == 64 * 101 * FLOAT}
    assert "tf.data Cache" not in names
    assert "tf.data Shuffle" in names
