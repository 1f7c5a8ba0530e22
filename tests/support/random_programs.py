"""Random programs whose every step can run."""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import strategies as st

from tests.support.programs import (
    CHAINS,
    Binary,
    Cast,
    Drop,
    Dropped,
    Graph,
    Loop,
    New,
    Product,
    Program,
    Reshape,
    Row,
    Same,
    Shape,
    Step,
    Tape,
    Unary,
)

NAMES = ("a", "b", "c", "d")


TAPES = ("t", "u")


NUMBERS = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "int8", "uint8")


DTYPES = (*NUMBERS, "bool", "complex64")


_SIGNED = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "int8", "complex64")


_DIMENSION = st.one_of(st.integers(1, 5), st.sampled_from((16, 17, 31, 64, 100)))


_SHAPES = st.lists(_DIMENSION, max_size=3).map(tuple)


@st.composite
def programs(draw: st.DrawFn, most: int = 14) -> Program:
    """Draw a program whose every step can run."""
    known: dict[str, tuple[Shape, str]] = {}
    tapes: set[str] = set()
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, most))):
        step = draw(st.one_of(*_choices(known, tapes)))
        steps.append(step)
        _follow(step, known, tapes)
    return tuple(steps)


def _choices(known: dict[str, tuple[Shape, str]], tapes: set[str]) -> list[Any]:
    name = st.sampled_from(NAMES)
    choices: list[Any] = [
        st.builds(New, name, _SHAPES, st.sampled_from(DTYPES)),
        # Square matrices are what products and tapes need.
        st.builds(New, name, st.sampled_from(((7, 7), (16, 16), (33, 33))), st.just("float32")),
    ]
    some = sorted(known)
    if some:
        source = st.sampled_from(some)
        choices += [
            st.builds(Same, name, source),
            st.builds(Reshape, name, source),
            st.builds(Drop, st.sampled_from(some + sorted(tapes))),
        ]

    def having(test: Any) -> list[str]:
        return [n for n in some if test(*known[n])]

    if found := having(lambda shape, dtype: dtype in (*_SIGNED, "bool")):
        source = st.sampled_from(found)
        choices.append(st.builds(Unary, name, source))
        choices.append(st.builds(Loop, source, st.integers(1, 9)))
    if found := having(lambda shape, dtype: dtype in NUMBERS):
        choices.append(st.builds(Cast, name, st.sampled_from(found), st.sampled_from(NUMBERS)))
    if found := having(lambda shape, dtype: len(shape) >= 2):
        choices.append(st.builds(Row, name, st.sampled_from(found)))
    pairs = [(m, n) for m in some for n in some if known[m] == known[n]]
    if pairs:
        choices.append(
            st.tuples(name, st.sampled_from(pairs)).map(lambda drawn: Binary(drawn[0], *drawn[1]))
        )
    floats = having(lambda shape, dtype: dtype == "float32")
    if floats:
        source = st.sampled_from(floats)
        length = st.sampled_from(sorted(CHAINS))
        choices += [
            st.builds(Graph, name, source, length),
            st.builds(Dropped, name, source, length),
        ]
        tape = st.sampled_from(TAPES)
        choices.append(st.builds(Tape, source, st.none(), st.integers(1, 6), tape))
    matrices = [n for n in floats if len(known[n][0]) == 2]
    products = [(m, n) for m in matrices for n in matrices if known[m][0][1] == known[n][0][0]]
    if products:
        choices.append(
            st.tuples(name, st.sampled_from(products)).map(lambda d: Product(d[0], *d[1]))
        )
    square = [(m, n) for m, n in products if m != n and known[n][0][0] == known[n][0][1]]
    if square:
        choices.append(
            st.tuples(st.sampled_from(square), st.integers(1, 6), st.sampled_from(TAPES)).map(
                lambda d: Tape(d[0][0], d[0][1], d[1], d[2])
            )
        )
    return choices


def _follow(step: Step, known: dict[str, tuple[Shape, str]], tapes: set[str]) -> None:
    match step:
        case New(name, shape, dtype):
            known[name] = shape, dtype
        case (
            Unary(name, source)
            | Binary(name, source, _)
            | Graph(name, source, _)
            | Dropped(name, source, _)
        ):
            known[name] = known[source]
        case Same(name, source):
            known[name] = known[source]
        case Product(name, left, right):
            known[name] = (known[left][0][0], known[right][0][1]), "float32"
        case Cast(name, source, dtype):
            known[name] = known[source][0], dtype
        case Reshape(name, source):
            known[name] = (prod(known[source][0]),), known[source][1]
        case Row(name, source):
            known[name] = known[source][0][1:], known[source][1]
        case Drop(name):
            known.pop(name, None)
            tapes.discard(name)
        case Tape(_, _, _, tape):
            tapes.add(tape)
