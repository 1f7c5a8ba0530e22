"""What each allocation is for: its category, phase, layer and variable.

In a graph this follows from the graph's structure (`lessons_lib.recording.graph_roles`), in eager
mode from what was noted beside the calls (`lessons_lib.recording.eager_notes`), and in a data
pipeline from the iterators that were running (`lessons_lib.recording.keepers`).  `settle` then goes
through the session in the order of time: what a variable was given is the variable's, what a tape
returned is a gradient, and what the forward pass made under a tape is an activation if it is alive
when the backward pass begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from lessons_lib.common.internals import is_registered
from lessons_lib.common.origins import Origin
from lessons_lib.recording import eager_notes
from lessons_lib.recording.buffers import FOLDED, Ints, Purpose, Site
from lessons_lib.recording.call_log import Call, CallLog
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.eager_notes import Moment
from lessons_lib.recording.graph_flow import HANDLE
from lessons_lib.recording.graph_phases import UPDATES
from lessons_lib.recording.graph_roles import Roles
from lessons_lib.recording.scopes import Owner
from lessons_lib.recording.segment import MemoryEvent, Segment
from lessons_lib.recording.variable_uses import categories_by_use, variable_purpose

#: Eager operations that take the next batch from a pipeline, or make one.
PIPELINE_OP: Final = re.compile(r"\w*Iterator\w*|\w*Dataset\w*")
#: What of a clipping function's work is a gradient, and not a norm.
_SCALING: Final = frozenset(("Mul", "RealDiv", "ClipByValue", "Minimum", "Maximum"))
#: Gives the calls that an operation is in, and itself, by the runtime's name.
_Path = Callable[[str], tuple[str, ...] | None]


class Purposes:
    """Tells what the allocations of one segment are for."""

    def __init__(self, segment: Segment, log: CallLog) -> None:
        self._segment = segment
        self._log = log
        self._roles: dict[str, Roles | None] = {}
        self._of_sessions: set[Roles] = set()

    def of_graph(self, function: str, event: MemoryEvent, site: Site, path: _Path) -> Purpose:
        """Tell what an operation of a function made.

        Parameters
        ----------
        function : str
            The runtime's name of it.
        event : MemoryEvent
        site : Site
            The allocation's description so far.
        path : callable
            Gives the calls that an operation is in, and itself, by the runtime's name.
        """
        roles = self._roles_of(function, path)
        if site.kind == FOLDED and roles is not None and site.name:
            # What gives variables first values runs once; another function keeps its constants.
            place = path(site.name)
            if place is not None and not is_registered(function):
                return roles.given(place)
        return self._role(roles, path(event.op), event, site)

    def of_session(self, roles: Roles, event: MemoryEvent, site: Site, path: _Path) -> Purpose:
        """Tell what an operation of a graph made that a ``tf.compat.v1.Session`` ran."""
        if roles not in self._of_sessions:
            self._of_sessions.add(roles)
            self._begin(roles, None, path)
        return self._role(roles, path(event.op), event, site)

    def _role(
        self, roles: Roles | None, place: tuple[str, ...] | None, event: MemoryEvent, site: Site
    ) -> Purpose:
        if roles is None or place is None or site.kind == FOLDED:
            return Purpose()
        return roles.role(place, event.kind, site.shape, site.dtype)

    def _begin(self, roles: Roles, function: str | None, path: _Path) -> None:
        made = {
            (event.op, (event.kind, event.shape, event.dtype))
            for event in self._segment.memory
            if event.allocates
            and event.kind
            and self._segment.functions.get(event.step) == function
        }
        wrote = (
            place
            for name, kernels in (self._segment.executed.items() if function is None else ())
            if any(map(UPDATES.fullmatch, kernels)) and (place := path(name)) is not None
        )
        roles.begin(
            ((place, how) for name, how in made if (place := path(name)) is not None), wrote
        )

    def _roles_of(self, function: str, path: _Path) -> Roles | None:
        if function not in self._roles:
            roles = self._log.roles.get(function)
            if roles is not None:
                self._begin(roles, function, path)
            self._roles[function] = roles
        return self._roles[function]

    def of_call(self, call: Call | None, site: Site) -> Purpose:
        """Tell what an eager operation made, as far as the call tells."""
        if site.op is not None and PIPELINE_OP.fullmatch(site.op):
            return Purpose(Category.INPUTS)
        if call is None:
            return Purpose()
        scope, taped, backward, origin = call.context
        layer = scope.path if scope is not None and scope.owner is Owner.LAYER else None
        if origin is Origin.PIPELINE:
            return Purpose(Category.INPUTS)
        if site.dtype == HANDLE:
            return Purpose(layer=layer)
        if backward:
            return Purpose(Category.TEMPORARIES, Phase.BACKWARD, layer)
        if scope is not None and scope.owner is Owner.OPTIMIZER:
            return Purpose(Category.TEMPORARIES, Phase.UPDATE)
        if origin is Origin.CLIPPING and site.op in _SCALING and site.shape:
            return Purpose(Category.GRADIENTS, Phase.UPDATE)
        if taped or origin is Origin.UNTAPED:
            return Purpose(Category.OTHER, Phase.FORWARD, layer)
        if origin is Origin.METRICS:
            return Purpose(Category.TEMPORARIES)
        return Purpose(Category.OTHER, None, layer)


class Described(Protocol):
    """The descriptions by number (`lessons_lib.recording.attribution.SiteTable`)."""

    sites: list[Site]
    by_use: dict[int, Category]

    def number(self, site: Site) -> int:
        """Give the number of a description."""


class Earlier(NamedTuple):
    """Buffers of earlier sessions: rows by address, and the rows' descriptions by number."""

    alive: Mapping[int, int]
    sites: Ints


class _Settling:
    """The buffers that are alive at one time.

    Attributes
    ----------
    alive : dict of int to int
        By address: the event that allocated it; -1 and below, the row of an earlier session.
    undecided : dict of int to int
        Those that were made in the forward pass, and that no backward pass has seen yet.
    """

    def __init__(
        self, segment: Segment, sites: list[int], table: Described, earlier: Earlier
    ) -> None:
        self.memory, self._calls = segment.memory, segment.function_calls
        self._sites = sites
        self._table = table
        self._earlier = earlier.sites
        self.alive = {address: -1 - row for address, row in earlier.alive.items()}
        numbers = {*sites, *(self._site(row) for row in self.alive.values())}
        #: Descriptions of what was made in the forward pass.
        self.forward = {number for number in numbers if self._is_undecided(number)}
        #: Descriptions of what was computed before a function ran that gives variables values.
        self.given = {
            number
            for number in numbers
            if number >= 0
            and (site := table.sites[number]).kind == FOLDED
            and site.purpose.of_variable
        }
        self.undecided = {
            address: row for address, row in self.alive.items() if self._site(row) in self.forward
        }

    def _is_undecided(self, number: int) -> bool:
        site = self._table.sites[number] if number >= 0 else Site()
        found = site.function, site.purpose.phase, site.purpose.category
        # A graph tells itself what its backward pass uses.
        return found == (None, Phase.FORWARD, Category.OTHER)

    def _site(self, made: int) -> int:
        return self._sites[made] if made >= 0 else int(self._earlier[-1 - made])

    def purpose(self, made: int) -> Purpose:
        number = self._site(made)
        return self._table.sites[number].purpose if number >= 0 else Purpose()

    def change(self, made: int, purpose: Purpose) -> None:
        number = self._site(made)
        if number < 0:  # born before anything was recorded
            return
        number = self._table.number(replace(self._table.sites[number], purpose=purpose))
        if made >= 0:
            self._sites[made] = number
        else:
            self._earlier[-1 - made] = number

    def allocate(self, index: int, address: int) -> None:
        self.alive.pop(address, None)  # what went unseen; the latest come last
        self.alive[address] = index
        if self._sites[index] in self.forward:
            self.undecided[address] = index

    def free(self, address: int, time: int) -> None:
        made = self.alive.pop(address, None)
        if made is not None and made >= 0 and self._is_tried(made, time):
            self.change(made, Purpose())
        made = self.undecided.pop(address, None)
        if made is not None:
            self._decide(made, Category.TEMPORARIES)

    def _is_tried(self, made: int, time: int) -> bool:
        """Tell whether a first value was computed on trial: it is freed within the call."""
        event = self.memory[made]
        calls = self._calls.get(event.thread, ())
        return self._site(made) in self.given and any(
            begin <= event.time and time <= end for begin, end, _ in calls
        )

    def _decide(self, made: int, category: Category) -> None:
        old = self.purpose(made)
        if old.category is Category.OTHER:
            self.change(made, replace(old, category=category))

    def assign(self, address: int, purpose: Purpose) -> None:
        made = self.alive.get(address)
        if made is not None:
            before = self.purpose(made)
            self.change(made, replace(purpose, before=before.category, phase=before.phase))

    def backward_begins(self) -> None:
        for made in self.undecided.values():
            self._decide(made, Category.ACTIVATIONS)
        self.undecided.clear()

    def moment(self, moment: Moment) -> None:
        if moment.kind == eager_notes.BACKWARD_BEGINS:
            self.backward_begins()
        for address, variable in moment.addresses:
            made = self.alive.get(address)
            if made is None:
                continue
            old = self.purpose(made)
            if moment.kind == eager_notes.GRADIENTS and old.phase is Phase.BACKWARD:
                gradient = replace(
                    old,
                    category=Category.GRADIENTS,
                    layer=variable.layer or old.layer,
                    variable=variable.name,
                )
                self.change(made, gradient)


_Action = Callable[[_Settling], None]


def settle(
    segment: Segment,
    log: CallLog,
    sites: list[int],
    table: Described,
    earlier: Earlier,
) -> None:
    """Give allocations the purposes that show only later.

    Parameters
    ----------
    segment : Segment
    log : CallLog
    sites : list of int
        For each memory event the number of its description; changed in place.
    table : Described
    earlier : Earlier
        What is alive from the sessions before; descriptions are changed in place.
    """
    by_use = categories_by_use(log)
    table.by_use |= by_use
    actions = _actions(segment, log, by_use)
    state = _Settling(segment, sites, table, earlier)
    if not (actions or state.forward or state.given):
        return
    waiting = iter(actions)
    following = next(waiting, None)
    for index, event in enumerate(segment.memory):
        while following is not None and following[0] <= event.time:
            following[2](state)
            following = next(waiting, None)
        if event.allocates:
            state.allocate(index, event.address)
        else:
            state.free(event.address, event.time)
    while following is not None:
        following[2](state)
        following = next(waiting, None)


def _actions(
    segment: Segment, log: CallLog, by_use: Mapping[int, Category]
) -> list[tuple[int, int, _Action]]:
    """List what was noted beside the calls, in the order of time."""
    notes = log.notes
    threads = {number: thread for thread, number in segment.threads.items()}
    actions: list[tuple[int, int, _Action]] = []
    for (thread, call), written in notes.assigned.items():
        spans = segment.calls.get(threads.get(thread, -1), [])
        if call < len(spans):
            variable = written.variable
            purpose = variable_purpose(variable, by_use.get(variable.number))
            begin, end = spans[call]
            if written.address:
                actions.append((begin, 0, _assigning(written.address, purpose)))
            actions.append((end, 0, _writing(threads[thread], begin, purpose)))
    for mark, moment in notes.moments.items():
        if mark in segment.moments:
            actions.append((segment.moments[mark][1], 1, _happening(moment)))
    actions.sort(key=lambda action: action[:2])
    return actions


def _assigning(address: int, purpose: Purpose) -> Callable[[_Settling], None]:
    return lambda state: state.assign(address, purpose)


def _writing(thread: int, begin: int, purpose: Purpose) -> Callable[[_Settling], None]:
    def write(state: _Settling) -> None:
        """Find the new buffer of a variable that was written while something read the old one."""
        for address, event in reversed(state.alive.items()):
            if event < 0 or state.memory[event].time < begin:
                break
            made = state.memory[event]
            if made.thread == thread and eager_notes.WRITES.fullmatch(made.op):
                state.assign(address, purpose)

    return write


def _happening(moment: Moment) -> Callable[[_Settling], None]:
    return lambda state: state.moment(moment)
