"""An operation with its inputs, ready to be run in eager mode, in a graph or under XLA.

Each different tensor among the inputs is one input, however often it is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf

#: The operation that copies; it is not counted as the studied one's.
COPY: Final = "DeepCopy"
_STRING_BYTES: Final = 24  # of a text's handle in a tensor, which holds short texts itself


class Trial:
    """An operation with its inputs, ready to be run in any mode."""

    def __init__(self, op: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        self.op = op
        self.autograph = False
        self._structure = inputs
        self._given = [_prepared(value) for value in tf.nest.flatten(inputs)]
        dynamic = {id(value): value for value in self._given if _is_dynamic(value)}
        self.tensors = list(dynamic.values())
        order = {number: i for i, number in enumerate(dynamic)}
        #: Where each tensor goes: place among the given values, number of the tensor.
        self._places = [(i, order[id(v)]) for i, v in enumerate(self._given) if id(v) in order]
        self.variables = list({id(v): v for v in self._given if is_variable(v)}.values())
        self.held = [*components(self.tensors), *self.variables]

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs, those of a buffer that several of them share once."""
        spans = {span(value): value for value in self.held if span(value)[0]}
        others = [value for value in self.held if not span(value)[0]]
        return sum(map(nbytes, [*spans.values(), *others]))

    def call(self, tensors: list[Any]) -> Any:
        """Run the operation on tensors in place of its own."""
        given = list(self._given)
        for place, number in self._places:
            given[place] = tensors[number]
        return self.op(*tf.nest.pack_sequence_as(self._structure, given))

    def copies(self, tensors: list[Any]) -> list[Any]:
        """Copy tensors, so that nobody else holds them."""
        return [tf.nest.map_structure(_copied, t, expand_composites=True) for t in tensors]

    def function(self, *, copying: bool, xla: bool = False) -> Callable[[list[Any]], Any]:
        """Make a graph; one that copies its inputs itself if wanted."""
        # A partial has no code object, by which TensorFlow would count traces and warn of many.
        run = functools.partial(_run_in_graph, self.copies if copying else None, self.call)
        return tf.function(run, autograph=self.autograph, jit_compile=True if xla else None)


def _run_in_graph(
    copies: Callable[[list[Any]], list[Any]] | None,
    call: Callable[[list[Any]], Any],
    tensors: list[Any],
) -> Any:
    return call(tensors if copies is None else copies(tensors))


def _copied(tensor: Any) -> Any:
    # Unlike tf.identity it really copies, and no optimiser removes it.
    return tf.raw_ops.DeepCopy(x=tensor)


def _prepared(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return tf.constant(value)
    if tf.is_tensor(value) and not tf.is_symbolic_tensor(value):
        return value
    if tf.is_tensor(value):
        raise TypeError(
            f"op_memory needs tensors with values, and {value!r} is symbolic: "
            "call it outside of a tf.function, with eager tensors"
        )
    return value


def is_variable(value: Any) -> bool:
    """Tell whether a value is a variable, of TensorFlow or of Keras."""
    return isinstance(value, tf.Variable) or hasattr(value, "assign")


def _is_dynamic(value: Any) -> bool:
    return bool(tf.is_tensor(value)) and not is_variable(value)


def components(values: Any) -> Iterator[Any]:
    """Give the tensors and variables in a structure, those of ragged and sparse ones too."""
    for value in tf.nest.flatten(values, expand_composites=True):
        if tf.is_tensor(value) or is_variable(value):
            yield value


def span(value: Any) -> tuple[int, int]:
    """Give the addresses between which a tensor lies; (0, 0) where they cannot be told."""
    try:
        if is_variable(value):
            tensor, again = tf.convert_to_tensor(value), tf.convert_to_tensor(value)
        else:
            tensor = again = value
        view, second = np.asarray(tensor), np.asarray(again)
    except (TypeError, ValueError, NotImplementedError, tf.errors.OpError):
        return 0, 0
    if view.flags.owndata or view.dtype.hasobject or not view.nbytes:
        return 0, 0
    # A variable that is copied whenever it is read does not show where it lies.
    if view.ctypes.data != second.ctypes.data:
        return 0, 0
    return view.ctypes.data, view.ctypes.data + view.nbytes


def sharing(outputs: Any, spans: list[tuple[int, int]]) -> list[int] | None:
    """Give the numbers of the inputs in which an output begins; None where no address is known."""
    starts = [start for output in components(outputs) if (start := span(output)[0])]
    known = [(i, *found) for i, found in enumerate(spans) if found[0]]
    if not starts or not known:
        return None
    return [i for i, low, high in known if any(low <= start < high for start in starts)]


def nbytes(value: Any) -> int:
    """Give the bytes of a tensor's or variable's buffer; texts of strings lie elsewhere."""
    try:
        size = value.shape.num_elements() if hasattr(value.shape, "num_elements") else None
        size = int(np.prod(tuple(value.shape))) if size is None else size
        dtype = tf.as_dtype(value.dtype)
        return int(size) * (_STRING_BYTES if dtype == tf.string else int(dtype.size))
    except (TypeError, ValueError):
        return 0
