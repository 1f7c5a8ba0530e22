"""Advice for a trace and for a function: a sentence, seldom two.

A sentence names the argument or the line and says what to write instead.  Nothing here measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from lessons_lib.common.units import KIB, format_bytes
from lessons_lib.instruments.tracing.graph_contents import Contents
from lessons_lib.instruments.tracing.reasons import Difference, Reason, TraceCause
from lessons_lib.instruments.tracing.signatures import Kind, Node, shape_text

#: A constant of this size or more is worth taking out of the graph (bytes).
BIG: Final = 64 * KIB


def advise_trace(reason: Reason, contents: Contents, *, library: bool = False) -> str:
    """Say what to change so that a trace is not needed, or holds less; empty when nothing.

    `library` says that the function is not the user's own, so its definition cannot be changed.
    """
    if not reason.differences:
        return advise_contents(contents)
    if library:
        return _library(reason.differences[0])
    # One signature cannot tell which sides vary: the sentence for the function gives one.
    return _difference(reason.differences[0], [])


def _library(difference: Difference) -> str:
    if difference.cause is TraceCause.SHAPE and difference.note != "relaxed":
        return (
            f"Each new shape of {difference.argument} is a trace of a library's function: feed "
            "batches of one shape (drop_remainder=True, padding)."
        )
    return ""


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
    *,
    library: bool = False,
) -> str:
    """Say the one thing that would help a function most; empty when nothing need be done.

    Parameters
    ----------
    reasons, contents, signatures : sequence
        Of all its traces, in the order in which they were made.
    library : bool
        Whether the function is a library's, so that its definition cannot be changed.
    """
    later = [reason for reason in reasons if reason.differences]
    if later:
        counts = Counter((r.cause, r.differences[0].argument) for r in later)
        cause, argument = counts.most_common(1)[0][0]
        examples = [
            reason.differences[0]
            for reason in later
            if (reason.cause, reason.differences[0].argument) == (cause, argument)
        ]
        if library:
            return _library(examples[-1])
        sentence = _difference(examples[-1], signatures, times=len(examples))
        return sentence + _copies(contents)
    largest = max(contents, key=lambda found: found.constant_bytes + found.ops, default=None)
    return "" if largest is None else advise_contents(largest)


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


def _difference(difference: Difference, signatures: Sequence[Node], times: int = 1) -> str:
    name = difference.argument
    match difference.cause:
        case TraceCause.VALUE:
            return _value(difference, times)
        case TraceCause.SHAPE if difference.note == "relaxed":
            return (
                f"The shape of {name} is relaxed now: this trace serves every size there, and "
                "nothing need be done."
            )
        case TraceCause.SHAPE:
            signature = _input_signature(signatures)
            fixed = f"input_signature={signature}" if signature else "an input_signature"
            return (
                f"Each new shape of {name} is a trace: give tf.function {fixed}, or "
                "reduce_retracing=True."
            )
        case TraceCause.DTYPE:
            return (
                f"Each dtype of {name} is a trace: convert it to one dtype, such as "
                f"{difference.before}, before the call."
            )
        case TraceCause.STRUCTURE:
            return (
                f"{name} comes in different forms ({difference.before}, {difference.now}): always "
                "pass the same one, for example one stacked tensor, or the same keys."
            )
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


def _value(difference: Difference, times: int) -> str:
    name, kind = difference.argument, difference.value_type
    match kind:
        case "bool":
            return (
                f"A Python bool ({name}) makes two traces at most, each with its own branch; a "
                "tensor makes one that holds both."
            )
        case "int" | "float" | "complex":
            again = f", {times} here" if times > 1 else ""
            dtype = {"int": "tf.int32", "complex": "tf.complex64"}.get(kind, "tf.float32")
            return (
                f"Each value of the Python {kind} {name} is a trace{again}: pass a tensor, "
                f"tf.constant({name}, {dtype})."
            )
        case _:
            return (
                f"Each value of {name} ({kind}) is a trace: keep its values few, or pass a tensor."
            )


def _object(difference: Difference) -> str:
    name = difference.argument
    if difference.note or "gone" in difference.before or "gone" in difference.now:
        return (
            f"{name} is an object made anew for each call, as a lambda or instance.method is, and "
            "each new object is a trace: make it once, outside the loop, and pass that one."
        )
    return (
        f"Each object passed as {name} is a trace: pass the same ones again, or tensors in their "
        "place."
    )


def _input_signature(signatures: Sequence[Node]) -> str:
    """Write an input signature that fits all traces; empty when not all arguments are tensors."""
    specs = []
    for arguments in zip(*(node.children for node in signatures), strict=False):
        if any(argument.kind is not Kind.TENSOR for argument in arguments):
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
