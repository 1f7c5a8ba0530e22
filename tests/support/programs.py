"""Small programs: what they are, how TensorFlow runs them, and what must be alive when.

A program is a list of steps over a handful of names.  `Machine` runs it with TensorFlow;
`Ledger` knows nothing of TensorFlow and works out, from shapes and data types alone, which bytes
are alive after each step.  The two share the steps and nothing else.

What the ledger takes as given, and so what the programs show: an eager operation makes its output
while its inputs and the name's old value are still there; reshaping, identities and casts to the
same type share; a row is shared if it is the only one, or if rows are a multiple of 64 bytes, else
copied; a graph's chain of element-wise operations makes one buffer; a tape keeps the inputs of
products and the outputs of tanh, until it goes.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from math import prod
from typing import Any

from lessons_lib.common.runtime import tf
from tests.support.tensors import ITEM, ints, new

Shape = tuple[int, ...]


@dataclass(frozen=True)
class New:
    """``name = a new tensor``."""

    name: str
    shape: Shape
    dtype: str


@dataclass(frozen=True)
class Unary:
    """``name = op(source)``, with as many bytes as the source."""

    name: str
    source: str


@dataclass(frozen=True)
class Binary:
    """``name = op(left, right)`` of one shape and type."""

    name: str
    left: str
    right: str


@dataclass(frozen=True)
class Product:
    """``name = left @ right``, with float32 matrices."""

    name: str
    left: str
    right: str


@dataclass(frozen=True)
class Cast:
    """``name = cast(source, dtype)``."""

    name: str
    source: str
    dtype: str


@dataclass(frozen=True)
class Reshape:
    """``name = reshape(source, [-1])``, a view."""

    name: str
    source: str


@dataclass(frozen=True)
class Row:
    """``name = source[0]``, a view or a copy."""

    name: str
    source: str


@dataclass(frozen=True)
class Same:
    """``name = source``: another name for one tensor."""

    name: str
    source: str


@dataclass(frozen=True)
class Drop:
    """``del name``."""

    name: str


@dataclass(frozen=True)
class Loop:
    """A Python loop: ``name = op(name)``, `times` times."""

    name: str
    times: int


@dataclass(frozen=True)
class Graph:
    """``name = f(source)`` with a ``tf.function`` of `length` element-wise operations."""

    name: str
    source: str
    length: int


@dataclass(frozen=True)
class Dropped:
    """``name = f()`` with a new ``tf.function`` that captures `source`, and is dropped."""

    name: str
    source: str
    length: int


@dataclass(frozen=True)
class Tape:
    """``name`` goes through `times` products (or tanh) under a tape, which is kept as `tape`."""

    name: str
    weight: str | None
    times: int
    tape: str


Step = (
    New | Unary | Binary | Product | Cast | Reshape | Row | Same | Drop | Loop | Graph | Dropped
    | Tape
)  # fmt: skip


Program = tuple[Step, ...]


# ---------------------------------------------------------------- the model


@dataclass(eq=False)
class Memory:
    """A buffer of the model: its size and how many things hold it."""

    nbytes: int
    holders: int = 0


class Ledger:
    """What must be alive when, by counting who holds what."""

    def __init__(self) -> None:
        self.live = self.peak = self.allocated = 0
        self.names: dict[str, list[Memory]] = {}
        self.values: dict[str, tuple[Memory, Shape, str]] = {}

    def begin(self) -> None:
        """Count from here on, as a recording does."""
        self.live = self.peak = self.allocated = 0

    def make(self, nbytes: int) -> Memory:
        self.live += nbytes
        self.allocated += nbytes
        self.peak = max(self.peak, self.live)
        return Memory(nbytes)

    def bind(self, name: str, memory: Memory, shape: Shape, dtype: str) -> None:
        self.hold(name, [memory])
        self.values[name] = memory, shape, dtype

    def hold(self, name: str, held: list[Memory]) -> None:
        """Let a name hold something; what it held before goes afterwards."""
        for memory in held:
            memory.holders += 1
        old = self.names.get(name, [])
        self.names[name] = held
        self.release(old)

    def release(self, held: list[Memory]) -> None:
        for memory in held:
            memory.holders -= 1
            if not memory.holders:
                self.live -= memory.nbytes

    def run(self, program: Program) -> None:
        for step in program:
            self.step(step)

    def step(self, step: Step) -> None:
        match step:
            case New(name, shape, dtype):
                self.bind(name, self.make(prod(shape) * ITEM[dtype]), shape, dtype)
            case (
                Unary(name, source)
                | Binary(name, source, _)
                | Graph(name, source, _)
                | Dropped(name, source, _)
            ):
                memory, shape, dtype = self.values[source]
                self.bind(name, self.make(prod(shape) * ITEM[dtype]), shape, dtype)
            case Product(name, left, right):
                shape = (self.values[left][1][0], self.values[right][1][1])
                self.bind(name, self.make(prod(shape) * 4), shape, "float32")
            case Cast(name, source, dtype):
                memory, shape, old = self.values[source]
                made = memory if old == dtype else self.make(prod(shape) * ITEM[dtype])
                self.bind(name, made, shape, dtype)
            case Reshape(name, source):
                memory, shape, dtype = self.values[source]
                self.bind(name, memory, (prod(shape),), dtype)
            case Row(name, source):
                memory, shape, dtype = self.values[source]
                size = prod(shape[1:]) * ITEM[dtype]
                shared = shape[0] == 1 or size % 64 == 0
                self.bind(name, memory if shared else self.make(size), shape[1:], dtype)
            case Same(name, source):
                self.bind(name, *self.values[source])
            case Drop(name):
                self.release(self.names.pop(name))
                self.values.pop(name, None)
            case Loop(name, times):
                for _ in range(times):
                    self.step(Unary(name, name))
            case Tape(name, weight, times, tape):
                self.tape(name, weight, times, tape)

    def tape(self, name: str, weight: str | None, times: int, tape: str) -> None:
        kept: list[Memory] = []
        self.hold(tape, [])
        for _ in range(times):
            source, shape, dtype = self.values[name]
            made = self.make(prod(shape) * ITEM[dtype])
            # A product's gradient needs both factors, tanh's its result; the tape holds them.
            held = [made] if weight is None else [source, self.values[weight][0]]
            for memory in held:
                memory.holders += 1
            kept += held
            self.bind(name, made, shape, dtype)
        self.names[tape] = kept


# ---------------------------------------------------------------- TensorFlow


def _operations(x: Any, length: int) -> Any:
    for k in range(length):
        x = (tf.negative, tf.tanh, tf.exp)[k % 3](x)
    return x


def _chain(length: int) -> Any:
    # One trace for all shapes.
    signature = [tf.TensorSpec(None, tf.float32)]
    return tf.function(lambda x: _operations(x, length), input_signature=signature)


CHAINS = {length: _chain(length) for length in (1, 2, 5)}


class Machine:
    """Runs programs with TensorFlow; every name's value is held by `names` alone."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def run(self, program: Program) -> None:
        for step in program:
            self.step(step)

    def step(self, step: Step) -> None:
        names, raw = self.names, tf.raw_ops
        match step:
            case New(name, shape, dtype):
                names[name] = new(*shape, dtype=dtype)
            case Unary(name, source):
                names[name] = self.unary(names[source])
            case Binary(name, left, right):
                if names[left].dtype == tf.bool:
                    names[name] = raw.LogicalAnd(x=names[left], y=names[right])
                else:
                    names[name] = raw.AddV2(x=names[left], y=names[right])
            case Product(name, left, right):
                names[name] = raw.MatMul(a=names[left], b=names[right])
            case Cast(name, source, dtype):
                names[name] = tf.cast(names[source], dtype)
            case Reshape(name, source):
                names[name] = raw.Reshape(tensor=names[source], shape=ints(-1))
            case Row(name, source):
                names[name] = raw.StridedSlice(
                    input=names[source], begin=ints(0), end=ints(1), strides=ints(1),
                    shrink_axis_mask=1,
                )  # fmt: skip
            case Same(name, source):
                names[name] = names[source]
            case Drop(name):
                del names[name]
            case Loop(name, times):
                for _ in range(times):
                    names[name] = self.unary(names[name])
            case Graph(name, source, length):
                names[name] = CHAINS[length](names[source])
            case Dropped(name, source, length):
                names[name] = self.dropped(names[source], length)
                gc.collect()  # a function and its graph refer to each other
            case Tape(name, weight, times, tape):
                names[tape] = None
                self.tape(name, weight, times, tape)

    @staticmethod
    def dropped(captured: Any, length: int) -> Any:
        # Without AutoGraph, which has nothing to do here and takes its time.
        return tf.function(lambda: _operations(captured, length), autograph=False)()

    @staticmethod
    def unary(x: Any) -> Any:
        return tf.raw_ops.LogicalNot(x=x) if x.dtype == tf.bool else tf.raw_ops.Neg(x=x)

    def tape(self, name: str, weight: str | None, times: int, tape: str) -> None:
        names = self.names
        with tf.GradientTape() as recording:
            recording.watch(names[name])
            if weight is not None:
                recording.watch(names[weight])
            for _ in range(times):
                if weight is None:
                    names[name] = tf.raw_ops.Tanh(x=names[name])
                else:
                    names[name] = tf.raw_ops.MatMul(a=names[name], b=names[weight])
        names[tape] = recording
