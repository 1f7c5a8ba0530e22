"""Names for holders: how a person would say who holds an object.

`Namer` climbs from an object to a name in the program: a global, a variable that a function closes
over, a local of a running function, a class, a default argument, a cache.  It looks at references
as Python's garbage collector sees them; what C++ code holds has no name here.  Climbing is bounded
in depth and time.  Nothing is kept: results are texts.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import inspect
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.internals import LRU_LINK, pattern_cache_limit
from lessons_lib.common.source import is_user_file
from lessons_lib.instruments.holders.budget import SearchBudget

_DEPTH: Final = 9
_WIDTH: Final = 400
_KEY: Final = 24
_CACHE: Final = type(functools.lru_cache(maxsize=1)(lambda: None))
_LIBRARY_RANK: Final = 4
#: Steps of a chain that say nothing to a reader.
_SILENT: Final = (types.CellType, types.TracebackType)


def type_name(thing: object) -> str:
    """Name a type as people write it."""
    cls = type(thing)
    match cls.__name__:
        case "EagerTensor":
            return "tf.Tensor"
        case "ResourceVariable" | "UninitializedVariable":
            return "tf.Variable"
        case "ndarray":
            return "numpy.ndarray"
        case "function":
            return f"function {getattr(thing, '__name__', '')}"
        case "frame":
            return f"frame of {thing.f_code.co_name}()"  # type: ignore[attr-defined]
        case "Function" if cls.__module__.startswith("tensorflow."):
            return "tf.function"
        case name:
            return name


def called(function: Any) -> str:
    """Name a function."""
    return str(getattr(function, "__qualname__", type(function).__name__)).replace("<locals>.", "")


def _short(key: object) -> str:
    if isinstance(key, str):
        return repr(key if len(key) <= _KEY else key[: _KEY - 1] + "…")
    if isinstance(key, (int, float, bool, bytes, type(None))):
        return repr(key)[:_KEY]
    return f"<{type(key).__name__}>"


def instance_dict(thing: object) -> dict[str, Any] | None:
    """Give an instance's attributes without running its code."""
    if isinstance(thing, (type, types.ModuleType)):
        return None
    with contextlib.suppress(Exception):
        found = object.__getattribute__(thing, "__dict__")
        if type(found) is dict:
            return found
    return None


def contents(thing: object) -> list[Any]:
    """List what an object holds; gc.get_referents does not look into NumPy's arrays of objects."""
    if isinstance(thing, np.ndarray):
        names = thing.dtype.names
        if names and thing.dtype.hasobject:
            return [inner for name in names for inner in contents(thing[name])]
        return thing.ravel().tolist() if thing.dtype == object else []
    return gc.get_referents(thing)


def link(parent: object, child: object) -> str | None:
    """Say how a parent holds a child: ``.saved``, ``['key']``; empty when it needs no word."""
    match parent:
        case dict():
            for key, value in _items(parent):
                if value is child:
                    return f"[{_short(key)}]"
                if key is child:
                    return "[a key]"
        case types.FunctionType():
            return _function_link(parent, child)
        case types.MethodType():
            return ".__self__" if parent.__self__ is child else ""
        case functools.partial():
            return "" if parent.func is child else ".args"
        case types.GeneratorType() | types.CoroutineType() | types.AsyncGeneratorType():
            return ""
        case _:
            own = instance_dict(parent)
            if own is not None:
                for key, value in _items(own):
                    if value is child:
                        return f".{key}"
            return _slot_link(parent, child)
    return ""


def _items(mapping: dict[Any, Any]) -> list[tuple[Any, Any]]:
    with contextlib.suppress(RuntimeError):  # changed by another thread
        return list(dict.items(mapping))
    return []


def _slot_link(parent: object, child: object) -> str:
    for cls in type(parent).__mro__:
        for name, member in list(vars(cls).items()):
            if isinstance(member, types.MemberDescriptorType):
                with contextlib.suppress(Exception):
                    if member.__get__(parent) is child:
                        return f".{name}"
    return ""


def _function_link(function: types.FunctionType, child: object) -> str:
    if closure := closure_name(function, child):
        return f" variable {closure!r}"
    for name, value in default_arguments(function):
        if value is child:
            return f" default argument {name!r}"
    if function.__defaults__ is child or function.__kwdefaults__ is child:
        return " default arguments"
    for name, value in _items(function.__dict__):
        if value is child:
            return f".{name}"
    return ""


def closure_name(function: types.FunctionType, child: object) -> str | None:
    """Name the variable through which a function closes over an object."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            if cell is child or cell.cell_contents is child:
                return name
    return None


def default_arguments(function: types.FunctionType) -> list[tuple[str, object]]:
    """List a function's default arguments with their names."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    pairs = list(zip(names[len(names) - len(defaults) :], defaults, strict=False))
    return pairs + list((function.__kwdefaults__ or {}).items())


@dataclass(frozen=True)
class _Root:
    label: str  # "history (list)"
    rank: int  # lower is better


class Namer:
    """Finds names for objects; make one, use it for a few objects, and drop it.

    Parameters
    ----------
    step : callable
        The user's step: what it closes over has a name even if nothing else names it.
    ignore : iterable
        Containers of the caller's that must not count as holders.
    budget : SearchBudget
        When it has run out, no more is searched.
    """

    def __init__(
        self, step: Callable[..., Any] | None, ignore: Iterable[object], budget: SearchBudget
    ) -> None:
        self._step = step
        self._ignored = {id(thing) for thing in ignore}
        self._budget = budget
        self._found: dict[int, tuple[str, list[object]]] = {}
        self._modules = {
            id(vars(module)): name
            for name, module in list(sys.modules.items())
            if isinstance(module, types.ModuleType)
        }

    def chain(self, way: list[object]) -> tuple[str, ...]:
        """Name the way from an old holder down to the thing that it holds.

        Parameters
        ----------
        way : list
            Objects, each holding the next.

        Returns
        -------
        tuple of str
            From a name in the program down to the type of the thing itself; beginning with the
            holder's type when no name was found.
        """
        holder = way[0]
        if len(way) > 1 and (root := _root((way[1], holder), self._modules, None)) is not None:
            # The holder is a namespace: its name for what it holds is the whole answer.
            label, full = root.label, way[1:]
        else:
            # A variable's cell has a name only together with what it holds.
            start = way[1::-1] if isinstance(holder, types.CellType) else [holder]
            label, down = self._find(start)
            full = [*down, *way[len(start) :]]
        below = labels(full)
        chain = (label, *below) if label else below
        return chain or (type_name(way[-1]),)

    def _find(self, start: list[object]) -> tuple[str, list[object]]:
        key = id(start[-1])
        if key not in self._found:
            self._found[key] = self._search(start)
        return self._found[key]

    def _search(self, start: list[object]) -> tuple[str, list[object]]:
        # Each way: the objects from the thing upwards.
        ways: list[tuple[object, ...]] = [tuple(start)]
        climbed = {id(start[-1]): ways[0]}
        best: tuple[int, str, list[object]] | None = None
        last = _DEPTH
        for depth in range(_DEPTH):
            for way in ways:
                root = _root(way, self._modules, self._step)
                if root is not None and (best is None or root.rank < best[0]):
                    best = (root.rank, root.label, _without_root(way, self._step))
                    last = depth if root.rank < _LIBRARY_RANK else min(last, depth + 2)
            if depth >= last or self._budget.is_over():
                break
            ways = self._climb(ways, climbed)
            if not ways:
                break
        if best is None or best[0] >= _LIBRARY_RANK:
            # A library's name is a last resort; so is a running function's local.
            local = _local(climbed)
            if local is not None:
                return local
        if best is None:
            return type_name(start[-1]), start[::-1]
        return best[1], best[2]

    def close(self) -> None:
        """Let go of everything that was looked at."""
        self._found.clear()
        self._step = None

    def _climb(
        self, ways: list[tuple[object, ...]], climbed: dict[int, tuple[object, ...]]
    ) -> list[tuple[object, ...]]:
        ends = [way[-1] for way in ways]
        by_id = {id(way[-1]): way for way in ways}
        higher: list[tuple[object, ...]] = []
        own = {id(t) for t in (ways, climbed, ends, by_id, higher, self._found)} | self._ignored
        own |= {id(frame) for frame in running_frames()}  # looked at by name
        own |= {id(way) for way in climbed.values()}
        for holder in gc.get_referrers(*ends):
            if id(holder) in own or id(holder) in climbed or _is_ours(holder):
                continue
            for held in gc.get_referents(holder):
                way = by_id.get(id(held))
                if way is not None:
                    climbed[id(holder)] = (*way, holder)
                    higher.append(climbed[id(holder)])
                    own.add(id(higher[-1]))
                    break
            if len(higher) >= _WIDTH:
                break
        return higher


def _is_ours(holder: object) -> bool:
    """Tell whether an object belongs to this search."""
    module = holder.__module__ if isinstance(holder, types.FunctionType) else None
    module = module or getattr(type(holder), "__module__", None)
    return isinstance(module, str) and module.startswith(
        ("lessons_lib.instruments.growth", "lessons_lib.instruments.holders")
    )


def _root(
    way: tuple[object, ...], modules: dict[int, str], step: Callable[..., Any] | None
) -> _Root | None:
    """Tell whether the top of a way has a name of its own in the program."""
    if len(way) < 2:
        return None
    top, below = way[-1], way[-2]
    match top:
        case dict() if id(top) in modules:
            return _global(top, below, modules[id(top)])
        case types.FunctionType() if (named := _of_function(top, way)) is not None:
            return named
        case type():
            held = way[-3] if isinstance(below, dict) and len(way) > 2 else below
            for name, value in list(vars(top).items()):
                if value is held:
                    return _Root(f"{top.__qualname__}.{name} ({type_name(held)})", 2)
        case types.GeneratorType():
            return _Root(_of_generator(top, below), 3)
        case threading.Thread():
            return _Root(f"thread {top.name!r}", 3)
        case _ if isinstance(top, _CACHE):
            return _Root(f"cache of {called(top)} (lru_cache)", 1)
    if top is not step:
        return None
    if isinstance(top, types.MethodType):
        return _Root(f"the step's own {type_name(top.__self__)}", 3)
    return _Root(f"the step ({type_name(top)})", 3)


def _global(namespace: dict[str, Any], held: object, module: str) -> _Root | None:
    file = str(namespace.get("__file__") or "<stdin>")
    for key, value in _items(namespace):
        if value is held:
            if module == "__main__" or is_user_file(file):
                return _Root(f"{key} ({type_name(held)})", 0)
            return _Root(f"{module}.{key} ({type_name(held)})", _LIBRARY_RANK)
    return None


def _of_function(function: types.FunctionType, way: tuple[object, ...]) -> _Root | None:
    rank = 1 if is_user_file(function.__code__.co_filename) else _LIBRARY_RANK
    for held in way[-2:-5:-1]:
        if isinstance(held, types.CellType):
            continue
        if name := closure_name(function, held):
            return _Root(f"{name} ({type_name(held)})", rank)
        for name, value in default_arguments(function):
            if value is held:
                where = f"default argument {name} of {called(function)}"
                return _Root(f"{where} ({type_name(held)})", rank)
        if type(held) is not tuple:
            break
    return None


def _of_generator(generator: types.GeneratorType[Any, Any, Any], held: object) -> str:
    frame = generator.gi_frame
    names = {key: name for name, key in locals_of(frame)} if frame is not None else {}
    where = f"generator {generator.__qualname__}"
    return f"{names.get(id(held), 'a local')} in {where} ({type_name(held)})"


def _without_root(way: tuple[object, ...], step: Callable[..., Any] | None) -> list[object]:
    """Turn a way round; its first object is then the one that the root's label names."""
    down = list(reversed(way))
    match down[0]:
        case types.FunctionType() as function:
            for i, thing in enumerate(down[1:], 1):
                if closure_name(function, thing) and not isinstance(thing, types.CellType):
                    return down[i:]
                if any(value is thing for _, value in default_arguments(function)):
                    return down[i:]
            return down
        case type() if isinstance(down[1], dict) and len(down) > 2:
            return down[2:]
        case threading.Thread():
            return down
        case types.MethodType() as method if method is step and len(down) > 1:
            return down[1:]
        case top if isinstance(top, _CACHE) or top is step:
            return down
    return down[1:]


def named_locals(things: list[Any]) -> dict[int, str]:
    """Name those of some objects that running functions have in their locals, by address."""
    wanted = {id(thing): thing for thing in things}
    found: dict[int, str] = {}
    for frame in running_frames():
        if wanted and is_user_file(frame.f_code.co_filename):
            for name, key in locals_of(frame):
                if key in wanted and key not in found:
                    where = f"{name} in {frame.f_code.co_name}()"
                    found[key] = f"{where} ({type_name(wanted[key])})"
    return found


def _local(climbed: dict[int, tuple[object, ...]]) -> tuple[str, list[object]] | None:
    """Look for what was climbed among the locals of running functions, of all threads."""
    best: tuple[int, str, list[object]] | None = None
    for frame in running_frames():
        if not is_user_file(frame.f_code.co_filename):
            continue
        for name, key in locals_of(frame):
            way = climbed.get(key)
            if way is not None and (best is None or len(way) < best[0]):
                where = f"{name} in {frame.f_code.co_name}() ({type_name(way[-1])})"
                best = (len(way), where, list(reversed(way)))
    return None if best is None else best[1:]


def labels(down: list[object]) -> tuple[str, ...]:
    """Label a way from its top (not labelled) to its end, silent steps left out."""
    out: list[str] = []
    word = ""
    for parent, child in itertools.pairwise(down):
        silent = isinstance(child, _SILENT) or _is_link(child) or _is_inner(parent, child)
        if not silent:
            word += _word(down, parent, child)
        if silent:
            continue
        out.append(f"{word.strip()} ({type_name(child)})" if word else type_name(child))
        word = ""
    if out:  # the thing itself needs no name of its own: its type says it
        out[-1] = type_name(down[-1])
    return tuple(out)


def _is_inner(parent: object, child: object) -> bool:
    """Tell whether an object is only a part of how Python stores its parent."""
    if isinstance(parent, types.FunctionType):
        return child is parent.__closure__
    if isinstance(parent, _CACHE):
        return isinstance(child, dict)
    return isinstance(child, dict) and instance_dict(parent) is child


def _word(down: list[object], parent: object, child: object) -> str:
    if isinstance(parent, types.CellType):
        above = down[: next(i for i, t in enumerate(down) if t is parent)]
        functions = [thing for thing in above if isinstance(thing, types.FunctionType)]
        name = closure_name(functions[-1], child) if functions else None
        return "" if name is None else f" variable {name!r}"
    if _is_link(parent):
        return ""
    if isinstance(parent, dict):
        position = next(i for i, t in enumerate(down) if t is parent)
        owner = down[position - 1] if position else None
        if owner is not None and instance_dict(owner) is parent:
            return next((f".{k}" for k, v in _items(parent) if v is child), "")
    return link(parent, child) or ""


def _is_link(thing: object) -> bool:
    cls = type(thing)
    return f"{cls.__module__}.{cls.__name__}" == LRU_LINK


def running_frames() -> list[types.FrameType]:
    """List the frames of all threads' running functions."""
    frames: list[types.FrameType] = []
    for frame in sys._current_frames().values():
        here: types.FrameType | None = frame
        while here is not None:
            frames.append(here)
            here = here.f_back
    return frames


def locals_of(frame: types.FrameType) -> list[tuple[str, int]]:
    """Give names and identities of a running function's locals; leaves no copy of them behind."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []  # a module's or class's namespace is an ordinary dictionary
    try:
        values = frame.f_locals
        found = [(key, id(value)) for key, value in values.items()]
    except Exception:
        return []
    if sys.version_info < (3, 13) and type(values) is dict:
        # Up to Python 3.12 this dictionary stays with the frame and would keep its objects alive.
        values.clear()
    return found


def bounded(thing: object) -> str | None:
    """Say it when a holder can only hold so many things."""
    match thing:
        case collections.deque() if thing.maxlen is not None:
            return f"it holds at most {thing.maxlen}"
        case _ if isinstance(thing, _CACHE):
            size = thing.cache_info().maxsize
            return None if size is None else f"it holds at most {size}"
        case dict() if (most := pattern_cache_limit(thing)) is not None:
            return f"it holds at most {most}"
    return None
