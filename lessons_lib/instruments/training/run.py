"""Run a training step under the recorder, split it by category, and leave all as it was."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import psutil

from lessons_lib.common.arguments import check_does_work
from lessons_lib.common.gc_control import quick_collection
from lessons_lib.common.internals.training import build_as_fit_does
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.system import memory_limit, resident_bytes
from lessons_lib.common.units import parse_bytes
from lessons_lib.instruments.training import inputs
from lessons_lib.instruments.training.analysis import analyse
from lessons_lib.instruments.training.batch_size import (
    BatchEstimate,
    CannotRunError,
    largest_batch,
)
from lessons_lib.instruments.training.inputs import Batch
from lessons_lib.instruments.training.recorded_step import (
    Mode,
    Step,
    record_step,
    set_aside,
    traced,
    unique,
)
from lessons_lib.instruments.training.result import TrainingMemory
from lessons_lib.instruments.training.state import State, variables_used
from lessons_lib.instruments.training.variables import name_variables, with_slots

#: By whether graphs run: their first call folds constants, and they run in more than one order.
_RUNS: Final = {False: 2, True: 3}
#: Runs in a series, of which the largest batch takes the highest.
_TRIES: Final = {False: 2, True: 6}
#: So many series must fit: of the orders of a graph, the one that needs most may be rare.
_SERIES: Final = {False: 4, True: 20}
#: Where a graph's steps are short, later series go on for so long: one order in 100 may need most.
_SECONDS: Final = 0.25  # of the processor, which other programs do not shorten
#: A step is given one piece of the free memory, if so many would do: others stay resident.
_PIECES: Final = 4


def training_memory(
    model: Any,
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    budget: int | str | None = None,
) -> TrainingMemory:
    """Measure a training step, by category over time.

    Parameters
    ----------
    model : keras.Model or callable
        A compiled model, whose step is run as ``fit`` runs it: as a graph, eagerly or with XLA, on
        what ``fit`` would make of the batch.  Or any training step: a function, a method or a
        ``tf.function``, which is called with what is given of `x`, `y` and `sample_weight`.
    x, y, sample_weight
        One batch, as ``fit`` takes it: arrays, tensors (also ragged or sparse ones), dicts and
        lists of them; or a ``tf.data.Dataset`` of batches as `x`, of which the first is taken.
    budget : int or str, optional
        Bytes, or a size such as ``"1 GiB"``: also find the largest batch whose step fits it.

    Returns
    -------
    TrainingMemory

    Raises
    ------
    TypeError, ValueError
        Before anything is run: if the model is not compiled, or the batch is empty or uneven, or
        comes from a generator or a step's own iterator, which would lose it.

    Notes
    -----
    All that the step can reach is the same afterwards: models, optimizers, metrics, attributes of
    the user's objects, classes and functions, containers, closures, random generators; not global
    variables, NumPy arrays and files.  A model is built if it is not, and a dataset iterated once.
    Distribution strategies are not covered.  The user's variables are weights if a gradient is
    taken of them; others that only the update reads are optimizer state in a graph, else ``other``.
    """
    require_home_process()
    limit = None if budget is None else parse_bytes(budget)
    target = (_of_model if _is_model(model) else _of_callable)(model, x, y, sample_weight)
    if limit is not None and not target.batch.size:
        raise ValueError("this step is given no batch, whose size a budget asks for: give it x")
    if isinstance(model, tf.keras.Model) and not model.built:
        build_as_fit_does(model, target.batch.data)
    state = State(target.roots)
    try:
        if isinstance(model, tf.keras.Model):
            build_as_fit_does(model, target.batch.data)
        with quick_collection():  # garbage is collected before each recorded step
            result, has_graphs = _measured(target, state)
            if limit is not None:
                target = replace(target, has_graphs=has_graphs)
                result = replace(result, largest_batch=_estimate(target, state, limit, result))
    finally:
        state.restore()
    gc.collect()
    return result


@dataclass(frozen=True)
class _Target:
    """What is to be measured: a step that takes one batch, and what it may change."""

    name: str
    mode: Mode
    function: Callable[[Any], Any]
    batch: Batch
    roots: tuple[Any, ...]
    autograph: bool = False
    has_graphs: bool = False


def _is_model(model: Any) -> bool:
    return hasattr(model, "train_step") and hasattr(model, "trainable_variables")


def _of_model(model: Any, x: Any, y: Any, sample_weight: Any) -> _Target:
    if not getattr(model, "compiled", True):
        raise ValueError("this model is not compiled: call model.compile(optimizer, loss) first")
    if tf.config.functions_run_eagerly() or model.run_eagerly:
        mode = Mode.EAGER
    else:
        mode = Mode.XLA if model.jit_compile is True else Mode.GRAPH
    batch = inputs.of_model(x, y, sample_weight)
    return _Target(model.name, mode, model.train_step, batch, (model,))


def _of_callable(step: Any, x: Any, y: Any, sample_weight: Any) -> _Target:
    if not callable(step):
        raise TypeError(
            f"training_memory takes a Keras model or a training step, not {type(step).__name__}: "
            "give a keras.Model that was compiled, or a function"
        )
    check_does_work(step, "training_memory")
    batch = inputs.of_step(step, x, y, sample_weight)
    python = getattr(step, "python_function", None)
    name = getattr(python or step, "__name__", type(step).__name__)
    if python is None or tf.config.functions_run_eagerly():
        mode, function = Mode.EAGER, python or step
    else:
        mode = Mode.XLA if getattr(step, "_jit_compile", None) else Mode.GRAPH
        function = python
    return _Target(name, mode, lambda data: function(*data), batch, (step, python), True)


def _prepared(target: _Target, state: State, spec: Any, data: Any) -> Step:
    """Trace the step, or run it once; save the variables that it uses before it is run.

    Unmeasured, because metrics and caches are made by the first step.
    """
    run = target.function
    if target.mode is Mode.EAGER:
        with variables_used(state.add) as used:
            run(data)
    else:
        run, used = traced(target.function, spec, target.mode, target.autograph)
        for variable in used:
            state.add(variable)
        run(data)
    name_variables(state.objects)
    return Step(target.name, target.mode, run, unique(with_slots(used, state.objects)))


def _measured(target: _Target, state: State) -> tuple[TrainingMemory, bool]:
    """Measure the batch itself; also tell whether graphs ran, whoever called them."""
    batch = target.batch
    step = _prepared(target, state, batch.spec, batch.data)
    runs = [record_step(step, batch.data)]
    called = target.mode is Mode.EAGER and bool(runs[0].functions().graphs)
    has_graphs = called or target.mode is Mode.GRAPH
    while len(runs) < _RUNS[has_graphs]:
        runs.append(record_step(step, batch.data))
    return analyse(target.name, target.mode, batch.size, runs), has_graphs


def _peaks(step: Step, data: Any, room: int, *, again: bool, has_graphs: bool) -> tuple[int, int]:
    """Run a series; give the most bytes requested in what was recorded, and the most set aside.

    One run is recorded, when a size is new.  The others are counted by the allocator, if it does.
    """
    peaks = [] if again else [record_step(step, data, room).peaks()]
    end = time.process_time() + (_SECONDS if again and has_graphs else 0)
    while len(peaks) < _TRIES[has_graphs] or time.process_time() < end:
        held = set_aside(step, data, room)
        peaks.append(record_step(step, data, room).peaks() if held is None else (0, held))
    return max(p for p, _ in peaks), max(h for _, h in peaks)


def _estimate(target: _Target, state: State, limit: int, measured: TrainingMemory) -> BatchEstimate:
    steps: list[Step] = []
    largest = measured.batch, measured.peak_bytes
    requested: dict[int, int] = {}  # the highest peak of each size

    def step_for(size: int, data: Any) -> Step:
        if steps:
            steps[0].run(data)
            return steps[0]
        if size == target.batch.size:
            with contextlib.suppress(Exception):
                steps.append(_prepared(target, state, target.batch.any_size(), data))
                return steps[0]
        return _prepared(target, state, tf.nest.map_structure(tf.type_spec_from_value, data), data)

    def peaks_of(size: int) -> tuple[int, int] | None:
        nonlocal largest
        # At most in proportion; twice as much, so that the last large request finds its place too.
        room = 2 * min(limit, largest[1] * max(size, largest[0]) // largest[0])
        try:
            data = target.batch.sized(size)
            step = step_for(size, data)
            room = room if _PIECES * room <= _free_bytes() else 0
            peaks = _peaks(step, data, room, again=size in requested, has_graphs=target.has_graphs)
        except (MemoryError, tf.errors.ResourceExhaustedError):
            return None
        except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            raise CannotRunError from error
        requested[size] = max(requested.get(size, 0), peaks[0])
        largest = max(largest, (size, requested[size]))
        return requested[size], peaks[1]

    repeats = _SERIES[target.has_graphs]
    size = target.batch.size
    return largest_batch(peaks_of, limit, size, free_bytes=_free_bytes, repeats=repeats)


def _free_bytes() -> int:
    """Tell how much memory this process may still take."""
    limit, _ = memory_limit()
    free: int = psutil.virtual_memory().available
    return max(0, min(free, limit - (resident_bytes() or 0)))
