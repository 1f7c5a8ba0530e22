"""`sweep`: how the memory of a few functions follows a number, and the law of each.

Each function is called with each value of one parameter, as `lessons_lib.instruments.peak` does
it, and a formula is fitted to its figures: a constant, a straight line, a parabola, whichever is
the first to go through all of them.  A law that would have many decimals in the sweep's unit is
written in a smaller one.  Where none does, or where figures are noisy, the nearest
straight line is given after ``≈``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lessons_lib.common.arguments import check_count
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.units import BINARY, MIB, Unit, counted, format_bytes, used_unit
from lessons_lib.instruments.peak import Peak, peak

#: What can be followed, with the words for it.
QUANTITIES: Final = {"peak": "peak", "kept": "kept bytes", "allocated": "allocated in all"}
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


@dataclass(frozen=True)
class Curve:
    """What one function needed at each value of the parameter.

    Attributes
    ----------
    label : str
        The function's name in tables and pictures.
    peaks : dict of int to Peak
        What was measured, by value of the parameter.
    values : dict of int to float
        The figures in the sweep's unit, rounded to two decimals; of noisy ones the highest.
    nbytes : dict of int to int
        The same in bytes.
    coefficients : tuple of float
        Of the law, the highest power first, or in the order of the terms that were given.
    law : str
        The law, such as ``"n + 2"``, in the sweep's unit.
    noisy : bool
        Whether figures may be others on the next run.
    small : str
        The law with a smaller unit, such as ``"4 n B"``, where it would have many decimals in the
        sweep's unit; else empty.
    """

    label: str
    peaks: dict[int, Peak]
    values: dict[int, float]
    nbytes: dict[int, int]
    coefficients: tuple[float, ...]
    law: str
    noisy: bool
    small: str = ""

    def __getitem__(self, value: int) -> float:
        return self.values[value]

    def law_in(self, unit: Unit) -> str:
        """Write the law with a unit: ``3 S``, ``(n + 2) S``."""
        return self.small or _with_unit(self.law, unit)


def _with_unit(law: str, unit: Unit) -> str:
    sums = " + " in law or " − " in law
    return f"({law}) {unit.name}" if sums else f"{law} {unit.name}"


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """What several functions need, by the value of one parameter.

    Attributes
    ----------
    parameter : str
        The parameter's name.
    quantity : str
        ``"peak"``, ``"kept"`` or ``"allocated"``.
    curves : dict of str to Curve
        By the functions' names; also ``sweep["a list"]``.
    unit : Unit
        What figures and laws are written in: the lesson's unit, else MiB.
    """

    parameter: str
    quantity: str
    curves: dict[str, Curve]
    unit: Unit

    def __getitem__(self, label: str) -> Curve:
        if label not in self.curves:
            known = ", ".join(map(repr, self.curves))
            raise KeyError(f"nothing was measured under the name {label!r}: choose one of {known}")
        return self.curves[label]

    def __iter__(self) -> Iterator[Curve]:
        return iter(self.curves.values())

    @property
    def laws(self) -> str:
        """All laws in one line, as a verdict cites them."""
        return "; ".join(f"{curve.label}: {curve.law_in(self.unit)}" for curve in self)

    def rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Give the table: its headings, and a row for each function."""
        ns = list(next(iter(self)).values)
        what = f"{QUANTITIES[self.quantity]} in {self.unit.name}"
        heads = (what, *(f"{self.parameter} = {n}" for n in ns), "law")
        body = [
            (curve.label, *(_figure(self, curve, n) for n in ns), curve.small or curve.law)
            for curve in self
        ]
        return heads, body

    def __repr__(self) -> str:
        heads, body = self.rows()
        lines = [heads, *body]
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        if any(curve.noisy for curve in self):  # the same from run to run but for its figures
            widths = [0] * len(heads)
        last = len(heads) - 1
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i in (0, last) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


def _figure(result: Sweep, curve: Curve, n: int) -> str:
    measured = curve.peaks[n]
    if result.quantity == "peak":
        text = str(measured)
    else:
        text = format_bytes(_bytes(measured, result.quantity))
    about = "≈ " if curve.noisy and not text.startswith("≈") else ""
    return about + text.removesuffix(f" {result.unit.name}")


@summary_html.register
def _(result: Sweep) -> str:
    heads, body = result.rows()
    return html_table(heads, body, align="l" + "r" * (len(heads) - 2) + "l")


def _bytes(measured: Peak, quantity: str) -> int:
    match quantity:
        case "kept":
            return measured.kept_bytes
        case "allocated":
            return measured.allocated_bytes
        case _:
            return measured.peak_bytes


def sweep(
    functions: Mapping[str, Callable[[int], Any]],
    *,
    quantity: str = "peak",
    noisy: bool | Sequence[str] = False,
    terms: Terms | None = None,
    repeats: int | None = None,
    **parameter: Sequence[int],
) -> Sweep:
    """Measure functions of one number at a few values of it, and give the law of each.

    Parameters
    ----------
    functions : mapping of str to callable
        Functions of one whole number, by the names to show.
    quantity : str
        What is followed: ``"peak"``, ``"kept"`` (alive when the call has returned, its result
        included) or ``"allocated"`` (in all).
    noisy : bool or sequence of str
        Whether figures may be others on the next run, as those of many graphs: of all functions,
        or of those named.  Figures of calls that differed are noisy in any case.
    terms : mapping of str to callable, optional
        The terms of the law, as they are written, with their functions of the parameter:
        ``{"n/k": lambda k: 64 / k, "k": lambda k: k, "": lambda k: 1}``.  By default powers.
    repeats : int, optional
        As for `peak`.
    **parameter : sequence of int
        The one parameter by its name, with its values: ``n=(5, 10, 40)``.

    Returns
    -------
    Sweep
        ``sweep["a list"].law`` is a law, ``sweep["a list"][40]`` a figure; ``plot()`` draws them.

    Raises
    ------
    TypeError, ValueError
        If an argument is unusable; then nothing was called.
    Exception
        Whatever a function raises.

    Examples
    --------
    >>> ll.sweep({"a list": keep_all, "one name": rebind}, n=(5, 10, 40))
    peak in S  n = 5  n = 10  n = 40  law
    a list         5      10      40  n
    one name       2       2       2  2
    """
    name, values = _checked(functions, quantity, parameter)
    unit = used_unit() or Unit("MiB", MIB)
    marked = tuple(functions) if noisy is True else tuple(noisy or ())
    curves = {}
    for label, fn in functions.items():
        peaks = {n: peak(fn, n, repeats=repeats, noisy=label in marked) for n in values}
        about = any(measured.noisy for measured in peaks.values())
        nbytes = {n: _bytes(measured, quantity) for n, measured in peaks.items()}
        rounded = {n: unit.of(size) for n, size in nbytes.items()}
        figures = {n: size / unit.nbytes for n, size in nbytes.items()}
        law = fitted(figures, name, terms=terms, noisy=about)
        small = _in_smaller_unit(law, unit, max(nbytes.values()))
        curves[label] = Curve(
            label, peaks, rounded, nbytes, law.coefficients, law.written().text, about, small
        )
    return Sweep(name, quantity, curves, unit)


def _checked(
    functions: Any, quantity: str, parameter: Mapping[str, Sequence[int]]
) -> tuple[str, list[int]]:
    if not isinstance(functions, Mapping) or not functions:
        raise TypeError(
            "sweep takes a dict of functions by name: write "
            'sweep({"a list": f, "one name": g}, n=(5, 10, 40))'
        )
    for label, fn in functions.items():
        if not isinstance(label, str) or not label or not callable(fn):
            raise TypeError(
                f"sweep takes functions by their names, and {label!r}: {fn!r} is no such pair: "
                "give text and a function of one number"
            )
    if quantity not in QUANTITIES:
        known = ", ".join(map(repr, QUANTITIES))
        raise ValueError(f"quantity is {quantity!r}: give one of {known}")
    if len(parameter) != 1:
        raise TypeError(
            "sweep follows one parameter: give it by name with its values, as in n=(5, 10, 40)"
        )
    name: str
    given: Any
    ((name, given),) = parameter.items()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"the values of {name} are {given!r}: give at least two, as (5, 10, 40)")
    values = sorted({check_count(value, name, 0) for value in given})
    if len(values) < 2:
        raise ValueError(
            f"{name} has {counted(len(values), 'value')}: give at least two, as (5, 10, 40)"
        )
    return name, values


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


def _in_smaller_unit(law: Law, unit: Unit, most: int) -> str:
    """Write a law with the first smaller unit in which it has few decimals, if it needs one.

    `most` are the bytes of the largest figure.
    """
    text, suits = law.written()
    small = ""
    for own in BINARY:
        if not suits and own.nbytes < unit.nbytes and own.nbytes <= most:
            text, suits = law.written(unit.nbytes / own.nbytes)
            small = _with_unit(text, own)
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
