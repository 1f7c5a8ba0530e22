"""Why a trace was needed: how its arguments differ from the nearest trace made before it.

The nearest trace is the earlier one with the fewest differing parts; of equally near ones one of
the same form, then the latest.  Where nothing in the arguments differs, it is what surrounds the
call that does: variables made in the first call, another graph, another device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lessons_lib.instruments.tracing.nodes import Node, PartKind, shape_text


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
    CONTEXT = "context"


class Detail(StrEnum):
    """What else is known of a difference; the value is what is shown."""

    NONE = ""
    RELAXED = "relaxed"
    MADE_AGAIN = "made again"
    GONE = "the earlier one is gone"
    UNEQUAL = "compared by =="
    SAME_VARIABLE = "which arguments are one variable"
    TRAINABLE = "trainable or not"


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
    detail : Detail
        What else is known.
    value_type : str
        For Python values and objects, the class: ``int``, ``bool``, ``str``.
    kinds : tuple of (PartKind or None)
        What it was before and is now; None where it was not given.
    """

    argument: str
    cause: TraceCause
    before: str
    now: str
    detail: Detail = Detail.NONE
    value_type: str = ""
    kinds: tuple[PartKind | None, PartKind | None] = (None, None)

    def __str__(self) -> str:
        change = f"{self.before} → {self.now}"
        match self.cause:
            case TraceCause.CONTEXT:
                return f"{self.cause}: {self.now}"
            case TraceCause.VARIABLES:
                return f"{self.cause}: traced again for calls that make none"
            case TraceCause.OBJECT if self.before == self.now:
                tail = f", {self.detail}" if self.detail else ""
                return f"{self.argument}: {self.cause}, {self.now}{tail}"
            case TraceCause.OBJECT:
                return f"{self.argument}: {self.cause}, {change}"
            case _:
                tail = f" ({self.detail})" if self.detail else ""
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
    """All of a trace's key: its arguments, and the context of the call."""

    signature: Node
    context: tuple[tuple[str, Any], ...] = ()


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
            found = _context(key, earlier[number - 1])
            return Reason(found.cause, (found,), number)
    nearest = len(earlier)
    best = tuple(differences(new, earlier[-1].signature))
    for number in range(len(earlier) - 1, 0, -1):
        if _distance(best) <= (1, 0):
            break
        other = earlier[number - 1].signature
        if _at_least(new, other) < len(best) or _same_form(new, other):
            nearer = tuple(differences(new, other))
            if _distance(nearer) < _distance(best):
                best, nearest = nearer, number
    best = tuple(sorted(best, key=lambda difference: _WEIGHT.get(difference.cause, 5)))
    return Reason(best[0].cause, best, nearest)


def _distance(found: Sequence[Difference]) -> tuple[int, int]:
    return len(found), sum(d.cause is TraceCause.STRUCTURE for d in found)


def _same_form(new: Node, old: Node) -> bool:
    parts = zip(new.children, old.children, strict=False)
    return new.structure == old.structure and all(
        a.kind is b.kind and a.structure == b.structure for a, b in parts
    )


def _at_least(new: Node, old: Node) -> int:
    """Give a lower bound of the number of differences, without describing them."""
    if new.structure != old.structure:
        return 1
    return sum(a.key != b.key for a, b in zip(new.children, old.children, strict=True))


def differences(new: Node, old: Node) -> Iterator[Difference]:
    """Find the parts of two signatures that differ, in the order of the arguments."""
    if new.key == old.key:
        return
    match new.kind, old.kind:
        case PartKind.CALL, PartKind.CALL:
            yield from _arguments(new, old)
        case (PartKind.TENSOR, PartKind.TENSOR) | (PartKind.VARIABLE, PartKind.VARIABLE):
            yield from _tensors(new, old)
        case (PartKind.VALUE | PartKind.NONE, PartKind.VALUE | PartKind.NONE):
            yield _difference(TraceCause.VALUE, new, old, value_type=new.value_type)
        case PartKind.OBJECT, PartKind.OBJECT:
            yield _objects(new, old)
        case _ if new.children and new.kind is old.kind and new.structure == old.structure:
            parts = zip(new.children, old.children, strict=True)
            found = [difference for a, b in parts for difference in differences(a, b)]
            yield from found or [_structure(new, old)]
        case (PartKind.OTHER, PartKind.OTHER) if (
            new.structure == old.structure and new.dtype != old.dtype
        ):
            yield from _tensors(new, old)
        case (PartKind.OTHER, PartKind.OTHER) if new.type_spec and old.type_spec:
            yield _specs(new, old)
        case _:
            yield _structure(new, old)


def _difference(
    cause: TraceCause, new: Node, old: Node, detail: Detail = Detail.NONE, value_type: str = ""
) -> Difference:
    kinds = (old.kind, new.kind)
    return Difference(new.path, cause, old.text, new.text, detail, value_type, kinds)


def _structure(new: Node, old: Node) -> Difference:
    before, now = _form(old), _form(new)
    if before == now:
        before, now = old.full_text or before, new.full_text or now
    if before == now and new.kind is old.kind:  # nothing tells them apart but which one it is
        return _difference(TraceCause.OBJECT, new, old)
    return Difference(new.path, TraceCause.STRUCTURE, before, now, kinds=(old.kind, new.kind))


def _form(node: Node) -> str:
    match node.kind:
        case PartKind.LIST | PartKind.TUPLE:
            return f"{node.kind} of {node.structure}"
        case PartKind.DICT:
            return f"dict with keys {node.text}"
        case PartKind.TENSOR:
            return f"tensor {node.text}"
        case PartKind.VALUE:
            return f"Python {node.value_type} {node.text}"
        case _:
            return node.text


_ABSENT: Final = "not given"


def _arguments(new: Node, old: Node) -> Iterator[Difference]:
    before = {child.path: child for child in old.children}
    for child in new.children:
        other = before.pop(child.path, None)
        if other is None:
            now, kinds = _form(child), (None, child.kind)
            yield Difference(child.path, TraceCause.STRUCTURE, _ABSENT, now, kinds=kinds)
        else:
            yield from differences(child, other)
    for child in before.values():
        form, gone = _form(child), (child.kind, None)
        yield Difference(child.path, TraceCause.STRUCTURE, form, _ABSENT, kinds=gone)


def _tensors(new: Node, old: Node) -> Iterator[Difference]:
    same, kinds = True, (old.kind, new.kind)
    if new.dtype != old.dtype:
        same = False
        before, now = str(old.dtype), str(new.dtype)
        yield Difference(new.path, TraceCause.DTYPE, before, now, kinds=kinds)
    if new.shape != old.shape:
        same = False
        # A trace for variables of every size still takes some sizes from the one it was made for.
        is_tensor = new.kind is not PartKind.VARIABLE
        is_relaxed = is_tensor and _relaxes(new.shape, old.shape)
        detail = Detail.RELAXED if is_relaxed else Detail.NONE
        before, now = shape_text(old.shape).strip(), shape_text(new.shape).strip()
        yield Difference(new.path, TraceCause.SHAPE, before, now, detail, kinds=kinds)
    if new.same_as != old.same_as:
        same = False
        before, now = (
            f"the variable that is also {node.same_as}" if node.same_as else "a variable of its own"
            for node in (old, new)
        )
        yield Difference(
            new.path, TraceCause.STRUCTURE, before, now, Detail.SAME_VARIABLE, kinds=kinds
        )
    if new.trainable != old.trainable:
        same = False
        before, now = (
            f"{'trainable' if node.trainable else 'not trainable'} {node.text}"
            for node in (old, new)
        )
        yield Difference(new.path, TraceCause.STRUCTURE, before, now, Detail.TRAINABLE, kinds=kinds)
    if same:
        yield _structure(new, old)


def _specs(new: Node, old: Node) -> Difference:
    """Tell ragged and sparse tensors apart: only where one type holds both, it is by shape."""
    mine, other = new.type_spec, old.type_spec
    if new.structure != old.structure or mine.most_specific_common_supertype([other]) is None:
        return _structure(new, old)
    before, now = shape_text(old.shape).strip(), shape_text(new.shape).strip()
    if before == now:  # the shape of a part, as the number of rows of an IndexedSlices
        before, now = old.full_text, new.full_text
    detail = Detail.RELAXED if other.is_subtype_of(mine) else Detail.NONE
    return Difference(new.path, TraceCause.SHAPE, before, now, detail, kinds=(old.kind, new.kind))


def _relaxes(new: tuple[int | None, ...] | None, old: tuple[int | None, ...] | None) -> bool:
    """Tell whether a trace for the new shape serves the old one as well, and others."""
    if new is None or old is None:
        return new is None
    return len(new) == len(old) and all(a in (None, b) for a, b in zip(new, old, strict=True))


def _objects(new: Node, old: Node) -> Difference:
    if new.origin is not None and new.origin == old.origin:
        detail = Detail.MADE_AGAIN
    elif old.is_gone or new.is_gone:
        detail = Detail.GONE
    elif new.by_equality:
        detail = Detail.UNEQUAL
    else:
        detail = Detail.NONE
    return _difference(TraceCause.OBJECT, new, old, detail, new.value_type)


_CONTEXT: Final = {
    "parent_graph": "called within another graph",
    "device_functions": "another device scope",
    "colocation_stack": "another colocation scope",
    "in_cross_replica_context": "another replica context",
    "variable_policy": "traced for saving",
    "xla_context_id": "called within another XLA function",
}


def _context(new: Key, old: Key) -> Difference:
    now, before = dict(new.context), dict(old.context)
    if now.get("scope_type") != before.get("scope_type"):
        return Difference(
            "", TraceCause.VARIABLES, "a call that made variables", "one that makes none"
        )
    told = [text for name, text in _CONTEXT.items() if now.get(name) != before.get(name)]
    text = ", ".join(told) or "something that TensorFlow does not show"
    return Difference("", TraceCause.CONTEXT, "the same arguments", text)


def context_of(context: Any) -> tuple[tuple[str, Any], ...]:
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
    found += [(name, _plain(getattr(inner, name, None))) for name in _CONTEXT]
    return tuple(found)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case tuple():
            return tuple(map(_plain, value))
        case _:  # graphs and scopes are told apart by identity: holding them keeps them alive
            return id(value)
