"""Find the ``tf.function`` behind what a user hands over, and what it is made of.

Accepted: what ``tf.function`` returns, the same bound to an instance (it then has traces of its
own), a partial of it, Keras' ``train_function``, ``test_function`` and ``predict_function``, and a
concrete function.  Nothing is traced or called here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from lessons_lib.common import internals
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, user_place
from lessons_lib.common.units import counted
from lessons_lib.instruments.tracing.advice import FunctionOwner
from lessons_lib.instruments.tracing.reasons import Key, context_of
from lessons_lib.instruments.tracing.signatures import signature_of

_DEPTH: Final = 20
#: Of so many functions that one closes over, and those again, the codes tell what it was made from.
_MOST_CODES: Final = 20


@dataclass(frozen=True, slots=True)
class Target:
    """A traced function and its concrete functions.

    Attributes
    ----------
    function : Function or None
        The ``tf.function``; None for a concrete function alone.
    name : str
        Its name, with the class of a method.
    line : Line or None
        Where the user defined it; None for a library's function and for a concrete one.
    traces : tuple
        Its concrete functions with their context, in the order in which they were made.
    notes : tuple of str
        What else should be known.
    """

    function: Any
    name: str
    line: Line | None
    traces: tuple[tuple[Any, tuple[tuple[str, Any], ...]], ...]
    notes: tuple[str, ...] = ()

    @property
    def owner(self) -> FunctionOwner:
        """Whose the function is."""
        if self.function is None or self.line is not None:
            return FunctionOwner.USER
        return (
            FunctionOwner.LOADED
            if is_loaded(self.function.python_function)
            else FunctionOwner.LIBRARY
        )


def is_loaded(python_function: Any) -> bool:
    """Tell whether a function was loaded from a file, where its Python code is not."""
    module = getattr(unwrapped(python_function)[0], "__module__", "")
    return bool(module == internals.LOADED_FUNCTIONS)


def resolve(fn: Any) -> Target:
    """Find the ``tf.function`` behind `fn`.

    Raises
    ------
    TypeError
        If there is none; the message says what to hand over instead.
    """
    if isinstance(fn, tf.types.experimental.ConcreteFunction):
        name = str(getattr(fn.graph, "name", fn.name))
        return Target(None, name, None, ((fn, ()),))
    function = _polymorphic(fn)
    if function is None:
        raise TypeError(_refusal(fn))
    python_function = function.python_function
    traces = tuple(stored_traces(function))
    name = name_of(python_function, function.name)
    if is_loaded(python_function) and traces:
        name = str(traces[0][0].graph.name)
    return Target(
        function,
        name,
        definition_line(python_function),
        traces,
        tuple(_notes(function)),
    )


def stored_traces(function: Any) -> Iterator[tuple[Any, tuple[tuple[str, Any], ...]]]:
    """Give a function's concrete functions with their context, oldest first."""
    if is_loaded(function.python_function):
        # It holds its traces in a list; what is cached only passes calls on to them.
        yield from ((concrete, ()) for concrete in function.concrete_functions)
        return
    yield from cached(internals.trace_cache(function))


def cached(cache: Any) -> Iterator[tuple[Any, tuple[tuple[str, Any], ...]]]:
    """Give the concrete functions in one of TensorFlow's caches, oldest first."""
    for context, concrete in internals.traces_in(cache):
        yield concrete, context_of(context)


def key_of(concrete: Any, context: tuple[tuple[str, Any], ...] = ()) -> Key:
    """Describe the key of a concrete function."""
    return Key(signature_of(concrete.function_type), context)


def _polymorphic(fn: Any, depth: int = 0) -> Any:
    if isinstance(fn, internals.Function):
        return fn
    if depth >= _DEPTH:
        return None
    if isinstance(fn, functools.partial):
        return _polymorphic(fn.func, depth + 1)
    if inspect.ismethod(fn) and isinstance(fn.__func__, internals.Function):
        return fn.__func__
    # functools.wraps around a tf.function; Keras' wrappers around its own.
    wrapped = getattr(fn, "__wrapped__", None) if callable(fn) else None
    if wrapped is not None and (found := _polymorphic(wrapped, depth + 1)) is not None:
        return found
    if str(getattr(fn, "__module__", "")).split(".")[0] == "keras" and inspect.isfunction(fn):
        return next(_enclosed(fn), None)
    return None


def _enclosed(fn: Any) -> Iterator[Any]:
    """Give the tf.functions that a plain function's closure or globals hand to it."""
    for _, value in outside_values(fn):
        if isinstance(value, internals.Function):
            yield value


def outside_values(fn: Any) -> Iterator[tuple[str, Any]]:
    """Give what a Python function takes from its closure and from its globals, by name."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for name in code.co_names:
        if name in fn.__globals__:
            yield name, fn.__globals__[name]


def outside_names(python_function: Any) -> dict[int, str]:
    """Give the user's names of what a function takes from outside, by ``id`` of the value.

    Looks at the closure, the globals it mentions, and the attributes of a method's instance.
    """
    names: dict[int, str] = {}
    plain, instance = unwrapped(python_function)
    for name, value in outside_values(plain):
        names.setdefault(id(value), name)
        if name == "self":
            instance = value
    for name, value in getattr(instance, "__dict__", {}).items():
        names.setdefault(id(value), f"self.{name}")
    return names


def unwrapped(python_function: Any) -> tuple[Any, Any]:
    """Give the plain Python function under its decorators, and the instance of a method."""
    instance = None
    for _ in range(_DEPTH):
        if isinstance(python_function, functools.partial):
            python_function = python_function.func
        elif inspect.ismethod(python_function):
            instance = python_function.__self__
            # TensorFlow binds methods to a stand-in that refers weakly to the instance.
            instance = getattr(instance, "target", instance)
            python_function = python_function.__func__
        elif getattr(python_function, "__wrapped__", None) is not None:
            python_function = python_function.__wrapped__
        elif (inner := _mapped(python_function)) is not None:
            python_function = inner
        else:
            break
    return python_function, instance


def _mapped(plain: Any) -> Any:
    """Give the user's function that a ``tf.data`` transformation wraps; None for others."""
    if getattr(plain, "__module__", "") != internals.TF_DATA_FUNCTIONS:
        return None
    for _, value in outside_values(plain):
        inside = dict(outside_values(value)) if inspect.isfunction(value) else {}
        found = internals.mapped_function(inside.get("self"))
        if callable(found):
            return found
    return None


def code_of(python_function: Any) -> CodeType | None:
    """Give the code of the user's function under TensorFlow's and other decorators."""
    plain, _ = unwrapped(python_function)
    code = getattr(plain, "__code__", None)
    if code is None:
        code = getattr(getattr(plain, "__call__", None), "__code__", None)  # noqa: B004
    return code


def made_from(python_function: Any) -> Hashable:
    """Give what a function was made from: its code, and that of the functions it closes over.

    What a factory makes of two functions is not made from the same code, though its own is: Keras'
    training and test functions are such two.
    """
    codes: list[Hashable] = []
    waiting, seen = [python_function], set[int]()
    while waiting and len(codes) < _MOST_CODES:
        function = waiting.pop()
        plain, _ = unwrapped(function)
        code = code_of(function)
        if code is None or id(plain) in seen:
            continue
        seen.add(id(plain))
        codes.append((code.co_filename, code))
        for cell in getattr(plain, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # not filled yet
                held = cell.cell_contents
                if isinstance(held, tf.types.experimental.PolymorphicFunction):
                    held = held.python_function
                if inspect.isroutine(held) or isinstance(held, functools.partial):
                    waiting.append(held)
    return tuple(codes) or None


def definition_line(python_function: Any) -> Line | None:
    """Give the line where the user defined a function, in one that AutoGraph converted, too.

    None for a library's.
    """
    code = code_of(python_function)
    place = None if code is None else user_place([(code.co_filename, code.co_firstlineno)])
    return None if place is None else place.line()


def name_of(python_function: Any, fallback: str) -> str:
    """Give a function's name, with its class for a method."""
    plain, _ = unwrapped(python_function)
    qualified = getattr(plain, "__qualname__", "")
    return qualified.rpartition("<locals>.")[2] or fallback


#: Why there are no traces.
RUN_EAGERLY: Final = (
    "tf.config.run_functions_eagerly(True) is on: calls run as plain Python and trace nothing."
)


def _notes(function: Any) -> Iterator[str]:
    if tf.config.functions_run_eagerly():
        yield RUN_EAGERLY
    if is_loaded(function.python_function):
        yield "The function was loaded from a file, with the traces that were saved in it."
    bound = [internals.trace_cache(each) for each in internals.bound_functions(function)]
    if bound:
        traces = sum(map(len, bound))
        yield (
            f"A method has traces of its own for each instance: {counted(len(bound), 'instance')} "
            f"with {traces} in all; report "
            "instance.method to see them."
        )


def _refusal(fn: Any) -> str:
    if fn is None:
        return (
            "there is no function yet: Keras makes train_function in the first fit (or in "
            "model.make_train_function()), so call that first"
        )
    if inspect.isroutine(fn):
        name = getattr(fn, "__name__", "it")
        inside = next(_enclosed(fn), None) if inspect.isfunction(fn) else None
        if inside is not None:
            return (
                f"{name} is a plain Python function, which is never traced: report the "
                f"tf.function {inside.name} that it uses"
            )
        return (
            f"{name} is a plain Python function, which is never traced: decorate it with "
            "@tf.function first"
        )
    if hasattr(fn, "train_function"):
        return (
            "a Keras model is not a function: report model.train_function, test_function or "
            "predict_function (made by the first fit, evaluate or predict)"
        )
    return f"traces belong to a tf.function, not to {type(fn).__name__}: give what tf.function made"
