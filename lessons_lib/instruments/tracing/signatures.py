"""What one trace of a ``tf.function`` was made for: its arguments, as TensorFlow's key sees them.

A concrete function's type is turned into a tree of `Node`, one per argument and per element of a
list, tuple, dict or record.  Two nodes with equal keys are the same to TensorFlow's look-up.  A
node holds text, numbers and weak references: it keeps no argument, tensor or graph alive, and
building one runs nothing of TensorFlow.
"""

from __future__ import annotations

import enum
import functools
import inspect
import os
import reprlib
import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.runtime import tf

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 40


class Kind(StrEnum):
    """What an argument, or a part of one, is to the key."""

    CALL = "call"
    TENSOR = "tensor"
    VARIABLE = "variable"
    VALUE = "Python value"
    OBJECT = "object"
    LIST = "list"
    TUPLE = "tuple"
    DICT = "dict"
    RECORD = "record"
    OTHER = "other"


class ObjectKey:
    """Stands for an object in a key: by identity, or by ``==`` while both objects live.

    TensorFlow keeps a weak reference and compares the objects themselves, so an object that has
    died matches nothing any more.
    """

    __slots__ = ("hash", "ref")

    def __init__(self, ref: Any, number: int) -> None:
        self.ref = ref
        self.hash = number

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectKey):
            return NotImplemented
        if self.ref is other.ref:
            return True
        mine, theirs = self.ref(), other.ref()
        if mine is None or theirs is None:
            return False
        try:
            return mine is theirs or bool(mine == theirs)
        except Exception:  # the user's own comparison; TensorFlow would have failed on it as well
            return False


@dataclass(frozen=True, slots=True)
class Node:
    """An argument or a part of one.

    Attributes
    ----------
    path : str
        How to name it: ``x``, ``batch['image']``, ``states[0].h``.
    kind : Kind
        What it is.
    text : str
        How to show it: ``float32[2, 3]``, ``5``, ``list of 2``.
    key : hashable
        Equal keys mean: the same to TensorFlow's look-up.
    shape : tuple of (int or None), or None
        Of tensors and variables; None when the rank is not known.
    dtype : str or None
        Of tensors and variables.
    frame : hashable
        What two containers must share before their parts can be compared: length, keys, class.
    children : tuple of Node
        The parts of a container.
    maker : hashable
        For objects: what made it (a function's code, a class), to tell "made again" from
        "another one".
    value_type : str
        For Python values: name of the class.
    """

    path: str
    kind: Kind
    text: str
    key: Hashable
    shape: tuple[int | None, ...] | None = None
    dtype: str | None = None
    frame: Hashable = None
    children: tuple[Node, ...] = field(default=(), repr=False)
    maker: Hashable = None
    value_type: str = ""


def signature_of(function_type: Any) -> Node:
    """Describe the arguments that a concrete function was traced for.

    Parameters
    ----------
    function_type : FunctionType
        ``concrete_function.function_type``.

    Returns
    -------
    Node
        Of kind ``CALL``; its children are the arguments in the order of the signature.
    """
    names = tuple(function_type.parameters)
    parts = tuple(
        _node(name, parameter.type_constraint)
        for name, parameter in function_type.parameters.items()
    )
    text = ", ".join(
        f"{part.path}={part.text}"
        if part.kind in (Kind.VALUE, Kind.OBJECT)
        else f"{part.path}: {part.text}"
        for part in parts
    )
    return Node("", Kind.CALL, text, _key("call", names, parts), frame=names, children=parts)


def _key(*parts: Any) -> Hashable:
    *head, children = parts
    return (*head, tuple(child.key for child in children))


def _node(path: str, type_: Any) -> Node:
    try:
        return _known_node(path, type_)
    except Exception:  # a class with a type of its own must not break the user's call
        name = type(type_).__name__
        return Node(path, Kind.OTHER, name, (name, id(type_)), frame=name)


def _known_node(path: str, type_: Any) -> Node:
    match type_:
        case tf.TensorSpec():
            return _tensor(path, Kind.TENSOR, type_, type_)
        case internals.VariableSpec():
            return _tensor(path, Kind.VARIABLE, type_, type_)
        case internals.default_types.Literal():
            value = type_.value
            if value is internals.default_types.NanMarker:
                value = float("nan")
            text, kind = _SHORT.repr(value), type(value).__name__
            return Node(path, Kind.VALUE, text, ("value", type_), value_type=kind)
        case internals.default_types.Weakref():
            return _object(path, type_)
        case internals.default_types.List():
            return _sequence(path, Kind.LIST, type_.components_tuple.components)
        case internals.default_types.Tuple():
            return _sequence(path, Kind.TUPLE, type_.components)
        case internals.default_types.NamedTuple():
            return _record(path, type_.type_name, type_.attribute_names, type_.attributes)
        case internals.default_types.Attrs():
            inner = type_.named_attributes
            return _record(path, inner.type_name, inner.attribute_names, inner.attributes)
        case internals.default_types.Dict():
            return _mapping(path, type_.mapping)
        case internals.CustomNestTraceType():
            parts = tuple(_node(f"{path}.{i}", part) for i, part in enumerate(type_.components))
            name = type_.value_type.__name__
            frame = (name, _SHORT.repr(type_.metadata), len(parts))
            return Node(
                path, Kind.RECORD, name, _key("custom", frame, parts), frame=frame, children=parts
            )
        case _:
            return _other(path, type_)


def shape_text(shape: Any) -> str:
    """Write a shape as ``[2, None]``, or say that its rank is not known."""
    return " of unknown rank" if shape is None else str(list(shape))


def _static_shape(type_: Any) -> tuple[int | None, ...] | None:
    shape = getattr(type_, "shape", None)
    if not isinstance(shape, tf.TensorShape) or shape.rank is None:
        return None
    return tuple(shape.as_list())


def _dtype(type_: Any) -> str | None:
    dtype = getattr(type_, "dtype", None)
    return dtype.name if isinstance(dtype, tf.DType) else None


def _tensor(path: str, kind: Kind, type_: Any, key: Hashable) -> Node:
    shape, dtype = _static_shape(type_), _dtype(type_)
    text = f"{dtype}{shape_text(shape)}"
    if kind is Kind.VARIABLE:
        text = f"variable {text}"
    return Node(path, kind, text, (kind, key), shape=shape, dtype=dtype)


def _other(path: str, type_: Any) -> Node:
    name = type(type_).__name__.removesuffix("Spec")
    shape, dtype = _static_shape(type_), _dtype(type_)
    text = name if dtype is None else f"{name} {dtype}{shape_text(shape)}"
    # Types of Keras and of extensions may not be hashable; their text then stands for them.
    key: Hashable = type_
    try:
        hash(type_)
    except TypeError:
        key = repr(type_)
    return Node(path, Kind.OTHER, text, (name, key), shape=shape, dtype=dtype, frame=name)


def _sequence(path: str, kind: Kind, components: Iterable[Any]) -> Node:
    parts = tuple(_node(f"{path}[{i}]", part) for i, part in enumerate(components))
    inside = ", ".join(part.text for part in parts) if len(parts) <= 3 else f"{len(parts)} parts"
    text = f"[{inside}]" if kind is Kind.LIST else f"({inside})"
    frame = len(parts)
    return Node(path, kind, text, _key(kind, frame, parts), frame=frame, children=parts)


def _record(path: str, name: str, names: Iterable[str], attributes: Any) -> Node:
    names = tuple(names)
    parts = tuple(
        _node(f"{path}.{attribute}", part)
        for attribute, part in zip(names, attributes.components, strict=True)
    )
    frame = (name, names)
    key = _key("record", frame, parts)
    return Node(path, Kind.RECORD, name, key, frame=frame, children=parts)


def _mapping(path: str, mapping: Any) -> Node:
    # The order in which a dict was filled is not part of TensorFlow's key.
    keys = tuple(sorted(mapping, key=lambda key: (type(key).__name__, repr(key))))
    parts = tuple(_node(f"{path}[{key!r}]", mapping[key]) for key in keys)
    text = "{" + ", ".join(map(repr, keys[:4])) + (", …" if len(keys) > 4 else "") + "}"
    frame = frozenset(keys)
    return Node(path, Kind.DICT, text, _key("dict", frame, parts), frame=frame, children=parts)


def _object(path: str, type_: Any) -> Node:
    ref = internals.weak_key(type_)
    value = ref() if isinstance(ref, weakref.ref) else None
    text, maker = describe_object(value)
    return Node(path, Kind.OBJECT, text, ("object", ObjectKey(ref, hash(type_))), maker=maker)


#: Classes whose instances are values: their own text says more than their class.
_VALUES: Final = (tf.TensorShape, tf.DType, enum.Enum)


def describe_object(value: Any) -> tuple[str, Hashable]:
    """Name an object without running code of its class.

    Returns
    -------
    (str, hashable)
        The name, and what made the object: two lambdas from one line share it.  None for an
        object that is gone.
    """
    if value is None:
        return "an object that is gone", None
    if isinstance(value, _VALUES):
        text = str(value) if isinstance(value, enum.Enum) else repr(value)
        return text, type(value).__qualname__
    if isinstance(value, functools.partial):
        text, maker = describe_object(value.func)
        return f"partial of {text}", ("partial", maker)
    if inspect.ismethod(value):
        name = f"{type(value.__self__).__name__}.{value.__func__.__name__}"
        return f"bound method {name}", ("method", name)
    if inspect.isclass(value):
        return f"class {value.__name__}", ("class", value.__qualname__)
    code = getattr(value, "__code__", None)
    if code is not None:
        place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        made = (code.co_filename, code.co_firstlineno, code.co_name)
        return f"{value.__name__} ({place})", made
    return f"{type(value).__name__} object", type(value).__qualname__
