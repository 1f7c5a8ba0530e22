"""`sweep`: how the memory of a few functions follows a number, and the law of each.

Each function is called with each value of one parameter, as `lessons_lib.instruments.peak` does
it, and a formula is fitted to its figures, as `lessons_lib.instruments.laws` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common.arguments import check_count
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.units import MIB, Unit, counted, format_bytes, used_unit
from lessons_lib.instruments.laws import Terms, fitted, in_smaller_unit, with_unit
from lessons_lib.instruments.peak import Peak, peak

#: What can be followed, with the words for it.
QUANTITIES: Final = {"peak": "peak", "kept": "kept bytes", "allocated": "allocated in all"}


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
        return self.small or with_unit(self.law, unit)


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
        nbytes = {n: _bytes(measured, quantity) for n, measured in peaks.items()}
        curves[label] = _curve(label, peaks, nbytes, unit, name, terms)
    return Sweep(name, quantity, curves, unit)


def _curve(
    label: str,
    peaks: dict[int, Peak],
    nbytes: dict[int, int],
    unit: Unit,
    name: str,
    terms: Terms | None,
) -> Curve:
    noisy = any(measured.noisy for measured in peaks.values())
    figures = {n: size / unit.nbytes for n, size in nbytes.items()}
    law = fitted(figures, name, terms=terms, noisy=noisy)
    small = in_smaller_unit(law, unit, max(nbytes.values()))
    values = {n: unit.of(size) for n, size in nbytes.items()}
    return Curve(label, peaks, values, nbytes, law.coefficients, law.written().text, noisy, small)


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
