"""Laws of figures that follow a number: the fit, and how it is written.

A constant, a straight line, a parabola: the first to go through all figures.  Where none does, or
where figures are noisy, the nearest straight line is given after ``≈``.  A law that would have many
decimals is written in a smaller unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lessons_lib.common.units import BINARY, Unit

#: By so much of a figure a law may miss it, and what is written of the law; the last decimals
#: beyond are noise.
_ROUNDED, _ROUNDED_ABOUT = 0.005, 0.05
#: A law goes through figures only if it is this near in the unit, too.
_NEAR: Final = 0.011
#: What floating point may make of zero, as a share of the largest figure.
_ZERO: Final = 1e-9
#: A law with more decimals is written in a smaller unit.
_FEW_DECIMALS: Final = 2
_MOST_DECIMALS: Final = 9
#: Of figures below this a law is written in a smaller unit, rather than with many decimals.
_SMALL: Final = 0.5
#: Noisy figures that lie within this of each other, in the unit and as a share of the largest, do
#: not follow the parameter.
_FLAT: Final = 0.05
_EXPONENTS: Final = {2: "²", 1: "", 0: ""}

#: The terms of a law, by the way each is written: functions of the parameter.
Terms = Mapping[str, Callable[[float], float]]


class Written(NamedTuple):
    """How a law is written, and whether few decimals are enough to give the figures."""

    text: str
    suits: bool


@dataclass(frozen=True, eq=False)
class Law:
    """A sum of terms that gives figures.

    Attributes
    ----------
    coefficients : tuple of float
        As `numpy.polyfit` gives them, or in the order of the terms.
    terms : sequence of str
        How the terms are written.
    matrix : float array, shape (figures, terms)
        The terms at each value of the parameter.
    missed : float
        By so much it misses a figure, at most.
    about : bool
        Whether the figures are noisy or the law does not go through them.
    """

    coefficients: tuple[float, ...]
    terms: Sequence[str]
    matrix: npt.NDArray[Any]
    missed: float
    about: bool

    def written(self, scale: float = 1.0) -> Written:
        """Write it with as many decimals as it needs to give its figures.

        Parameters
        ----------
        scale : float
            Times this; for a smaller unit.
        """
        least, share = (1, _ROUNDED_ABOUT) if self.about else (2, _ROUNDED)
        numbers = scale * np.array(self.coefficients)
        values = self.matrix @ numbers
        largest = float(np.abs(values).max())
        most = np.maximum(share * np.abs(values), max(scale * self.missed, _ZERO * largest))
        for decimals in range(least, _MOST_DECIMALS + 1):
            rounded = np.round(numbers, decimals)
            gives = bool((np.abs(self.matrix @ rounded - values) <= most).all())
            if gives or (not rounded.any() and largest < _SMALL):
                break
        listed = [float(number) for number in rounded]
        text = _written(listed, self.terms, decimals, about=self.about)
        return Written(text, gives and decimals <= _FEW_DECIMALS)


def with_unit(law: str, unit: Unit) -> str:
    """Write a law with its unit: ``3 S``, ``(n + 2) S``."""
    sums = " + " in law or " − " in law
    return f"({law}) {unit.name}" if sums else f"{law} {unit.name}"


def in_smaller_unit(law: Law, unit: Unit, most: int) -> str:
    """Write a law with the first smaller unit in which it has few decimals, if it needs one.

    `most` are the bytes of the largest figure.
    """
    text, suits = law.written()
    small = ""
    for own in BINARY:
        if not suits and own.nbytes < unit.nbytes and own.nbytes <= most:
            text, suits = law.written(unit.nbytes / own.nbytes)
            small = with_unit(text, own)
    return small


def fitted(
    figures: Mapping[int, float],
    name: str,
    *,
    terms: Terms | None = None,
    noisy: bool = False,
) -> Law:
    """Fit a law to figures.

    Parameters
    ----------
    figures : mapping of int to float
        Figures by value of the parameter.
    name : str
        The parameter.
    terms : mapping of str to callable, optional
        Terms in place of powers.
    noisy : bool
        Whether to give the nearest straight line at once; it is level where figures nearly agree.
    """
    ns = np.array(list(figures), float)
    values = np.array(list(figures.values()), float)
    largest = float(np.abs(values).max())
    near = np.maximum(np.minimum(_ROUNDED * np.abs(values), _NEAR), _ZERO * largest)

    def law(found: Any, names: list[str], matrix: npt.NDArray[Any], *, about: bool = False) -> Law:
        missed = np.abs(matrix @ found - values)
        about = about or noisy or bool((missed > near).any())
        return Law(tuple(found.tolist()), names, matrix, float(missed.max()), about)

    def power(degree: int, *, about: bool = False) -> Law:
        matrix = np.vander(ns, degree + 1)
        return law(np.polyfit(ns, values, degree), _powers(name, degree), matrix, about=about)

    if terms is not None:
        matrix = np.array([[term(n) for term in terms.values()] for n in figures], float)
        return law(np.linalg.lstsq(matrix, values, rcond=None)[0], list(terms), matrix)
    # A law says more than its points only if there are more points than coefficients.
    for degree in range(min(3, len(ns) - 1)):
        if not (exact := power(degree)).about:
            return exact
    return power(int(np.ptp(values) > _FLAT * min(1.0, largest)), about=True)


def _powers(name: str, degree: int) -> list[str]:
    return [f"{name}{_EXPONENTS[power]}" if power else "" for power in range(degree, -1, -1)]


def _written(numbers: Sequence[float], terms: Sequence[str], decimals: int, *, about: bool) -> str:
    """Write a law: ``2 n + 1``, ``0.5 n² − 1``, ``≈ 1.0 n + 2.5``."""
    parts: list[str] = []
    for number, term in zip(numbers, terms, strict=True):
        if not number and not (about and term):  # a noisy law has its parameter in every run
            continue
        size = f"{abs(number):.{decimals}f}"
        size = size if about else size.rstrip("0").rstrip(".")
        text = term if term and size == "1" else f"{size} {term}".strip()
        sign = ("− " if number < 0 else "+ ") if parts else ("−" if number < 0 else "")
        parts.append(f"{sign}{text}")
    law = " ".join(parts) or "0"
    return f"≈ {law}" if about else law
