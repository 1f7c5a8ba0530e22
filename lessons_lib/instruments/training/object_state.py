"""How the state of one object is read, and given back.

`content_restored` knows containers, random generators, lookup tables and the variables that a
function closes over; `attributes_restored` the attributes.  What they give holds the object and
what was in it, not copies of that: what lies further down is an object of its own
(`lessons_lib.instruments.training.state`).
"""

from __future__ import annotations

import argparse
import array
import queue
import random
import sys
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

from lessons_lib.common.runtime import tf
from lessons_lib.common.source import is_user_file

Restore = Callable[[], None]

_LIBRARIES: Final = ("keras", "tf_keras")
#: TensorFlow's own lists and dicts, which hold another one.
WRAPPERS: Final = "tensorflow.python.trackable.data_structures"
#: What can be filled again, past the methods of classes that derive from it.
_CONTAINERS: Final = (OrderedDict, dict, list, set, deque, bytearray)
#: Objects of Python's own library that are changed by what they hold.
_HOLDERS: Final = (
    *(queue.Queue, UserDict, UserList, ChainMap),
    *(SimpleNamespace, argparse.Namespace),
)
#: Where properties, class methods, cached properties and traced functions have their function.
_HOLD_FUNCTIONS: Final = ("__wrapped__", "fget", "fset", "func", "python_function")
_TABLES: Final = (
    tf.lookup.experimental.MutableHashTable,
    tf.lookup.experimental.DenseHashTable,
)


def has_attributes(thing: Any) -> bool:
    """Tell whether an object's attributes may be changed by a step, and are looked into."""
    if isinstance(thing, FunctionType):
        return is_user_file(thing.__code__.co_filename)
    if isinstance(thing, type):
        return _is_users(thing)
    kind = type(thing)
    if isinstance(thing, ModuleType) or not (hasattr(thing, "__dict__") or _slots(kind)):
        return False
    if isinstance(thing, (tf.Module, *_HOLDERS)):
        return True
    module = str(kind.__module__)
    return module == WRAPPERS or module.partition(".")[0] in _LIBRARIES or _is_users(kind)


def _is_users(kind: type) -> bool:
    return is_users_module(sys.modules.get(str(kind.__module__)))


def is_users_module(thing: Any) -> bool:
    """Tell whether something is a module of the user's, or a folder of modules."""
    if not isinstance(thing, ModuleType):
        return False
    names = vars(thing)
    files = [names.get("__file__"), *(names.get("__path__") or ())]
    return names.get("__name__") == "__main__" or any(
        isinstance(file, str) and is_user_file(file) for file in files
    )


def classes_of(thing: Any) -> list[type]:
    """List the user's classes that an object has attributes of."""
    kind = thing if isinstance(thing, type) else type(thing)
    return [kind for kind in kind.__mro__ if _is_users(kind)]


def attributes(thing: Any) -> dict[str, Any]:
    """Give an object's attributes by name, also those in ``__slots__``; a class's, no methods."""
    if isinstance(thing, type):
        return {
            name: value
            for name, value in vars(thing).items()
            if not (name.startswith("__") or hasattr(type(value), "__get__"))
        }
    in_slots = {slot.__name__: value for slot, value in _slot_values(thing).items()}
    return {**getattr(thing, "__dict__", {}), **in_slots}


def methods(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """List a class's own functions by name, also those that a property or a decorator holds."""
    for name, found in list(vars(kind).items()):
        if hasattr(type(found), "__get__"):
            for inner in (found, *(getattr(found, held, None) for held in _HOLD_FUNCTIONS)):
                if isinstance(inner, FunctionType):
                    yield name, inner


def cells(function: FunctionType) -> Iterator[tuple[CellType, Any]]:
    """List the variables that a function closes over, those without a value left out."""
    for cell in function.__closure__ or ():
        try:
            yield cell, cell.cell_contents
        except ValueError:
            continue


def content_restored(thing: Any) -> list[Restore]:
    """Read what an object holds beside attributes; what is given puts it back when called."""
    found: list[Restore] = []
    if issubclass(type(thing), _CONTAINERS):  # and no proxy of one
        found.append(_container(thing))
    match thing:
        case FunctionType() if is_user_file(thing.__code__.co_filename):
            found += [_cell(*held) for held in cells(thing)]
        case random.Random():
            python = thing.getstate()
            found.append(lambda: thing.setstate(python))
        case np.random.RandomState():
            old = thing.get_state()
            found.append(lambda: thing.set_state(old))
        case np.random.Generator():
            new = thing.bit_generator.state
            found.append(lambda: setattr(thing.bit_generator, "state", new))
        case array.array():
            copied = thing[:]
            found.append(lambda: thing.__setitem__(slice(None), copied))
        case _ if isinstance(thing, _TABLES):
            found.append(_table(thing))
    return found


def _container(thing: Any) -> Restore:
    # Past Keras' own lists and dicts, which would take what is put in for something new.
    kind: Any = next(kind for kind in _CONTAINERS if isinstance(thing, kind))
    content: list[Any] = list(thing.items() if isinstance(thing, dict) else thing)

    def restore() -> None:
        kind.clear(thing)
        if issubclass(kind, dict):
            for key, value in content:
                kind.__setitem__(thing, key, value)
        elif kind is set:
            set.update(thing, content)
        else:
            kind.extend(thing, content)

    return restore


def _cell(cell: CellType, value: Any) -> Restore:
    return lambda: setattr(cell, "cell_contents", value)


def _table(table: Any) -> Restore:
    keys, values = table.export()

    def restore() -> None:
        table.remove(table.export()[0])
        table.insert(keys, values)

    return restore


def attributes_restored(thing: Any) -> Restore:
    """Read an object's attributes; what is given puts them back when called."""
    if isinstance(thing, type):
        return _class_restored(thing)
    named, slots = dict(getattr(thing, "__dict__", {})), _slot_values(thing)

    def restore() -> None:
        if hasattr(thing, "__dict__"):
            vars(thing).clear()
            vars(thing).update(named)
        for slot in _slot_values(thing):
            if slot not in slots:
                slot.__delete__(thing)
        for slot, value in slots.items():
            slot.__set__(thing, value)

    return restore


def _class_restored(kind: type) -> Restore:
    held = attributes(kind)

    def restore() -> None:
        now = attributes(kind)
        for name in now.keys() - held.keys():
            type.__delattr__(kind, name)
        for name, value in held.items():
            if name not in now or now[name] is not value:
                type.__setattr__(kind, name, value)

    return restore


def _slots(kind: type) -> Iterable[MemberDescriptorType]:
    """List the ``__slots__`` of a class of the user's, and of its bases."""
    return [
        held
        for base in kind.__mro__
        if "__slots__" in vars(base)
        for held in vars(base).values()
        if isinstance(held, MemberDescriptorType)
    ]


def _slot_values(thing: Any) -> dict[MemberDescriptorType, Any]:
    found = {}
    for slot in _slots(type(thing)):
        try:
            found[slot] = slot.__get__(thing)
        except AttributeError:  # not set
            continue
    return found
