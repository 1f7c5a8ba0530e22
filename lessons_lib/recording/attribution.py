"""What made each allocation: its operation, its line, its function.

An allocation lies inside a call's mark on the same thread, or belongs to a step of a graph, whose
operation is looked up by name.  What cannot be told stays None: never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from lessons_lib.common.origins import Origin
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, Place
from lessons_lib.recording import graph_ops
from lessons_lib.recording.buffers import FOLDED, Purpose, Site
from lessons_lib.recording.call_log import Call, CallLog
from lessons_lib.recording.call_spans import CallSpans
from lessons_lib.recording.categories import Category
from lessons_lib.recording.graph_roles import Roles
from lessons_lib.recording.keepers import Keepers, of_constant
from lessons_lib.recording.purposes import PIPELINE_OP, Purposes
from lessons_lib.recording.segment import MemoryEvent, Segment, dtype_of, shape_of

#: How the runtime names the gradient of a whole function.
_BACKWARD: Final = "__inference___backward"
# What the optimiser appends to a node whose value it computed.
_OF_FOLDING: Final = re.compile(r"/_\d+__cf__\d+$|-folded.*$")
# A function that only updates a variable does not show that another one reads it.
_READ_ELSEWHERE: Final = (Category.OPTIMIZER, Category.WEIGHTS)


@dataclass(slots=True)
class SiteTable:
    """Descriptions shared by all buffers of a run of stretches.

    Attributes
    ----------
    sites : list of Site
        By number.
    by_use : dict of int to Category
        What variables are for, by their numbers, judged by all functions that were seen.
    """

    sites: list[Site] = field(default_factory=list)
    by_use: dict[int, Category] = field(default_factory=dict)
    _numbers: dict[Site, int] = field(default_factory=dict)

    def number(self, site: Site) -> int:
        """Give the number of a description, adding it when it is new."""
        found = self._numbers.get(site)
        if found is None:
            found = self._numbers[site] = len(self.sites)
            self.sites.append(site)
        return found

    def known(self, number: int) -> Site:
        """Give a description as it is known at the end; an empty one where there is none."""
        site = self.sites[number] if number >= 0 else Site()
        purpose = site.purpose
        found = self.by_use.get(purpose.held)
        if found is None:
            return site
        if purpose.category is Category.OTHER or (purpose.category, found) == _READ_ELSEWHERE:
            return replace(site, purpose=replace(purpose, category=found))
        return site


class Attribution:
    """Describes the allocations of one segment."""

    def __init__(self, segment: Segment, log: CallLog, table: SiteTable) -> None:
        self._segment = segment
        self._log = log
        self._table = table
        self._spans = CallSpans(segment, log)
        self._resolvers: dict[str, graph_ops.Resolver | None] = {}
        self._sessions: list[tuple[graph_ops.Resolver, Roles | None]] | None = None
        running = (graph for graph, runs in log.pipelines.items() if runs or log.sessions)
        self._pipelines = [graph_ops.Resolver(graph) for graph in running]
        self._purposes = Purposes(segment, log)
        self._keepers = Keepers(segment)
        self._cache: dict[object, int] = {}
        self._lines: dict[object, Line] = {}

    def site(self, event: MemoryEvent) -> int:
        """Give the number of an allocation's description."""
        function = self._segment.functions.get(event.step) if event.step else None
        folded = False
        if function is None and (run := self._spans.function(event)) is not None:
            function, folded = run
        call = caller = None
        iterator = ""
        if function is not None:
            caller = self._spans.started(event.step)
        else:
            call = self._spans.call(event)
            if event.op != "MakeIterator":
                iterator = self._spans.iterator(event)
        # Calls from one place are one object, so its address tells them apart.
        where = function, folded, id(call or caller), iterator, not event.step
        key = (event.op, event.shape, event.dtype, event.kind, where)
        number = self._cache.get(key)
        if number is None:
            if folded:
                site = self._describe_folded(event, function or "")
            else:
                site = self._describe(event, function, call, caller)
            site = replace(
                site,
                purpose=self._purpose(event, site, function, call, iterator),
                chain=self._chain(event, site, function, call, caller),
            )
            number = self._cache[key] = self._table.number(site)
        return number

    def _purpose(
        self, event: MemoryEvent, site: Site, function: str | None, call: Call | None, iterator: str
    ) -> Purpose:
        # Made when a function was prepared; an eager call that runs an iterator has no step, too.
        prepared = event.op and not event.step and not PIPELINE_OP.fullmatch(event.op)
        origin = self._in_pipelines(event.op) if prepared else None
        if origin is not None and call is not None and call.context.origin is Origin.PIPELINE:
            return of_constant(origin)
        if iterator:
            return of_constant(origin) if prepared else self._keepers.of_element(iterator)
        if function is not None:
            return self._purposes.of_graph(function, event, site, lambda n: self._path(function, n))
        if call is None and self._in_sessions(event.op) is not None:
            assert self._sessions is not None
            found = [(r, roles) for r, roles in self._sessions if roles and r.find(event.op)]
            if found:
                resolver, roles = found[-1]  # as the graph was when it ran last
                return self._purposes.of_session(roles, event, site, partial(_path, resolver))
        return self._purposes.of_call(call, site)

    def _chain(
        self,
        event: MemoryEvent,
        site: Site,
        function: str | None,
        call: Call | None,
        caller: Call | None,
    ) -> tuple[Line, ...]:
        """Give the user's lines around an allocation: in its function, then around the call."""
        if site.line is None:
            return ()
        places: tuple[Place, ...] = () if call is None else call.chain
        if function is not None:
            resolver = self._resolver(function)
            origin = None if resolver is None else resolver.find(event.op)
            inside = () if origin is None else origin.op.maker.chain
            places = (*inside, *(() if caller is None else caller.chain))
        lines = tuple(self._of_place(place) for place in places)
        # What was told otherwise, as by a function's definition, has no chain.
        return lines if lines and lines[0] == site.line else (site.line, *lines)

    def _path(self, function: str, name: str) -> tuple[str, ...] | None:
        resolver = self._resolver(function)
        return None if resolver is None else _path(resolver, name)

    def _describe_folded(self, event: MemoryEvent, function: str) -> Site:
        name = _OF_FOLDING.sub("", event.op) if event.op != function else ""
        resolver = self._resolver(function)
        origin = resolver.find(name) if resolver is not None and name else None
        return Site(
            op=None if origin is None else origin.op.type,
            name=name or None,
            shape=shape_of(event.shape),
            dtype=dtype_of(event.dtype),
            kind=FOLDED,
            line=self._definition(function) if origin is None else origin.line,
            function=_readable(function),
        )

    def _line(self, call: Call | None, forward: bool = False) -> Line | None:
        place = None if call is None else call.forward if forward else call.place
        return None if place is None else self._of_place(place)

    def _of_place(self, place: Place) -> Line:
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = place.line()
        return line

    def _describe(
        self, event: MemoryEvent, function: str | None, call: Call | None, started: Call | None
    ) -> Site:
        shape, dtype = shape_of(event.shape), dtype_of(event.dtype)
        kind = event.kind or None
        if function is not None:
            if event.op == function:  # a cluster that XLA compiled: nothing inside is named
                return Site(
                    op="XLA",
                    kind=kind,
                    line=self._definition(function),
                    function=_readable(function),
                )
            if not function.startswith(_BACKWARD) and function in self._log.definitions:
                started = None
            return self._describe_graph(event, function, shape, dtype, started)
        kernels = self._segment.executed.get(event.op, set())
        if call is None and kernels:  # a graph that was not called from Python, such as tf.data's
            origin = self._in_sessions(event.op) or self._in_pipelines(event.op)
            if origin is not None:
                return self._describe_operation(event, origin, shape, dtype, None, None)
            op = graph_ops.kernel_type(next(iter(kernels))) if len(kernels) == 1 else None
            return Site(op=op, name=event.op, shape=shape, dtype=dtype, kind=kind)
        name = _OF_FOLDING.sub("", event.op)
        if call is None and (origin := self._in_sessions(name)):
            return Site(origin.op.type, event.op, shape, dtype, kind or FOLDED, origin.line)
        op = graph_ops.kernel_type(event.op) if event.op else None
        if op is not None and not hasattr(tf.raw_ops, op):  # of a pipeline that is being made
            if (origin := self._in_pipelines(name)) is not None:
                return Site(origin.op.type, name, shape, dtype, kind, origin.line)
            op = None if name != event.op or name[0].islower() else op
        if op is None and call is not None and call.kind == "convert_to_eager_tensor":
            op = "Const"
        line, forward = self._line(call), self._line(call, forward=True)
        return Site(op, None, shape, dtype, kind, line, forward)

    def _describe_graph(
        self,
        event: MemoryEvent,
        function: str,
        shape: tuple[int, ...] | None,
        dtype: str | None,
        started: Call | None,
    ) -> Site:
        resolver = self._resolver(function)
        origin = resolver.find(event.op) if resolver is not None else None
        return self._describe_operation(event, origin, shape, dtype, function, started)

    def _describe_operation(
        self,
        event: MemoryEvent,
        origin: graph_ops.OperationOrigin | None,
        shape: tuple[int, ...] | None,
        dtype: str | None,
        function: str | None,
        started: Call | None,
    ) -> Site:
        kernels = self._segment.executed.get(event.op, set())
        op = graph_ops.kernel_type(next(iter(kernels))) if len(kernels) == 1 else None
        fused: tuple[str, ...] = ()
        line = forward_line = None
        if origin is not None:
            if op is None:
                op = origin.op.type
            if (chain := origin.fused(op)) is not None:
                op, fused = chain
            line, forward_line = origin.line, origin.forward_line
            # A library's own operation counts for the line that calls its function now.
            now = self._line(started)
            if function is not None:
                if function.startswith(_BACKWARD) or not origin.op.maker.by_user:
                    line = now or line
                # Made on another thread, as MirroredStrategy does, it has no line of the user's.
                line = line or self._definition(function)
            forward = origin.op.forward
            if forward is not None and forward.place is not None and not forward.by_user:
                forward_line = now or forward_line
        return Site(
            op=op,
            name=event.op or None,
            shape=shape,
            dtype=dtype,
            kind=event.kind or None,
            line=line,
            forward_line=forward_line,
            function=None if function is None else _readable(function),
            fused=fused,
        )

    def _in_sessions(self, name: str) -> graph_ops.OperationOrigin | None:
        """Find an operation that a session ran; None when two sessions' graphs have the name."""
        if self._sessions is None:
            self._sessions = [(graph_ops.Resolver(graph), r) for graph, r in self._log.sessions]
        return _agreed(name, (resolver for resolver, _ in self._sessions))

    def _in_pipelines(self, name: str) -> graph_ops.OperationOrigin | None:
        """Find an operation of a ``tf.data`` function; None when two have that name."""
        return _agreed(name, self._pipelines)

    def _resolver(self, function: str) -> graph_ops.Resolver | None:
        if function not in self._resolvers:
            graph = self._log.graphs.get(function)
            self._resolvers[function] = None if graph is None else graph_ops.Resolver(graph)
        return self._resolvers[function]

    def _definition(self, function: str) -> Line | None:
        place = self._log.definitions.get(function)
        return None if place is None else place.line()


def _agreed(name: str, resolvers: Iterable[graph_ops.Resolver]) -> graph_ops.OperationOrigin | None:
    found = [origin for r in resolvers if (origin := r.find(name)) is not None]
    # Graphs that one line has built, one after the other, agree on it.
    alike = {(origin.op.type, origin.op.maker, origin.op.forward) for origin in found}
    return found[0] if len(alike) == 1 else None


def _path(resolver: graph_ops.Resolver, name: str) -> tuple[str, ...] | None:
    origin = resolver.find(name) if name else None
    return None if origin is None else tuple(op.name for _, op in origin.path)


def _readable(function: str) -> str:
    """Turn the runtime's ``__inference_step_42`` into the user's ``step``."""
    name = function
    for prefix in ("__inference_", "__forward_", "__backward_"):
        while name.startswith(prefix):
            name = name.removeprefix(prefix)
    # One number was added for the function, and another one for its gradient.
    for _ in range(2 if "__backward_" in function or "__forward_" in function else 1):
        stem, _, number = name.rpartition("_")
        name = stem if stem and number.isdigit() else name
    return name
