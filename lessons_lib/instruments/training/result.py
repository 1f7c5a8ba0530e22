"""The result of `training_memory`: bytes by category over time, phases, and layers.

At every moment the categories add up, exactly, to the bytes that the recording saw alive, the
model's variables included.
"""

from __future__ import annotations

from dataclasses import dataclass

from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.training.batch_size import BatchEstimate, describe
from lessons_lib.instruments.training.recorded_step import Mode
from lessons_lib.recording.buffers import Floats, Ints
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.recording import Recording


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """Forward pass, backward pass or update: which, and when its large buffers were made.

    In a graph they may overlap: a weight is updated as soon as its gradient is there.
    """

    phase: Phase
    start: float
    end: float

    @property
    def name(self) -> str:
        """The phase as a word."""
        return str(self.phase)


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Activations of one layer that were alive at the peak, and of how many buffers."""

    layer: str
    activation_bytes: int
    buffers: int


@dataclass(frozen=True, eq=False)
class CategorySeries:
    """Live bytes by category over time.

    Attributes
    ----------
    times : float array, shape (moments,)
        Seconds from the start of the step.
    bytes : dict of Category to int array, shape (moments,)
        Live bytes from each moment on.
    """

    times: Floats
    bytes: dict[Category, Ints]


@dataclass(frozen=True, repr=False)
class TrainingMemory(Result):
    """Memory of one training step.

    Attributes
    ----------
    label : str
        The model's or the step's name.
    mode : Mode
        ``graph``, ``eager`` or ``xla``.
    batch : int
        Examples in the step.
    peak_bytes : int
        Most bytes alive at once during the step, variables and batch included.
    peak_at : float
        When, in seconds from the start of the step.
    categories : dict of Category to int
        Bytes by category at the peak; they add up to `peak_bytes`.
    peaks : tuple of int
        The peak of each run; the highest one is shown.
    layers : tuple of LayerBytes
        Layers by their activations at the peak, largest first.
    phases : tuple of PhaseSpan
        Forward, backward, update, as far as they make buffers.
    series : CategorySeries
        All of it over time.
    largest_batch : BatchEstimate or None
        When a budget was given.
    notes : tuple of str
        What a reader must know.
    recording : Recording
        The recorded step, which begins with copying the variables and the batch.
    """

    label: str
    mode: Mode
    batch: int
    peak_bytes: int
    peak_at: float
    categories: dict[Category, int]
    peaks: tuple[int, ...]
    layers: tuple[LayerBytes, ...]
    phases: tuple[PhaseSpan, ...]
    series: CategorySeries
    largest_batch: BatchEstimate | None
    notes: tuple[str, ...]
    recording: Recording

    @property
    def noisy(self) -> str:
        """The sign before figures that differ from run to run, as a graph's may; else empty.

        A number in Python code may or may not take a buffer of some bytes, by where its array
        lies; where no figure shows that, none is called noisy.
        """
        return "≈ " if len({format_bytes(peak) for peak in self.peaks}) > 1 else ""

    def __repr__(self) -> str:
        top = max(self.categories, key=lambda c: self.categories[c])
        return (
            f"<TrainingMemory {self.label!r}, batch {self.batch}, {self.mode}: "
            f"peak {self.noisy}{format_bytes(self.peak_bytes)}, most of it {top} "
            f"({format_bytes(self.categories[top])})>"
        )


@summary_html.register
def _(result: TrainingMemory) -> str:
    total = result.peak_bytes or 1
    rows = [
        (str(category), result.noisy + format_bytes(size), f"{100 * size / total:.0f} %")
        for category, size in result.categories.items()
    ]
    rows.append(("all", result.noisy + format_bytes(result.peak_bytes), "100 %"))
    caption = f"{result.label}, batch {result.batch}, {result.mode}: alive at the peak"
    parts = [html_table(("category", "bytes", "share"), rows, caption=caption)]
    if result.layers:
        layers = [(x.layer, format_bytes(x.activation_bytes), x.buffers) for x in result.layers[:8]]
        parts.append(html_table(("layer", "activations", "buffers"), layers))
    if result.largest_batch is not None:
        parts.append(html_table(("largest batch",), [(describe(result.largest_batch),)]))
    return "".join((*parts, notes_table(result.notes)))
