"""Advice for a trace and for a function: a sentence, seldom two.

A sentence names the argument or the line and says what to write instead.  Nothing here measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.common.units import KIB, format_bytes
from lessons_lib.instruments.tracing.graph_contents import Contents
from lessons_lib.instruments.tracing.nodes import Node, PartKind, shape_text
from lessons_lib.instruments.tracing.reasons import Detail, Difference, Reason, TraceCause

#: A constant of this size or more is worth taking out of the graph (bytes).
BIG: Final = 64 * KIB
#: On what a trace for all sizes depends, which its arguments do not show.
_SIZES: Final = (
    " Where the code reads .shape or len as a number, first take tf.shape there, with a tf.cast to "
    "the dtype that it meets; where it needs a plain number (lists, if, tf.unstack), keep the "
    "shapes few."
)


class FunctionOwner(Enum):
    """Whose a function is: what of it the reader can change."""

    USER = 1
    LIBRARY = 2
    LOADED = 3


def advise_trace(
    reason: Reason,
    contents: Contents,
    signatures: Sequence[Node],
    owner: FunctionOwner = FunctionOwner.USER,
) -> str:
    """Say what to change so that a trace is not needed, or holds less; empty when nothing.

    Parameters
    ----------
    reason, contents : Reason, Contents
        Of the trace.
    signatures : sequence of Node
        Of the trace it is compared with, and its own.
    owner : FunctionOwner
        Whose the function is.
    """
    if not reason.differences:
        return advise_contents(contents)
    told = _together(_to_change(reason)[:2])
    return " ".join(filter(None, (_advice(each, signatures, owner) for each in told)))


def advise_contents(contents: Contents) -> str:
    """Say what to change in a graph that is larger than it need be; empty when it is not."""
    big = next((constant for constant in contents.constants if constant.nbytes >= BIG), None)
    if big is not None:
        where = f" at {big.line}" if big.line is not None else ""
        return (
            f"{format_bytes(big.nbytes)} of {big.dtype} are written into the graph as a "
            f"constant{where}: make it a tensor or a tf.Variable outside the function, which the "
            "graph then refers to."
        )
    if contents.unrolled is not None:
        loop = contents.unrolled
        return (
            f"The Python loop at {loop.line} was unrolled into at least {loop.times} copies of "
            "its body: where the steps are alike, loop over tf.range(...) to have one."
        )
    return ""


def advise_function(
    reasons: Sequence[Reason],
    contents: Sequence[Contents],
    signatures: Sequence[Node],
    owner: FunctionOwner = FunctionOwner.USER,
) -> str:
    """Say the one thing that would help a function most; empty when nothing need be done.

    Parameters
    ----------
    reasons, contents, signatures : sequence
        Of all its traces, in the order in which they were made.
    owner : FunctionOwner
        Whose the function is.
    """
    changes = [_to_change(reason) for reason in reasons if reason.differences]
    if not changes:
        largest = max(contents, key=lambda found: found.constant_bytes + found.ops, default=None)
        return "" if largest is None else advise_contents(largest)
    changes = [c for c in changes if c[0].detail is not Detail.RELAXED] or changes
    most = Counter(map(_what, (c[0] for c in changes))).most_common(1)[0][0]
    alike = [c[0] for c in changes if _what(c[0]) == most]
    # Two objects that live, or None against a value, say less than one that died, or two values.
    told = max(alike, key=lambda d: (d.detail is not Detail.NONE, PartKind.NONE not in d.kinds))
    # What differs in each of these traces as well has to be changed, too, to have fewer.
    too = [
        other
        for other in next(c for c in changes if c[0] is alike[-1])[1:2]
        if all(_what(other) in map(_what, c) for c in changes if _what(c[0]) == most)
    ]
    first, *others = _together([told, *too])
    said = [_advice(first, signatures, owner, times=len(alike))]
    said += [_advice(other, signatures, owner) for other in others]
    return " ".join(filter(None, said)) + (_copies(contents) if owner is FunctionOwner.USER else "")


def _together(differences: list[Difference]) -> list[Difference]:
    """Make one of two arguments whose new shapes ask for the same change."""
    if [(d.cause, d.detail is Detail.RELAXED) for d in differences] != [
        (TraceCause.SHAPE, False)
    ] * 2:
        return differences
    both = " or ".join(difference.argument for difference in differences)
    return [replace(differences[0], argument=both)]


def _to_change(reason: Reason) -> list[Difference]:
    """Pick the differences to do something about: relaxed shapes need nothing."""
    found = list(reason.differences)
    return [d for d in found if d.detail is not Detail.RELAXED] or found


def _what(difference: Difference) -> tuple[TraceCause, str]:
    return difference.cause, difference.argument


def _advice(
    difference: Difference, signatures: Sequence[Node], owner: FunctionOwner, times: int = 1
) -> str:
    name, relaxed = difference.argument, difference.detail is Detail.RELAXED
    match owner:
        case FunctionOwner.USER:
            return _difference(difference, signatures, times)
        case FunctionOwner.LIBRARY if difference.cause is TraceCause.SHAPE and not relaxed:
            return (
                f"Each new shape of {name} is a trace of a library's function: feed batches of one "
                "shape (drop_remainder=True, padding)."
            )
        case FunctionOwner.LOADED if difference.cause is TraceCause.SHAPE and not relaxed:
            return (
                f"The traces were saved with the function, one for each shape of {name}: give it "
                "an input_signature before it is saved to have fewer."
            )
        case _:
            return ""


def _copies(contents: Sequence[Contents]) -> str:
    """Add what every further trace costs, where a large constant is written into each."""
    with_big = [found for found in contents if found.constants and found.constants[0].nbytes >= BIG]
    if len(with_big) < 2:
        return ""
    constant = with_big[-1].constants[0]
    where = f" from {constant.line}" if constant.line is not None else ""
    return (
        f" Each trace also holds its own copy of {format_bytes(constant.nbytes)}{where}: make that "
        "a tensor or a tf.Variable outside the function."
    )


def _difference(difference: Difference, signatures: Sequence[Node], times: int) -> str:
    name = difference.argument
    match difference.cause:
        case TraceCause.VALUE:
            return _value(difference, signatures, times)
        case TraceCause.SHAPE if difference.detail is Detail.RELAXED:
            return (
                f"The shape of {name} is relaxed now: this trace serves every size there, and "
                "nothing need be done."
            )
        case TraceCause.SHAPE if read := _resized_variables(signatures):
            values = " and ".join(f"tf.convert_to_tensor({variable})" for variable in read)
            return (
                f"Each new shape of {name} is a trace: where {' and '.join(read)} is only read, "
                f"pass {values} to a tf.function with reduce_retracing=True. Given a variable, "
                "that one would go on with an earlier one's sizes, and results can be "
                f"wrong.{_SIZES}"
            )
        case TraceCause.SHAPE:
            signature = _input_signature(signatures)
            fixed = f"input_signature={signature}, or " if signature else ""
            return (
                f"Each new shape of {name} is a trace: give tf.function {fixed}"
                f"reduce_retracing=True.{_SIZES}"
            )
        case TraceCause.DTYPE:
            return (
                f"Each dtype of {name} is a trace: where the result does not depend on it, convert "
                f"to one dtype, such as {_widest(name, signatures) or difference.before}, before "
                "the call; where it does (tf.image.convert_image_dtype, means of integers), each "
                "dtype needs its trace."
            )
        case TraceCause.STRUCTURE:
            return _structure(difference)
        case TraceCause.OBJECT:
            return _object(difference)
        case TraceCause.VARIABLES:
            return (
                "A call that makes variables is traced twice, once: make them outside the function "
                "to have one trace."
            )
        case _:
            return (
                f"The arguments are the same; what surrounds the call is not ({difference.now}): "
                "call it in one place only, if its traces are too many."
            )


def _resized_variables(signatures: Sequence[Node]) -> list[str]:
    """List the parts of the arguments that are variables, of several shapes."""
    shapes: dict[str, set[object]] = {}

    def look(node: Node) -> None:
        if node.kind is PartKind.VARIABLE:
            shapes.setdefault(node.path, set()).add(node.shape)
        for child in node.children:
            look(child)

    for signature in signatures:
        look(signature)
    return [path for path, met in shapes.items() if len(met) > 1]


def _at(path: str, node: Node, parent: Node | None = None) -> tuple[Node, Node | None] | None:
    """Find a part of a signature by its path, and what it is a part of."""
    if node.path == path and node.kind is not PartKind.CALL:
        return node, parent
    for child in node.children:
        if (found := _at(path, child, node)) is not None:
            return found
    return None


def _all_at(path: str, signatures: Sequence[Node]) -> list[tuple[Node, Node | None]]:
    return [found for one in signatures if (found := _at(path, one)) is not None]


def _widest(path: str, signatures: Sequence[Node]) -> str:
    """Name a dtype that holds the numbers of all the dtypes that an argument had."""
    names = {node.dtype for node, _ in _all_at(path, signatures) if node.dtype}
    try:
        common = np.result_type(*(tf.as_dtype(name).as_numpy_dtype for name in names))
        return str(tf.as_dtype(common).name)
    except (TypeError, ValueError):  # text and numbers, say
        return ""


def _value(difference: Difference, signatures: Sequence[Node], times: int) -> str:
    name = difference.argument
    found = [f for f in _all_at(name, signatures) if f[0].kind in (PartKind.VALUE, PartKind.NONE)]
    nodes = [node for node, _ in found]
    kinds = list(dict.fromkeys("None" if n.kind is PartKind.NONE else n.value_type for n in nodes))
    kinds = kinds or [difference.value_type]
    values = len({node.key for node in nodes})
    again = f", {values} here" if times > 1 and values > 2 else ""
    parents = [parent for _, parent in found if parent is not None]
    if parents and parents[-1].kind is PartKind.EXTENSION:
        return (
            f"Each value of the field {name} ({', '.join(kinds)}) is a trace{again}: where it only "
            f"meets tensors, declare it as a tf.Tensor in {parents[-1].text}; else keep its values "
            "few."
        )
    if kinds == ["bool"]:
        return (
            f"A Python bool ({name}) makes two traces at most, each with its own branch; a "
            "tensor makes one that holds both."
        )
    dtype = _dtype(nodes, signatures)
    if not dtype:
        return f"Each value of {name} ({', '.join(kinds)}) is a trace{again}: keep its values few."
    numbers = [kind for kind in kinds if kind != "None"]
    always = " in every call" if len(kinds) > len(numbers) else ""
    return (
        f"Each value of the Python {' or '.join(numbers)} {name} is a trace{again}: where it only "
        f"meets tensors (arithmetic, slices, tf.range), pass a tensor{always}, "
        f"tf.constant({name}, tf.{dtype}), and tf.cast it where it meets another dtype. Where a "
        "plain number is needed (lists, if, tf.split, a loop that appends), keep its values few."
    )


def _dtype(nodes: Sequence[Node], signatures: Sequence[Node]) -> str:
    """Name the dtype of tensors that can stand for all of an argument's Python numbers."""
    nodes = [node for node in nodes if node.kind is not PartKind.NONE]
    types = {node.value_type for node in nodes}
    if not types or not types <= {"int", "float", "complex"} or None in {n.dtype for n in nodes}:
        return ""
    needed = {node.dtype for node in nodes}
    if types == {"int"}:
        return "int64" if "int64" in needed else "int32"
    # A Python number takes the precision of the tensors that it meets.
    wide = bool(_tensor_dtypes(signatures) & {"float64", "complex128"}) or "int64" in needed
    if "complex" in types:  # which alone is complex128
        return (
            "complex64" if "complex64" in _tensor_dtypes(signatures) and not wide else "complex128"
        )
    return "float64" if wide else "float32"


def _tensor_dtypes(signatures: Sequence[Node]) -> set[str]:
    def inside(node: Node) -> Iterator[str]:
        if node.kind in (PartKind.TENSOR, PartKind.VARIABLE, PartKind.OTHER) and node.dtype:
            yield node.dtype
        for child in node.children:
            yield from inside(child)

    return {dtype for signature in signatures for dtype in inside(signature)}


def _structure(difference: Difference) -> str:
    name, kinds = difference.argument, set(difference.kinds)
    if difference.detail is Detail.SAME_VARIABLE:
        return (
            f"Which arguments are one and the same variable is part of a trace ({name}: "
            f"{difference.before}, {difference.now}): pass {name} in one way, or have a trace for "
            "each."
        )
    both = f"{name} comes in different forms ({difference.before}, {difference.now})"
    if None in kinds:
        return f"{name} is given in some calls only, and that is a trace: pass it in every call."
    if PartKind.NONE in kinds:
        return (
            f"{both}, a trace for each: to have one, pass a value of one form in every call, also "
            "where it is None now."
        )
    if kinds == {PartKind.LIST} or kinds == {PartKind.TUPLE}:
        return (
            f"{both}: pass one length, or, where the parts have one shape, one stacked tensor to a "
            "tf.function with reduce_retracing=True."
        )
    if kinds == {PartKind.DICT}:
        return f"{both}: always pass the same keys."
    if kinds == {PartKind.VALUE, PartKind.TENSOR}:
        return f"{both}: pass a tensor in every call."
    return f"{both}: always pass the same one."


def _object(difference: Difference) -> str:
    name = difference.argument
    match difference.detail:
        case Detail.MADE_AGAIN:
            return (
                f"{name} is an object made anew for each call, as a lambda or instance.method is, "
                "and each new object is a trace: make it once, outside the loop, and pass that one."
            )
        case Detail.GONE:
            return (
                f"Each object passed as {name} is a trace, and an earlier one is gone, so that no "
                "other is taken for it: make one, keep it, and pass that one again "
                "(instance.method makes a new one each time)."
            )
        case Detail.UNEQUAL:
            return (
                f"Objects passed as {name} are compared by ==, which {difference.value_type} "
                "defines: one that equals no earlier one is a trace. Pass equal ones, or tensors "
                "in place of what varies."
            )
        case _:
            return (
                f"Each object passed as {name} is a trace: pass the same ones again, or tensors in "
                "their place."
            )


def _input_signature(signatures: Sequence[Node]) -> str:
    """Write an input signature that fits all traces; empty when not all arguments are tensors."""
    specs = []
    for arguments in zip(*(node.children for node in signatures), strict=False):
        if any(a.kind is not PartKind.TENSOR or a.keyword_only for a in arguments):
            return ""
        if len({argument.dtype for argument in arguments}) > 1:
            return ""
        shapes = [argument.shape for argument in arguments]
        ranks = {None if shape is None else len(shape) for shape in shapes}
        if len(ranks) > 1 or None in ranks:
            shape = "None"
        else:
            sizes = zip(*(shape for shape in shapes if shape is not None), strict=True)
            merged = [size[0] if len(set(size)) == 1 else None for size in sizes]
            shape = shape_text(merged)
        specs.append(f"tf.TensorSpec({shape}, tf.{arguments[0].dtype})")
    same_count = len({len(node.children) for node in signatures}) == 1
    return f"[{', '.join(specs)}]" if specs and same_count else ""
