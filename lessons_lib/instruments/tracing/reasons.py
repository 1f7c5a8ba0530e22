"""Why a trace was needed: how its arguments differ from the nearest trace made before it.

The nearest trace is the earlier one with the fewest differing parts; of equally near ones the
latest.  Where nothing in the arguments differs, it is what surrounds the call that does: variables
made in the first call, another graph, another device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lessons_lib.instruments.tracing.signatures import Kind, Node, shape_text


class TraceCause(StrEnum):
    """What made TensorFlow trace a function.

    The value is what is shown.
    """

    FIRST = "first"
    VALUE = "Python value"
    SHAPE = "shape"
    DTYPE = "dtype"
    STRUCTURE = "structure"
    OBJECT = "new object"
    VARIABLES = "variable creation"
    SURROUNDINGS = "surroundings"


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of the arguments that differs from the nearest earlier trace.

    Attributes
    ----------
    argument : str
        Which part: ``x``, ``batch['image']``.
    cause : TraceCause
        How it differs.
    before, now : str
        Its earlier and its present form.
    note : str
        What else is known, such as ``made again at the same line``.
    value_type : str
        For Python values, the class: ``int``, ``bool``, ``str``.
    """

    argument: str
    cause: TraceCause
    before: str
    now: str
    note: str = ""
    value_type: str = ""

    def __str__(self) -> str:
        change = f"{self.before} → {self.now}"
        match self.cause:
            case TraceCause.SURROUNDINGS:
                return f"{self.cause}: {self.now}"
            case TraceCause.VARIABLES:
                return f"{self.cause}: traced again for calls that make none"
            case TraceCause.OBJECT if self.before == self.now:
                tail = f", {self.note}" if self.note else ""
                return f"{self.argument}: {self.cause}, {self.now}{tail}"
            case TraceCause.OBJECT:
                return f"{self.argument}: {self.cause}, {change}"
            case _:
                tail = f" ({self.note})" if self.note else ""
                return f"{self.argument}: {self.cause} {change}{tail}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a trace was needed.

    Attributes
    ----------
    cause : TraceCause
        The first difference's cause, or ``first``.
    differences : tuple of Difference
        All differences from the nearest earlier trace.
    nearest : int or None
        Number of that trace, from 1; None for a first trace.
    """

    cause: TraceCause
    differences: tuple[Difference, ...] = ()
    nearest: int | None = None

    def __str__(self) -> str:
        return "; ".join(map(str, self.differences)) or str(self.cause)


@dataclass(frozen=True, slots=True)
class Key:
    """All of a trace's key: its arguments, and what surrounded the call."""

    signature: Node
    surroundings: tuple[tuple[str, Any], ...] = ()


#: Differences that carry more than the others: what a person would change first.
_WEIGHT: Final = {
    TraceCause.STRUCTURE: 0,
    TraceCause.OBJECT: 1,
    TraceCause.VALUE: 2,
    TraceCause.DTYPE: 3,
    TraceCause.SHAPE: 4,
}


def reason_for(key: Key, earlier: Sequence[Key]) -> Reason:
    """Explain a trace by those made before it.

    Parameters
    ----------
    key : Key
        The new trace's key.
    earlier : sequence of Key
        Keys of the function's earlier traces, in the order in which they were made.

    Returns
    -------
    Reason
        ``first`` when there is no earlier trace.
    """
    if not earlier:
        return Reason(TraceCause.FIRST)
    new = key.signature
    for number in range(len(earlier), 0, -1):
        if earlier[number - 1].signature.key == new.key:
            found = _surroundings(key, earlier[number - 1])
            return Reason(found.cause, (found,), number)
    nearest = len(earlier)
    best = tuple(differences(new, earlier[-1].signature))
    for number in range(len(earlier) - 1, 0, -1):
        if len(best) <= 1:
            break
        other = earlier[number - 1].signature
        if _at_least(new, other) < len(best):
            nearer = tuple(differences(new, other))
            if len(nearer) < len(best):
                best, nearest = nearer, number
    best = tuple(sorted(best, key=lambda difference: _WEIGHT.get(difference.cause, 5)))
    return Reason(best[0].cause, best, nearest)


def _at_least(new: Node, old: Node) -> int:
    """Give a lower bound of the number of differences, without describing them."""
    if new.frame != old.frame:
        return 1
    return sum(a.key != b.key for a, b in zip(new.children, old.children, strict=True))


def differences(new: Node, old: Node) -> Iterator[Difference]:
    """Find the parts of two signatures that differ, in the order of the arguments."""
    if new.key == old.key:
        return
    match new.kind, old.kind:
        case Kind.CALL, Kind.CALL:
            yield from _arguments(new, old)
        case (Kind.TENSOR, Kind.TENSOR) | (Kind.VARIABLE, Kind.VARIABLE):
            yield from _tensors(new, old)
        case Kind.VALUE, Kind.VALUE:
            yield Difference(
                new.path, TraceCause.VALUE, old.text, new.text, value_type=new.value_type
            )
        case Kind.OBJECT, Kind.OBJECT:
            yield _objects(new, old)
        case (
            (Kind.LIST, Kind.LIST)
            | (Kind.TUPLE, Kind.TUPLE)
            | (Kind.DICT, Kind.DICT)
            | (Kind.RECORD, Kind.RECORD)
        ) if new.frame == old.frame:
            parts = zip(new.children, old.children, strict=True)
            yield from (found for a, b in parts for found in differences(a, b))
        case (Kind.OTHER, Kind.OTHER) if new.frame == old.frame and new.text != old.text:
            yield from _tensors(new, old)
        case _:
            yield Difference(new.path, TraceCause.STRUCTURE, _form(old), _form(new))


def _form(node: Node) -> str:
    match node.kind:
        case Kind.LIST | Kind.TUPLE:
            return f"{node.kind} of {node.frame}"
        case Kind.DICT:
            return f"dict with keys {node.text}"
        case Kind.TENSOR:
            return f"tensor {node.text}"
        case Kind.VALUE if node.text != "None":
            return f"Python {node.value_type} {node.text}"
        case _:
            return node.text


def _arguments(new: Node, old: Node) -> Iterator[Difference]:
    before = {child.path: child for child in old.children}
    for child in new.children:
        other = before.pop(child.path, None)
        if other is None:
            yield Difference(child.path, TraceCause.STRUCTURE, "not given", _form(child))
        else:
            yield from differences(child, other)
    for child in before.values():
        yield Difference(child.path, TraceCause.STRUCTURE, _form(child), "not given")


def _tensors(new: Node, old: Node) -> Iterator[Difference]:
    same = True
    if new.dtype != old.dtype:
        same = False
        yield Difference(new.path, TraceCause.DTYPE, str(old.dtype), str(new.dtype))
    if new.shape != old.shape:
        same = False
        note = "relaxed" if new.shape is None or None in new.shape else ""
        old_text, new_text = shape_text(old.shape).strip(), shape_text(new.shape).strip()
        yield Difference(new.path, TraceCause.SHAPE, old_text, new_text, note)
    if same and new.kind is Kind.VARIABLE:
        note = "which variables are the same one, or trainable, differs"
        yield Difference(new.path, TraceCause.STRUCTURE, old.text, new.text, note)
    elif same:
        note = "its name or its parts differ"
        yield Difference(new.path, TraceCause.STRUCTURE, old.text, new.text, note)


def _objects(new: Node, old: Node) -> Difference:
    note = ""
    if new.maker is not None and new.maker == old.maker:
        note = "made again"
    return Difference(new.path, TraceCause.OBJECT, old.text, new.text, note)


_SURROUNDINGS: Final = {
    "parent_graph": "called within another graph",
    "device_functions": "another device scope",
    "colocation_stack": "another colocation scope",
    "in_cross_replica_context": "another replica context",
    "variable_policy": "traced for saving",
    "xla_context_id": "called within another XLA function",
}


def _surroundings(new: Key, old: Key) -> Difference:
    now, before = dict(new.surroundings), dict(old.surroundings)
    if now.get("scope_type") != before.get("scope_type"):
        return Difference(
            "", TraceCause.VARIABLES, "a call that made variables", "one that makes none"
        )
    told = [text for name, text in _SURROUNDINGS.items() if now.get(name) != before.get(name)]
    text = ", ".join(told) or "something that TensorFlow does not show"
    return Difference("", TraceCause.SURROUNDINGS, "the same arguments", text)


def surroundings_of(context: Any) -> tuple[tuple[str, Any], ...]:
    """Make what surrounded a call comparable, without keeping a graph alive.

    Parameters
    ----------
    context : FunctionContext or None
        TensorFlow's own description.
    """
    if context is None:
        return ()
    inner = getattr(context, "context", None)
    found: list[tuple[str, Any]] = [("scope_type", str(getattr(context, "scope_type", None)))]
    found += [(name, _plain(getattr(inner, name, None))) for name in _SURROUNDINGS]
    return tuple(found)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case tuple():
            return tuple(map(_plain, value))
        case _:  # graphs and scopes are told apart by identity: holding them keeps them alive
            return id(value)
