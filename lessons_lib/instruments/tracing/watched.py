"""The functions that were traced in a watched block, and advice where one was made again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lessons_lib.common.internals import KERAS_TRAINER, tensor_number
from lessons_lib.common.origins import Origin
from lessons_lib.common.source import Line
from lessons_lib.instruments.tracing.advice import FunctionOwner
from lessons_lib.instruments.tracing.graph_contents import CaptureKind, Contents
from lessons_lib.instruments.tracing.hooks import ObservedTrace
from lessons_lib.instruments.tracing.reasons import Key, Reason

#: Where TensorFlow makes functions of a function, such as one that initializes its variables.
_OF_FUNCTIONS: Final = "tensorflow.python.eager.polymorphic_function"
#: Where Keras makes pipelines of what fit, evaluate and predict are given.
_OF_FITS: Final = "keras.src.trainers.data_adapters."


@dataclass(slots=True)
class WatchedTrace:
    """A new trace, before its call has ended."""

    number: int
    key: Key
    reason: Reason
    contents: Contents
    seen: ObservedTrace
    variables: frozenset[int]  # TensorFlow's numbers of those that it uses


@dataclass(slots=True)
class WatchedFunction:
    """A function that was traced in the block."""

    identity: Any  # TensorFlow's description of its parameters: one per function, holds no graph
    name: str
    line: Line | None
    code: Hashable
    module: str
    bound: bool  # a method: TensorFlow makes a function for each instance
    earlier: int
    keys: list[Key]
    instance: str  # class of a method's instance
    entries: list[WatchedTrace] = field(default_factory=list)

    @property
    def likeness(self) -> Hashable:
        """What functions share that may be one function, made again; None where it is not known.

        A factory makes two models' functions from the same code, but their graphs differ.
        """
        if self.code is None or not self.entries:
            return None
        held = self.entries[0].contents
        taken = tuple((capture.kind, capture.shape, capture.dtype) for capture in held.captures)
        return self.code, self.instance, held.ops, taken

    @property
    def whose(self) -> FunctionOwner:
        """Say whether the user can change it."""
        return FunctionOwner.LIBRARY if self.line is None else FunctionOwner.USER


def captured_variables(graph: Any, contents: Contents) -> frozenset[int]:
    """Give the numbers of the variables that a graph uses; never given twice, unlike an ``id``."""
    return frozenset(
        tensor_number(handle)
        for handle, capture in zip(graph.external_captures, contents.captures, strict=True)
        if capture.kind is CaptureKind.VARIABLE
    )


def advise_remade(owner: WatchedFunction, alike: Sequence[WatchedFunction]) -> str:
    """Say what to do where functions that may be one were made again, `owner` one of them."""
    times, sets = len(alike), len({each.entries[0].variables for each in alike})
    if owner.module == KERAS_TRAINER:
        return (
            f"Each Keras model traces its own {owner.name} when it is new or newly compiled; "
            f"{times} here are of one form: where one model will do, build and compile it once."
        )
    seen = owner.entries[0].seen
    if seen.caller is Origin.PIPELINE:
        if owner.module.startswith(_OF_FITS):
            return (
                "In each call with arrays, Keras' fit, evaluate and predict make a tf.data "
                "pipeline and trace its functions: in a loop, give them a tf.data set, made once, "
                "or use train_on_batch, test_on_batch and predict_on_batch."
            )
        if owner.line is None and len({each.entries[0].seen.line for each in alike}) == times:
            return ""  # a library's, which each line calls once
        return (
            f"Each tf.data pipeline traces {owner.name} when it is made, {times} here, the first "
            f"for {seen.line}: for the same data, make the data set once, and go through it again."
        )
    if owner.module.startswith(_OF_FUNCTIONS):
        return ""
    if owner.line is None and seen.caller is not Origin.USER:
        return (
            f"The call at {seen.line} makes a function ({owner.name}) and traces it each time, "
            f"{times} here: make that call within a tf.function of your own."
        )
    if owner.bound and owner.line is not None:
        return (
            f"Each instance traces {owner.name} for itself, {times} here: where they do the same, "
            "use one instance, and pass what differs as a tensor."
        )
    made = f"{times} functions were made from the same code"
    made += (
        f" ({owner.name}), the first for the call at {seen.line}, and each was traced"
        if owner.line is None
        else f" at {owner.line} and each was traced"
    )
    if sets > 1:
        return (
            f"{made}. They use {sets} different sets of variables: make one function for each set "
            "and keep it. A model or optimizer that is passed as an argument is a trace each, too; "
            "variables that are passed themselves share one."
        )
    if owner.line is None:
        return f"{made}: make one, keep it, and call that one."
    return (
        f"{made}: define it once, outside the loop, and pass what differs as an argument, numbers "
        "that only meet tensors as tensors."
    )
