"""What the rules work on: the evidence, what is not attributed yet, and the findings so far."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import Final

from lessons_lib.instruments.growth.causes import Cause, Finding, Retained
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.observation import Group, Observation
from lessons_lib.instruments.growth.thresholds import (
    BESIDE_FLOOR,
    NATIVE_FLOOR,
    NATIVE_SHARE,
    PAID_FACTOR,
    SMALL_POOL,
)

_HOLDERS: Final = 5  # groups that a finding lists


def listed(groups: Iterable[Group]) -> tuple[Retained, ...]:
    """Give what a finding lists of groups."""
    return tuple(group.held for group in groups)[:_HOLDERS]


@dataclass(frozen=True)
class CacheTest:
    """What emptying the runtime's caches gave back.

    Attributes
    ----------
    cache : str
        Which cache: ``"scalar"`` or ``"kernel"``; empty when emptying gave nothing back.
    share : float
        Share of the growth over the tested calls that it gave back.
    bytes_per_call : float
    tensor_bytes_per_call : float
        How many of these TensorFlow's allocator got back.
    """

    cache: str = ""
    share: float = 0.0
    bytes_per_call: float = 0.0
    tensor_bytes_per_call: float = math.inf


@dataclass
class GrowthCase:
    """Findings so far, and what is not attributed yet.

    Attributes
    ----------
    hidden : float
        Tensor bytes that no living tensor or variable accounts for.
    small : float
        Python's small blocks, which do not lie in the C heap.
    large, arrays : float
        Python's larger blocks, and NumPy's: both in the C heap.
    native : float
        What the C heap gains beside these.
    """

    evidence: Evidence
    seen: Observation
    findings: list[Finding] = field(default_factory=list)
    hidden: float = 0.0
    small: float = 0.0
    large: float = 0.0
    arrays: float = 0.0
    native: float = 0.0

    def __post_init__(self) -> None:
        evidence, seen, heap = self.evidence, self.seen, self.seen.heap
        if evidence.hidden_bytes.grows:
            self.hidden = max(0.0, evidence.hidden_bytes.slope)
            if self.keeps and seen.hidden is not None:  # the rest is rounding of what is kept
                self.hidden = min(self.hidden, sum(astuple(seen.hidden)))
        if heap.known:
            self.small, self.large, self.arrays = (
                max(0.0, gain) for gain in (heap.small, heap.large, heap.numpy)
            )
        else:  # sizes of the objects that were found
            self.small = sum(g.bytes_per_call for g in self.seen.objects)
            self.arrays = sum(g.bytes_per_call for g in self.seen.arrays)
        if evidence.c_heap.known:
            gained = evidence.c_heap.slope - self.large - self.arrays
            # TensorFlow's allocator takes its regions there, too, but seldom: they are rare jumps,
            # which the heap's series leaves out.  Where it has more than the tensors, they are in.
            regions = self.pool if SMALL_POOL <= self.pool <= gained else 0.0
            self.native = max(0.0, gained - regions)

    @property
    def pool(self) -> float:
        """What TensorFlow's allocator hands out more."""
        tensors = self.evidence.tensor_bytes
        return max(0.0, tensors.slope) if tensors.known and tensors.grows else 0.0

    @property
    def python(self) -> float:
        """Python's objects, NumPy's arrays left out."""
        return self.small + self.large

    @property
    def faint(self) -> float:
        """Hidden bytes of things that were seen to multiply: too few to be growth by themselves."""
        hidden = self.evidence.hidden_bytes
        if not self.evidence.live_tensors.grows:
            return hidden.slope if hidden.slope > hidden.noise else 0.0
        # Beside kept tensors, whose rounding is hidden, too.
        return 0.0 if self.seen.hidden is None else self.seen.hidden.lost

    @property
    def keeps(self) -> bool:
        """Whether tensors or variables of Python's stay, which the allocator may round up."""
        evidence = self.evidence
        count = evidence.live_tensors, evidence.variables
        size = evidence.live_tensor_bytes, evidence.variable_bytes
        return any(series.grows for series in (*count, *size))

    def take_adopted(self, most: float = math.inf) -> float:
        """Take NumPy's bytes that no array of the program's holds: TensorFlow adopted them.

        Of living tensors and variables they are counted already.
        """
        held = sum(group.bytes_per_call for group in self.seen.arrays)
        adopted = min(most, max(0.0, self.arrays - held))
        self.arrays -= adopted
        return adopted

    @property
    def apart(self) -> float:
        """Objects that are a cause of their own beside others, and no small containers of these."""
        groups = [g for g in self.seen.objects if g.bytes_per_call > g.target_bytes]
        nbytes = sum(group.bytes_per_call for group in groups)
        return nbytes if nbytes >= BESIDE_FLOOR else 0.0

    @property
    def native_rest(self) -> float:
        """Native bytes that are neither tensors nor a small share of other causes, else 0."""
        # The allocator may take up to twice what it hands out.
        named = max(self.pool, sum(finding.paid for finding in self.findings))
        enough = self.native >= NATIVE_FLOOR and self.native > NATIVE_SHARE * named
        return self.native if enough and self.evidence.c_heap.grows else 0.0

    def take(self, *names: str) -> float:
        """Take amounts that a finding explains; nobody else gets them."""
        taken = sum(float(getattr(self, name)) for name in names)
        for name in names:
            setattr(self, name, 0.0)
        return taken

    def paid(self, nbytes: float, most: float, measured: float = 0.0) -> float | None:
        """Give what small tensors or variables cost the process, where that is much more.

        Their own objects are no further cause.

        Parameters
        ----------
        nbytes : float
            Their own bytes.
        most : float
            What they may cost beside these, in Python's heap and in the C heap.
        measured : float
            What they cost, if that is known better.
        """
        objects = sum(group.bytes_per_call for group in self.seen.objects)
        beside, own = min(self.python, objects), min(max(0.0, self.python - objects), most)
        # Those that hold variables may hold the tensors, too; others are a cause of their own.
        if self.accused(Cause.VARIABLES) or self.apart:
            beside = own = 0.0
        native = min(self.native, most)
        self.small -= min(self.small, own)
        self.native -= native
        paid = nbytes + beside + (measured or own + native)
        return paid if paid > PAID_FACTOR * nbytes else None

    def take_built(self) -> float:
        """Take what traced functions and graphs cost beside tensors; nobody else gets it."""
        return self.take("native", "small", "large")

    def accused(self, *causes: Cause) -> bool:
        """Tell whether something was found that has one of these causes."""
        return any(finding.cause in causes for finding in self.findings)

    def add(self, cause: Cause, nbytes: float, text: str, held: Iterable[Retained] = (), *,
            exact: bool = False, process: float | None = None) -> None:  # fmt: skip
        """Find a cause."""
        paid = None if process is None else round(process)
        self.findings.append(Finding(cause, round(nbytes), exact, f"{text}.", tuple(held), paid))
