"""What a buffer is for, and in which part of a training step it was made."""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """What a buffer is for.

    A buffer that TensorFlow hands on to another operation (buffer forwarding) belongs to what it
    becomes: what is born in one operation and forwarded to a gradient is a gradient.
    """

    #: What a model learns, and what else its layers keep (moving averages).
    WEIGHTS = "weights"
    #: Slots and counters of an optimizer; of a graph's own variables, what only the update reads.
    OPTIMIZER = "optimizer state"
    #: Variables of metrics and of random generators.
    METRICS = "metrics and seeds"
    #: Batches, and what the data pipeline makes and keeps.
    INPUTS = "inputs"
    #: Made in the forward pass and used by the backward pass.
    ACTIVATIONS = "activations"
    #: What the backward pass gives to the optimizer.
    GRADIENTS = "gradients"
    #: Needed by an operation or a part of the step for itself.
    TEMPORARIES = "temporaries"
    #: What cannot be told; it is never spread over the rest.
    OTHER = "other"


class Phase(StrEnum):
    """A part of a training step."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"
