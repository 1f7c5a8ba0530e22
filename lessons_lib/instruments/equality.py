"""Whether two results agree: the same structure, shapes, dtypes and, within a tolerance, numbers.

A result is first copied to plain NumPy arrays and Python values (`snapshot`), which keeps no
tensor alive, and snapshots are then compared (`first_difference`), numbers within a tolerance
(`lessons_lib.instruments.tolerance`).
Extension types, dataclasses and attrs classes are compared field by field, sets as sets.  Objects
that hold no numbers (models, say) are not compared.  Nothing here records memory.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pathlib
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.tolerance import Array, close_numbers

_DEEPEST: Final = 40
#: Values that hold no tensor and are compared by ``==``.
_PLAIN: Final = (
    str, bytes, type(None), enum.Enum, range, slice, type,
    decimal.Decimal, fractions.Fraction, pathlib.PurePath,
    datetime.date, datetime.time, datetime.timedelta,
    tf.DType, tf.TensorShape, np.dtype,
)  # fmt: skip
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60
_NUMBERS: Final = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array of a result, copied.

    Attributes
    ----------
    values : NumPy array
    dtype : str or None
        Name of its dtype; None for a Python number, which agrees with any.
    """

    values: Array
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something in a result that holds no numbers that could be compared."""

    kind: str


class Fields(dict[str, Any]):
    """The named parts of a result that is one object: an extension type, a ragged tensor."""

    def __init__(self, kind: str, parts: Iterable[tuple[str, Any]]) -> None:
        super().__init__(parts)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Members:
    """A set of a result, copied; a tensor's numbers stand for the tensor."""

    values: frozenset[Any]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where two results differ first.

    Attributes
    ----------
    path : str
        Where in the results, as one would write it: ``"['loss'][2]"``; empty for the whole.
    reason : str
        In words: what is there in the one and in the other.
    count, size : int
        How many numbers differ there by more than the tolerance, of how many.  0 when something
        else than numbers differs.
    """

    path: str
    reason: str
    count: int = 0
    size: int = 0

    def __str__(self) -> str:
        where = f"at result{self.path}" if self.path else "in the result"
        many = f" ({self.count:,} of {self.size:,} numbers there differ)" if self.size > 1 else ""
        return f"{where}: {self.reason}{many}"


def snapshot(value: Any, depth: int = 0) -> Any:
    """Copy a result, so that no tensor of it is kept alive.

    Parameters
    ----------
    value
        Tensors (ragged and sparse ones, too), variables, NumPy arrays, numbers, text, extension
        types, and any nest of lists, dicts, sets, named tuples, dataclasses and attrs classes.

    Returns
    -------
    object
        Dicts, lists, `Leaf`, `Fields`, `Members` and plain values; `Opaque` for what cannot be
        compared.
    """

    def inside(part: Any) -> Any:
        return snapshot(part, depth + 1)

    match value:
        case bool() | int() | float() | complex():
            return Leaf(np.asarray(value), None)
        case _ if isinstance(value, _PLAIN):
            return value
        case _ if depth > _DEEPEST:
            return Opaque(type(value).__name__)
        case tf.IndexedSlices() if value.dense_shape is not None:
            return _dense(value)
        case tf.RaggedTensor() | tf.SparseTensor() | tf.IndexedSlices():
            return Fields(type(value).__name__, ((k, inside(v)) for k, v in _components(value)))
        case tf.experimental.ExtensionType():
            return Fields(type(value).__name__, ((k, inside(v)) for k, v in _declared(value)))
        case Mapping():
            return {key: inside(value[key]) for key in value}
        case np.ndarray() if value.dtype.kind == "O":
            return inside(value.tolist())  # a copy of the array would hold the objects themselves
        case np.ndarray() | np.generic():
            return Leaf(np.array(value), str(value.dtype))
        case _ if tf.is_tensor(value) or hasattr(value, "numpy"):
            return _tensor(value)
        case tuple() if hasattr(value, "_fields"):
            return {name: inside(getattr(value, name)) for name in value._fields}
        case Sequence() | ValuesView():
            return [inside(item) for item in value]
        case AbstractSet():
            return Members(frozenset(map(_member, value)))
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {f.name: inside(getattr(value, f.name)) for f in fields(value)}
        case _ if hasattr(type(value), "__attrs_attrs__"):
            return {f.name: inside(getattr(value, f.name)) for f in type(value).__attrs_attrs__}
        case _:
            return Opaque(type(value).__name__)


def _components(value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case tf.RaggedTensor():
            yield "flat_values", value.flat_values
            for i, splits in enumerate(value.nested_row_splits):
                yield f"row_splits {i}", splits
        case tf.SparseTensor():
            yield "indices", value.indices
            yield "values", value.values
            yield "dense_shape", value.dense_shape
        case _:
            yield "indices", value.indices
            yield "values", value.values


def _dense(value: Any) -> Leaf:
    # Slices may repeat rows and come in any order: only their sum can be compared.
    rows, indices = value.values.numpy(), value.indices.numpy()
    dense = np.zeros(tuple(value.dense_shape.numpy()), rows.dtype)
    np.add.at(dense, indices, rows)
    return Leaf(dense, value.values.dtype.name)


def _declared(value: Any) -> Iterator[tuple[str, Any]]:
    """Give the fields of an extension type, in the order of their declaration."""
    for cls in reversed(type(value).__mro__):
        for name in vars(cls).get("__annotations__", ()):
            if name in vars(value):
                yield name, vars(value)[name]


def _member(value: Any) -> Any:
    """Give a hashable stand-in for a member of a set."""
    if isinstance(value, tuple):
        return tuple(map(_member, value))
    if isinstance(value, AbstractSet):
        return frozenset(map(_member, value))
    if isinstance(value, (*_PLAIN, *_NUMBERS, np.generic)):
        return value
    deref = getattr(value, "deref", None)  # tensor.ref(), which is how a set holds a tensor
    shot = _tensor(deref()) if callable(deref) else Opaque(type(value).__name__)
    if isinstance(shot, Leaf):
        return shot.dtype, shot.values.shape, shot.values.tobytes()
    return shot


def _tensor(value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    name = getattr(dtype, "name", str(dtype))
    try:
        return Leaf(np.array(value.numpy()), name)
    except Exception:  # a resource, a variant, a symbolic tensor: no numbers to be had
        return Opaque(type(value).__name__)


def holds_numbers(shot: Any) -> bool:
    """Tell whether there is anything in a snapshot that can be compared."""
    match shot:
        case Leaf() | Members():
            return True
        case None | Opaque():
            return False
        case dict():
            return any(map(holds_numbers, shot.values()))
        case list():
            return any(map(holds_numbers, shot))
        case _:
            return True  # text, and other plain values


def uncompared(shot: Any, path: str = "") -> list[str]:
    """List what in a snapshot is not compared: ``"result['model'] (Sequential)"``."""
    match shot:
        case Opaque(kind):
            return [f"result{path} ({kind})"]
        case Members(values):
            kinds = sorted({value.kind for value in values if isinstance(value, Opaque)})
            return [f"result{path} (a set of {kind})" for kind in kinds]
        case dict():
            return [text for key in shot for text in uncompared(shot[key], f"{path}[{key!r}]")]
        case list():
            return [
                text for i, item in enumerate(shot) for text in uncompared(item, f"{path}[{i}]")
            ]
        case _:
            return []


def first_difference(
    one: Any, other: Any, *, rtol: float | None = None, path: str = ""
) -> Mismatch | None:
    """Compare two snapshots.

    Parameters
    ----------
    one, other
        What `snapshot` gave.
    rtol : float, optional
        Relative tolerance; by default that of the less precise of the two number types.

    Returns
    -------
    Mismatch or None
        The first difference in the order of the results; None where they agree.
    """
    match one, other:
        case Leaf(), Leaf():
            return _leaves(one, other, rtol, path)
        case dict(), dict():
            if getattr(one, "kind", "") != getattr(other, "kind", ""):
                return Mismatch(path, f"{_what(one)} against {_what(other)}")
            if list(one) != list(other) and set(one) != set(other):
                return Mismatch(path, f"keys {_keys(one)} against {_keys(other)}")
            pairs = [(f"{path}[{key!r}]", one[key], other[key]) for key in one]
        case list(), list():
            if len(one) != len(other):
                return Mismatch(path, f"{len(one)} items against {len(other)}")
            pairs = [
                (f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))
            ]
        case Members(a), Members(b):
            if a == b or _near_each_other(a, b, rtol):
                return None
            return Mismatch(path, f"a set with {_only(a - b)} against one with {_only(b - a)}")
        case Opaque(kind=a), Opaque(kind=b):
            return None if a == b else Mismatch(path, f"{_article(a)} against {_article(b)}")
        case _:
            same = type(one) is type(other) and bool(one == other)
            return None if same else Mismatch(path, f"{_what(one)} against {_what(other)}")
    for place, a, b in pairs:
        if (found := first_difference(a, b, rtol=rtol, path=place)) is not None:
            return found
    return None


def _keys(shot: Mapping[Any, Any]) -> str:
    return "[" + ", ".join(sorted(map(repr, shot))) + "]"


def _near_each_other(a: frozenset[Any], b: frozenset[Any], rtol: float | None) -> bool:
    """Tell whether two sets of numbers differ by rounding alone."""
    if len(a) != len(b) or not all(isinstance(value, (int, float)) for value in a | b):
        return False
    one, other = (Leaf(np.array(sorted(values)), None) for values in (a, b))
    return _leaves(one, other, rtol, "") is None


def _only(values: frozenset[Any]) -> str:
    shown = sorted(map(_SHORT.repr, values))
    return "{" + ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "") + "}"


def _what(shot: Any) -> str:
    match shot:
        case Leaf(values=values, dtype=None):
            return f"the Python number {_number(values[()])}"
        case Leaf(values, dtype):
            return f"{_article(str(dtype))} array of shape {list(values.shape)}"
        case Fields():
            return _article(shot.kind)
        case Members():
            return "a set"
        case dict():
            return "a mapping"
        case list():
            return f"a sequence of {len(shot)}"
        case Opaque(kind):
            return _article(kind)
        case None:
            return "nothing (None)"
        case _:
            return _SHORT.repr(shot)


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def _leaves(one: Leaf, other: Leaf, rtol: float | None, path: str) -> Mismatch | None:
    forms = []
    if one.values.shape != other.values.shape:
        forms.append(f"shape {list(one.values.shape)} against {list(other.values.shape)}")
    if one.dtype is not None and other.dtype is not None and one.dtype != other.dtype:
        forms.append(f"dtype {one.dtype} against {other.dtype}")
    if forms:
        return Mismatch(path, " and ".join(forms))
    close, tolerance = close_numbers((one.values, one.dtype), (other.values, other.dtype), rtol)
    wrong = np.flatnonzero(~close.reshape(-1))
    if not len(wrong):
        return None
    index = np.unravel_index(wrong[0], one.values.shape) if one.values.shape else ()
    place = f"{path}[{', '.join(map(str, index))}]" if index else path
    a, b = one.values[index], other.values[index]
    within = f", more than the relative tolerance of {tolerance:.2g}" if tolerance else ""
    return Mismatch(
        place, f"{_number(a)} against {_number(b)}{within}", len(wrong), one.values.size
    )


def _number(value: Any) -> str:
    return _SHORT.repr(value.item() if hasattr(value, "item") else value)
