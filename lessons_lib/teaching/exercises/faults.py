"""What went wrong in an answer, as a verdict with a sentence and, where it is known, a line."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import textwrap
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from lessons_lib.common.internals import traced_error
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import Line, is_user_file, line_of, user_place_in_trace
from lessons_lib.recording.profile_format import ProfileError
from lessons_lib.teaching.exercises.exercise import function_of
from lessons_lib.teaching.exercises.result import Status
from lessons_lib.teaching.exercises.watchdog import Limited, Tripped

_LONGEST: Final = 200  # characters of an error's text
_PLACE: Final = re.compile(r'File "([^"]+)", line (\d+)')
# What TensorFlow writes around the text of an operation's error.
_AROUND: Final = re.compile(r"^\{\{function_node [^}]*\}\} ?| \[Op:[^\]]*\].*$")
EMPTY: Final = "Your function has no body yet: write it, and return the result."


class GradingStopped(Exception):
    """Ends a grading early."""

    def __init__(self, status: Status, message: str, line: Line | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.line = line


def guarded(run: Callable[[], Any]) -> Any:
    """Turn whatever an answer raises into a `GradingStopped`; a keyboard interrupt passes."""
    try:
        return run()
    except (KeyboardInterrupt, GradingStopped):
        raise
    except Tripped as stopped:
        status = Status.OVER_BUDGET if stopped.by is Limited.MEMORY else Status.STOPPED
        raise GradingStopped(status, f"Your answer gave no result: {stopped}.") from None
    except ProfileError as error:
        raise GradingStopped(
            Status.REFUSED,
            f"TensorFlow's memory could not be recorded: {error}. `ll.record` and `ll.measure` can "
            "be used in an answer; another profiler can't.",
        ) from None
    except NotImplementedError as error:
        if str(error):
            raise _crash(error) from None
        raise GradingStopped(
            Status.NOT_ATTEMPTED, "Your function raises NotImplementedError: write its body."
        ) from None
    except BaseException as error:
        raise _crash(error) from None


def _crash(error: BaseException) -> GradingStopped:
    memory = isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))
    status = Status.OVER_BUDGET if memory else Status.ERROR
    name, text, line = type(error).__name__, str(error), _line_of(error)
    # AutoGraph puts the user's stack before the error's own words.
    if (traced := traced_error(error)) is not None:
        text = traced[0]
        frames = [frame for frame in traced[1] if is_user_file(frame.filename)]
        line = line_of(frames[0].filename, frames[0].lineno) if frames else line
    elif isinstance(error, tf.errors.OpError):
        text, inner = _operation_error(error)
        line = inner or line
    text = next((t.strip() for t in text.splitlines() if t.strip()), "")
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    where = f" at {line.described}" if line is not None else ""
    said = f": {text}" if text else ""
    return GradingStopped(status, f"It raised {name}{said}{where}.", line)


def _line_of(error: BaseException) -> Line | None:
    place = user_place_in_trace(traceback.extract_tb(error.__traceback__))
    return None if place is None else place.line()


def _operation_error(error: Any) -> tuple[str, Line | None]:
    """Give the words of an operation's error, and in a graph the line that made the operation."""
    lines = [line.strip() for line in str(error.message).splitlines()]
    places = [(file, int(n)) for file, n in _PLACE.findall(error.message) if is_user_file(file)]
    words = [t for t in lines if t and not t.startswith(("[[", "File "))]
    text = _AROUND.sub("", words[-1]) if words else ""
    return text, line_of(*places[-1]) if places else None


def is_unwritten(answer: Any) -> bool:
    """Tell whether a function has no body yet, without the cost of running it."""
    code = getattr(function_of(answer), "__code__", None)
    return isinstance(code, types.CodeType) and all(
        step.opname in ("RESUME", "NOP", "RETURN_VALUE")
        or (step.opname in ("LOAD_CONST", "RETURN_CONST") and step.argval is None)
        for step in dis.get_instructions(code)
    )


def why_none(function: Any) -> GradingStopped:
    """Say why a function may have given None: no return, or a gradient that there is none of."""
    tree = _tree(function)
    if tree is not None and not any(_returned(tree)):
        name = getattr(function_of(function), "__name__", "your function")
        return GradingStopped(
            Status.WRONG_VALUE,
            f"`{name}` computes, but ends without `return`, so its result is None: return it.",
        )
    if tree is not None and any(
        isinstance(node, ast.Attribute) and node.attr in ("gradient", "jacobian")
        for node in ast.walk(tree)
    ):
        return GradingStopped(
            Status.WRONG_VALUE,
            "The result is None. A tape gives None as the gradient with respect to something that "
            "it did not watch: call `tape.watch(…)` on the tensor itself before you compute with "
            "it, and compute inside the tape's block.",
        )
    return GradingStopped(Status.WRONG_VALUE, "The result is None: what is returned has no value.")


def _tree(function: Any) -> ast.FunctionDef | None:
    try:
        source = textwrap.dedent(inspect.getsource(function_of(function)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):  # a lambda within a call, a built-in
        return None
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return next(found, None)


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Give what a function returns; not what functions inside it return."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif isinstance(node, (ast.Yield, ast.YieldFrom)):
            yield ast.Constant(None)
        elif not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
