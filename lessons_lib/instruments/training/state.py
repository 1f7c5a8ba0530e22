"""Everything that a training step may change, saved and given back.

Saved are the variables and attributes of models, layers, optimizers, metrics and modules that can
be reached from the step; what else `lessons_lib.instruments.training.object_state` knows; and the
global random generators of Python, NumPy, TensorFlow and Keras.  What is made by the first step (an
optimizer's slots, metrics) is forgotten again.
"""

from __future__ import annotations

import gc
import io
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from lessons_lib.common.internals import LRU_LINK, EagerContext
from lessons_lib.common.internals.training import (
    BaseVariable,
    RandomState,
    random_state,
    variable_behind,
)
from lessons_lib.common.patching import patched
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import definition_of, is_user_file
from lessons_lib.instruments.holders.names import CACHE
from lessons_lib.instruments.training.object_state import (
    WRAPPERS,
    Restore,
    attributes,
    attributes_restored,
    cells,
    classes_of,
    content_restored,
    has_attributes,
    is_users_module,
    methods,
)

#: A step that reaches more objects than this is not a training step's, but a whole program's.
_MOST: Final = 200_000


def _is_drawn_from(thing: Any) -> bool:
    """Tell whether something loses what a step takes from it; a file is no such thing."""
    return isinstance(thing, tf.queue.QueueBase) or (
        isinstance(thing, Iterator)
        and not isinstance(thing, io.IOBase)
        and not has_attributes(thing)
    )


def _parts(thing: Any) -> Iterable[Any]:
    """List what an object refers to."""
    if type(thing).__module__ == WRAPPERS:
        # A wrapped tuple or dict has the attributes of what it wraps: none.
        return [getattr(thing, "__wrapped__", None), *_contents(thing), *attributes(thing).values()]
    if isinstance(thing, (dict, list, tuple, set, frozenset, deque)):
        return _contents(thing)
    if isinstance(thing, MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, partial):
        return (thing.func, *thing.args, *thing.keywords.values())
    if isinstance(thing, FunctionType):
        return _of_function(thing)
    if isinstance(thing, CACHE) and definition_of(thing) is not None:  # no library's
        return _of_cache(thing)
    if hasattr(thing, "python_function"):
        return (thing.python_function,)
    if has_attributes(thing):
        return [*attributes(thing).values(), *classes_of(thing)]
    return ()


def _contents(thing: Any) -> list[Any]:
    return list(thing.values()) if isinstance(thing, dict) else list(thing)


def _of_cache(cache: Any) -> list[Any]:
    """List what a cache of `functools` holds, not the dict in which it is kept."""
    if not cache.cache_info().currsize:
        return [cache.__wrapped__]
    held = gc.get_referents(cache)
    if cache.cache_info().maxsize is None:  # else the dict has links
        return [part for one in held for part in (_contents(one) if type(one) is dict else (one,))]
    return [part for part in held if not _has_links(part)]


def _has_links(thing: Any) -> bool:
    kinds = map(type, thing.values()) if type(thing) is dict else ()
    return any(f"{kind.__module__}.{kind.__name__}" == LRU_LINK for kind in kinds)


def _of_function(function: FunctionType) -> list[Any]:
    if not is_user_file(function.__code__.co_filename):
        return [getattr(function, "__wrapped__", None)]
    parts: list[Any] = [*(function.__defaults__ or ()), *vars(function).values()]
    parts += [*(function.__kwdefaults__ or {}).values(), *(value for _, value in cells(function))]
    names = _names_in(function)
    spaces = [function.__globals__, sys.modules]  # those imported in the function
    spaces += [vars(part) for part in parts if is_users_module(part)]
    known: set[int] = set()
    while spaces:
        space = spaces.pop()
        if id(space) not in known:
            known.add(id(space))
            named = [space.get(name) for name in names]
            parts += named
            spaces += [vars(part) for part in named if is_users_module(part)]
    return [part for part in parts if not isinstance(part, ModuleType)]


def _names_in(function: FunctionType) -> set[str]:
    """Collect the names in the code of a function of the user's."""
    names: set[str] = set()
    codes = [function.__code__] if is_user_file(function.__code__.co_filename) else []
    while codes:
        code = codes.pop()
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        names.update(code.co_names)
    return names


def reachable(roots: Iterable[Any], *, every_method: bool = True) -> Iterator[Any]:
    """Find the objects that a step can reach, each once.

    Parameters
    ----------
    roots : iterable
    every_method : bool
        Follow all methods of the user's classes, or only those that code names that was reached.
    """
    todo = list(roots)
    seen: dict[int, Any] = {}
    names: set[str] = set()
    waiting: dict[str, list[FunctionType]] = {}
    while todo and len(seen) < _MOST:
        thing = todo.pop()
        if thing is None or id(thing) in seen or isinstance(thing, (str, bytes, int, float)):
            continue
        seen[id(thing)] = thing
        yield thing
        if not isinstance(thing, tf.Variable):
            todo.extend(_parts(thing))
        if isinstance(thing, FunctionType):
            names |= _names_in(thing)
        elif isinstance(thing, type) and has_attributes(thing):
            for name, method in methods(thing):
                waiting.setdefault(name, []).append(method)
        else:
            continue
        for name in list(waiting) if every_method else names & waiting.keys():
            todo += waiting.pop(name)


def names_iterator(step: Any) -> bool:
    """Tell whether a step's code names an iterator, which cannot be set back.

    One that it could reach, but does not name, is left alone: a trainer may hold what its loop
    takes batches from.
    """
    things = list(reachable((step, type(step).__call__), every_method=False))
    functions = [thing for thing in things if isinstance(thing, FunctionType)]
    names = set().union(*map(_names_in, functions))
    held = [part for function in functions for part in _of_function(function)]
    held += [
        value
        for owner in filter(has_attributes, things)
        for name, value in attributes(owner).items()
        if name in names
    ]
    held += [part for whole in held if type(whole) in (list, tuple, dict) for part in _parts(whole)]
    return any(map(_is_drawn_from, held))


def variable_in(thing: Any) -> tf.Variable | None:
    """Give the tf.Variable that an object is, or that a Keras variable holds."""
    value = thing
    if not isinstance(thing, tf.Variable) and type(thing).__module__.startswith("keras."):
        value = vars(thing).get("_value") if hasattr(thing, "__dict__") else None
    return value if isinstance(value, tf.Variable) else None


@contextmanager
def variables_used(save: Callable[[tf.Variable], None]) -> Iterator[list[tf.Variable]]:
    """List the variables that are read or written in a block, and save each one before.

    A function that has been traced asks no variable for its handle: it is called with the handles.
    """
    used: dict[int, tf.Variable] = {}

    def use(variable: tf.Variable) -> None:
        if id(variable) not in used:
            used[id(variable)] = variable
            save(variable)

    def noting(original: Any) -> Any:
        def handle(variable: Any) -> Any:
            use(variable)
            return original.fget(variable)

        return property(handle)

    def noting_calls(original: Any) -> Any:
        def call_function(context: Any, name: Any, tensor_inputs: Any, *rest: Any) -> Any:
            for tensor in tensor_inputs:
                if (variable := variable_behind(tensor)) is not None:
                    use(variable)
            return original(context, name, tensor_inputs, *rest)

        return call_function

    found: list[tf.Variable] = []
    with (
        patched(BaseVariable, "handle", noting),
        patched(EagerContext, "call_function", noting_calls),
    ):
        yield found
    found += used.values()


class State:
    """The state at one time."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._given_back: list[Restore] = []
        self._values: dict[int, tuple[tf.Variable, Any]] = {}
        self.objects: list[Any] = []
        for thing in reachable(roots):
            if (variable := variable_in(thing)) is not None:
                self.add(variable)
            self._given_back += content_restored(thing)
            if has_attributes(thing):
                self._given_back.append(attributes_restored(thing))
                self.objects.append(thing)
        self._random: RandomState = random_state()
        self._python = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002 - the user's own
        for variable in self._random.variables:
            self.add(variable)

    def add(self, variable: tf.Variable) -> None:
        """Save a variable's value.

        Raises
        ------
        ValueError
            If it has none.
        """
        if id(variable) not in self._values and variable.dtype not in (tf.resource, tf.variant):
            with tf.init_scope():  # a function may be traced, which meets it for the first time
                value = variable.numpy()
            if not variable.shape.is_compatible_with(value.shape):
                if not tf.executing_eagerly():  # made by the function: it had none before
                    return
                raise ValueError(
                    f"the variable {variable.name.strip()} has no value, as where a fit failed "
                    "while it was traced: compile the model again, with a new optimizer"
                )
            self._values[id(variable)] = (variable, value)

    def restore(self) -> None:
        """Give everything back."""
        for give_back in self._given_back:
            give_back()
        for variable, value in self._values.values():
            variable.assign(value)
        self._random.restore()
        np.random.set_state(self._numpy)  # noqa: NPY002 - the user's own
        random.setstate(self._python)
