"""`growth`: does memory grow from call to call, by how much, and why.

It calls a step again and again, reads counters after each call, and names what rises steadily.
Nothing is left changed: the garbage collector, tracemalloc and the step's objects are as they
would be without it, also after an error.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import partial
from typing import Any, Final

from lessons_lib.common import runtime
from lessons_lib.common.arguments import check_count, check_function
from lessons_lib.common.gc_control import HeapBaseline, collects_by_itself
from lessons_lib.instruments.growth.cache_test import empty_caches
from lessons_lib.instruments.growth.case import CacheTest
from lessons_lib.instruments.growth.causes import Finding, Retained
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.groups import description, measured
from lessons_lib.instruments.growth.hidden import hidden_bytes
from lessons_lib.instruments.growth.leftovers import (
    FEW_FRAMES,
    FRAMES,
    ObservationPlan,
    is_quick,
    observe,
)
from lessons_lib.instruments.growth.notes import run_notes
from lessons_lib.instruments.growth.observation import HiddenBytes, Observation
from lessons_lib.instruments.growth.result import BLIND, Growth
from lessons_lib.instruments.growth.rules import judge
from lessons_lib.instruments.growth.sampler import Sampler
from lessons_lib.instruments.growth.tensor_cost import tensor_cost
from lessons_lib.instruments.growth.triggers import (
    calls_per_rise,
    leaves_to_find,
    may_be_cache,
    may_hide_tensors,
    needs_look,
)
from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.names import type_name
from lessons_lib.instruments.holders.object_types import Kind, tensor_bytes
from lessons_lib.instruments.holders.search import who_holds
from lessons_lib.recording.recorder import is_recording

_RECORDED: Final = (
    "A recording is open, and what its profiler notes of each call lies in the C heap: native "
    "memory and the resident set were not judged. Call growth outside of the recording for these."
)
_SUSPECTS: Final = 5
_SUSPECTS_SHARE: Final = 0.3  # of the search's time: what the calls leave behind matters more


class _Steps:
    """Calls the step with its next number and drops what it returns."""

    def __init__(self, step: Callable[..., Any], numbered: bool) -> None:
        self.step = step
        self.numbered = numbered
        self.number = 0
        self.seconds = float("inf")  # of this thread, in the quickest call

    def times(self, several: int) -> Callable[[], None]:
        """Give what calls the step several times."""

        def calls() -> None:
            for _ in range(several):
                self()

        return calls

    def __call__(self) -> None:
        start = time.thread_time()
        if self.numbered:
            self.step(self.number)
        else:
            self.step()
        self.number += 1
        self.seconds = min(self.seconds, time.thread_time() - start)


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
    When something grows, the step is called up to 16 times more to find out what holds it, three of
    them with tracemalloc if they are quick; up to 28 times if a data pipeline is alive, and up to
    eight times as often if it only grows at every eighth call.  The search for holders takes 10 s
    at most.  Garbage is collected after each call, unless the program has switched that off.  See
    `BLIND` for what is not seen.

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
    baseline, budget, recorded = HeapBaseline(), SearchBudget(), is_recording()
    try:
        sampler = _measured(call, baseline, warmup, iterations, native=not recorded)
        evidence = sampler.evidence(warmup)
        waiting = float(sampler.waiting[warmup + 1 :].mean())
        seen, cache, extra = _explained(call, sampler, evidence, budget)
        del sampler
    finally:
        baseline.lift()
        budget.close()
    causes = judge(evidence, seen, cache)
    notes = (*run_notes(evidence, seen, causes, waiting), *extra, BLIND)
    label = str(getattr(step, "__name__", type(step).__name__))
    if recorded:
        notes = (_RECORDED, *notes)
    return Growth(label, iterations, warmup, causes, evidence, notes)


def _measured(
    call: _Steps, baseline: HeapBaseline, warmup: int, iterations: int, *, native: bool
) -> Sampler:
    """Call the step, and read everything before the first call and after each."""
    gc.collect()
    everything = gc.get_objects()
    baseline.move()
    collect = collects_by_itself()
    readings = warmup + iterations + 1
    sampler = Sampler(baseline, readings, everything, collect=collect, native=native)
    everything.clear()  # before a call that may raise, and whose traceback would keep it
    sampler.read()
    for number in range(warmup + iterations):
        call()
        sampler.read()
        if number == warmup:
            sampler.remember_sizes()
    return sampler


def _explained(
    call: _Steps, sampler: Sampler, evidence: Evidence, budget: SearchBudget
) -> tuple[Observation, CacheTest, list[str]]:
    """Find out what grows and who holds it, in a few more calls; nothing when nothing grows."""
    if not needs_look(evidence):
        return Observation(), CacheTest(), []
    tracing = tracemalloc.is_tracing()
    try:
        suspects = _suspects(sampler, evidence, call.step, budget)
        plan = ObservationPlan(
            may_trace=not tracing and is_quick(call.seconds),
            collect=sampler.collect,
            wanted=partial(leaves_to_find, evidence),
            frames=FEW_FRAMES if evidence.graphs.grows else FRAMES,
        )
        period = calls_per_rise(evidence)
        seen, extra = _look(call, period, sampler.baseline, budget, plan)
    finally:
        if not tracing and tracemalloc.is_tracing():
            tracemalloc.stop()
    cache = CacheTest()
    if may_be_cache(evidence, seen):
        sampler.baseline.move()  # for quick collections
        cache, said = empty_caches(call)
        extra += said
    cost = tensor_cost() if evidence.live_tensors.grows else 0.0
    hidden = None
    if may_hide_tensors(evidence) and not is_recording():
        hidden = hidden_bytes(
            call.times(period), sampler.baseline, collect=sampler.collect,
            pipelines=max(evidence.datasets.values) > 0,
        )  # fmt: skip
    if hidden is not None:
        hidden = HiddenBytes(*(part / period for part in astuple(hidden)))
    seen = replace(seen, suspects=suspects, tensor_cost=cost, hidden=hidden)
    return seen, cache, extra


def _look(
    call: _Steps, period: int, baseline: HeapBaseline, budget: SearchBudget, plan: ObservationPlan
) -> tuple[Observation, list[str]]:
    try:
        several = observe(call.times(period), call.step, baseline, budget, plan=plan)
        seen, notes = several.of_one_in(period), list[str]()
    except Exception as error:
        # The measured calls went well; a step that runs out of data must not spoil the answer.
        text = f"The holders could not be searched: call {call.number} raised "
        return Observation(), [f"{text}{type(error).__name__}."]
    if not plan.may_trace and not tracemalloc.is_tracing():
        notes.append(
            f"A call takes {call.seconds:.1f} s: lines that made Python objects were not looked "
            "for, and the bytes of Python objects are a sum of their sizes."
        )
    if budget.ended_early:
        notes.append(
            f"The search for holders ended after {budget.seconds:.0f} s: names may be missing."
        )
    return seen, notes


def _suspects(
    sampler: Sampler, evidence: Evidence, step: Callable[..., Any], budget: SearchBudget
) -> tuple[Retained, ...]:
    """Name what is alive all the time and may be what grows, such as a graph or a dataset."""
    things: list[Any] = sampler.grown(Kind.TABLE) if evidence.table_entries.grows else []
    things += sampler.grown(Kind.GRAPH) if evidence.graph_ops.grows else []
    if evidence.hidden_bytes.grows and not evidence.datasets.grows:
        things += sampler.living(Kind.ITERATOR, Kind.DATASET)
    if evidence.variable_bytes.grows and not evidence.variables.grows:
        things += [v for v in sampler.living(Kind.VARIABLE) if not v.shape.is_fully_defined()]
    if evidence.live_tensor_bytes.grows and not evidence.live_tensors.grows:
        things += sorted(sampler.living(Kind.TENSOR), key=tensor_bytes)[:-3:-1]
    del things[_SUSPECTS:]
    if not things:
        return ()
    sampler.baseline.lift()
    with budget.part(_SUSPECTS_SHARE):
        chains = who_holds(things, sampler.kinds, budget, step=step, ignore=[things])
    sampler.baseline.move()
    named: list[Retained] = []
    helpers: list[Retained] = []
    for thing in things:
        kind, only_type = sampler.kinds.of(thing), (type_name(thing),)
        chain = chains.get(id(thing), only_type)
        held = Retained(description(thing, kind), *measured(thing, kind), 0.0, None, chain)
        # Helpers of Keras and TensorFlow that nobody named come last.
        (helpers if chain == only_type else named).append(held)
    things.clear()
    return (*named, *helpers)


def takes_number(step: Callable[..., Any]) -> bool:
    """Tell whether a step requires an argument.

    Raises
    ------
    TypeError
        If it cannot be called with none or one.
    """
    return check_function(step, "growth", most=1) == 1


__all__ = ["Finding", "growth"]
