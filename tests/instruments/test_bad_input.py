"""Every public function meets what it cannot use: one clear sentence, and nothing left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from tests.support.state import nothing_left

tf = ll.runtime.tf


def nothing() -> None:
    """Do nothing."""


def needs_one(x: Any) -> Any:
    """Require an argument."""
    return x


def pieces() -> Any:
    """Be a generator."""
    yield 1


async def later() -> None:
    """Be a coroutine."""


class Later:
    """Be called as a coroutine is."""

    async def __call__(self, *given: Any) -> None: ...


def compiled() -> Any:
    """Give a small compiled model."""
    model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def left_half_built() -> Any:
    """Give a model whose first fit failed in the middle, so that Adam's slots have no value."""
    model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    step = model.train_step
    model.train_step = lambda data: step(data)["no such key"]
    with contextlib.suppress(KeyError):
        model.fit(ROWS, ROWS[:, :1], verbose=0)
    model.train_step = step
    return model


def enter(manager: Any) -> None:
    """Use a context manager."""
    with manager:
        pass


ROWS = np.ones([4, 2], np.float32)
SIZES: tuple[Any, ...] = (
    None, "", " ", "MiB", "30", "30 MiBs", "30 megs", "1,5 GB", "-1 MiB", -1, "nan MiB", "inf GiB",
    "∞ GiB", "1e999 MiB", 1.5, True, [], b"1 MiB", "30 MiB of it", 1j,
)  # fmt: skip
FUNCTIONS: tuple[Any, ...] = (None, 3, "step", [], needs_one, later, Later())
COUNTS: tuple[Any, ...] = (None, "3", 2.5, True, -1, [3], np.ones(3))

#: For every public name, calls that cannot work; what is only a result's class has none.
CALLS: dict[str, list[Any]] = {
    "parse_bytes": [lambda s=s: ll.parse_bytes(s) for s in SIZES],
    "format_bytes": [lambda n=n: ll.format_bytes(n) for n in ("3", None, [1], float("nan"))],
    "budget": [lambda s=s: enter(ll.budget(s)) for s in SIZES]
    + [lambda f=f: ll.budget("1 MiB")(f) for f in (None, 3, [], pieces)],
    "record": [lambda n=n: enter(ll.record(n)) for n in (None, 3, [], b"x")],
    "measure": [lambda f=f: ll.measure(f) for f in FUNCTIONS]
    + [lambda n=n: ll.measure(nothing, repeats=n) for n in (*COUNTS, 0)]
    + [lambda n=n: ll.measure(nothing, warmup=n) for n in COUNTS],
    "compare": [lambda f=f: ll.compare(f) for f in (None, 3, [], {}, nothing, {3: nothing})]
    + [lambda f=f: ll.compare({"a": f}) for f in FUNCTIONS]
    + [lambda n=n: ll.compare({"a": nothing}, repeats=n) for n in (*COUNTS, 0)]
    + [lambda r=r: ll.compare({"a": nothing}, rtol=r) for r in ("x", -1, float("nan"))],
    "peak": [lambda f=f: ll.peak(f) for f in (None, 3, "step", [], later, pieces)]
    + [lambda n=n: ll.peak(nothing, repeats=n) for n in (*COUNTS[1:], 0)],
    "in_graph": [lambda f=f: ll.in_graph(f) for f in (None, 3, "step", [])],
    "sweep": [lambda f=f: ll.sweep(f, n=(1, 2)) for f in (None, 3, [], {}, {"a": 3}, {3: nothing})]
    + [lambda v=v: ll.sweep({"a": needs_one}, n=v) for v in (3, "12", (), (1,), ("a", 1), None)]
    + [
        lambda: ll.sweep({"a": needs_one}),
        lambda: ll.sweep({"a": needs_one}, n=(1, 2), m=(1, 2)),
        lambda: ll.sweep({"a": needs_one}, n=(1, 2), quantity="bytes"),
    ],
    "timelines": [lambda r=r: ll.timelines(r) for r in (None, 3, [], {}, {"a": 3})],
    "growth": [lambda f=f: ll.growth(f) for f in (None, 3, "step", [], later)]
    + [lambda n=n: ll.growth(nothing, iterations=n) for n in (*COUNTS, 0, 4)]
    + [lambda n=n: ll.growth(nothing, warmup=n) for n in COUNTS],
    "live_tensors": [lambda r=r: ll.live_tensors(r) for r in (3, "x", [])]
    + [lambda n=n: ll.live_tensors(names=n) for n in COUNTS],
    "trace_report": [lambda f=f: ll.trace_report(f) for f in (None, 3, "f", [], nothing)],
    "count_traces": [lambda f=f: ll.count_traces(f) for f in (None, 3, "f", [], nothing)],
    "op_memory": [lambda f=f: ll.op_memory(f, 1.0) for f in (None, 3, "sin", [], later)],
    "op_atlas": [lambda g=g: ll.op_atlas(g) for g in (3, "no such group", ["shape", 3])],
    "training_memory": [lambda m=m: ll.training_memory(m, ROWS, ROWS) for m in (None, 3, "m")]
    + [lambda f=f: ll.training_memory(f, ROWS) for f in (later, pieces, Later())]
    + [
        lambda: ll.training_memory(left_half_built(), ROWS, ROWS[:, :1]),
        lambda: ll.training_memory(tf.keras.Sequential([tf.keras.layers.Dense(1)]), ROWS, ROWS),
        lambda: ll.training_memory(compiled(), ROWS, ROWS[:2]),
        lambda: ll.training_memory(compiled(), ROWS[:0], ROWS[:0]),
        lambda: ll.training_memory(compiled(), None, ROWS),
        lambda: ll.training_memory(compiled(), ROWS, ROWS, budget="30 MiBs"),
    ],
    "process_memory": [lambda f=f: ll.process_memory(f) for f in FUNCTIONS]
    + [lambda s=s: ll.process_memory(nothing, s) for s in (None, "1", 0, -1, float("nan"), 1e9)],
    "Lesson": [lambda n=n: ll.Lesson(n) for n in (None, 3, "")]
    + [
        lambda: ll.Lesson("x").verdict(1, peaks=1),
        lambda: ll.Lesson("03_loops").verdict(1),
    ],
    "MemoryCallback": [],  # takes no argument; misuse in fit: test_keras_callback.py
    "Recording": [lambda p=p: ll.Recording.load(p) for p in ("no such file", ".", 3, None)],
    "preflight": [],
    "resident_bytes": [],
    "watch_retracing": [],
    "load_ipython_extension": [],
    "unload_ipython_extension": [],
}
RESULTS = {
    "Cause", "Measurement", "MemoryBudgetExceeded", "Peak", "Preflight", "ProcessMemory",
    "ProfileError", "TraceCause", "runtime",
}  # fmt: skip


def test_every_public_name_is_in_the_table() -> None:
    assert set(CALLS) | RESULTS == set(ll.__all__)


CASES = [
    pytest.param(call, id=f"{name} {number}")
    for name, calls in CALLS.items()
    for number, call in enumerate(calls)
]


@pytest.mark.parametrize("call", CASES)
def test_one_clear_sentence_and_nothing_left(
    call: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nothing_left(tmp_path, monkeypatch):
        with pytest.raises((TypeError, ValueError, OSError, AssertionError)) as caught:
            call()
    said = str(caught.value)
    assert "\n" not in said, said
    # What was wrong, then what to do.
    what, _, remedy = said.partition(": ")
    assert len(what) >= 8, said
    assert len(remedy) >= 8, said
    assert len(said) < 300, said
    # It is ours: not from deep inside TensorFlow, Keras or Python's library.
    place = caught.traceback[-1].path
    assert Path(ll.__file__).parent in Path(place).parents, f"{place}: {said}"
