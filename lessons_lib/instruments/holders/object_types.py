"""What TensorFlow's Python objects are, how many bytes they stand for, and where those lie.

For instruments that walk over live objects.  Nothing here makes a tensor, keeps one alive or
runs an operation, except `variable_tensor`, which reads a variable (reading shares its buffer).
Sizes are bytes of the tensor's own elements; strings count their 24-byte heads only, because
their characters lie elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import types
import weakref
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import numpy as np

from lessons_lib.common import internals
from lessons_lib.common.runtime import tf

_STRING_BYTES: Final = 24  # one tstring


class Kind(StrEnum):
    """Kinds of objects that matter to someone who looks for memory."""

    TENSOR = "tensor"
    HANDLE = "handle"  # an eager tensor that only points at a resource or a variant
    VARIABLE = "variable"
    FUNCTION = "function"  # what tf.function returns
    CONCRETE = "concrete function"
    GRAPH = "graph"
    DATASET = "dataset"
    ITERATOR = "iterator"
    TABLE = "table or queue"
    TAPE = "tape"
    LIBRARY = "library object"
    OTHER = "other"


EAGER_TENSOR: Final = internals.EagerTensor
FUNCTION: Final = type(tf.function(lambda: None))
_GRAPH_KINDS: Final = frozenset({Kind.FUNCTION, Kind.CONCRETE, Kind.GRAPH})
_LIBRARIES: Final = frozenset({"tensorflow", "keras", "tf_keras"})


def _classes() -> tuple[tuple[type, Kind], ...]:
    return (
        (tf.Variable, Kind.VARIABLE),
        (FUNCTION, Kind.FUNCTION),
        (tf.types.experimental.ConcreteFunction, Kind.CONCRETE),
        (tf.types.experimental.AtomicFunction, Kind.CONCRETE),
        (tf.Graph, Kind.GRAPH),
        (tf.data.Dataset, Kind.DATASET),
        (tf.data.Iterator, Kind.ITERATOR),
        (tf.compat.v1.data.Iterator, Kind.ITERATOR),
        (internals.LookupInterface, Kind.TABLE),
        (tf.queue.QueueBase, Kind.TABLE),
        (tf.GradientTape, Kind.TAPE),
        (tf.Module, Kind.LIBRARY),
    )


class Kinds:
    """Tells objects' kinds; one for each use, so that it keeps no class of the user's alive."""

    def __init__(self) -> None:
        self._classes = _classes()
        self._known: dict[type, Kind] = {}

    def of(self, thing: object) -> Kind:
        """Tell what an object is, by its type alone."""
        cls = type(thing)
        if cls is EAGER_TENSOR:
            return Kind.HANDLE if is_handle(thing) else Kind.TENSOR
        return self._of_type(cls)

    def choose(self, things: list[Any], wanted: frozenset[Kind]) -> dict[Kind, list[Any]]:
        """Pick the objects of some kinds out of very many."""
        kinds = {cls: self._of_type(cls) for cls in set(map(type, things))}
        types = {cls for cls, kind in kinds.items() if kind in wanted}
        chosen: dict[Kind, list[Any]] = {kind: [] for kind in wanted}
        for thing in [thing for thing in things if type(thing) in types]:
            kind = self.of(thing)
            if kind in wanted:
                chosen[kind].append(thing)
        return chosen

    def _of_type(self, cls: type) -> Kind:
        if cls is EAGER_TENSOR:
            return Kind.TENSOR
        kind = self._known.get(cls)
        if kind is None:
            kind = self._known[cls] = self._decide(cls)
        return kind

    def _decide(self, cls: type) -> Kind:
        ancestors = type.mro(cls) if cls is not type else [type]
        for base, kind in self._classes:
            # Not issubclass: some classes answer it with code of their own.
            if base in ancestors:
                return kind
        named = (str(getattr(c, "__module__", "")).partition(".")[0] for c in ancestors)
        if next(named, "") in _LIBRARIES or any(_is_keras_part(c) for c in ancestors):
            return Kind.LIBRARY
        return Kind.OTHER

    @staticmethod
    def is_graph_part(kind: Kind) -> bool:
        """Tell whether a kind belongs to traced functions and their graphs."""
        return kind in _GRAPH_KINDS


def _is_keras_part(cls: type) -> bool:
    module = str(getattr(cls, "__module__", ""))
    return module.partition(".")[0] in ("keras", "tf_keras") and cls.__name__ in (
        "Layer",
        "BaseOptimizer",
        "Metric",
        "Loss",
    )


#: Methods that are compiled; pybind11's have a type without a public name.
_COMPILED: Final = (types.MethodDescriptorType, types.BuiltinFunctionType)
_OF_PYTHON: Final = frozenset(
    {
        *("builtins", "collections", "types", "functools", "numpy", "weakref", "_weakref", "_abc"),
        *("_thread", "itertools", "operator", "datetime", "contextvars", "inspect", "typing"),
    }
)


#: Answers of `is_native`: each search asks it of all classes of the process.
_native: Final = weakref.WeakKeyDictionary[type, bool]()


def is_native(cls: type) -> bool:
    """Tell whether a class is compiled, and no part of Python or NumPy: it may own memory."""
    known = _native.get(cls)
    if known is None:
        known = str(cls.__module__).partition(".")[0] not in _OF_PYTHON and any(
            isinstance(value, _COMPILED) or type(value).__name__ == "instancemethod"
            for value in list(vars(cls).values())
        )
        _native[cls] = known
    return known


def is_handle(tensor: Any) -> bool:
    """Tell whether an eager tensor only points at something (a resource or a variant)."""
    return bool(tensor.dtype.as_datatype_enum in _HANDLE_ENUMS)


_HANDLE_ENUMS: Final = frozenset(
    (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum),
)
_STRING_ENUM: Final = tf.string.as_datatype_enum


def _item_bytes(dtype: Any) -> float:
    if dtype.as_datatype_enum == _STRING_ENUM:
        return _STRING_BYTES
    try:
        return float(dtype.size)
    except (TypeError, KeyError):  # types without a size
        return 0


def tensor_bytes(tensor: Any) -> int:
    """Give the bytes of an eager tensor's own elements; 0 for resources and variants."""
    if is_handle(tensor):
        return 0
    return int(math.prod(internals.tensor_shape(tensor)) * _item_bytes(tensor.dtype))


def variable_bytes(variable: Any) -> int | None:
    """Give a variable's bytes from its shape; None when the shape can change."""
    shape = variable.shape
    if not shape.is_fully_defined():
        return None
    return int(math.prod(shape.as_list()) * _item_bytes(variable.dtype))


def variable_tensor(variable: Any) -> Any:
    """Read a variable into a tensor outside every tape and graph; None when it cannot be read.

    The tensor shares the variable's buffer (unless TensorFlow copies this variable on every
    read), so drop it before the variable is written again.
    """
    try:
        with tf.init_scope(), internals.stop_recording():
            if not tf.executing_eagerly():
                return None
            return tf.raw_ops.ReadVariableOp(
                resource=variable.handle, dtype=variable.dtype.base_dtype
            )
    except Exception:  # uninitialised, deleted, not a resource variable, of another device
        return None


def address_of(tensor: Any) -> int | None:
    """Give the address of an eager tensor's elements; None when they are not plain CPU memory.

    Nothing is copied: NumPy looks at the tensor's own memory.
    """
    if tensor.dtype.as_datatype_enum == _STRING_ENUM or is_handle(tensor):
        return None
    try:
        if "CPU" not in tensor.backing_device:
            return None
        view = np.asarray(tensor)
    except Exception:  # a type that NumPy does not know
        return None
    return None if not view.size or view.flags.owndata else int(view.ctypes.data)


def union_bytes(extents: Iterable[tuple[int, int]]) -> int:
    """Sum (address, bytes) with what overlaps counted once."""
    total = 0
    end: int | None = None
    for address, nbytes in sorted(extents):
        if address < 0 or end is None or address >= end:
            total += nbytes
            end = address + nbytes if address >= 0 else None
        elif address + nbytes > end:
            total += address + nbytes - end
            end = address + nbytes
    return total


def extent(thing: Any, kind: Kind) -> tuple[int, int]:
    """Give where a tensor's or variable's bytes lie and how many; an unknown place is negative."""
    tensor = variable_tensor(thing) if kind is Kind.VARIABLE else thing
    if tensor is None:
        with contextlib.suppress(Exception):
            return -id(thing), variable_bytes(thing) or 0
        return -id(thing), 0
    address = address_of(tensor)
    return (-id(thing) if address is None else address), tensor_bytes(tensor)


def lies_within(extents: list[tuple[int, int]]) -> list[bool]:
    """Tell of each (address, bytes) whether it lies within another, larger one or an equal one."""
    found = [False] * len(extents)
    end = -1
    # From left to right, the longer first: what ends before an earlier one's end lies within it.
    for i in sorted(range(len(extents)), key=lambda i: (extents[i][0], -extents[i][1], i)):
        address, nbytes = extents[i]
        if address < 0 or not nbytes:  # an unknown place
            continue
        found[i] = address + nbytes <= end
        end = max(end, address + nbytes)
    return found
