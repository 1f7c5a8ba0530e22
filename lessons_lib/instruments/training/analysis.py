"""From recorded steps to a result: the highest of them by category, phase and layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from lessons_lib.instruments.training.recorded_step import FunctionsRun, Mode, RecordedStep
from lessons_lib.instruments.training.result import (
    CategorySeries,
    LayerBytes,
    PhaseSpan,
    TrainingMemory,
)
from lessons_lib.recording import composition
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.scopes import layer_names

_XLA: Final = (
    "{} is compiled with XLA (jit_compile=True), which runs it as one block: its bytes are "
    "measured, but they cannot be split into categories, so they are under 'other'."
)
_BLIND: Final = (
    "Only TensorFlow's allocator is seen: not NumPy arrays, not Python objects, and not what a "
    "data pipeline holds."
)
#: A phase is where its large buffers are: a graph may compute its scalars long before.
_LARGE: Final = 0.05
NO_LAYER: Final = "(outside layers)"


def analyse(name: str, mode: Mode, size: int, runs: Sequence[RecordedStep]) -> TrainingMemory:
    """Make a result of the run with the highest peak."""
    peaks = [run.peaks()[0] for run in runs]
    step = runs[int(np.argmax(peaks))]
    recording = step.recording
    times, live = step.series()
    ran = step.functions()
    mode = ran.mode() if mode is Mode.EAGER else mode
    total = live.sum(axis=0)
    peak = int(np.argmax(total))
    first, _ = step.window()
    length = step.ended - step.started
    last = live[:, -1:]
    series = CategorySeries(
        np.concatenate((times, [length])),
        dict(zip(composition.ORDER, np.concatenate((live, last), axis=1), strict=True)),
    )
    return TrainingMemory(
        label=name,
        mode=mode,
        batch=size,
        peak_bytes=int(total[peak]),
        peak_at=float(times[peak]),
        categories={category: int(bytes_[peak]) for category, bytes_ in series.bytes.items()},
        peaks=tuple(peaks),
        layers=_layers(recording, first + peak),
        phases=find_phases(step),
        series=series,
        largest_batch=None,
        notes=(*_notes(mode, ran), _BLIND),
        recording=recording,
    )


def _notes(mode: Mode, ran: FunctionsRun) -> Iterator[str]:
    if mode is Mode.XLA:
        yield _XLA.format("The step")
    else:
        yield from map(_XLA.format, ran.compiled)
    if mode is Mode.EAGER and ran.graphs:
        yield f"Run as graphs, within the eager step: {', '.join(ran.graphs)}."


def _layers(recording: Any, event: int) -> tuple[LayerBytes, ...]:
    store = recording.buffers
    alive = store.alive_after(event)
    purposes = [store.sites[int(store.site[i])].purpose for i in alive]
    names = layer_names(p.layer for s in store.sites if (p := s.purpose).layer and not p.held)
    activations = composition.ORDER.index(Category.ACTIVATIONS)
    sizes: dict[str, list[int]] = {}
    categories = composition.at(store, event, alive)
    for i, purpose, category in zip(alive, purposes, categories, strict=True):
        if category == activations:
            layer = names.get(purpose.layer or "", purpose.layer or NO_LAYER)
            sizes.setdefault(layer, []).append(int(store.nbytes[i]))
    layers = [LayerBytes(name, sum(parts), len(parts)) for name, parts in sizes.items()]
    return tuple(sorted(layers, key=lambda layer: (-layer.activation_bytes, layer.layer)))


def find_phases(step: RecordedStep) -> tuple[PhaseSpan, ...]:
    """Find when each phase's large buffers were made, in seconds from the step's start."""
    store = step.recording.buffers
    born: dict[Phase, list[tuple[float, int]]] = {}
    for i in np.flatnonzero(store.born >= 0):
        moment = float(store.times[store.born[i]])
        phase = store.sites[int(store.site[i])].purpose.phase
        if phase is not None and step.started <= moment < step.ended:
            born.setdefault(phase, []).append((moment - step.started, int(store.nbytes[i])))
    found: list[PhaseSpan] = []
    for phase in Phase:
        largest = max((size for _, size in born.get(phase, ())), default=0)
        times = [moment for moment, size in born.get(phase, ()) if size >= _LARGE * largest]
        if times:
            start = 0.0 if phase is Phase.FORWARD else min(times)
            found.append(PhaseSpan(phase, start, max(times)))
    return tuple(found)
