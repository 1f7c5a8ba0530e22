"""What observed calls left behind, as numbers and texts (`Observation`) or still as objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from lessons_lib.common.source import Line
from lessons_lib.instruments.growth.causes import Retained
from lessons_lib.instruments.growth.resources import LostTables
from lessons_lib.instruments.holders.object_types import Kind
from lessons_lib.instruments.holders.reachability import Survey, Tier

#: Observed calls: one to fill what is filled once, and differences of the other two.
CALLS: Final = 3

#: What is looked for by itself; everything else counts as Python objects.
TARGETS: Final = frozenset(
    {
        *(Kind.TENSOR, Kind.VARIABLE, Kind.FUNCTION, Kind.CONCRETE),
        *(Kind.GRAPH, Kind.DATASET, Kind.ITERATOR, Kind.TAPE, Kind.TABLE),
    }
)


@dataclass(frozen=True)
class HeapGain:
    """What each observed call added to Python's heap, as tracemalloc saw it, in bytes.

    Attributes
    ----------
    small, large : float
        Python's own allocations of up to 512 B, and larger ones, which lie in the C heap.
    numpy : float
        NumPy's; they lie in the C heap, too.
    known : bool
        Whether tracemalloc ran.
    """

    small: float = 0.0
    large: float = 0.0
    numpy: float = 0.0
    known: bool = False

    @property
    def python(self) -> float:
        """All but NumPy's."""
        return self.small + self.large


@dataclass(frozen=True)
class HiddenBytes:
    """What recorded calls leave beside living tensors and variables: requested bytes a call.

    Attributes
    ----------
    cut : float
        Of buffers in which living tensors lie: what is none of theirs, but not of pipelines.
    lost : float
        Of buffers in which no living tensor or variable of Python lies.
    piped : float
        The same as `lost` of those that data pipelines made.
    parted : float
        The same as `cut` of those that data pipelines made.
    """

    cut: float
    lost: float
    piped: float = 0.0
    parted: float = 0.0

    @property
    def of_pipelines(self) -> float:
        """Which share data pipelines made of what has no tensor or variable; 1 of nothing."""
        none = self.lost + self.piped
        return self.piped / none if none else 1.0


@dataclass(frozen=True)
class Group:
    """Things of one kind that stay, held alike.

    Attributes
    ----------
    kind : Kind
    tier : Tier or None
        Through what they are held; None when no holder is visible.
    held : Retained
        Its `per_call` counts them.
    in_dataset : bool
        Whether a dataset or an iterator holds them.
    is_note : bool
        Whether they are numbers and short texts, as in a log.
    is_native : bool
        Whether an object of compiled code, not of Python, is one of them or within them.
    target_bytes : float
        Bytes per call of tensors, variables and the like that hang on them.
    in_cycle : bool
        Whether only reference cycles hold them, and nobody collects garbage.
    is_bounded : bool
        Whether what holds them only holds so many.
    constant_bytes : float
        Of graphs: bytes per call of the tensors that are baked into them.
    text_bytes : float
        Of tensors of strings: bytes per call of the texts, which lie in the C heap.
    """

    kind: Kind
    tier: Tier | None
    held: Retained
    in_dataset: bool = False
    is_note: bool = False
    is_native: bool = False
    target_bytes: float = 0.0
    in_cycle: bool = False
    is_bounded: bool = False
    constant_bytes: float = 0.0
    text_bytes: float = 0.0

    def of_one_in(self, calls: int) -> Group:
        """Give what a call adds on average, if so many were observed as one."""
        return replace(
            self,
            held=replace(self.held, per_call=self.held.per_call / calls),
            target_bytes=self.target_bytes / calls,
            constant_bytes=self.constant_bytes / calls,
            text_bytes=self.text_bytes / calls,
        )

    @property
    def bytes_per_call(self) -> float:
        """Bytes that each call adds to this group."""
        return self.held.nbytes * self.held.per_call


@dataclass(frozen=True)
class Observation:
    """What the observed calls left behind.

    Attributes
    ----------
    groups : tuple of Group
        Tensors, variables, functions, graphs, datasets, NumPy arrays and other objects, each kind
        with the most bytes first.
    heap : HeapGain
    lost_tables : LostTables
    garbage : float
        Objects per call in reference cycles, where the program never collects garbage.
    notes : tuple of str
    suspects : tuple of Retained
        What was alive all the time and may be what grows: graphs that gained operations, or
        datasets and iterators.
    tensor_cost : float
        What an eager tensor costs the process beside its elements; 0 when it was not measured.
    hidden : HiddenBytes or None
        None when it was not measured.
    unheld : tuple of str
        How many objects of which types a call leaves that nothing in Python was seen to hold.
    lengthened : tuple of Retained
        An array that each call may have replaced by a longer one.
    """

    groups: tuple[Group, ...] = ()
    heap: HeapGain = field(default_factory=HeapGain)
    lost_tables: LostTables = field(default_factory=LostTables)
    garbage: float = 0.0
    notes: tuple[str, ...] = ()
    suspects: tuple[Retained, ...] = ()
    tensor_cost: float = 0.0
    hidden: HiddenBytes | None = None
    unheld: tuple[str, ...] = ()
    lengthened: tuple[Retained, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Group, ...]:
        """Give the groups of some kinds, most bytes first."""
        return tuple(group for group in self.groups if group.kind in kinds)

    def of_one_in(self, calls: int) -> Observation:
        """Give what a call leaves behind on average, if so many were observed as one."""
        if calls == 1:
            return self
        return replace(
            self,
            groups=tuple(group.of_one_in(calls) for group in self.groups),
            heap=replace(
                self.heap,
                small=self.heap.small / calls,
                large=self.heap.large / calls,
                numpy=self.heap.numpy / calls,
            ),
            lost_tables=replace(self.lost_tables, per_call=self.lost_tables.per_call / calls),
            garbage=self.garbage / calls,
        )

    @property
    def arrays(self) -> tuple[Group, ...]:
        """NumPy arrays that stay."""
        return tuple(g for g in self.of(Kind.OTHER) if g.held.shape is not None)

    @property
    def objects(self) -> tuple[Group, ...]:
        """Other Python objects that stay, the program's own and those of libraries."""
        both = self.of(Kind.OTHER, Kind.LIBRARY)
        return tuple(g for g in both if g.held.shape is None)


@dataclass
class Leftovers:
    """The living objects that observed calls left behind; holds them, so `clear` it soon.

    Attributes
    ----------
    staying : list
        Targets that the first call made.
    first : dict of int to type
        Everything that was alive after the first call, by address.
    later : dict of int to int
        What appeared after the first call, by address: the number of the call, from 0.
    growing : set of type
        Types with more living objects after each call.
    survey : Survey
        What was made since, with its holders.
    lines : dict of int to Line
    cyclic : set of int
        Addresses of targets that only reference cycles held.
    """

    staying: list[Any]
    first: dict[int, type]
    later: dict[int, int]
    growing: set[type]
    survey: Survey
    lines: dict[int, Line | None]
    cyclic: set[int] = field(default_factory=set)

    def clear(self) -> None:
        """Let go of everything."""
        self.staying.clear()
        self.first.clear()
        self.survey.reached.clear()
