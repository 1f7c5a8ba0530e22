"""How close two arrays of numbers must be to count as the same result.

The tolerance of a number type is the square root of its precision, relative to the larger of two
numbers.  An array's largest number, a mask's aside, gives a small absolute tolerance, so that sums
that cancel out are not accused.  A sum's terms are not known: where one number is far beyond all
others and the same in both results, it is taken for a mask's, as rounding would differ there too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Share of the relative tolerance that is granted absolutely, for an array's largest number.
_CANCELLED: Final = 0.01
#: The size from which on a number that is the same in both results may be a mask's.
_FILLING: Final = 1e3
# What NumPy calls these types is known to NumPy only once TensorFlow has registered them.
_PRECISION: Final = {
    "bfloat16": 2.0**-7,
    "float8_e4m3b11fnuz": 2.0**-3,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
}


def precision(values: Array, dtype: str | None) -> float:
    """Give the relative distance of neighbouring numbers in an array's type; 0 when exact."""
    name = dtype or str(values.dtype)
    if name in _PRECISION:
        return _PRECISION[name]
    return float(np.finfo(values.dtype).eps) if values.dtype.kind in "fc" else 0.0


def _filled_in(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    """Find numbers that were not computed, such as a mask's -1e9.

    They are the same in both results, and several of one size, or one that is far beyond all
    others: what it would grant is more than the others' own tolerance.
    """
    sizes = np.maximum(np.abs(a), np.abs(b))
    same = (a == b) & (sizes >= _FILLING)
    values, counts = np.unique(sizes[same], return_counts=True)
    filled = same & np.isin(sizes, values[counts > 1])
    rest = np.where(filled | ~np.isfinite(sizes), 0.0, sizes)
    second, first = np.partition(rest, -2, axis=None)[-2:] if rest.size > 1 else (0.0, 0.0)
    return filled | (same & (rest == first) & (_CANCELLED * first > second))


def close_numbers(
    one: tuple[Array, str | None], other: tuple[Array, str | None], rtol: float | None
) -> tuple[npt.NDArray[np.bool_], float]:
    """Compare two arrays of one shape, number by number.

    Parameters
    ----------
    one, other : (array, str or None)
        Values, and the name of their dtype; None for a Python number.
    rtol : float or None
        Relative tolerance; None for that of the less precise of the two types.

    Returns
    -------
    (array of bool, float)
        Which numbers agree, and the relative tolerance that was used.
    """
    coarse = max(precision(*one), precision(*other))
    kinds = one[0].dtype.kind + other[0].dtype.kind
    # Text, and whole numbers beyond 64 bits, are objects to NumPy.
    if not coarse or "O" in kinds:
        return np.asarray(one[0] == other[0]), 0.0
    tolerance = coarse**0.5 if rtol is None else rtol
    wide = np.complex128 if "c" in kinds else np.float64
    a, b = one[0].astype(wide), other[0].astype(wide)
    size = np.maximum(np.abs(a), np.abs(b))
    finite = np.isfinite(size)
    largest = float(size[finite & ~_filled_in(a, b)].max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= tolerance * (size + _CANCELLED * largest)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.asarray(np.where(finite, near, same)), tolerance
