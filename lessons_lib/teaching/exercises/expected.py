"""Is a result what the task asked for: its form, dtype, shape and every element.

What is expected is kept as plain NumPy arrays with their form (`expect`), so that it holds nothing
of TensorFlow's.  A result is never changed, and only types that hold their numbers already are
read: nothing can be computed by looking at it.

`lessons_lib.instruments.equality` compares two results of the user's, which it copies, and within
a tolerance that follows from their dtypes.  Here one side is right, and the other is somebody's
answer: it is looked at where it lies, since the memory that it takes is judged as well, and what
is said of it tells what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lessons_lib.common.runtime import tf

Array = npt.NDArray[Any]
_BLOCK: Final = 2**16  # elements that are compared at once


class Form(StrEnum):
    """What holds the numbers."""

    NUMBER = "a number"
    TENSOR = "a tensor"
    ARRAY = "a NumPy array"
    SLICES = "tf.IndexedSlices"


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected numbers: their form, dtype by name, and values."""

    form: Form
    dtype: str
    values: Array


def is_nothing(value: object) -> bool:
    """Tell whether a value stands for an answer that was not written."""
    return value is None or value is Ellipsis or value is NotImplemented


def form_of(value: Any) -> Form | None:
    """Tell what holds a result's numbers; None for anything else than numbers."""
    if isinstance(value, tf.IndexedSlices):
        return Form.SLICES
    if isinstance(value, tf.Variable) or (
        isinstance(value, tf.Tensor)  # neither sparse nor ragged
        and hasattr(value, "numpy")
        and value.dtype.is_numpy_compatible
    ):
        return Form.NUMBER if value.shape.rank == 0 else Form.TENSOR
    if isinstance(value, np.ndarray):
        if value.dtype == object or (value.dtype.kind in "SUV" and value.dtype.names):
            return None
        return Form.NUMBER if value.ndim == 0 else Form.ARRAY
    if isinstance(value, (bool, int, float, complex, np.generic)) and not isinstance(value, str):
        return Form.NUMBER
    return None


def _numbers(value: Any) -> Array:
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if isinstance(value, tf.Variable):
        value = value.read_value()
    # A tensor is looked at where it lies: no copy is made.
    return np.asarray(value)


def _dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str(getattr(dtype, "name", dtype)) if dtype is not None else type(value).__name__


def expect(value: Any) -> Any:
    """Copy an expected value: numbers as `Expected`, the rest as it is."""
    if isinstance(value, Mapping):
        return {key: expect(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, tf.IndexedSlices):
        return [expect(part) for part in value]
    form = form_of(value)
    return value if form is None else Expected(form, _dtype(value), np.array(_numbers(value)))


def with_article(name: str) -> str:
    """Write a type's name with its article: ``an int``, ``a list``."""
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _what(value: Any) -> str:
    """Say what somebody returned, with an article."""
    match value:
        case None:
            return "None"
        case Mapping():
            return "a dict"
        case list() | tuple():
            return f"a {type(value).__name__} of {len(value)}"
    form = form_of(value)
    if form is None:
        return with_article(type(value).__name__)
    if form in (Form.TENSOR, Form.ARRAY):
        return f"{form} of shape {list(value.shape)}"
    return str(form)


def _name(path: str) -> str:
    return f"{path} of your result" if path else "your result"


def difference(got: Any, expected: Any, *, tolerance: float = 1e-4, path: str = "") -> str:
    """Say where a result differs from what was expected.

    Parameters
    ----------
    got : object
        The result itself.
    expected : object
        What `expect` gave, or the value itself.
    tolerance : float
        Relative, and relative to the largest expected magnitude for values near zero; 0 means
        that every number is exact.
    path : str
        Used in recursion: where in the value we are.

    Returns
    -------
    str
        One sentence, or an empty string when they agree.
    """
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping):
            return f"{_name(path)} is {_what(got)}, a dict was expected"
        if set(got) != set(expected):
            keys, wanted = sorted(map(str, got)), sorted(map(str, expected))
            return f"{_name(path)} has keys {keys}, expected {wanted}"
        parts = [(f"{path}[{key!r}]", got[key], expected[key]) for key in expected]
    elif isinstance(expected, (list, tuple)):
        if not isinstance(got, Sequence) or isinstance(got, str):
            return f"{_name(path)} is {_what(got)}, a list of {len(expected)} was expected"
        if len(got) != len(expected):
            return f"{_name(path)} has {len(got)} parts, {len(expected)} were expected"
        parts = [(f"{path}[{i}]", got[i], expected[i]) for i in range(len(expected))]
    else:
        return _leaf_difference(got, expected, tolerance, path)
    for place, one, other in parts:
        if found := difference(one, other, tolerance=tolerance, path=place):
            return found
    return ""


def _leaf_difference(got: Any, expected: Any, tolerance: float, path: str) -> str:
    leaf = expected if isinstance(expected, Expected) else expect(expected)
    if not isinstance(leaf, Expected):
        return "" if got == leaf else f"{_name(path)} is {got!r}, expected {leaf!r}"
    if wrong := _form_difference(got, leaf, path):
        return wrong
    if isinstance(got, tf.IndexedSlices) and got.dense_shape is None:
        return f"{_name(path)} is tf.IndexedSlices without a dense_shape: say of which shape it is"
    numbers = _numbers(got)
    if numbers.shape != leaf.values.shape:
        shape, wanted = list(numbers.shape), list(leaf.values.shape)
        return f"{_name(path)} has shape {shape}, expected {wanted}"
    if leaf.form is not Form.NUMBER and _dtype(got) != leaf.dtype:
        return f"{_name(path)} has dtype {_dtype(got)}, expected {leaf.dtype}"
    return _number_difference(numbers, leaf.values, tolerance, path)


def _form_difference(got: Any, leaf: Expected, path: str) -> str:
    form = form_of(got)
    wanted = str(leaf.form)
    if leaf.form in (Form.TENSOR, Form.SLICES):
        if form in (Form.TENSOR, Form.SLICES, Form.NUMBER) and not isinstance(got, (float, int)):
            return ""
        # One number a step is often kept as a Python list.
        wanted = f"one tensor of shape {list(leaf.values.shape)}"
    elif form is leaf.form or form in (Form.TENSOR, Form.ARRAY):
        return ""  # the shape tells the rest
    if tf.is_symbolic_tensor(got):
        return (
            f"{_name(path)} is a tensor of a graph that was traced, and has no value outside of it:"
            " return it from the tf.function"
        )
    cure = ": tf.constant(…) makes one" if form is Form.ARRAY else ""
    if isinstance(got, (list, tuple)) and got:
        cure = ": tf.stack(…) makes one"
    return f"{_name(path)} is {_what(got)}, {wanted} was expected{cure}"


def _number_difference(got: Array, expected: Array, tolerance: float, path: str) -> str:
    if not expected.size:
        return ""
    a, b = got.reshape(-1), expected.reshape(-1)
    largest = max(
        (float(np.max(np.abs(_wide(b[i : i + _BLOCK])))) for i in range(0, b.size, _BLOCK)),
        default=0.0,
    )
    first, count = -1, 0
    for start in range(0, b.size, _BLOCK):
        one, other = _wide(a[start : start + _BLOCK]), _wide(b[start : start + _BLOCK])
        wrong = ~np.isclose(one, other, rtol=tolerance, atol=tolerance * largest)
        if wrong.any():
            first = start + int(np.argmax(wrong)) if first < 0 else first
            count += int(wrong.sum())
    if not count:
        return ""
    place = np.unravel_index(first, expected.shape) if expected.shape else ()
    index = f"[{', '.join(str(int(i)) for i in place)}]" if place else ""
    share = f" ({count} of {b.size} elements differ)" if b.size > 1 else ""
    what = f"element {path}{index}" if path or index else _name(path)
    return f"{what} is {_number(a[first])}, expected {_number(b[first])}{share}"


def _wide(values: Array) -> Array:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _number(value: Any) -> str:
    if isinstance(value, (complex, np.complexfloating)):
        return f"{complex(value):.6g}"
    number = float(value)
    if not np.isfinite(number):
        return str(number)
    # Whole numbers, such as bytes, are shown to the last digit.
    return str(int(value)) if abs(number) < 2**53 and number == int(number) else f"{number:.6g}"
