"""What a variable is, by the place where it was made: its name, and what it is for.

Noted on the variable's handle when it is made, also outside of recordings: a few stack frames are
looked at, which costs microseconds a variable.  A variable of the user's own is a weight once a
tape has given a gradient of it.  Any other, and one that was made before this package was imported,
is judged by how a graph uses it (`lessons_lib.recording.graph_roles`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple

from lessons_lib.common.internals import imperative_grad, resource_variable_ops
from lessons_lib.common.patching import Patch
from lessons_lib.common.runtime import tf
from lessons_lib.common.source import local_of
from lessons_lib.recording.categories import Category


class Variable(NamedTuple):
    """A variable's name (``conv2d_3/kernel``), and its category when that is known.

    An optimizer's slot bears the name of its variable: ``conv2d_3/kernel/momentum``.  As several
    variables may have one name, each has a number of its own, from 1.  The layer is that of the
    variable, or of the one whose slot it is.
    """

    name: str
    category: Category | None
    number: int
    layer: str | None = None


_NOTED: Final = "_lessons_lib_variable"
_MAKERS: Final = re.compile(
    r"[/\\](?:tf_)?keras[/\\](?:src[/\\])?(?P<keras>optimizers|metrics|layers|random)[/\\]"
    r"|[/\\]tensorflow[/\\]python[/\\](?:training[/\\](?P<slot>slot_creator)"
    r"|ops[/\\](?P<generator>stateful_random_ops))\.py"
)
_CATEGORIES: Final = {
    "optimizers": Category.OPTIMIZER,
    "slot_creator": Category.OPTIMIZER,
    "metrics": Category.METRICS,
    "random": Category.METRICS,
    "stateful_random_ops": Category.METRICS,
    "layers": Category.WEIGHTS,
}
#: Keras' own class of variables, which makes TensorFlow's at once, or after a model was built.
_KERAS_VARIABLE: Final = re.compile(
    r"[/\\]keras[/\\]src[/\\]backend[/\\](?:common[/\\]variables|tensorflow[/\\]core)\.py$"
)
_SLOT: Final = "add_variable_from_reference"
_numbers: Final = itertools.count(1)
# By number: the handle, with which the variable goes.
_handles: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()
_makers: Final[dict[str, Category | None]] = {}


def _maker(file: str) -> Category | None:
    if file not in _makers:
        match = _MAKERS.search(file)
        _makers[file] = None if match is None else _CATEGORIES[match[match.lastindex or 0]]
    return _makers[file]


def _read(frame: FrameType | None, name: str) -> Variable:
    """Read the stack: the innermost maker counts (a layer makes its seed generator)."""
    category: Category | None = None
    path = slot = reference = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not path and _KERAS_VARIABLE.search(file):
            path = str(getattr(local_of(frame, "self"), "_path", ""))
        category = category or _maker(file)
        if category is Category.OPTIMIZER and not slot and frame.f_code.co_name == _SLOT:
            of = local_of(frame, "reference_variable")
            reference = getattr(of, "path", None) or str(getattr(of, "name", ""))
            kind = str(local_of(frame, "name") or "var")
            of_slot = re.sub("[/:]", "_", reference)
            reference = reference.removesuffix(":0")
            slot = f"{reference}/{kind.removeprefix(f'{of_slot}_')}"
        frame = frame.f_back
    # Counters of an optimizer, metrics and seeds belong to no layer.
    of = reference if slot else path or name if category in (None, Category.WEIGHTS) else ""
    if category is Category.OPTIMIZER and not (slot or path):  # TensorFlow's: hidden/w/Momentum
        of = name.rpartition("/")[0]
    layer = of.rpartition("/")[0] or None
    return Variable(slot or path or name, category, next(_numbers), layer)


def note(handle: Any, variable: Variable) -> None:
    """Say what a variable is, where that is known for certain."""
    with contextlib.suppress(AttributeError, TypeError):
        setattr(handle, _NOTED, variable)
        _handles[variable.number] = handle


def lives(number: int) -> bool:
    """Tell whether there still is a variable with a number, from 1."""
    return number in _handles


def variable_of(handle: Any) -> Variable:
    """Tell what a variable is, by its handle."""
    known = getattr(handle, _NOTED, None)
    if isinstance(known, Variable):
        return known
    name = getattr(handle, "_name", None) or getattr(handle, "name", "")
    text = str(name).removesuffix(":0")
    variable = Variable(text, None, next(_numbers), text.rpartition("/")[0] or None)
    note(handle, variable)
    return variable


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def handle_of(*args: Any, **kwargs: Any) -> Any:
        handle = original(*args, **kwargs)
        with contextlib.suppress(Exception):  # a fault of ours costs a name, not the run
            name = kwargs["name"] if "name" in kwargs else args[3]
            note(handle, _read(sys._getframe(1), str(name).rstrip("/")))
        return handle

    return handle_of


def _noting_learned(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def imperative_grad(tape: Any, target: Any, sources: Any, *rest: Any, **more: Any) -> Any:
        with contextlib.suppress(Exception):
            for source in sources:
                if getattr(source, "dtype", None) == tf.resource:
                    known = variable_of(source)
                    if known.category is None:
                        note(source, known._replace(category=Category.WEIGHTS))
        return original(tape, target, sources, *rest, **more)

    return imperative_grad


Patch(resource_variable_ops, "_variable_handle_from_shape_and_dtype", _noting).install()
Patch(imperative_grad, "imperative_grad", _noting_learned).install()
