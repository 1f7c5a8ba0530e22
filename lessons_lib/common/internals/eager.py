"""Private parts of eager TensorFlow: calls, the profiler, the runtime."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from lessons_lib.common.internals.entries import Missing, enter, module, of_object, part

# --- Calls of eager TensorFlow -------------------------------------------------------------------

_NO_RECORDING: Final = "nothing can be recorded"
_GRADIENTS: Final = "telling gradients by their forward operation"

pywrap_tfe: Final = module(
    "tensorflow.python.pywrap_tfe",
    "TFE_Py_FastPathExecute TFE_Py_Execute TFE_Py_TapeSetIsEmpty TFE_Py_TapeSetIsStopped "
    "TFE_Py_RegisterGradientFunction",
    "the lines of eager operations",
    _NO_RECORDING,
)
for _name in ("TFE_GetMemoryInfo", "TFE_ResetMemoryStats"):
    enter(
        f"tensorflow.python.pywrap_tfe:{_name}",
        "the allocator's counters while a long recording is not watched whole",
        "long recordings cannot rest",
    )
enter(
    "tensorflow.python.pywrap_tfe:TFE_Py_ExecuteCancelable",
    "the lines of functions that run under a cancellation manager",
    "they get none",
)
constant_op: Final = module(
    "tensorflow.python.framework.constant_op",
    "convert_to_eager_tensor",
    "the lines of constants",
    _NO_RECORDING,
)
#: Base of ``tf.compat.v1.Session``.
BaseSession: Final = part(
    "tensorflow.python.client.session:BaseSession", "the graph that a session runs", _NO_RECORDING
)
#: Computes an operation's gradient: ``(op_name, attr_tuple, num_inputs, inputs, outputs, …)``.
gradient_function: Final = part(
    "tensorflow.python.eager.backprop:_gradient_function", _GRADIENTS, _NO_RECORDING
)

#: The module with the one function that computes a tape's gradients.
imperative_grad: Final = module(
    "tensorflow.python.eager.imperative_grad",
    "imperative_grad",
    "telling gradients from temporaries",
    _NO_RECORDING,
)


@of_object("EagerTensor._id", _GRADIENTS, "eager gradients get no line of a forward operation")
def tensor_number(tensor: Any) -> int:
    """Give TensorFlow's own number for an eager tensor; -1 for anything else."""
    number = getattr(tensor, "_id", -1)
    return number if isinstance(number, int) else -1


_new_number: Final = part(
    "tensorflow.python.framework.ops:uid",
    "telling tensors that were made after a recording",
    "live_tensors gives no lines from recordings",
)


def newest_tensor_number() -> int:
    """Give a number that all tensors made from now on exceed; -1 where there is none."""
    return -1 if isinstance(_new_number, Missing) else int(_new_number())


@of_object("Operation._original_op", _GRADIENTS, "it is told by the name of a scope alone")
def original_op(operation: Any) -> Any:
    """Give the operation that this one is the gradient or a copy of; None for others."""
    return getattr(operation, "_original_op", None)


_CATEGORIES: Final = "telling what a buffer is for"
#: The module in which every variable's handle is made.
resource_variable_ops: Final = module(
    "tensorflow.python.ops.resource_variable_ops",
    "_variable_handle_from_shape_and_dtype",
    _CATEGORIES,
    _NO_RECORDING,
)
#: Gives the eager context, whose ``scope_name`` is the scope that operations are made in.
eager_context: Final = part("tensorflow.python.eager.context:context", _CATEGORIES, _NO_RECORDING)
KERAS_STATE: Final = "keras.src.backend.common.global_state"
enter(f"{KERAS_STATE}:GLOBAL_STATE_TRACKER", _CATEGORIES, "no layer is named", "Keras 3.0")


def keras_scopes() -> list[Any]:
    """Give Keras' open name scopes on this thread, each with ``name`` and ``caller``."""
    try:
        # The dictionary of this thread: to ask for an attribute that is not there takes longer.
        values = sys.modules[KERAS_STATE].GLOBAL_STATE_TRACKER.__dict__
    except (KeyError, AttributeError):
        return []
    return values.get("name_scope_stack") or []


# --- The profiler --------------------------------------------------------------------------------

#: Writes a marker into a profile that is running.
TraceMe: Final = part(
    "tensorflow.python.profiler.internal._pywrap_traceme:TraceMe",
    "marking calls in the profile",
    _NO_RECORDING,
)
_profiler: Final = module(
    "tensorflow.python.profiler.profiler_v2",
    "_profiler",
    "telling our own profiler session from somebody else's",
    _NO_RECORDING,
)


def running_profiler() -> Any:
    """Give TensorFlow's own object for the profiler session that runs, or None."""
    return _profiler._profiler


# --- The eager runtime ---------------------------------------------------------------------------

_context: Final = part(
    "tensorflow.python.eager.context:context",
    "leaving a program to set its devices up, and emptying caches of the eager runtime",
    "nothing can be recorded",
)

#: Context manager: eager mode, also while a graph is being built.
eager_mode: Final = part(
    "tensorflow.python.eager.context:eager_mode",
    "probing the allocator while a graph is being built",
    "exactness cannot be tested",
)


@of_object("Context._initialized", "leaving a program to set its devices up", "it cannot")
def runtime_is_set_up() -> bool:
    """Tell whether devices are set up, after which a program can no longer configure them."""
    return bool(getattr(_context(), "_initialized", True))


@of_object("Context._handle", "the allocator's counters", "long recordings cannot rest")
def context_handle() -> Any:
    """Give the handle of the eager context, which functions of the runtime take."""
    return _context()._handle


@of_object("Context.has_function", "whose the first values of variables are", "they are “other”")
def is_registered(function: str) -> bool:
    """Tell whether a function, by the runtime's name, may run again."""
    return bool(_context().has_function(function))


@of_object("Context.ensure_initialized", "keeping log lines of the set-up back", "they show")
def set_runtime_up() -> None:
    """Set devices up, as the first operation would."""
    getattr(_context(), "ensure_initialized", lambda: None)()


#: Class of eager tensors.
EagerTensor: Final = part(
    "tensorflow.python.framework.ops:EagerTensor", "finding tensors", "tensors are not counted"
)
#: Context manager: no tape records what is read in the block.
stop_recording: Final = part(
    "tensorflow.python.eager.record:stop_recording",
    "reading a variable behind the back of the user's tapes",
    "variables whose shape can change count no bytes",
)
_CACHES: Final = "whether a cache of the eager runtime is what grows", "that cache is not tested"
enter("tensorflow.python.pywrap_tfe:TFE_ClearScalarCache", *_CACHES)


@of_object("Context.clear_kernel_cache", *_CACHES)
def cache_cleaners() -> Iterator[tuple[str, Callable[[], None]]]:
    """Give the functions that empty caches of the eager runtime, with the caches' names."""
    for name, holder, attribute in (
        ("scalar", pywrap_tfe, "TFE_ClearScalarCache"),
        ("kernel", _context(), "clear_kernel_cache"),
    ):
        if (clear := getattr(holder, attribute, None)) is not None:
            yield name, clear


_CANCEL: Final = "stopping a graph that runs too long", "an answer stops at Python's next line only"
_Manager: Final = part("tensorflow.python.eager.cancellation:CancellationManager", *_CANCEL)
_Managed: Final = part("tensorflow.python.eager.cancellation:CancellationManagerContext", *_CANCEL)


def cancellation() -> tuple[Any, Any] | None:
    """Make a manager that can cancel running graphs, and the context that installs it."""
    if isinstance(_Manager, Missing) or isinstance(_Managed, Missing):
        return None
    manager = _Manager()
    return manager, _Managed(manager)


#: Base of all look-up tables.
LookupInterface: Final = part(
    "tensorflow.python.ops.lookup_ops:LookupInterface", "recognising tables", "they are not counted"
)


@of_object("EagerTensor._shape_tuple", "the shapes of living tensors", "each remembers its shape")
def tensor_shape(tensor: Any) -> tuple[int, ...]:
    """Give an eager tensor's shape; `Tensor.shape` makes the tensor remember an object of it."""
    shape = getattr(tensor, "_shape_tuple", None)
    return tuple(shape() if callable(shape) else tensor.shape.as_list())


_LOST: Final = "finding tables that nothing can reach", "they are native memory without a name"
#: Context manager: a tracker is told which tables and the like are made in the block.
resource_tracker_scope: Final = part(
    "tensorflow.python.trackable.resource:resource_tracker_scope", *_LOST
)


@of_object("CapturableResource._resource_handle_value", *_LOST)
def resource_handle(resource: Any) -> Any:
    """Give the handle of a table or the like, without making it one; None before it has one."""
    return getattr(resource, "_resource_handle_value", None)


@of_object("EagerTensor._summarize_value", *_LOST)
def table_name(handle: Any) -> str:
    """Give the name under which TensorFlow keeps a table; empty for anything else.

    A handle of an anonymous table keeps it alive; one of a table with a name does not.
    """
    with contextlib.suppress(AttributeError, TypeError):
        found = _TABLE.search(handle._summarize_value())
        if found and found["container"] != "Anonymous":
            return found["name"]
    return ""


_TABLE: Final = re.compile(
    r'name="(?P<name>[^"]+)".* container="(?P<container>[^"]+)", type="tensorflow::lookup::'
)
