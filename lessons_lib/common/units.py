"""Bytes as people write them: format a number of bytes, parse a size.

Sizes in this package are whole bytes (``int``).  Binary units (KiB, MiB, GiB) are used for
output, because tensor sizes are products of powers of two more often than not; decimal units
(kB, MB, GB) are understood on input.  Nothing here rounds a number that is stored.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30

_UNITS: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
}
_SIZE: Final = re.compile(r"\s*(\d+(?:_\d+)*(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_LONGEST: Final = 40  # characters of a size that means anything


class Unit(NamedTuple):
    """A size that bytes are written in: its name and its bytes."""

    name: str
    nbytes: int

    def of(self, n: float) -> float:
        """Give bytes in this unit, rounded to two decimals."""
        return round(n / self.nbytes, 2) + 0.0

    def write(self, n: float) -> str:
        """Write bytes in this unit, to two decimals; less than that in bytes."""
        number = self.of(n)
        if not number and n:
            return f"{n:g} B"
        return f"{number:.2f}".rstrip("0").rstrip(".") + f" {self.name}"


#: Of a power of 1024 bytes each, the largest first.
BINARY: Final = (Unit("GiB", GIB), Unit("MiB", MIB), Unit("KiB", KIB), Unit("B", 1))


def binary_unit(n: float) -> Unit:
    """Give the largest of GiB, MiB, KiB and B that a number of bytes reaches."""
    return next((unit for unit in BINARY if abs(n) >= unit.nbytes), BINARY[-1])


#: The unit of the lesson that runs in this process; none outside of lessons.
_lesson_unit: list[Unit] = []


def use_unit(unit: Unit | None) -> None:
    """Have `format_bytes` and the axes of pictures write bytes in a lesson's unit from now on."""
    _lesson_unit[:] = [] if unit is None else [unit]


def used_unit() -> Unit | None:
    """Give the lesson's unit; None outside of lessons."""
    return _lesson_unit[-1] if _lesson_unit else None


@contextlib.contextmanager
def plain_units() -> Iterator[None]:
    """Write bytes in KiB, MiB and GiB within a block, whatever the lesson's unit."""
    before = _lesson_unit[:]
    _lesson_unit.clear()
    try:
        yield
    finally:
        _lesson_unit[:] = before


def format_bytes(n: float) -> str:
    """Write a number of bytes for people.

    In a lesson that has a unit of its own (``Lesson("03_loops", unit=S)``) it is written in that.

    Parameters
    ----------
    n : int or float
        Bytes; may be negative.

    Returns
    -------
    str
        At most three decimals, without trailing zeros: ``"4 MiB"``, ``"-1.5 KiB"``, ``"7 B"``.

    Raises
    ------
    TypeError, ValueError
        If `n` is not a finite number.
    """
    if not hasattr(n, "__float__"):
        raise TypeError(f"bytes are a number, not {n!r}: give a whole number such as 4194304")
    if not math.isfinite(n):
        raise ValueError(f"bytes are a finite number, not {n}: give one such as 4194304")
    if (unit_of_lesson := used_unit()) is not None:
        return unit_of_lesson.write(n)
    unit = binary_unit(n)
    number = f"{abs(n) / unit.nbytes:.3f}".rstrip("0").rstrip(".")
    return f"{'-' if n < 0 and number != '0' else ''}{number} {unit.name}"


def brief_bytes(n: int) -> str:
    """Write bytes with one decimal, where a table beside has them exactly: ``"1.5 MiB"``.

    In a lesson's unit they are written as `format_bytes` does.
    """
    if used_unit() is not None:
        return format_bytes(n)
    unit = binary_unit(n)
    return f"{n} B" if unit.nbytes == 1 else f"{n / unit.nbytes:.1f} {unit.name}"


def counted(n: int, what: str) -> str:
    """Write a number of things: ``1 buffer``, ``30,000 buffers``."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def about_seconds(seconds: float) -> str:
    """Write measured seconds, which are noisy: ``≈ 12.3 ms``, ``≈ 1.5 s``."""
    return f"≈ {seconds:.3g} s" if seconds >= 1 else f"≈ {seconds * 1e3:.3g} ms"


def byte_range(low: int, high: int) -> str:
    """Write figures of several runs: bare where they are equal, else ``≈ 26 to 30 MiB``."""
    if low == high:
        return format_bytes(high)
    texts = format_bytes(low), format_bytes(high)
    if texts[0] == texts[1]:
        return f"≈ {texts[1]}"
    numbers, units = zip(*(text.split() for text in texts), strict=True)
    return f"≈ {numbers[0] if units[0] == units[1] else texts[0]} to {texts[1]}"


def parse_bytes(size: int | str) -> int:
    """Read a size.

    Parameters
    ----------
    size : int or str
        A whole number of bytes, or a number with one of B, kB, MB, GB (decimal), KiB, MiB,
        GiB (binary).  Upper and lower case are not told apart.

    Returns
    -------
    int
        Bytes, at least 0; a fraction of a byte is rounded down.

    Raises
    ------
    TypeError
        If `size` is neither a whole number nor text.
    ValueError
        If the text is not a size, or the size is negative.

    Examples
    --------
    >>> parse_bytes("1.5 MiB")
    1572864
    """
    if not isinstance(size, str):
        try:
            if isinstance(size, bool):
                raise TypeError
            number = operator.index(size)  # arrays have it, too, and fail when it is used
        except TypeError:
            raise TypeError(
                f"a size is a whole number of bytes or text such as '30 MiB', not {size!r}: "
                "give one of these"
            ) from None
        if number < 0:
            raise ValueError(
                f"a size cannot be negative, but {size} was given: use 0 or more bytes"
            )
        return number
    match = _SIZE.fullmatch(size) if len(size) <= _LONGEST else None
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(
            f"{size[:_LONGEST]!r} is not a size: write a number and one of B, kB, MB, GB, KiB, "
            "MiB, GiB, for example '30 MiB'"
        )
    whole, _, fraction = match[1].replace("_", "").partition(".")
    # In whole numbers throughout: in floating point, 0.57 MB would be a byte short.
    unit = _UNITS[match[2].lower()]
    return int(whole) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
