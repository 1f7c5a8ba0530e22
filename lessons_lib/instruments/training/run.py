"""Run a training step under the recorder, split it by category, and leave the model as it was.

``step`` records it; afterwards the variables get their values back.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lessons_lib.common.gc_control import quick_collection
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.system import memory_limit
from lessons_lib.common.units import parse_bytes
from lessons_lib.instruments.process import resident_bytes
from lessons_lib.instruments.training.batch_size import BatchEstimate, largest_batch
from lessons_lib.instruments.training.by_time import by_category, find_phases
from lessons_lib.instruments.training.categories import (
    Births,
    Category,
    Label,
    gradient_operations,
    label_buffers,
)
from lessons_lib.instruments.training.recorded_step import (
    RecordedStep,
    mode_of,
    record_step,
    step_function,
    variables_of,
)
from lessons_lib.instruments.training.result import LayerBytes, Phase, TrainingMemory
from lessons_lib.instruments.training.step_phases import BACKWARD, UPDATE, watched
from lessons_lib.recording.recording import Recording

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
    # A step is recorded many times, and each time garbage is collected first.
    with quick_collection(), _restored(model, x, y):
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
    for part in tf.nest.flatten((x, y)):
        if isinstance(part, (tf.data.Dataset, tf.data.Iterator)):
            raise TypeError(
                "training_memory takes one batch, not a dataset: "
                "write x, y = next(iter(dataset)), and give x and y"
            )
        if not np.ndim(part):
            raise TypeError(
                f"the batch holds a {type(part).__name__}, which has no examples: "
                "give arrays or tensors, whose first dimension is the number of examples"
            )
    sizes = {int(np.shape(part)[0]) if np.ndim(part) else 0 for part in tf.nest.flatten((x, y))}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"the batch's arrays have first dimensions {sorted(sizes)}: "
            "give x and y with the same number of examples, at least 1"
        )
    return sizes.pop()


@contextlib.contextmanager
def _restored(model: Any, x: Any, y: Any) -> Iterator[None]:
    """Build what the first step builds, and give everything its value back at the end."""
    if not model.built:
        model(tf.nest.map_structure(lambda part: tf.convert_to_tensor(part[:1]), x))
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    saved = [(variable, variable.numpy()) for variable in variables_of(model)]
    try:
        yield
    finally:
        for variable, value in saved:
            variable.assign(value)
        known = {id(variable) for variable, _ in saved}
        for variable in variables_of(model):  # metrics that the step itself built
            if id(variable) not in known:
                variable.assign(tf.zeros_like(variable))


def _measured(model: Any, x: Any, y: Any, size: int) -> TrainingMemory:
    mode = mode_of(model)
    data = tf.nest.map_structure(tf.convert_to_tensor, (x, y))
    with watched(model) as stages:
        step, graph = step_function(model, mode, data)
        step(data)  # once unmeasured: metrics and caches are made by the first step
        if mode == "eager":
            stages.notes.clear()
        variables = variables_of(model)
        recorded = record_step(model, step, (x, y), variables)
    births = Births(stages, recorded.recording.started_at, graph)
    return _analyse(model, mode, size, recorded, births)


def _kinds(model: Any, variables: Sequence[tf.Variable]) -> list[Category]:
    """Tell weights from the rest: the optimizer's variables, metrics' and random seeds'."""
    weights = {id(getattr(v, "value", v)) for v in model.weights}
    return [Category.WEIGHTS if id(v) in weights else Category.OPTIMIZER for v in variables]


def _analyse(
    model: Any,
    mode: str,
    size: int,
    step: RecordedStep,
    births: Births,
) -> TrainingMemory:
    recording, started = step.recording, step.started
    store = recording.buffers
    stages = births.stages
    holdings, inputs = step.held()
    kinds = _kinds(model, step.variables)
    held = {h.first: kind for h, kind in zip(holdings, kinds, strict=False) if h.first is not None}
    spans = find_phases(recording, births, {*held, *inputs}, step.started)
    backward = next((p.start for p in spans if p.name == BACKWARD), recording.seconds)
    update = stages.began(UPDATE)
    labels = label_buffers(
        store,
        births,
        held,
        inputs,
        backward,
        # Eagerly, what the backward pass made and is still held is what the optimizer is given.
        None if update is None else update - recording.started_at,
        gradient_operations(stages),
    )
    series = by_category(
        recording, labels, list(zip(holdings, kinds, strict=False)), step.started, step.ended
    )
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
    mode = mode_of(model)
    variables = variables_of(model)

    def peak_of(batch: int) -> int:
        data = tf.nest.map_structure(lambda part: _tiled(part, batch), (x, y))
        step, _ = step_function(model, mode, data)
        peak = 0
        # A graph's first call folds constants, and its peak depends on the order of execution.
        for _ in range(3 if mode == "graph" else 1):
            peak = max(peak, record_step(model, step, data, variables).peak_bytes())
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
