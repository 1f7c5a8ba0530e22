"""Which line of an answer keeps things: the container that has grown, and what fills it."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final

from lessons_lib.common.source import Line, is_user_file, line_of
from lessons_lib.instruments.tracing.resolve import outside_values
from lessons_lib.teaching.exercises.exercise import function_of

_CONTAINERS: Final = (list, dict, set, deque)
_FILLING: Final = frozenset(
    ("append", "appendleft", "add", "extend", "insert", "setdefault", "update", "__setitem__")
)
_ITEM_BYTES: Final = 4
_UNKNOWN_BYTES: Final = 2**20  # a tape, a function: what it keeps alive is not looked up
_FUNCTIONS: Final = 40  # looked at from an answer; more are not its own


@dataclass(frozen=True)
class Holder:
    """A container that an answer keeps.

    Attributes
    ----------
    name : str
        As it is written in the answer: ``seen``, ``self.cache``.
    kind : str
        Its type.
    items : int
        How many it holds.
    line : Line or None
        The line that puts things into it.
    """

    name: str
    kind: str
    items: int
    line: Line | None

    def __str__(self) -> str:
        text = f"`{self.name}` (a {self.kind} of {self.items}) holds what stays"
        return text if self.line is None else f"{text}: it is filled at {self.line.described}"


def find_holder(function: Any, least: int) -> Holder | None:
    """Find the largest container that a function keeps, with at least so many things in it.

    Looked at are the names that the function and the functions it uses close over, their module's
    names that they mention, and the attributes of functions and of the object of a method.
    """
    functions = list(_functions(function))
    names = {name: thing for f in functions for name, thing in _names(f)}
    full = {
        name: _weight(thing)
        for name, thing in names.items()
        if isinstance(thing, _CONTAINERS) and len(thing) >= max(least, 2)
    }
    name = max(full, key=lambda key: full[key], default="")
    if not full.get(name):
        return None
    thing = names[name]
    line = next((line for f in functions if (line := _filling_line(f, name)) is not None), None)
    return Holder(name, type(thing).__name__, len(thing), line)


def _weight(thing: Any, depth: int = 4) -> int:
    """Guess the bytes that something holds; numbers count as none, unknown objects as much."""
    shape = getattr(thing, "shape", None)
    if shape is not None:
        sides = [side or 0 for side in tuple(shape)]
        return math.prod(sides) * _ITEM_BYTES if sides else 0
    if isinstance(thing, (*_CONTAINERS, tuple)):
        parts = thing.values() if isinstance(thing, dict) else thing
        return sum(_weight(part, depth - 1) for part in parts) if depth else 0
    return 0 if isinstance(thing, (int, float, complex, str, bytes, type(None))) else _UNKNOWN_BYTES


def _functions(function: Any) -> Iterator[Any]:
    """Give a function and those of the user's that it uses, each once."""
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting and len(seen) < _FUNCTIONS:
        thing = waiting.pop(0)
        if inspect.isclass(thing) or thing is None:
            continue
        if not isinstance(thing, (FunctionType, MethodType)):
            plain = function_of(thing)
            thing = plain if isinstance(plain, (FunctionType, MethodType)) else _call_of(thing)
        code = getattr(thing, "__code__", None)
        if code is None or id(code) in seen or not is_user_file(code.co_filename):
            continue
        seen.add(id(code))
        yield thing
        waiting += [other for _, other in _names(thing) if callable(other)]


def _call_of(thing: Any) -> Any:
    call = getattr(type(thing), "__call__", None)  # noqa: B004 - the function itself is wanted
    return MethodType(call, thing) if isinstance(call, FunctionType) else None


def _names(function: Any) -> Iterator[tuple[str, Any]]:
    """Give what a function can reach by name."""
    own = getattr(function, "__self__", None)
    plain = getattr(function, "__func__", function)
    attributes = getattr(own, "__dict__", None)
    if isinstance(attributes, Mapping):
        yield from ((f"self.{name}", value) for name, value in attributes.items())
    yield from outside_values(plain)
    yield from ((f"{plain.__name__}.{name}", value) for name, value in vars(plain).items())
    code = plain.__code__
    yield from zip(
        code.co_varnames[: code.co_argcount][::-1], (plain.__defaults__ or ())[::-1], strict=False
    )


def _filling_line(function: Any, name: str) -> Line | None:
    plain = getattr(function, "__func__", function)
    try:
        lines, first = inspect.getsourcelines(plain)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in ast.walk(tree):
        if _fills(node, name):
            return line_of(plain.__code__.co_filename, first + node.lineno - 1)  # type: ignore[attr-defined]
    return None


def _fills(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=holder, attr=method)):
            return method in _FILLING and ast.unparse(holder) == name
        case ast.Assign(targets=[ast.Subscript(value=holder)]):
            return ast.unparse(holder) == name
        case ast.AugAssign(target=target):
            return ast.unparse(target) == name
        case _:
            return False
