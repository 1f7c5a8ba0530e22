"""Which layer an operation belongs to: by the name scope that it was made in.

Keras keeps a stack of its own name scopes, each with the object that opened it, so in eager mode
the layer is known at every call.  In a graph TensorFlow makes every scope's name unique
(``conv2d`` becomes ``conv2d_1``, which may be another layer's name); so what a scope stands for is
noted when it is opened, also outside of recordings, because most functions are traced before the
first one.  Scopes that the user or a ``tf.Module`` opened count as layers; those that TensorFlow's
functions open within an operation do not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from enum import Enum
from types import FrameType
from typing import Any, Final, NamedTuple

from lessons_lib.common.internals import eager_context, keras_scopes
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import is_user_file


class Owner(Enum):
    """Who opened a scope."""

    LAYER = "layer"
    OPTIMIZER = "optimizer"
    METRIC = "metric"


class Scope(NamedTuple):
    """What a name scope stands for: its owner, and its path (``encoder/dense``)."""

    owner: Owner
    path: str


_KERAS_OWNERS: Final = (
    ("keras.src.layers.layer", "Layer", Owner.LAYER),
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", Owner.OPTIMIZER),
    ("keras.src.metrics.metric", "Metric", Owner.METRIC),
)
_NOTED: Final = "_lessons_lib_scope"
_NO_SCOPE: Final = Scope(Owner.LAYER, "")
# What lies between a request for a scope and the graph that opens it.
_PASSED_ON: Final = tuple(
    os.path.join("", *parts)
    for parts in (
        ("framework", "ops.py"),
        ("contextlib.py",),
        ("ops", "variable_scope.py"),
        ("recording", "scopes.py"),
    )
)
#: The user's code as AutoGraph has written it anew.
_CONVERTED: Final = "__autograph_generated_file"
_MODULE: Final = os.path.join("", "tensorflow", "python", "module", "module.py")

_all: Final[dict[Scope, Scope]] = {}
#: Paths of the scopes that the user or a module opened in eager mode.
_asked: Final[set[str]] = set()
_scopes: Final[weakref.WeakKeyDictionary[Any, dict[str, Scope]]] = weakref.WeakKeyDictionary()


def keras_scope(stack: list[Any]) -> Scope | None:
    """Give the innermost layer, optimizer or metric of Keras in a stack of its scopes."""
    top = stack[-1]
    noted = vars(top).get(_NOTED)
    if noted is None:
        noted = _read(stack)
        # A name scope of Keras is made for one use, so it can carry what was found.
        setattr(top, _NOTED, noted)
    return None if noted is _NO_SCOPE else noted


def _read(stack: list[Any]) -> Scope:
    found = _NO_SCOPE
    parts: list[str] = []
    for entry in stack:
        if entry.override_parent is not None:
            parts = [part for part in entry.override_parent.split("/") if part]
        parts.append(entry.name)
        owner = _owner(entry.caller)
        if owner is not None:
            found = _interned(owner, "/".join(parts))
    return found


def _interned(owner: Owner, path: str) -> Scope:
    """Give the one object for a scope, so that calls can be told apart by its address."""
    scope = Scope(owner, path)
    return _all.setdefault(scope, scope)


def _owner(caller: Any) -> Owner | None:
    if caller is not None:
        for module, name, owner in _KERAS_OWNERS:
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and isinstance(caller, kind):
                return owner
    return None


def eager_scope() -> Scope | None:
    """Give what eager operations on this thread belong to, by Keras or by ``tf.name_scope``."""
    if stack := keras_scopes():
        return keras_scope(stack)
    name = eager_context().scope_name
    return _asked_scope(name.rstrip("/")) if name else None


def _asked_scope(path: str) -> Scope | None:
    """Give the innermost scope around a path that was asked for, and not TensorFlow's own."""
    while path and path not in _asked:
        path = path.rpartition("/")[0]
    return _interned(Owner.LAYER, path) if path else None


def noting_eager_scopes(original: Any) -> Any:
    """Wrap ``tf.name_scope.__enter__``, for the time of a recording."""

    def __enter__(scope: Any) -> Any:  # noqa: N807 - the method that it stands for
        result = original(scope)
        with contextlib.suppress(Exception):  # a fault of ours costs a name, not the run
            name = eager_context().scope_name
            if name and tf.executing_eagerly() and _asked_for(sys._getframe(1)):
                _asked.add(name.rstrip("/"))
        return result

    return __enter__


def scope_of(graph: Any, name: str) -> Scope | None:
    """Tell what an operation of a graph belongs to, by its name; a gradient, as what it is of."""
    known = _scopes.get(graph)
    if not known:
        return None
    path = name.removeprefix("gradient_tape/")
    while path := path.rpartition("/")[0]:
        if (found := known.get(path)) is not None:
            return found
    return None


class _Opened(contextlib.AbstractContextManager[str], contextlib.ContextDecorator):
    """TensorFlow's own context manager of a scope, which notes what the scope stands for."""

    def __init__(self, graph: Any, name: Any, original: Any) -> None:
        self._graph = graph
        self._name = name
        self._original = original

    def __enter__(self) -> str:
        unique: str = self._original.__enter__()
        name = self._name
        if isinstance(name, str) and name:
            with contextlib.suppress(Exception):  # a fault of ours costs a name, not the run
                self._note(unique.rstrip("/"), name, sys._getframe(1))
        return unique

    def __exit__(self, *error: Any) -> Any:
        return self._original.__exit__(*error)

    def _recreate_cm(self) -> _Opened:
        return _Opened(self._graph, self._name, self._original._recreate_cm())

    def _note(self, unique: str, name: str, frame: FrameType | None) -> None:
        stack = keras_scopes()
        if stack and stack[-1].name == name:
            scope = keras_scope(stack)
        else:
            scope = self._within(unique, name) if _asked_for(frame) else None
        if scope:
            _scopes.setdefault(self._graph, {})[unique] = scope

    def _within(self, unique: str, name: str) -> Scope:
        if name.endswith("/"):  # a path from the top, which is not made unique
            return Scope(Owner.LAYER, unique)
        outer = scope_of(self._graph, unique)
        return Scope(Owner.LAYER, f"{outer.path}/{name}" if outer else name)


def _asked_for(frame: FrameType | None) -> bool:
    """Tell whether the user or a module opened a scope, and not a function of TensorFlow's."""
    while frame is not None and frame.f_code.co_filename.endswith(_PASSED_ON):
        frame = frame.f_back
    if frame is None:
        return False
    file = frame.f_code.co_filename
    return file.endswith(_MODULE) or _CONVERTED in file or is_user_file(file)


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def name_scope(graph: Any, name: Any) -> Any:
        return _Opened(graph, name, original(graph, name))

    return name_scope


Patch(tf.Graph, "name_scope", _noting).install()


def layer_names(paths: Iterable[str]) -> dict[str, str]:
    """Shorten layers' paths: what all of them begin with (the model's name) is left out."""
    known = set(paths)
    heads = {path.partition("/")[0] for path in known}
    if len(heads) > 1:
        return {path: path for path in known}
    return {path: path.partition("/")[2] or path for path in known}
