"""`growth`: does memory grow from call to call, by how much, and why.

It calls a step again and again, reads counters after each call, and names what rises steadily.
Nothing is left changed: the garbage collector, tracemalloc and the step's objects are as they
would be without it, also after an error.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from lessons_lib.common import runtime, system
from lessons_lib.common.arguments import check_count, check_function
from lessons_lib.common.heap_baseline import Fence
from lessons_lib.common.internals import cache_cleaners
from lessons_lib.instruments.growth.causes import Finding, Held
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.leftovers import (
    FEW_FRAMES,
    FRAMES,
    Observation,
    description,
    measured,
    observe,
)
from lessons_lib.instruments.growth.notes import remarks
from lessons_lib.instruments.growth.result import BLIND, Growth
from lessons_lib.instruments.growth.rules import (
    CACHE_FLOOR,
    CacheTest,
    judge,
    leaves_to_find,
    needs_look,
)
from lessons_lib.instruments.growth.sampler import Sampler, allocator_bytes
from lessons_lib.instruments.holders.object_types import Kind, tensor_bytes
from lessons_lib.instruments.holders.search import who_holds

_TEST_CALLS: Final = 3
_SUSPECTS: Final = 5


class _Steps:
    """Calls the step with its next number and drops what it returns."""

    def __init__(self, step: Callable[..., Any], numbered: bool) -> None:
        self.step = step
        self.numbered = numbered
        self.number = 0

    def __call__(self) -> None:
        if self.numbered:
            self.step(self.number)
        else:
            self.step()
        self.number += 1


def growth(step: Callable[..., Any], iterations: int = 30, warmup: int = 3) -> Growth:
    """Call a step repeatedly and name the reason why memory grows, if it does.

    Parameters
    ----------
    step : callable
        Called as ``step()``, or as ``step(i)`` with i = 0, 1, 2, … if it requires an argument.
        What it returns is dropped: keep what your program would keep.
    iterations : int
        How many calls are measured, at least 5.
    warmup : int
        Calls before these, at least 0: traces, optimizer slots and buffers are made there.

    Returns
    -------
    Growth
        Its `cause` is a `Cause`; ``Cause.NONE`` when nothing grows, also when something grew once
        or reached a plateau (`notes` then says so).

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used.
    RuntimeError
        In a process that was forked after TensorFlow was loaded.

    Notes
    -----
    When something grows, the step is called a few more times (up to eight) to find out what
    holds it.  Python's garbage is collected after each call.  Python's heap is watched with
    tracemalloc, which slows Python code down.

    Not seen: memory of C++ code that no counter reports, memory on other devices than the CPU,
    the characters of string tensors, and what only begins to grow later.

    Examples
    --------
    >>> history = []
    >>> ll.growth(lambda: history.append(tf.ones([256, 256])))
    <Growth of <lambda>: retained tensors, 256 KiB per call; history (list) → tf.Tensor>
    """
    runtime.require_home_process()
    iterations = check_count(iterations, "iterations", 5)
    warmup = check_count(warmup, "warmup", 0)
    call = _Steps(step, takes_number(step))
    label = str(getattr(step, "__name__", type(step).__name__))
    tracing = tracemalloc.is_tracing()
    gc.collect()
    everything = gc.get_objects()
    fence = Fence()
    fence.move()
    try:
        if not tracing:
            tracemalloc.start(1)
        sampler = Sampler(fence, warmup + iterations + 1, everything)
        everything.clear()
        sampler.read()
        for number in range(warmup + iterations):
            call()
            sampler.read()
            if number == warmup:
                sampler.remember_graphs()
        evidence = sampler.evidence(warmup)
        waiting = float(sampler.waiting[warmup + 1 :].mean())
        seen, extra = Observation(), list[str]()
        suspects: tuple[Held, ...] = ()
        if needs_look(evidence):
            tracemalloc_off(tracing)  # it makes every search slow
            suspects = _suspects(sampler, evidence, step)
        del sampler
        if needs_look(evidence):
            seen, extra = _look(call, step, fence, evidence, may_trace=not tracing)
        cache = CacheTest()
        if _unexplained(evidence):
            tracemalloc_off(tracing)
            cache, said = empty_caches(call)
            extra += said
    finally:
        everything.clear()
        fence.lift()
        tracemalloc_off(tracing)
    causes = judge(evidence, replace(seen, suspects=suspects), cache)
    notes = (*remarks(evidence, causes, waiting), *seen.notes, *extra, BLIND)
    return Growth(label, iterations, warmup, causes, evidence, notes)


def tracemalloc_off(was_tracing: bool) -> None:
    """Stop tracemalloc unless the program itself had started it."""
    if not was_tracing and tracemalloc.is_tracing():
        tracemalloc.stop()


def _look(
    call: _Steps, step: Callable[..., Any], fence: Fence, evidence: Evidence, *, may_trace: bool
) -> tuple[Observation, list[str]]:
    try:
        leaves = leaves_to_find(evidence)
        frames = FEW_FRAMES if evidence.graphs.grows else FRAMES
        seen = observe(call, step, fence, may_trace=may_trace, leaves=leaves, frames=frames)
        return seen, []
    except Exception as error:
        # The measured calls went well; a step that runs out of data must not spoil the answer.
        text = f"The holders could not be searched: call {call.number} raised "
        return Observation(), [f"{text}{type(error).__name__}."]


def _suspects(sampler: Sampler, evidence: Evidence, step: Callable[..., Any]) -> tuple[Held, ...]:
    """Name what is alive all the time and may be what grows, such as a graph or a dataset."""
    things: list[Any] = sampler.living(Kind.TABLE) if evidence.table_entries.grows else []
    things += sampler.grown_graphs() if evidence.graph_ops.grows else []
    if evidence.hidden_bytes.grows and not evidence.datasets.grows:
        things += sampler.living(Kind.ITERATOR, Kind.DATASET)
    if evidence.variable_bytes.grows and not evidence.variables.grows:
        things += [v for v in sampler.living(Kind.VARIABLE) if not v.shape.is_fully_defined()]
    if evidence.live_tensor_bytes.grows and not evidence.live_tensors.grows:
        things += sorted(sampler.living(Kind.TENSOR), key=tensor_bytes)[:-3:-1]
    del things[_SUSPECTS:]
    if not things:
        return ()
    sampler.fence.lift()
    chains = who_holds(things, sampler.kinds, step=step, ignore=[things])
    sampler.fence.move()
    held = []
    for thing in things:
        kind = sampler.kinds.of(thing)
        what, sizes = description(thing, kind), measured(thing, kind)
        held.append(Held(what, *sizes, 0.0, None, chains[id(thing)]))
    things.clear()
    # Helpers of Keras and TensorFlow that nobody named come last.
    return tuple(sorted(held, key=lambda h: len(h.chain) < 2 and "(" not in h.chain[0]))


def _unexplained(evidence: Evidence) -> bool:
    """Tell whether the C heap grows without functions, graphs or datasets to explain it."""
    explained = (
        evidence.functions,
        evidence.concrete_functions,
        evidence.graphs,
        evidence.graph_ops,
        evidence.datasets,
        evidence.variables,
    )
    if any(series.grows for series in explained):
        return False
    heap, python = evidence.c_heap, evidence.python_heap
    return heap.grows and heap.slope - max(0.0, python.slope) > CACHE_FLOOR


def empty_caches(call: Callable[[], None]) -> tuple[CacheTest, list[str]]:
    """Empty the eager runtime's caches after a few calls and see what that gives back."""

    def heap() -> float:
        gc.collect()
        tensors = allocator_bytes()
        return float(system.c_heap_bytes() or 0) + (0.0 if tensors != tensors else tensors)

    for name, empty in cache_cleaners():

        def given_back(calls: int, empty: Callable[[], None] = empty) -> float:
            for _ in range(calls):
                call()
            full = heap()
            empty()
            return full - heap()

        try:
            # What one call fills again after emptying is no growth: what more calls add to it is.
            empty()
            before = heap()
            once = given_back(1)
            grown = given_back(1 + _TEST_CALLS) - once
        except Exception as error:
            return CacheTest(), [f"The caches could not be tested: {type(error).__name__}."]
        left = heap() - before
        if grown > 0 and grown >= left:
            said = (
                ["The kernel cache was emptied, which restarts the counters of stateful random "
                 "operations."]
                if name == "kernel"
                else []
            )  # fmt: skip
            return CacheTest(name, grown / (grown + max(0.0, left)), grown / _TEST_CALLS), said
    return CacheTest(), []


def takes_number(step: Callable[..., Any]) -> bool:
    """Tell whether a step requires an argument.

    Raises
    ------
    TypeError
        If it cannot be called with none or one.
    """
    return check_function(step, "growth", most=1) == 1


__all__ = ["Finding", "growth"]
