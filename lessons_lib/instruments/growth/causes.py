"""The names of causes, and what is said about each one that was found.

Bytes are per call of the step.  A finding only holds numbers and names, no user's object.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lessons_lib.common.source import Line
from lessons_lib.common.units import GIB, KIB, MIB, format_bytes


class Cause(StrEnum):
    """Why memory grows."""

    RETRACING = "retracing"
    GRAPH_GROWTH = "graph growth"
    VARIABLES = "variables"
    RETAINED_TENSORS = "retained tensors"
    PYTHON_OBJECTS = "Python objects"
    DATASET_BUFFERS = "dataset buffers"
    RUNTIME_CACHE = "runtime cache"
    NATIVE_MEMORY = "native memory"
    ALLOCATOR = "allocator"
    NONE = "none"


ADVICE: Final = {
    Cause.RETRACING: (
        "Pass tensors instead of Python numbers, fix shapes with input_signature, and make each "
        "tf.function once, outside the loop."
    ),
    Cause.GRAPH_GROWTH: (
        "Build once, outside the loop, and reuse: one graph, one model, one dataset function."
    ),
    Cause.VARIABLES: "Make the variable once and assign to it, or drop what owns the old ones.",
    Cause.RETAINED_TENSORS: "Keep numbers (float(loss)) or a small summary instead of the tensors.",
    Cause.PYTHON_OBJECTS: "Keep a summary, bound the container, or write it to disk.",
    Cause.DATASET_BUFFERS: (
        "Drop iterators and datasets that are no longer read; shuffle and cache small records "
        "before decoding them."
    ),
    Cause.RUNTIME_CACHE: (
        "Make numbers that change into NumPy scalars or tensors computed by TensorFlow, and make "
        "layers and variables once, or give variables the same name: the runtime remembers every "
        "distinct Python number, and an operation with every distinct attribute, such as a name or "
        "a shape."
    ),
    Cause.NATIVE_MEMORY: (
        "Find the call that takes it by leaving out parts of the step: load models and make "
        "tables, sessions and interpreters once, and close what has a method for that."
    ),
    Cause.ALLOCATOR: (
        "Nothing is alive: keep the largest step small (smaller batches, fewer tensors at once), "
        "or run the work in a process of its own."
    ),
    Cause.NONE: "",
}
NOBODY_COLLECTS: Final = "Python's garbage collector is switched off"


def about(nbytes: float) -> str:
    """Write bytes that are an estimate, with three digits: ``"≈ 174 KiB"``."""
    size, unit = abs(nbytes), "B"
    for limit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= limit:
            size, unit = size / limit, name
            break
    number = f"{size:.3g}" if size < 999.5 else f"{size:.0f}"
    return f"≈ {'−' if nbytes < 0 else ''}{number} {unit}"


def counted(number: float, one: str, many: str = "") -> str:
    """Write a number with its noun: ``"1 operation"``, ``"2.5 operations"``."""
    text = f"{number:,.0f}" if number == round(number) else f"{number:.3g}"
    return f"{text} {one}" if text == "1" else f"{text} {many or one + 's'}"


@dataclass(frozen=True)
class Retained:
    """Things of one sort that stay: what they are, where they were made, and who holds them.

    Attributes
    ----------
    what : str
        Their type as people write it (``tf.Tensor``).
    shape : tuple of int or None
    dtype : str or None
    nbytes : int
        Bytes of one of them; 0 where that cannot be told, or where they take none of their own.
    per_call : float
        How many of them each call leaves behind.
    line : Line or None
        The line that made them.
    chain : tuple of str
        Who holds them, from a name in the program down to the thing itself; only the thing when
        no holder can be seen from Python.
    """

    what: str
    shape: tuple[int, ...] | None
    dtype: str | None
    nbytes: int
    per_call: float
    line: Line | None
    chain: tuple[str, ...]

    @property
    def holder(self) -> str:
        """The chain as one text: ``history (list) → tf.Tensor``."""
        return " → ".join(self.chain)

    def __str__(self) -> str:
        size = "" if not self.nbytes else f" {format_bytes(self.nbytes)}"
        shape = "" if self.shape is None else f" {list(self.shape)} {self.dtype or ''}".rstrip()
        line = "" if self.line is None else f", made at {self.line}"
        return f"{self.what}{shape}{size}{line}; held by {self.holder}"


@dataclass(frozen=True)
class Finding:
    """One cause of growth.

    Attributes
    ----------
    cause : Cause
    bytes_per_call : int
        What each call adds.  Exact for tensors and variables; an estimate where `exact` is False.
    exact : bool
    text : str
        What was seen, in a sentence.
    held : tuple of Retained
        What stays and who holds it, most bytes first; empty for causes outside Python.
    process_bytes_per_call : int or None
        What the process pays for it, Python's objects and native bookkeeping included: an estimate,
        given where it is much more than `bytes_per_call`.
    """

    cause: Cause
    bytes_per_call: int
    exact: bool
    text: str
    held: tuple[Retained, ...] = ()
    process_bytes_per_call: int | None = None

    @property
    def paid(self) -> int:
        """Bytes that each call costs the process."""
        return max(self.bytes_per_call, self.process_bytes_per_call or 0)

    @property
    def advice(self) -> str:
        """What usually helps, in a sentence."""
        return ADVICE[self.cause]

    @property
    def size(self) -> str:
        """The bytes per call for people; estimates are marked."""
        size = format_bytes(self.bytes_per_call) if self.exact else about(self.bytes_per_call)
        if self.process_bytes_per_call is None:
            return f"{size} per call"
        return f"{size} per call, which cost the process {about(self.process_bytes_per_call)}"

    def __repr__(self) -> str:
        where = f": {self.held[0].holder}" if self.held else ""
        return f"<{self.cause}, {self.size}{where}>"
