"""Which of the buffers that a variable may have taken over it did take over.

A sum of gradients may be computed in the memory of one of its parts: for all that a graph tells,
a variable may take over any of them in the end.  It takes one over, and the others are freed while
the variable still has its old buffer.

A value that several variables were given is one buffer for all of them, until each is written and
gets one of its own.  The last one writes in place and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lessons_lib.recording.buffers import FOLDED, Purpose, Site, shared
from lessons_lib.recording.graph_phases import UPDATES
from lessons_lib.recording.purposes import Described


class Takeovers:
    """Follows the buffers of each variable, in the order of events."""

    def __init__(self, table: Described) -> None:
        self._table = table
        # By variable: the buffers that it has or may take over, with the runs that made them.
        self._waiting: dict[int, dict[int, int]] = {}
        # By variable: the address of its buffer, where that is known.
        self._holder: dict[int, int] = {}
        # By address: the description of what several variables share, and by variable what it is
        # for if it stays with one that has not surely got another buffer.
        self._shared: dict[int, tuple[int, dict[int, Purpose]]] = {}

    def forget(self) -> None:
        """Begin anew, after a time that nobody watched."""
        self._waiting, self._holder, self._shared = {}, {}, {}

    def born(self, number: int, address: int, run: int) -> None:
        """Note a buffer with a description's number, and the run of a function that made it."""
        site = self._table.sites[number]
        sharers = {purpose.held: purpose for purpose in site.purpose.sharers}
        if sharers:
            self._shared[address] = number, sharers
        for variable in sharers or (site.purpose.held,):
            self._waiting.setdefault(variable, {})[address] = run
            if is_certain(site):
                self._leave(variable, address)
                self._holder.setdefault(variable, address)

    def _leave(self, variable: int, address: int) -> None:
        """Note that a variable has a buffer at an address, and not what it shared before."""
        for old, (_, sharers) in self._shared.items():
            if old != address and variable in sharers and len(sharers) > 1:
                del sharers[variable], self._waiting[variable][old]
                if self._holder.get(variable) == old:
                    del self._holder[variable]

    def shared(self) -> Iterator[tuple[int, int]]:
        """Give the addresses of what variables shared, and the numbers that describe it now."""
        for address in self._shared:
            yield address, self._narrowed(address)

    def _narrowed(self, address: int) -> int:
        number, sharers = self._shared[address]
        # One that has another buffer by now was given it.
        left = [p for held, p in sharers.items() if len(self._waiting.get(held, ())) < 2]
        purpose = shared(left or list(sharers.values()))
        return self._table.number(replace(self._table.sites[number], purpose=purpose))

    def freed(self, number: int, address: int) -> int:
        """Give the number that describes a buffer which is freed now."""
        if number < 0 or not (site := self._table.sites[number]).purpose.of_variable:
            return number
        if address in self._shared:
            number = self._narrowed(address)
            for variable in self._shared.pop(address)[1]:
                self._released(variable, address)
            return number
        variable, purpose = site.purpose.held, site.purpose
        waiting = self._waiting.get(variable, {})
        run = waiting.pop(address, -1)
        if not waiting or is_certain(site):
            held = True
        elif (holder := self._holder.get(variable)) is not None:
            held = holder == address
        else:  # the old buffer is from before the recording; of a run's own, the last one is taken
            held = run not in waiting.values()
        if held:
            self._released(variable, address)
            return number
        category = purpose.before or purpose.category
        purpose = replace(purpose, category=category, variable=None, held=0, before=None)
        return self._table.number(replace(site, purpose=purpose))

    def _released(self, variable: int, address: int) -> None:
        """Note that a variable's buffer was freed: it took another one over."""
        waiting = self._waiting.get(variable, {})
        waiting.pop(address, None)
        self._holder.pop(variable, None)
        if waiting:
            self._holder[variable] = next(reversed(waiting))


def is_certain(site: Site) -> bool:
    """Tell whether a buffer surely is a variable's.

    Its address tells, or its own operation, or that it is its first value.
    """
    return site.name is None or site.kind == FOLDED or UPDATES.fullmatch(site.op or "") is not None
