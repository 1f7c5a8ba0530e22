"""Where two values differ, in words.

Values are tensors, variables, NumPy arrays, sparse gradients, numbers, text, and tuples, lists or
dicts of these.  A comparison makes NumPy copies, so it is never done while memory is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lessons_lib.common.runtime import tf


def is_nothing(value: object) -> bool:
    """Tell whether a value stands for an answer that was not written."""
    return value is None or value is Ellipsis or value is NotImplemented


def to_numpy(value: Any) -> npt.NDArray[Any]:
    """Give a leaf as a NumPy array; sparse gradients become dense."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if hasattr(value, "numpy"):
        value = value.numpy()
    return np.asarray(value)


def snapshot(value: Any) -> Any:
    """Copy a value's numbers out, so that nothing of the original is kept alive."""
    if isinstance(value, Mapping):
        return {key: snapshot(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, tf.IndexedSlices):
        return [snapshot(part) for part in value]
    if value is None or isinstance(value, (str, bytes)):
        return value
    return np.array(to_numpy(value))


def _name(path: str) -> str:
    return f"{path} of your result" if path else "your result"


def difference(got: Any, expected: Any, *, tolerance: float = 1e-4, path: str = "") -> str:
    """Say where a value differs from the expected one.

    Parameters
    ----------
    got, expected : object
        Values as `snapshot` gives them, or the originals.
    tolerance : float
        Relative, and relative to the largest expected magnitude for values near zero.
    path : str
        Used in recursion: where in the value we are.

    Returns
    -------
    str
        One sentence, or an empty string when they agree.
    """
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping):
            return f"{_name(path)} is a {type(got).__name__}, a dict was expected"
        if set(got) != set(expected):
            keys, wanted = sorted(map(str, got)), sorted(map(str, expected))
            return f"{_name(path)} has keys {keys}, expected {wanted}"
        parts: list[tuple[str, Any, Any]] = [
            (f"{path}[{key!r}]", got[key], expected[key]) for key in expected
        ]
    elif isinstance(expected, (list, tuple)) and not isinstance(expected, tf.IndexedSlices):
        try:
            length = len(got)
        except TypeError:
            return f"{_name(path)} is one value, {len(expected)} were expected"
        if length != len(expected):
            return f"{_name(path)} has {length} parts, {len(expected)} were expected"
        parts = [(f"{path}[{i}]", got[i], expected[i]) for i in range(length)]
    else:
        return _leaf_difference(got, expected, tolerance, path)
    return next(
        (
            found
            for where, a, b in parts
            if (found := difference(a, b, tolerance=tolerance, path=where))
        ),
        "",
    )


def _leaf_difference(got: Any, expected: Any, tolerance: float, path: str) -> str:
    if expected is None or isinstance(expected, (str, bytes)):
        return "" if got == expected else f"{_name(path)} is {got!r}, expected {expected!r}"
    if got is None:
        return f"{_name(path)} is None"
    try:
        a, b = to_numpy(got), to_numpy(expected)
    except Exception as error:
        return f"{_name(path)} cannot be read as numbers ({type(error).__name__})"
    if a.dtype == object or a.dtype.kind in "SU":
        return f"{_name(path)} is a {type(got).__name__}, numbers were expected"
    if a.shape != b.shape:
        return f"{_name(path)} has shape {list(a.shape)}, expected {list(b.shape)}"
    if not a.size:
        return ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = float(np.max(np.abs(b)))
    wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance * scale)
    if not wrong.any():
        return ""
    first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    index = "".join(f"[{', '.join(str(int(i)) for i in first)}]" if first else "")
    share = f" ({int(wrong.sum())} of {wrong.size} elements differ)" if wrong.size > 1 else ""
    what = f"element {path}{index}" if path or index else _name(path)
    return f"{what} is {_number(a[first])}, expected {_number(b[first])}{share}"


def _number(value: float) -> str:
    # Whole numbers, such as bytes, are shown to the last digit.
    return str(int(value)) if abs(value) < 2**53 and value == int(value) else f"{value:.6g}"


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are exactly equal."""
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    return bool(a == b)
