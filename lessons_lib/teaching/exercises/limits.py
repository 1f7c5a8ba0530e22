"""What an exercise limits, and the figures that show whether a limit was kept.

Bytes are requested bytes of tensors plus those of NumPy and Python (see
`lessons_lib.teaching.exercises.measuring`); the other quantities are counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lessons_lib.common.units import format_bytes

#: An answer beats the reference by this share of it and this many bytes, or not at all.
_NOTABLE: Final = 0.01
_NOTABLE_BYTES: Final = 1024

Size = Mapping[str, int]


class Quantity(StrEnum):
    """What is measured."""

    PEAK = "peak"
    KEPT = "kept bytes"
    ALLOCATED = "allocated in all"
    GROWTH = "growth per call"
    TRACES = "traces"
    OPS = "operations traced"
    GRAPH = "size of the graphs"

    @property
    def in_bytes(self) -> bool:
        """Whether the quantity is a number of bytes."""
        return self not in (Quantity.TRACES, Quantity.OPS)

    def write(self, value: float) -> str:
        """Write a value with its unit."""
        if self is Quantity.GROWTH and value:
            return f"≈ {format_bytes(round(value))}"  # Python's objects are in it
        if self.in_bytes:
            return format_bytes(value)
        word = "trace" if self is Quantity.TRACES else "operation"
        return f"{value:g} {word}{'' if value == 1 else 's'}"

    def limited(self, budget: int) -> str:
        """Write a limit: ``peak at most 3 MiB``, ``at most 2 traces``."""
        return (
            f"{self} at most {self.write(budget)}"
            if self.in_bytes
            else (f"at most {self.write(budget)} in a run")
        )

    def told(self, value: float) -> str:
        """Write a figure with its name: ``peak 3 MiB``, ``2 traces``."""
        if self.in_bytes:
            return f"{self} {self.write(value)}"
        return f"{self.write(value)} in this check"


@dataclass(frozen=True)
class Limit:
    """What an answer may take at most.

    Attributes
    ----------
    quantity : Quantity
        What is limited.
    budget : callable
        From the sizes of a check to the limit, in bytes or a count.
    floor : callable, optional
        From the sizes to what no answer can go below; None where there is nothing to say.
    why : str
        Where the budget comes from, in a phrase.
    """

    quantity: Quantity
    budget: Callable[[Size], int]
    floor: Callable[[Size], int] | None = None
    why: str = ""


@dataclass(frozen=True)
class Figure:
    """One measured quantity beside its limits, in bytes or counts.

    Attributes
    ----------
    quantity : Quantity
        What was measured.
    measured, budget : int
        The answer's figure and its limit.
    reference : int or None
        What the reference solution needed in the same check.
    floor : int or None
        What no answer can go below.
    """

    quantity: Quantity
    measured: int
    budget: int
    reference: int | None = None
    floor: int | None = None

    @property
    def kept(self) -> bool:
        """Whether the limit was kept."""
        return self.measured <= self.budget

    @property
    def ratio(self) -> float:
        """Measured over budget."""
        return self.measured / self.budget if self.budget else float(self.measured > 0) * 2.0

    @property
    def beats_reference(self) -> bool:
        """Whether the answer needed less than the reference solution."""
        if self.reference is None:
            return False
        return self.reference - self.measured > max(_NOTABLE * self.reference, _NOTABLE_BYTES)

    def sentence(self) -> str:
        """Say the figure and its limit."""
        write = self.quantity.write if self.quantity.in_bytes else str
        return f"{self.quantity}: {write(self.measured)}, budget {write(self.budget)}"
