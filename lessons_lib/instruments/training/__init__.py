"""`training_memory`: a training step, by category over time.

``inputs`` makes the batch as ``fit`` does; ``state`` saves everything that a step may change, and
gives it back; ``recorded_step`` records a step.  What each buffer is for is told by the recording
itself (`lessons_lib.recording.purposes`); ``analysis`` adds it up, ``result`` holds it.
``batch_size`` answers how large a batch fits; ``run`` puts them together.
"""

from __future__ import annotations

from lessons_lib.instruments.training.batch_size import BatchEstimate, Stop, largest_batch
from lessons_lib.instruments.training.recorded_step import Mode
from lessons_lib.instruments.training.result import LayerBytes, PhaseSpan, TrainingMemory
from lessons_lib.instruments.training.run import training_memory
from lessons_lib.recording.categories import Category, Phase

__all__ = [
    "BatchEstimate",
    "Category",
    "LayerBytes",
    "Mode",
    "Phase",
    "PhaseSpan",
    "Stop",
    "TrainingMemory",
    "largest_batch",
    "training_memory",
]
