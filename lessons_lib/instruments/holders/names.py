"""Names of references: how a person would say that one object holds another.

Nothing is kept, and no code of the objects' own is run: results are texts.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import gc
import inspect
import itertools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lessons_lib.common.gc_control import frames_of_threads
from lessons_lib.common.internals import LRU_LINK, pattern_cache_limit, type_cache_limit
from lessons_lib.common.source import is_user_file

_KEY: Final = 24
_OWN: Final = "lessons_lib."
#: Type of what ``functools.lru_cache`` makes of a function.
CACHE: Final = type(functools.lru_cache(maxsize=1)(lambda: None))
#: Steps of a chain that say nothing to a reader.
_SILENT: Final = (types.CellType, types.TracebackType)


def type_name(thing: object) -> str:
    """Name a type as people write it."""
    cls = type(thing)
    match cls.__name__:
        case "EagerTensor":
            return "tf.Tensor"
        case "ResourceVariable" | "UninitializedVariable" | "UnliftedInitializerVariable":
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


@dataclass(frozen=True)
class FunctionLink:
    """How a function holds an object.

    Attributes
    ----------
    name : str
        Of the variable that it closes over, of the argument, or of the attribute.
    kind : str
        ``"variable"``, ``"default argument"`` or ``"attribute"``.
    """

    name: str
    kind: str

    @property
    def word(self) -> str:
        """As a step of a chain."""
        return f".{self.name}" if self.kind == "attribute" else f" {self.kind} {self.name!r}"


def function_link(function: types.FunctionType, child: object) -> FunctionLink | None:
    """Tell how a function holds an object, also through a variable's cell; None if it does not."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            if cell is child or cell.cell_contents is child:
                return FunctionLink(name, "variable")
    for name, value in _default_arguments(function):
        if value is child:
            return FunctionLink(name, "default argument")
    for name, value in items_of(function.__dict__):
        if value is child:
            return FunctionLink(name, "attribute")
    return None


def _default_arguments(function: types.FunctionType) -> list[tuple[str, object]]:
    """List a function's default arguments with their names."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    pairs = list(zip(names[len(names) - len(defaults) :], defaults, strict=False))
    return pairs + list((function.__kwdefaults__ or {}).items())


def named_parts(owner: types.FunctionType | type) -> list[tuple[str, Any]]:
    """Give what a function or a class holds, with names in full: ``"history (list)"``."""
    if isinstance(owner, type):
        found = [(f"{owner.__qualname__}.{name}", v) for name, v in list(vars(owner).items())]
    else:
        found = []
        names = owner.__code__.co_freevars
        for name, cell in zip(names, owner.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # an empty cell
                found.append((name, cell.cell_contents))
        of = called(owner)
        found += [(f"default argument {name} of {of}", v) for name, v in _default_arguments(owner)]
        found += [(f"{of}.{name}", value) for name, value in items_of(owner.__dict__)]
    return [(f"{name} ({type_name(value)})", value) for name, value in found]


def link(parent: object, child: object) -> str | None:
    """Say how a parent holds a child: ``.saved``, ``['key']``; empty when it needs no word."""
    match parent:
        case dict() if not is_proxy(parent):
            for key, value in items_of(parent):
                if value is child:
                    return f"[{_short(key)}]"
                if key is child:
                    return "[a key]"
        case types.FunctionType():
            found = function_link(parent, child)
            return _function_part(parent, child) if found is None else found.word
        case types.FrameType():
            return next((f" local {name!r}" for name, v in locals_of(parent) if v is child), "")
        case types.MethodType():
            return ".__self__" if parent.__self__ is child else ""
        case functools.partial():
            return "" if parent.func is child else ".args"
        case types.GeneratorType() | types.CoroutineType() | types.AsyncGeneratorType():
            return ""
        case _:
            own = instance_dict(parent)
            if own is not None:
                for key, value in items_of(own):
                    if value is child:
                        return f".{key}"
            return _slot_link(parent, child)
    return ""


def _function_part(function: types.FunctionType, child: object) -> str:
    if child is function.__defaults__ or child is function.__kwdefaults__:
        return " default arguments"
    for name in ("__annotations__", "__code__", "__globals__"):
        if child is getattr(function, name):
            return f".{name}"
    return ""


def items_of(mapping: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """List a dictionary's keys and values, without its own methods."""
    with contextlib.suppress(RuntimeError):  # changed by another thread
        return list(dict.items(mapping))
    return []


def is_proxy(thing: object) -> bool:
    """Tell whether an object passes for a dict and is none.

    Such as what TensorFlow puts around the dicts of a ``tf.Module``, or a mock.
    """
    return isinstance(thing, dict) and not issubclass(type(thing), dict)


def _slot_link(parent: object, child: object) -> str:
    for cls in type(parent).__mro__:
        for name, member in list(vars(cls).items()):
            if isinstance(member, types.MemberDescriptorType):
                with contextlib.suppress(Exception):
                    if member.__get__(parent) is child:
                        return f".{name}"
    return ""


def labels(down: list[object], *, last_attribute: bool = False) -> tuple[str, ...]:
    """Label a way from its top (not labelled) to its end, silent steps left out.

    The end is named by its type, and on demand by the attribute that it is, unless a library's
    private one: of what stands for many others, as what grows does, each is in another one.
    """
    out: list[str] = []
    word = ""
    for parent, child in itertools.pairwise(down):
        silent = isinstance(child, _SILENT) or _is_link(child) or _is_inner(parent, child)
        silent = silent or _is_node(child)
        if not silent:
            word += _word(down, parent, child)
        if silent:
            continue
        out.append(f"{word.strip()} ({type_name(child)})" if word else type_name(child))
        word = ""
    if out and not (last_attribute and _says_something(out[-1], down)):
        out[-1] = type_name(down[-1])
    return tuple(out)


def _says_something(word: str, down: list[object]) -> bool:
    """Tell whether an attribute's name says more of the end of a way than its type."""
    *_, above, parent, _ = (None, None, *down)
    owner = above if _is_inner(above, parent) else parent
    return word.startswith(".") and (not word.startswith("._") or is_of_program(type(owner)))


def is_of_program(cls: type) -> bool:
    """Tell whether a class is the program's own."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return is_user_file(str(file or "<stdin>"))


def _is_inner(parent: object, child: object) -> bool:
    """Tell whether an object is only a part of how Python stores its parent."""
    if isinstance(parent, types.FunctionType):
        return child is parent.__closure__ or child is parent.__dict__
    if isinstance(parent, CACHE):
        return isinstance(child, dict)
    return isinstance(child, dict) and (is_proxy(parent) or instance_dict(parent) is child)


def _word(down: list[object], parent: object, child: object) -> str:
    if isinstance(parent, types.CellType):
        above = down[: next(i for i, t in enumerate(down) if t is parent)]
        functions = [thing for thing in above if isinstance(thing, types.FunctionType)]
        found = function_link(functions[-1], child) if functions else None
        return "" if found is None else found.word
    if _is_link(parent) or isinstance(parent, types.TracebackType):
        return ""
    if _is_node(parent):
        contexts = [thing for thing in down if isinstance(thing, contextvars.Context)]
        return next((f" {var.name}" for c in contexts for var, v in c.items() if v is child), "")
    if isinstance(parent, dict) and not is_proxy(parent):
        position = next(i for i, t in enumerate(down) if t is parent)
        owner = down[position - 1] if position else None
        if owner is not None and instance_dict(owner) is parent:
            return next((f".{k}" for k, v in items_of(parent) if v is child), "")
    return link(parent, child) or ""


def _is_link(thing: object) -> bool:
    cls = type(thing)
    return f"{cls.__module__}.{cls.__name__}" == LRU_LINK


def _is_node(thing: object) -> bool:
    """Tell whether an object is a part of how a `contextvars.Context` keeps its values."""
    return type(thing).__name__.startswith("hamt")


def running_frames() -> list[types.FrameType]:
    """List the frames of all threads' running functions, those of this package left out.

    A frame among the locals of its own function is a cycle, which would hold all that these look
    at until somebody collects garbage.
    """
    frames: list[types.FrameType] = []
    tops: list[types.FrameType | None] = list(frames_of_threads().values())
    while tops:
        here = tops.pop()
        while here is not None:
            if not str(here.f_globals.get("__name__")).startswith(_OWN):
                frames.append(here)
            here = here.f_back
    return frames


def locals_of(frame: types.FrameType) -> list[tuple[str, Any]]:
    """Give names and values of a running function's locals; leaves no copy with the frame."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []  # a module's or class's namespace is an ordinary dictionary
    try:
        values = frame.f_locals
        found = list(values.items())
    except Exception:
        return []
    if sys.version_info < (3, 13) and type(values) is dict:  # pragma: no branch - not with 3.11
        # Up to Python 3.12 this dictionary stays with the frame and would keep its objects alive.
        values.clear()
    return found


def user_locals() -> Iterator[tuple[str, str, Any]]:
    """Give the locals of the program's running functions: the function's name, theirs, values."""
    for frame in running_frames():
        if is_user_file(frame.f_code.co_filename):
            for name, value in locals_of(frame):
                yield frame.f_code.co_name, name, value


def namespaces() -> list[tuple[str, dict[str, Any]]]:
    """List the loaded modules' names with their globals."""
    loaded = list(sys.modules.items())
    return [(name, vars(module)) for name, module in loaded if isinstance(module, types.ModuleType)]


def bounded(thing: object) -> str | None:
    """Say it when a holder can only hold so many things."""
    match thing:
        case collections.deque() if thing.maxlen is not None:
            return f"it holds at most {thing.maxlen}"
        case _ if isinstance(thing, CACHE):
            size = thing.cache_info().maxsize
            return None if size is None else f"it holds at most {size}"
        case dict() if most := pattern_cache_limit(thing) or type_cache_limit(thing):
            return f"it holds at most {most}"
    return None
