"""What one trace of a ``tf.function`` was made for: its arguments, as TensorFlow's key sees them.

A concrete function's type is turned into a tree of `Node`, one per argument and per element of a
list, tuple, dict or record.  Two nodes with equal keys are the same to TensorFlow's look-up.  A
node holds text, numbers and weak references: it keeps no argument, tensor or graph alive, and
building one runs nothing of TensorFlow.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import os
import reprlib
import weakref
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tracing.nodes import Node, ObjectKey, PartKind, shape_text

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 40


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
    reader = _Reader()
    parts = tuple(
        replace(
            reader.node(name, parameter.type_constraint),
            keyword_only=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        )
        for name, parameter in function_type.parameters.items()
    )
    bare = (PartKind.VALUE, PartKind.NONE, PartKind.OBJECT)
    text = ", ".join(
        f"{part.path}={part.text}" if part.kind in bare else f"{part.path}: {part.text}"
        for part in parts
    )
    return Node(
        "", PartKind.CALL, text, _key("call", names, parts), structure=names, children=parts
    )


def _key(*parts: Any) -> Hashable:
    *head, children = parts
    return (*head, tuple(child.key for child in children))


class _Reader:
    """Describes the arguments of one signature; knows which variables it has met."""

    def __init__(self) -> None:
        self._variables: dict[Any, str] = {}

    def node(self, path: str, type_: Any) -> Node:
        try:
            return self._known(path, type_)
        except Exception:  # a class with a type of its own must not break the user's call
            name = type(type_).__name__
            return Node(path, PartKind.OTHER, name, (name, id(type_)), structure=name)

    def _known(self, path: str, type_: Any) -> Node:
        match type_:
            case tf.TensorSpec():
                return _tensor(path, type_)
            case internals.VariableSpec():
                return self._variable(path, type_)
            case internals.default_types.Literal():
                return _literal(path, type_)
            case internals.default_types.Weakref():
                return _object(path, type_)
            case internals.default_types.List():
                return self._sequence(path, PartKind.LIST, type_.components_tuple.components)
            case internals.default_types.Tuple():
                return self._sequence(path, PartKind.TUPLE, type_.components)
            case internals.default_types.NamedTuple():
                names, values = type_.attribute_names, type_.attributes.components
                return self._record(path, type_.type_name, names, values)
            case internals.default_types.Attrs():
                inner = type_.named_attributes
                names, values = inner.attribute_names, inner.attributes.components
                return self._record(path, inner.type_name, names, values)
            case internals.default_types.Dict():
                return self._mapping(path, type_.mapping)
            case internals.CustomNestTraceType():
                name, parts = type_.value_type.__name__, type_.components
                names = tuple(map(str, range(len(parts))))
                return self._record(path, name, names, parts, _SHORT.repr(type_.metadata))
            case _ if _is_extension(type_):
                return self._extension(path, type_)
            case _:
                return self._other(path, type_)

    def _variable(self, path: str, type_: Any) -> Node:
        shape, dtype = _static_shape(type_), _dtype(type_)
        alias = getattr(type_, "alias_id", None)
        first = path if alias is None else self._variables.setdefault(alias, path)
        return Node(
            path,
            PartKind.VARIABLE,
            f"variable {dtype}{shape_text(shape)}",
            (PartKind.VARIABLE, type_),
            shape=shape,
            dtype=dtype,
            same_as="" if first == path else first,
            trainable=bool(getattr(type_, "trainable", True)),
        )

    def _sequence(self, path: str, kind: PartKind, components: Iterable[Any]) -> Node:
        parts = tuple(self.node(f"{path}[{i}]", part) for i, part in enumerate(components))
        inside = (
            ", ".join(part.text for part in parts) if len(parts) <= 3 else f"{len(parts)} parts"
        )
        text = f"[{inside}]" if kind is PartKind.LIST else f"({inside})"
        key = _key(kind, len(parts), parts)
        return Node(path, kind, text, key, structure=len(parts), children=parts)

    def _record(
        self, path: str, name: str, names: Iterable[str], values: Iterable[Any], more: str = ""
    ) -> Node:
        names = tuple(names)
        parts = tuple(
            self.node(f"{path}.{attribute}", part)
            for attribute, part in zip(names, values, strict=True)
        )
        structure = (name, names, more)
        key = _key("record", structure, parts)
        return Node(path, PartKind.RECORD, name, key, structure=structure, children=parts)

    def _mapping(self, path: str, mapping: Any) -> Node:
        # The order in which a dict was filled is not part of TensorFlow's key.
        keys = tuple(sorted(mapping, key=lambda key: (type(key).__name__, repr(key))))
        parts = tuple(self.node(f"{path}[{key!r}]", mapping[key]) for key in keys)
        text = "{" + ", ".join(map(repr, keys[:4])) + (", …" if len(keys) > 4 else "") + "}"
        structure = frozenset(keys)
        key = _key("dict", structure, parts)
        return Node(path, PartKind.DICT, text, key, structure=structure, children=parts)

    def _extension(self, path: str, type_: Any) -> Node:
        name = type_.value_type.__name__
        names = tuple(field for field in vars(type_) if not field.startswith("_tf_"))
        parts = tuple(self._part(f"{path}.{field}", vars(type_)[field]) for field in names)
        return Node(
            path,
            PartKind.EXTENSION,
            name,
            (name, _hashable(type_)),
            structure=(name, names),
            children=parts,
            full_text=repr(type_),
        )

    def _other(self, path: str, type_: Any) -> Node:
        name = type(type_).__name__.removesuffix("Spec").removesuffix("TraceType")
        shape, dtype = _static_shape(type_), _dtype(type_)
        # Iterators and data sets are told apart by what they give.
        elements = internals.elements_of(type_)
        parts = () if elements is None else (self._part(f"next({path})", elements),)
        text = name if dtype is None else f"{name} {dtype}{shape_text(shape)}"
        if parts:
            text = f"{name} of {parts[0].text}"
        return Node(
            path,
            PartKind.OTHER,
            text,
            (name, _hashable(type_)),
            shape=shape,
            dtype=dtype,
            structure=name,
            children=parts,
            # Other types stand for one object, and show where it lies in memory.
            full_text=repr(type_) if isinstance(type_, tf.TypeSpec) else "",
        )

    def _part(self, path: str, value: Any) -> Node:
        """Describe what a type holds: other types, containers of them, and plain values."""
        match value:
            case tf.TypeSpec():
                return self.node(path, value)
            case tuple() | list():
                parts = tuple(self._part(f"{path}[{i}]", part) for i, part in enumerate(value))
                text = f"({', '.join(part.text for part in parts)})"
                key = _key(PartKind.TUPLE, len(parts), parts)
                return Node(path, PartKind.TUPLE, text, key, structure=len(parts), children=parts)
            case Mapping():
                parts = tuple(self._part(f"{path}[{key!r}]", value[key]) for key in value)
                structure = frozenset(value)
                text, key = f"{{{', '.join(map(repr, value))}}}", _key("dict", structure, parts)
                return Node(path, PartKind.DICT, text, key, structure=structure, children=parts)
            case _:
                return _value(path, value, ("value", type(value), _hashable(value)))


def _is_extension(type_: Any) -> bool:
    made = getattr(type_, "value_type", None)
    return isinstance(made, type) and issubclass(made, tf.experimental.ExtensionType)


def _hashable(thing: Any) -> Hashable:
    # Types of Keras and of extensions may not be hashable; their text then stands for them.
    try:
        hash(thing)
    except TypeError:
        return repr(thing)
    hashable: Hashable = thing
    return hashable


def _literal(path: str, type_: Any) -> Node:
    value = float("nan") if type_.value is internals.default_types.NanMarker else type_.value
    return _value(path, value, ("value", type_))


def _value(path: str, value: Any, key: Hashable) -> Node:
    kind = PartKind.NONE if value is None else PartKind.VALUE
    name = type(value).__name__
    text = _SHORT.repr(value)
    return Node(path, kind, text, key, dtype=_dtype_for(value), value_type=name)


def _dtype_for(value: Any) -> str | None:
    """Name the dtype of a tensor that holds a Python number; None where there is none."""
    match value:
        case bool():
            return "bool"
        case int():
            bits = next(
                (bits for bits in (32, 64) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)), 0
            )
            return f"int{bits}" if bits else None
        case float():
            return "float32"
        case complex():
            return "complex128"
        case _:
            return None


def _static_shape(type_: Any) -> tuple[int | None, ...] | None:
    shape = getattr(type_, "shape", None)
    if not isinstance(shape, tf.TensorShape) or shape.rank is None:
        return None
    return tuple(shape.as_list())


def _dtype(type_: Any) -> str | None:
    dtype = getattr(type_, "dtype", None)
    return dtype.name if isinstance(dtype, tf.DType) else None


def _tensor(path: str, type_: Any) -> Node:
    shape, dtype = _static_shape(type_), _dtype(type_)
    text = f"{dtype}{shape_text(shape)}"
    return Node(path, PartKind.TENSOR, text, (PartKind.TENSOR, type_), shape=shape, dtype=dtype)


def _object(path: str, type_: Any) -> Node:
    ref = internals.weak_key(type_)
    value = ref() if isinstance(ref, weakref.ref) else None
    key = ("object", ObjectKey(ref, hash(type_)))
    if isinstance(value, _VALUES):
        text = str(value) if isinstance(value, enum.Enum) else repr(value)
        return Node(path, PartKind.VALUE, text, key, value_type=type(value).__name__)
    text, origin = describe_object(value)
    return Node(
        path,
        PartKind.OBJECT,
        text,
        key,
        origin=origin,
        by_equality=origin is None and _defines_equality(type(value)),
        value_type=type(value).__name__,
    )


def _defines_equality(cls: type) -> bool:
    defined = next(vars(base)["__eq__"] for base in cls.__mro__ if "__eq__" in vars(base))
    return defined is not vars(object)["__eq__"]


#: Classes whose instances are values: their own text says more than their class.
_VALUES: Final = (tf.TensorShape, tf.DType, enum.Enum)


def describe_object(value: Any) -> tuple[str, Hashable]:
    """Name an object without running code of its class.

    Returns
    -------
    (str, hashable)
        The name, and for functions what they were made from: two that share it can stand for each
        other.  None for other objects, of which that cannot be told.
    """
    if value is None:
        return "an object that is gone", None
    if isinstance(value, functools.partial):
        text, origin = describe_object(value.func)
        given = (*map(id, value.args), *((k, id(v)) for k, v in value.keywords.items()))
        return f"partial of {text}", ("partial", origin or id(value.func), given)
    if inspect.ismethod(value):
        name = f"{type(value.__self__).__name__}.{value.__func__.__name__}"
        return f"bound method {name}", ("method", name, id(value.__self__))
    if inspect.isclass(value):
        return f"class {value.__name__}", None
    code = getattr(value, "__code__", None)
    if code is not None:
        place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        made = (code.co_filename, code.co_firstlineno, code.co_name, _given(value))
        return f"{value.__name__} ({place})", made
    return f"{type(value).__name__} object", None


def _given(function: Any) -> tuple[int, ...]:
    """Give the identities of what a function took from outside when it was made."""
    found = list(getattr(function, "__defaults__", None) or ())
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            found.append(cell.cell_contents)
    return tuple(map(id, found))
