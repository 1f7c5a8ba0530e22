"""Run a training step under the recorder, and leave the model as it was.

Every variable is given a fresh copy of its buffer at the start of the recording, and so is the
batch; so all of the step's memory is born where the recorder sees it, and nothing has to be
estimated.  Afterwards the variables get their values back.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lessons_lib.preflight import memory_limit
from lessons_lib.process import resident_bytes
from lessons_lib.recorder import record
from lessons_lib.recording import Recording
from lessons_lib.runtime import require_home_process, tf
from lessons_lib.training.batch import BatchEstimate, largest_batch
from lessons_lib.training.categories import (
    Births,
    Category,
    Label,
    gradient_operations,
    label_buffers,
)
from lessons_lib.training.report import LayerBytes, Phase, Series, TrainingMemory
from lessons_lib.training.stages import BACKWARD, FORWARD, UPDATE, watched
from lessons_lib.units import parse_bytes

_XLA = (
    "The step is compiled with XLA (jit_compile=True), which runs it as one block: its bytes are "
    "measured, but they cannot be split into categories, so they are under 'other'."
)
_BLIND = (
    "Only TensorFlow's allocator is seen: not NumPy arrays, not Python objects, and not what a "
    "data pipeline holds."
)


def training_memory(
    model: Any, x: Any, y: Any, *, budget: int | str | None = None
) -> TrainingMemory:
    """Measure a compiled Keras model's training step, by category over time.

    Parameters
    ----------
    model : keras.Model
        Compiled.  Its weights, optimizer state, metrics and random seeds are the same afterwards.
    x, y : arrays or tensors, or nested structures of them
        One batch; first dimensions are the batch size.
    budget : int or str, optional
        Bytes, or a size such as ``"1 GiB"``: also find the largest batch whose step fits it.

    Returns
    -------
    TrainingMemory

    Raises
    ------
    TypeError, ValueError
        If the model is not a compiled Keras model, or the batch is empty or uneven.

    Notes
    -----
    The step is run as ``fit`` runs it: as a ``tf.function``, eagerly, or with XLA, as the model was
    compiled.  Distribution strategies are not covered.
    """
    require_home_process()
    limit = None if budget is None else parse_bytes(budget)
    _check_model(model)
    size = _batch_size(x, y)
    with _restored(model, x, y):
        result = _measured(model, x, y, size)
        estimate = None if limit is None else _estimate(model, x, y, size, limit)
    gc.collect()
    if estimate is None:
        return result
    fields = {name: getattr(result, name) for name in result.__dataclass_fields__}
    return TrainingMemory(**{**fields, "largest_batch": estimate})


def _check_model(model: Any) -> None:
    if not hasattr(model, "train_step") or not hasattr(model, "trainable_variables"):
        raise TypeError(
            f"training_memory takes a Keras model, not {type(model).__name__}: "
            "give a keras.Model that was compiled"
        )
    if getattr(model, "optimizer", None) is None or not getattr(model, "compiled", True):
        raise ValueError("this model is not compiled: call model.compile(optimizer, loss) first")


def _batch_size(x: Any, y: Any) -> int:
    sizes = {int(np.shape(part)[0]) if np.ndim(part) else 0 for part in tf.nest.flatten((x, y))}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"the batch's arrays have first dimensions {sorted(sizes)}: "
            "give x and y with the same number of examples, at least 1"
        )
    return sizes.pop()


def _variables(model: Any) -> list[tf.Variable]:
    found: dict[int, tf.Variable] = {}
    for variable in (*model.variables, *model.optimizer.variables, *_metric_variables(model)):
        value = getattr(variable, "value", variable)
        if isinstance(value, tf.Variable):
            found[id(value)] = value
    return list(found.values())


def _metric_variables(model: Any) -> list[Any]:
    with contextlib.suppress(Exception):  # metrics that were not built yet have none
        return [v for metric in model.metrics for v in metric.variables]
    return []


@contextlib.contextmanager
def _restored(model: Any, x: Any, y: Any) -> Iterator[None]:
    """Build what the first step builds, and give everything its value back at the end."""
    if not model.built:
        model(tf.nest.map_structure(lambda part: tf.convert_to_tensor(part[:1]), x))
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    saved = [(variable, variable.numpy()) for variable in _variables(model)]
    try:
        yield
    finally:
        for variable, value in saved:
            variable.assign(value)
        known = {id(variable) for variable, _ in saved}
        for variable in _variables(model):  # metrics that the step itself built
            if id(variable) not in known:
                variable.assign(tf.zeros_like(variable))


def _mode(model: Any) -> str:
    if model.run_eagerly or tf.config.functions_run_eagerly():
        return "eager"
    return "xla" if model.jit_compile is True else "graph"


def _step_function(model: Any, mode: str, data: Any) -> tuple[Callable[[Any], Any], Any]:
    """Make the step, and give the graph that it runs (None in eager mode)."""
    if mode == "eager":
        return model.train_step, None
    # A fresh trace, made under our notes, shows which operation belongs to what.  Called as a
    # concrete function, it does not make TensorFlow warn of retracing that is ours.
    function = tf.function(
        lambda data: model.train_step(data), jit_compile=mode == "xla", autograph=False
    )
    traced = function.get_concrete_function(data)
    return lambda data: traced(data), traced.graph


def _copies(parts: Any) -> Any:
    return tf.nest.map_structure(lambda part: tf.raw_ops.DeepCopy(x=part), parts)


def _record_step(
    model: Any, step: Callable[[Any], Any], data: Any, variables: list[tf.Variable]
) -> tuple[Recording, float, int]:
    """Record copying and one step; give the recording, and where the step began."""
    import time

    source = tf.nest.map_structure(tf.convert_to_tensor, data)
    gc.collect()
    with record(f"{model.name} training step") as recording:
        for variable in variables:
            variable.assign(tf.raw_ops.DeepCopy(x=variable.read_value()))
        batch = _copies(source)
        started = time.perf_counter()
        result = step(batch)
        del result
    return recording, started - recording.started_at, len(tf.nest.flatten(batch))


def _measured(model: Any, x: Any, y: Any, size: int) -> TrainingMemory:
    mode = _mode(model)
    data = tf.nest.map_structure(tf.convert_to_tensor, (x, y))
    with watched(model) as stages:
        step, graph = _step_function(model, mode, data)
        step(data)  # once unmeasured: metrics and caches are made by the first step
        if mode == "eager":
            stages.notes.clear()
        variables = _variables(model)
        recording, started, parts = _record_step(model, step, (x, y), variables)
    births = Births(stages, recording.started_at, graph)
    return _analyse(model, mode, size, recording, started, parts, variables, births)


def _kinds(model: Any, variables: list[tf.Variable]) -> list[tuple[tf.Variable, Category]]:
    """Tell weights from the rest: the optimizer's variables, metrics' and random seeds'."""
    weights = {id(getattr(v, "value", v)) for v in model.weights}
    return [(v, Category.WEIGHTS if id(v) in weights else Category.OPTIMIZER) for v in variables]


def _held(
    model: Any, recording: Recording, variables: list[tf.Variable], parts: int
) -> tuple[dict[int, Category], frozenset[int]]:
    """Find the copies of the variables and of the batch: the first ones made by a deep copy."""
    copies = [b.index for b in recording.buffers if b.op == "DeepCopy" and b.function is None]
    sized = [v for v in variables if v.shape.num_elements()]
    kinds = _kinds(model, sized)
    held = {index: kind for index, (_, kind) in zip(copies, kinds, strict=False)}
    return held, frozenset(copies[len(sized) : len(sized) + parts])


def _analyse(
    model: Any,
    mode: str,
    size: int,
    recording: Recording,
    started: float,
    parts: int,
    variables: list[tf.Variable],
    births: Births,
) -> TrainingMemory:
    store = recording.buffers
    stages = births.stages
    held, inputs = _held(model, recording, variables, parts)
    spans = _phases(recording, births, held, inputs, started)
    backward = next((p.start for p in spans if p.name == BACKWARD), recording.seconds)
    update = stages.began(UPDATE)
    labels = label_buffers(
        store,
        births,
        held,
        {id(v.handle): kind for v, kind in _kinds(model, variables)},
        inputs,
        backward,
        # Eagerly, what the backward pass made and is still held is what the optimizer is given.
        None if update is None else update - recording.started_at,
        gradient_operations(stages),
    )
    series = _series(recording, labels, started)
    total = sum(series.bytes.values(), np.zeros(len(series.times), np.int64))
    peak = int(np.argmax(total))
    event = int(np.searchsorted(store.times, series.times[peak] + started, side="right")) - 1
    alive = store.alive_after(max(event, 0))
    return TrainingMemory(
        label=model.name,
        mode=mode,
        batch=size,
        peak_bytes=int(total[peak]),
        peak_at=float(series.times[peak]),
        categories={category: int(live[peak]) for category, live in series.bytes.items()},
        forwarded_bytes=sum(int(store.nbytes[i]) for i in alive if labels[i].forwarded),
        layers=_layers(recording, labels, alive),
        phases=tuple(Phase(p.name, p.start - started, p.end - started) for p in spans),
        series=series,
        largest_batch=None,
        notes=((_XLA,) if mode == "xla" else ()) + (_BLIND,),
        recording=recording,
    )


def _phases(
    recording: Recording,
    births: Births,
    held: dict[int, Category],
    inputs: frozenset[int],
    started: float,
) -> list[Phase]:
    spans: dict[str, list[tuple[float, int]]] = {}
    for buffer in recording.buffers:
        if buffer.index in held or buffer.index in inputs or buffer.allocated_at is None:
            continue
        if (phase := births.of(buffer).phase) is not None:
            spans.setdefault(phase, []).append((buffer.allocated_at, buffer.nbytes))
    found = [
        Phase(name, min(times), max(times))
        for name in (FORWARD, BACKWARD, UPDATE)
        # A graph may compute a phase's scalars long before the phase itself.
        if (times := _times_of_large(spans.get(name, [])))
    ]
    if found and found[0].name == FORWARD:
        found[0] = Phase(FORWARD, started, found[0].end)
    return found


def _times_of_large(births: list[tuple[float, int]]) -> list[float]:
    largest = max((size for _, size in births), default=0)
    return [moment for moment, size in births if size * 100 >= largest]


def _series(recording: Recording, labels: list[Label], started: float) -> Series:
    store = recording.buffers
    moments = np.concatenate(([0.0], store.times, [recording.seconds])) - started
    live: dict[Category, Any] = {}
    born_inside = store.born >= 0
    order = list(Category)
    category = np.array([order.index(label.category) for label in labels], np.int64)
    for number, name in enumerate(order):
        delta = np.zeros(len(store.times), np.int64)
        mine = born_inside & (category == number)
        np.add.at(delta, store.born[mine], store.nbytes[mine])
        ended = mine & (store.died >= 0)
        np.subtract.at(delta, store.died[ended], store.nbytes[ended])
        steps = np.cumsum(delta)
        last = steps[-1:] if len(steps) else np.zeros(1, np.int64)
        live[name] = np.concatenate(([0], steps, last))
    inside = moments >= 0
    if not inside.all():  # the state at the start of the step comes from the last moment before
        first = int(np.argmax(inside)) if inside.any() else len(moments)
        inside[max(first - 1, 0)] = True
        moments = np.maximum(moments, 0.0)
    return Series(moments[inside], {name: values[inside] for name, values in live.items()})


def _layers(recording: Recording, labels: list[Label], alive: Any) -> tuple[LayerBytes, ...]:
    sizes: dict[str, list[int]] = {}
    for i in alive:
        label = labels[i]
        if label.category is Category.ACTIVATIONS:
            sizes.setdefault(label.layer or "(outside layers)", []).append(
                int(recording.buffers.nbytes[i])
            )
    layers = [LayerBytes(name, sum(parts), len(parts)) for name, parts in sizes.items()]
    return tuple(sorted(layers, key=lambda layer: (-layer.activation_bytes, layer.layer)))


def _estimate(model: Any, x: Any, y: Any, size: int, limit: int) -> BatchEstimate:
    mode = _mode(model)
    variables = _variables(model)

    def peak_of(batch: int) -> int:
        data = tf.nest.map_structure(lambda part: _tiled(part, batch), (x, y))
        step, _ = _step_function(model, mode, data)
        peak = 0
        # A graph's first call folds constants, and its peak depends on the order of execution.
        for _ in range(3 if mode == "graph" else 1):
            recording, started, _ = _record_step(model, step, data, variables)
            live = recording.timeline()
            inside = live[0] >= started
            base = sum(int(np.prod(v.shape)) * v.dtype.size for v in variables)
            peak = max(peak, base + int(live[1][inside].max(initial=0)))
        return peak

    machine, _ = memory_limit()
    sizes = sorted({max(1, size // 4), max(1, size // 2), max(2, size)})
    return largest_batch(
        peak_of, limit, sizes, available_bytes=max(0, machine - resident_bytes()) // 2
    )


def _tiled(part: Any, batch: int) -> Any:
    part = np.asarray(part)
    repeats = -(-batch // len(part))
    return np.concatenate([part] * repeats)[:batch]
