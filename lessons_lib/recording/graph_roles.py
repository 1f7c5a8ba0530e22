"""What each operation of a graph makes: the category of its outputs, its phase, its layer.

The phases are told by `lessons_lib.recording.graph_phases`, the categories follow from them.
A variable is a weight when the forward or the backward pass reads it, and an optimizer's when only
the update does, unless the place where it was made says what it is.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from lessons_lib.recording.buffers import Purpose, shared
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.graph_flow import HANDLE, Flow, equal_nodes, flow_of
from lessons_lib.recording.graph_forwarding import VIEWS, Forwarding, Made, may_be
from lessons_lib.recording.graph_phases import OF_SHAPES, UPDATES, phases_of
from lessons_lib.recording.scopes import Owner
from lessons_lib.recording.variables import Variable

_BACKWARD_SCOPE: Final = re.compile(r"(?:^|/)(?:gradient_tape|gradients(?:_\d+)?)/")
#: Functions by the names that TensorFlow gives them: the gradient of a whole function, and the
#: function that keeps what that gradient needs.
_BACKWARD_FUNCTION: Final = "__inference___backward"
_FORWARD_FUNCTION: Final = "__forward_"
#: Operations that join tensors, as strategies do with all gradients to sum them up at once.
_PACKS: Final = frozenset(("Concat", "ConcatV2", "Pack", "ParallelConcat"))
_ASSIGNS: Final = frozenset(("AssignVariableOp", "Assign"))
_CONSTANTS: Final = frozenset(("Const", "Fill"))
_PIPELINE: Final = re.compile(r"Iterator(?:V2)?GetNext|\w*Dataset\w*|OptionalGetValue")
_FLOATS: Final = ("float", "bfloat", "complex", "half")


@dataclass(slots=True, eq=False)
class Roles:
    """The roles of a graph's operations.

    Attributes
    ----------
    flow : Flow
    phases : list of Phase or None
        Of each node.
    timed : list of bool
        Whether a node needs values of the step's data, and so waits for its phase.
    trains : bool
        Whether there is a backward pass.
    assigned : dict of (int, int) to list of int
        Variables that take over a node's output.
    equal : dict of int to list of int
        Constants that variables are given, and those that are equal.
    gradients : set of int
        Nodes that make what the optimizer is given.
    categories : list of Category
        Of each variable.
    numbers : dict of tuple of str to int
        Nodes by their paths.
    forwarding : Forwarding
    """

    flow: Flow
    phases: list[Phase | None]
    timed: list[bool]
    trains: bool
    keeps: bool
    assigned: dict[tuple[int, int], list[int]]
    equal: dict[int, list[int]]
    gradients: set[int]
    categories: list[Category]
    numbers: dict[tuple[str, ...], int]
    forwarding: Forwarding
    # Variables that share their memory with a constant that they were given, and those of them
    # that no update has written yet.
    _shared: frozenset[int] = frozenset()
    _unwritten: frozenset[int] = frozenset()

    def begin(
        self,
        made: Iterable[Made],
        wrote: Iterable[tuple[str, ...]] = (),
    ) -> None:
        """Say what operations allocated, and which ones wrote variables."""
        self.forwarding.begin(made)
        nodes = self.flow.nodes
        writers = [nodes[n] for path in wrote if (n := self.numbers.get(path)) is not None]
        given = {
            node.variables[0]
            for node in writers
            if node.type in _ASSIGNS
            and node.variables
            and any(nodes[source.node].type in _CONSTANTS for source in node.inputs[1])
        }
        updated = {v for node in writers if node.type not in _ASSIGNS for v in node.variables}
        self._shared = self._unwritten | given
        self._unwritten = self._shared - updated

    def role(
        self,
        path: tuple[str, ...],
        kind: str,
        shape: tuple[int, ...] | None,
        dtype: str | None,
    ) -> Purpose:
        """Tell what a buffer is.

        Parameters
        ----------
        path : tuple of str
            The operation that made it, and before it the calls that it is in.
        kind : str
            The allocator's word: ``"output"``, ``"temp"``, or another one.
        shape, dtype
            As the allocator was told.
        """
        number = self.numbers.get(path)
        if number is None:
            return Purpose()
        node = self.flow.nodes[number]
        # What is made of constants and shapes alone is made at any time.
        phase = self.phases[number] if self.timed[number] else None
        scope = node.scope
        if node.type == "ZerosLike" and scope is None and node.inputs[0]:
            scope = self.flow.nodes[node.inputs[0][0].node].scope
        layer = scope.path if scope and scope.owner is Owner.LAYER else None
        if node.variables and UPDATES.fullmatch(node.type):
            # A copy, made because something still has the old value: whoever reads it, or the
            # constant that was the first value.
            copied = [v for v in node.variables if v in self._shared] or node.variables[:1]
            held = self._held(copied[0], phase, layer)
            if len(copied) == 1:
                return replace(held, before=Category.TEMPORARIES)
            # Of which one it is, cannot be told.
            alike = {self.categories[variable] for variable in copied} == {held.category}
            return Purpose(held.category if alike else Category.OTHER, phase, held.layer)
        if dtype == HANDLE:
            return Purpose(layer=layer)
        # What a kernel needs for itself.
        if not kind or (kind != "output" and path in self.forwarding.with_output):
            return Purpose(Category.TEMPORARIES, phase, layer)
        outputs = [i for i, output in enumerate(node.outputs) if may_be(output, shape, dtype)]
        # The optimiser may have put a small operation under the name of another one.
        if not outputs:
            rest = Category.TEMPORARIES if self.trains or self.keeps else Category.OTHER
            return Purpose(rest, phase, layer)
        places = [(number, i) for i in outputs]
        found = {self._output(*place) for place in places}
        category = next((c for c in _ORDER if c in found), Category.TEMPORARIES)
        if category is Category.GRADIENTS:
            layer = self._layer_of_gradient(places) or layer
        holders = next(filter(None, (self._assigned(*place) for place in places)), [])
        if not holders:
            return Purpose(category, phase, layer)
        return self._taken(number, holders, Purpose(category, phase, layer))

    def given(self, path: tuple[str, ...]) -> Purpose:
        """Tell whose a constant is that an operation became, by the variable that takes it over."""
        number = self.numbers.get(path)
        if number is None or not (variables := self._assigned(number, 0)):
            return Purpose()
        return self._taken(number, variables, Purpose())

    def _taken(self, number: int, variables: list[int], made: Purpose) -> Purpose:
        """Tell what a node's output is for that variables take over."""
        # Of equal constants the optimiser leaves one, unless it was told to leave them alone.
        equal = self.equal.get(number, ())
        merged = (n for n in equal if self.flow.nodes[n].path not in self.forwarding.with_output)
        variables = [*variables, *(v for n in merged for v in self._assigned(n, 0))]
        held = [self._held(v, made.phase, made.layer) for v in dict.fromkeys(variables)]
        return shared([replace(one, before=made.category) for one in held])

    def _held(self, index: int, phase: Phase | None, layer: str | None) -> Purpose:
        variable = self.flow.variables[index]
        layer = variable.layer or layer
        return Purpose(self.categories[index], phase, layer, variable.name, variable.number)

    def _layer_of_gradient(self, places: Iterable[tuple[int, int]]) -> str | None:
        """Give the layer of the variable that the update first writes by a gradient."""
        nodes = self.flow.nodes
        queue = [handed for place in places for handed in self.forwarding.chain(*place)]
        seen = set(queue)
        for number, output in queue:  # which grows: the nearest ones come first
            for use in nodes[number].uses[output]:
                user = nodes[use.node]
                if user.variables and UPDATES.fullmatch(user.type):
                    return self.flow.variables[user.variables[0]].layer
                # Behind what packs gradients, any variable may be another one's.
                if self.phases[use.node] is not Phase.UPDATE or user.type in _PACKS:
                    continue
                # IdentityN hands on the gradients of all variables, each as an output of its own.
                outputs = [use.place] if user.type in VIEWS else range(len(user.outputs))
                new = [(use.node, i) for i in outputs if i < len(user.outputs)]
                queue += [place for place in new if place not in seen]
                seen.update(new)
        return None

    def _assigned(self, number: int, output: int) -> list[int]:
        """Give the variables that take an output over."""
        chain = self.forwarding.chain(number, output)
        return list(next((self.assigned[p] for p in chain if p in self.assigned), ()))

    def _output(self, number: int, output: int) -> Category:
        chain = self.forwarding.chain(number, output)
        nodes, phases = self.flow.nodes, self.phases
        if _PIPELINE.fullmatch(nodes[number].type):
            return Category.INPUTS
        returned = [place for place in chain if nodes[place[0]].escapes]
        if phases[number] is Phase.FORWARD or (self.keeps and phases[number] is None):
            used = any(
                phases[use.node] is Phase.BACKWARD and nodes[use.node].type not in OF_SHAPES
                for node, out in chain
                for use in nodes[node].uses[out]
            )
            if used or (self.keeps and returned):
                return Category.ACTIVATIONS
        elif (
            nodes[number].outputs[output].dtype.startswith(_FLOATS)
            and any(node in self.gradients for node, _ in chain)
            and all(self._is_gradient(*place) for place in returned)
        ):
            return Category.GRADIENTS
        # What the caller does with it, such as a new weight, the graph does not tell.
        return Category.OTHER if returned else Category.TEMPORARIES

    def _is_gradient(self, number: int, output: int) -> bool:
        """Tell whether a node makes a gradient, or hands it on: as it is, scaled or clipped."""
        nodes, todo = self.flow.nodes, [(number, output)]
        seen = set(todo)
        for place in todo:  # which grows
            node = nodes[place[0]]
            if place[0] in self.gradients:
                continue
            slots = [node.inputs[place[1]]] if node.type in VIEWS else node.inputs
            sources = [(s.node, s.output) for slot in slots for s in slot if not s.back]
            whole = [(n, out) for n, out in sources if nodes[n].outputs[out].shape != ()]
            if not whole or self.phases[place[0]] is Phase.FORWARD:
                return False
            todo += [place for place in whole if place not in seen]
            seen.update(whole)
        return True


#: An operation with several outputs of one form makes the first of these.
_ORDER: Final = (Category.INPUTS, Category.GRADIENTS, Category.ACTIVATIONS, Category.OTHER)

_known: Final[weakref.WeakKeyDictionary[Any, tuple[int, Roles | None]]] = (
    weakref.WeakKeyDictionary()
)


def roles_of(graph: Any, function: str = "") -> Roles | None:
    """Read the roles of a graph's operations; None when it cannot be followed.

    Parameters
    ----------
    graph : tf.Graph
    function : str
        The runtime's name of its function.
    """
    size = len(graph.get_operations())
    known = _known.get(graph)
    if known is None or known[0] != size:
        whole = function.startswith(_BACKWARD_FUNCTION)
        keeps = function.startswith(_FORWARD_FUNCTION)
        known = _known[graph] = (size, _read(graph, whole, keeps))
    return known[1]


def _read(graph: Any, whole: bool, keeps: bool) -> Roles | None:
    read = flow_of(graph, lambda op: whole or _BACKWARD_SCOPE.search(op.name) is not None)
    if read is None:
        return None
    flow, operations = read
    phases = phases_of(flow, operations)
    trains = any(phase is Phase.BACKWARD for phase in phases.of_nodes)
    assigned: dict[tuple[int, int], list[int]] = {}
    for node in flow.nodes:
        if node.type in _ASSIGNS and node.variables:
            for source in node.inputs[1]:
                assigned.setdefault((source.node, source.output), []).append(node.variables[0])
    constants = [n for n, _ in assigned if not phases.timed[n] and phases.of_nodes[n] is None]
    equal = equal_nodes(flow, operations, constants)
    categories = _variable_categories(flow, phases.of_nodes)
    numbers = {node.path: number for number, node in enumerate(flow.nodes)}
    return Roles(
        flow,
        phases.of_nodes,
        phases.timed,
        trains,
        keeps,
        assigned,
        equal,
        phases.gradients,
        categories,
        numbers,
        Forwarding(flow, numbers),
    )


def _variable_categories(flow: Flow, phases: list[Phase | None]) -> list[Category]:
    reads: list[set[Phase | None]] = [set() for _ in flow.variables]
    for number, node in enumerate(flow.nodes):
        for variable in node.variables:
            reads[variable].add(phases[number])
    return [
        variable.category or _by_use(seen)
        for variable, seen in zip(flow.variables, reads, strict=True)
    ]


def _by_use(phases: set[Phase | None]) -> Category:
    if Phase.FORWARD in phases or Phase.BACKWARD in phases:
        return Category.WEIGHTS
    if phases == {Phase.UPDATE}:
        return Category.OPTIMIZER
    return Category.OTHER


__all__ = ["Roles", "Variable", "roles_of"]
