"""`training_memory`: a Keras model's training step, by category over time.

``step`` records a step; ``holders`` tells which buffers its variables held.  ``stages`` notes which
operations belong to which layer and to the forward pass, the backward pass and the update;
``categories`` gives every buffer its category by that, and ``over_time`` adds them up.  ``batch``
answers how large a batch fits; ``report`` holds the result; ``run`` puts them together.
"""

from __future__ import annotations

from lessons_lib.instruments.training.batch_size import BatchEstimate, largest_batch
from lessons_lib.instruments.training.categories import Category
from lessons_lib.instruments.training.result import LayerBytes, Phase, TrainingMemory
from lessons_lib.instruments.training.run import training_memory

__all__ = [
    "BatchEstimate",
    "Category",
    "LayerBytes",
    "Phase",
    "TrainingMemory",
    "largest_batch",
    "training_memory",
]
