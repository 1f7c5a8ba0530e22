"""Which of the buffers that a variable may have taken over it did take over.

A sum of gradients may be computed in the memory of one of its parts: for all that a graph tells,
a variable may take over any of them in the end.  It takes one over, and the others are freed while
the variable still has its old buffer.
"""

from __future__ import annotations

from dataclasses import replace

from lessons_lib.recording.buffers import Site
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

    def forget(self) -> None:
        """Begin anew, after a time that nobody watched."""
        self._waiting, self._holder = {}, {}

    def born(self, number: int, address: int, run: int) -> None:
        """Note a buffer with a description's number, and the run of a function that made it."""
        site = self._table.sites[number]
        if variable := site.purpose.held:
            self._waiting.setdefault(variable, {})[address] = run
            if is_certain(site):
                self._holder.setdefault(variable, address)

    def freed(self, number: int, address: int) -> int:
        """Give the number that describes a buffer which is freed now."""
        if number < 0 or not (site := self._table.sites[number]).purpose.held:
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
            self._holder.pop(variable, None)
            if waiting:
                self._holder[variable] = next(reversed(waiting))
            return number
        category = purpose.before or purpose.category
        purpose = replace(purpose, category=category, variable=None, held=0, before=None)
        return self._table.number(replace(site, purpose=purpose))


def is_certain(site: Site) -> bool:
    """Tell whether a buffer surely is a variable's: its address or its own operation tells."""
    return site.name is None or UPDATES.fullmatch(site.op or "") is not None
