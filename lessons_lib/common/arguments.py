"""Checks of what users give: functions to call, and whole numbers.

An error is one sentence: what was wrong, and what to do.  Nothing is called here.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from lessons_lib.common.runtime import tf


def check_function(fn: Any, what: str, most: int = 0) -> int:
    """Check that something can be called with no argument, or with a few at most.

    Parameters
    ----------
    fn : object
        What the user gave.
    what : str
        Who calls it, for the message.
    most : int
        How many arguments the caller could give.

    Returns
    -------
    int
        How many it requires.

    Raises
    ------
    TypeError
        If it is no function, needs more arguments, or would run nothing when it is called.
    """
    if not callable(fn):
        raise TypeError(
            f"{what} takes a function to call, not {type(fn).__name__}: write a function without "
            "arguments, for example lambda: train(x), and no parentheses after its name"
        )
    inner = check_does_work(fn, what)
    name = getattr(fn, "__name__", type(fn).__name__)
    try:
        parameters = list(inspect.signature(inner).parameters.values())
    except (TypeError, ValueError):  # some callables written in C tell nothing
        return 0
    required = [p for p in parameters if p.default is p.empty]
    given = [p for p in required if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p for p in required if p.kind is p.KEYWORD_ONLY]
    if len(given) > most or keywords:
        names = ", ".join(p.name for p in [*given, *keywords])
        calls = f"{name}() or {name}(i)" if most else f"{name}()"
        raise TypeError(
            f"{name} requires the arguments {names}, but {what} calls {calls}: wrap it, for "
            f"example lambda{' i' if most else ''}: {name}(...)"
        )
    return len(given)


def check_does_work(fn: Any, what: str) -> Any:
    """Refuse a function whose call runs nothing; give the Python function of a ``tf.function``.

    Raises
    ------
    TypeError
        If it is a generator function or a coroutine function.
    """
    inner = getattr(fn, "python_function", fn)
    if _lazy(inner):
        name = getattr(fn, "__name__", type(fn).__name__)
        raise TypeError(
            f"calling {name} only makes a generator or coroutine and runs nothing: give {what} a "
            "function that does the work"
        )
    return inner


def _lazy(fn: Callable[..., Any]) -> bool:
    return any(
        inspect.isgeneratorfunction(called)
        or inspect.iscoroutinefunction(called)
        or inspect.isasyncgenfunction(called)
        for called in (fn, getattr(type(fn), "__call__", None))  # noqa: B004
    )


def check_runs(what: str, instead: str) -> None:
    """Refuse to measure where a function is being traced, and nothing runs that could be measured.

    Parameters
    ----------
    what : str
        What happens there, for the message: ``measure is called``.
    instead : str
        What to do.

    Raises
    ------
    RuntimeError
        While a ``tf.function`` is being traced, a step of ``model.fit`` or of ``tf.data`` included.
    """
    if tf.inside_function():
        raise RuntimeError(
            f"{what} while a tf.function is being traced, where nothing runs yet: {instead}"
        )


def check_count(number: Any, what: str, least: int) -> int:
    """Check a whole number that has a least value; give it as an `int`.

    Raises
    ------
    TypeError, ValueError
        If it is no whole number, or too small.
    """
    try:
        # Arrays and tensors of several numbers have __index__, too, and fail only when it is used.
        value = None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        value = None
    if value is None:
        raise TypeError(
            f"{what} is {number!r}, which is no whole number: give one of at least {least}"
        )
    if value < least:
        raise ValueError(f"{what} is {number}: give a whole number of at least {least}")
    return value
