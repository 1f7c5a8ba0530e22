"""From an object up to a name in the program, along the references of those that hold it.

`Namer` looks for the name of what the program's own names do not lead to (`user_objects`), or not
soon: a variable that a library's function closes over, a class, a cache, a library's global.  It
sees references as Python's garbage collector does; what C++ code holds has no name here.  Climbing
is bounded in depth and time.  Nothing is kept: results are texts.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from lessons_lib.common.source import is_user_file
from lessons_lib.instruments.holders.budget import SearchBudget
from lessons_lib.instruments.holders.heap import Heap
from lessons_lib.instruments.holders.names import (
    CACHE,
    called,
    items_of,
    labels,
    locals_of,
    named_parts,
    namespaces,
    running_frames,
    type_name,
    user_locals,
)

_DEPTH: Final = 9  # references from the holder up to a name; a Keras model's layers take seven
_MORE_DEPTH: Final = 2  # looked further for a name of the program's when a library's was found
_WIDTH: Final = 400  # holders in one step: more are a table of the interpreter's own


class Rank(IntEnum):
    """What sort of name it is; the lower is the better."""

    GLOBAL = 0
    FUNCTION = 1  # what a function of the program closes over, or has as a default
    CLASS = 2
    RUNNING = 3  # generators, threads, the step itself
    LIBRARY = 4


@dataclass(frozen=True)
class Root:
    """A name in the program.

    Attributes
    ----------
    label : str
        ``"history (list)"``.
    rank : Rank
    below : list
        From what the label names down to the object that was asked for.
    """

    label: str
    rank: Rank
    below: list[object]


class Namer:
    """Finds names for objects; make one, use it for a few objects, and drop it.

    Parameters
    ----------
    step : callable
        The user's step: what it closes over has a name even if nothing else names it.
    ignore : iterable
        Containers of the caller's that must not count as holders.
    heap : Heap
    budget : SearchBudget
        When it has run out, no more is searched.
    """

    def __init__(
        self,
        step: Callable[..., Any] | None,
        ignore: Iterable[object],
        heap: Heap,
        budget: SearchBudget,
    ) -> None:
        self._step = step
        self._heap = heap
        self._ignored = {id(thing) for thing in ignore}
        self._budget = budget
        self._found: dict[int, tuple[str, list[object]]] = {}
        self._modules = {id(namespace): name for name, namespace in namespaces()}

    def chain(self, path: list[object], *, last_attribute: bool = False) -> tuple[str, ...]:
        """Name the path from an old holder down to the thing that it holds.

        Parameters
        ----------
        path : list
            Objects, each holding the next.
        last_attribute : bool
            Whether the thing itself is named by its attribute, too.

        Returns
        -------
        tuple of str
            From a name in the program down to the type of the thing itself; beginning with the
            holder's type when no name was found.
        """
        holder = path[0]
        if len(path) > 1 and (root := self._root([holder, path[1]], step=None)) is not None:
            # The holder is a namespace: its name for what it holds is the whole answer.
            label, full = root.label, path[1:]
        else:
            # A variable's cell has a name only together with what it holds.
            start = path[:2] if isinstance(holder, types.CellType) else [holder]
            label, below = self._find(start)
            full = [*below, *path[len(start) :]]
        rest = labels(full, last_attribute=last_attribute)
        chain = (label, *rest) if label else rest
        return chain or (type_name(path[-1]),)

    def close(self) -> None:
        """Let go of everything that was looked at."""
        self._found.clear()
        self._step = None

    def _find(self, start: list[object]) -> tuple[str, list[object]]:
        key = id(start[0])
        if key not in self._found:
            self._found[key] = self._search(start)
        return self._found[key]

    def _search(self, start: list[object]) -> tuple[str, list[object]]:
        """Climb from the top of a path, and give the best name with what is below it."""
        paths = [start]  # each from its top down
        climbed = {id(start[0]): start}
        best: Root | None = None
        last = _DEPTH
        for depth in range(_DEPTH):
            for path in paths:
                root = self._root(path, self._step)
                if root is not None and (best is None or root.rank < best.rank):
                    best = root
                    own = root.rank < Rank.LIBRARY
                    last = depth if own else min(last, depth + _MORE_DEPTH)
            if depth >= last or self._budget.is_over():
                break
            paths = self._climb(paths, climbed)
            if not paths:
                break
        if best is None or best.rank is Rank.LIBRARY:
            # A library's name is a last resort; so is a running function's local.
            local = _local(climbed)
            if local is not None:
                return local
        return (type_name(start[0]), start) if best is None else (best.label, best.below)

    def _climb(
        self, paths: list[list[object]], climbed: dict[int, list[object]]
    ) -> list[list[object]]:
        by_id = {id(path[0]): path for path in paths}
        higher: list[list[object]] = []
        own = self._ignored | {id(frame) for frame in running_frames()}  # looked at by name
        for holder, held in self._heap.holders(by_id):
            if id(holder) not in own and id(holder) not in climbed and not is_ours(holder):
                climbed[id(holder)] = [holder, *by_id[id(held)]]
                higher.append(climbed[id(holder)])
                if len(higher) >= _WIDTH:
                    break
        return higher

    def _root(self, path: list[object], step: Callable[..., Any] | None) -> Root | None:
        """Tell whether the top of a path has a name of its own in the program."""
        if len(path) < 2:
            return None
        top, rest = path[0], path[1:]
        match top:
            case dict() if id(top) in self._modules:
                return _of_module(top, rest, self._modules[id(top)])
            case types.FunctionType() if (named := _of_function(top, rest)) is not None:
                return named
            case type() if (named := _of_class(top, rest)) is not None:
                return named
            case types.GeneratorType():
                return _of_generator(top, rest)
            case threading.Thread():
                return Root(f"thread {top.name!r}", Rank.RUNNING, path)
            case _ if isinstance(top, CACHE):
                return Root(f"cache of {called(top)} (lru_cache)", Rank.FUNCTION, path)
        if top is not step:
            return None
        if isinstance(top, types.MethodType):
            return Root(f"the step's own {type_name(top.__self__)}", Rank.RUNNING, rest)
        return Root(f"the step ({type_name(top)})", Rank.RUNNING, path)


def is_ours(holder: object) -> bool:
    """Tell whether an object belongs to this search."""
    module = holder.__module__ if isinstance(holder, types.FunctionType) else None
    module = module or getattr(type(holder), "__module__", None)
    return isinstance(module, str) and module.startswith(
        ("lessons_lib.instruments.growth", "lessons_lib.instruments.holders")
    )


def _of_module(namespace: dict[str, Any], rest: list[object], module: str) -> Root | None:
    for key, value in items_of(namespace):
        if value is rest[0]:
            if is_of_user(module, namespace):
                return Root(f"{key} ({type_name(value)})", Rank.GLOBAL, rest)
            return Root(f"{module}.{key} ({type_name(value)})", Rank.LIBRARY, rest)
    return None


def is_of_user(module: str, namespace: dict[str, Any]) -> bool:
    """Tell whether a module is the program's own, which may have no file."""
    if module in sys.builtin_module_names:
        return False
    return module == "__main__" or is_user_file(str(namespace.get("__file__") or "<stdin>"))


def _of_function(function: types.FunctionType, rest: list[object]) -> Root | None:
    rank = Rank.FUNCTION if is_user_file(function.__code__.co_filename) else Rank.LIBRARY
    for i, held in enumerate(rest[:3]):  # through a cell, or a tuple of cells or of defaults
        if isinstance(held, types.CellType):
            continue
        for label, value in named_parts(function):
            if value is held:
                return Root(label, rank, rest[i:])
        if type(held) is not tuple:
            break
    return None


def _of_class(cls: type, rest: list[object]) -> Root | None:
    below = rest[1:] if isinstance(rest[0], dict) and len(rest) > 1 else rest
    for label, value in named_parts(cls):
        if value is below[0]:
            return Root(label, Rank.CLASS, below)
    return None


def _of_generator(generator: types.GeneratorType[Any, Any, Any], rest: list[object]) -> Root:
    frame = generator.gi_frame
    known = [] if frame is None else locals_of(frame)
    name = next((name for name, value in known if value is rest[0]), "a local")
    where = f"generator {generator.__qualname__}"
    return Root(f"{name} in {where} ({type_name(rest[0])})", Rank.RUNNING, rest)


def _local(climbed: dict[int, list[object]]) -> tuple[str, list[object]] | None:
    """Look for what was climbed among the locals of running functions, of all threads."""
    best: tuple[str, list[object]] | None = None
    for function, name, value in user_locals():
        path = climbed.get(id(value))
        if path is not None and (best is None or len(path) < len(best[1])):
            best = (f"{name} in {function}() ({type_name(value)})", path)
    return best
