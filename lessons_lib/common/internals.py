"""Everything private of TensorFlow, Keras, IPython and CPython that this package uses.

Whoever takes on a new version of one of them looks here: each entry of `INTERNALS` says what a
private part is for, since which version it is known to be there (2.16 is the oldest TensorFlow
that is supported), and what happens without it.  ``tests/common/test_internals.py`` uses every
one of them, so that a new version fails there, in one readable place.

A part of a module that is not there becomes a `Missing`, which raises one clear sentence when it
is used; the rest of the package goes on working.  Parts of objects are read by functions.

Not here, because documented: ``sys._getframe``, ``sys._current_frames``, ``tf.raw_ops``, and all
that ``dir(tf)`` shows.  The names in a profile are in `lessons_lib.recording.profile_format`.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lessons_lib.common.runtime import tf

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Internal:
    """A private part of another package.

    Attributes
    ----------
    name : str
        ``module:name`` for a part of a module, ``Class.name`` for a part of an object.
    use : str
        What for.
    without : str
        What happens where it is missing.
    since : str
        The first version known to have it; of TensorFlow, where no other name is given.
    """

    name: str
    use: str
    without: str
    since: str


class MissingInternal(ImportError):
    """A private part of TensorFlow that is needed is not there."""


class Missing:
    """Stands for a part that this TensorFlow does not have; any use of it raises."""

    def __init__(self, internal: Internal) -> None:
        object.__setattr__(self, "internal", internal)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        internal: Internal = object.__getattribute__(self, "internal")
        raise MissingInternal(
            f"TensorFlow {tf.__version__} has no {internal.name}, which lessons_lib needs for "
            f"{internal.use}: use TensorFlow 2.16 to 2.21, or a newer lessons_lib"
        )

    __call__ = __getattr__ = __setattr__ = _refuse


#: All of them, by name.
INTERNALS: Final[dict[str, Internal]] = {}


def find(name: str) -> Any:
    """Give what an entry ``module:name`` names.

    Raises
    ------
    ImportError, AttributeError
        If there is no such module, or no such name in it.
    """
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def _enter(name: str, use: str, without: str, since: str = "2.16") -> Internal:
    return INTERNALS.setdefault(name, Internal(name, use, without, since))


def _part(name: str, use: str, without: str, since: str = "2.16") -> Any:
    """Enter a part of a module, and give it."""
    internal = _enter(name, use, without, since)
    try:
        return find(name)
    except (ImportError, AttributeError):
        return Missing(internal)


def _module(name: str, parts: str, use: str, without: str, since: str = "2.16") -> Any:
    """Enter parts of a module, and give the module: for functions that are replaced in it."""
    for part in parts.split():
        _enter(f"{name}:{part}", use, without, since)
    return _part(f"{name}:", use, without, since)


def _of_object(name: str, use: str, without: str, since: str = "2.16") -> Callable[[_F], _F]:
    """Enter a part of an object, which the decorated function reads."""
    _enter(name, use, without, since)
    return lambda function: function


# --- Calls of eager TensorFlow -------------------------------------------------------------------

_NO_RECORDING: Final = "nothing can be recorded"
_GRADIENTS: Final = "telling gradients by their forward operation"

pywrap_tfe: Final = _module(
    "tensorflow.python.pywrap_tfe",
    "TFE_Py_FastPathExecute TFE_Py_Execute TFE_Py_TapeSetIsEmpty TFE_Py_RegisterGradientFunction",
    "the lines of eager operations",
    _NO_RECORDING,
)
_enter(
    "tensorflow.python.pywrap_tfe:TFE_Py_ExecuteCancelable",
    "the lines of functions that run under a cancellation manager",
    "they get none",
)
constant_op: Final = _module(
    "tensorflow.python.framework.constant_op",
    "convert_to_eager_tensor",
    "the lines of constants",
    _NO_RECORDING,
)
#: Base of ``tf.compat.v1.Session``.
BaseSession: Final = _part(
    "tensorflow.python.client.session:BaseSession", "the graph that a session runs", _NO_RECORDING
)
#: Computes an operation's gradient: ``(op_name, attr_tuple, num_inputs, inputs, outputs, …)``.
gradient_function: Final = _part(
    "tensorflow.python.eager.backprop:_gradient_function", _GRADIENTS, _NO_RECORDING
)

#: The module with the one function that computes a tape's gradients.
imperative_grad: Final = _module(
    "tensorflow.python.eager.imperative_grad",
    "imperative_grad",
    "telling gradients from temporaries",
    _NO_RECORDING,
)


@_of_object("EagerTensor._id", _GRADIENTS, "eager gradients get no line of a forward operation")
def tensor_number(tensor: Any) -> int:
    """Give TensorFlow's own number for an eager tensor; -1 for anything else."""
    number = getattr(tensor, "_id", -1)
    return number if isinstance(number, int) else -1


@_of_object("Operation._original_op", _GRADIENTS, "it is told by the name of a scope alone")
def original_op(operation: Any) -> Any:
    """Give the operation that this one is the gradient or a copy of; None for others."""
    return getattr(operation, "_original_op", None)


_CATEGORIES: Final = "telling what a buffer is for"
#: The module in which every variable's handle is made.
resource_variable_ops: Final = _module(
    "tensorflow.python.ops.resource_variable_ops",
    "_variable_handle_from_shape_and_dtype",
    _CATEGORIES,
    _NO_RECORDING,
)
#: Gives the eager context, whose ``scope_name`` is the scope that operations are made in.
eager_context: Final = _part("tensorflow.python.eager.context:context", _CATEGORIES, _NO_RECORDING)
_KERAS_STATE: Final = "keras.src.backend.common.global_state"
_enter(f"{_KERAS_STATE}:GLOBAL_STATE_TRACKER", _CATEGORIES, "no layer is named", "Keras 3.0")


def keras_scopes() -> list[Any]:
    """Give Keras' open name scopes on this thread, each with ``name`` and ``caller``."""
    state = sys.modules.get(_KERAS_STATE)
    tracker = getattr(state, "GLOBAL_STATE_TRACKER", None)
    return getattr(tracker, "name_scope_stack", None) or []


# --- The profiler --------------------------------------------------------------------------------

#: Writes a marker into a profile that is running.
TraceMe: Final = _part(
    "tensorflow.python.profiler.internal._pywrap_traceme:TraceMe",
    "marking calls in the profile",
    _NO_RECORDING,
)
_profiler: Final = _module(
    "tensorflow.python.profiler.profiler_v2",
    "_profiler",
    "telling our own profiler session from somebody else's",
    _NO_RECORDING,
)
_PROFILE: Final = "profiler.protobuf.xplane_pb2:XSpace"
_enter(f"tensorflow.tsl.{_PROFILE}", "reading what the profiler wrote", _NO_RECORDING)


def profile_message() -> Any:
    """Give the class of a profile's message; None where it is in none of the places known."""
    for package in ("tsl", "core"):
        try:
            return find(f"tensorflow.{package}.{_PROFILE}")
        except (ImportError, AttributeError):
            continue
    return None


def running_profiler() -> Any:
    """Give TensorFlow's own object for the profiler session that runs, or None."""
    return _profiler._profiler


# --- The eager runtime ---------------------------------------------------------------------------

_context: Final = _part(
    "tensorflow.python.eager.context:context",
    "leaving a program to set its devices up, and emptying caches of the eager runtime",
    "nothing can be recorded",
)

#: Context manager: eager mode, also while a graph is being built.
eager_mode: Final = _part(
    "tensorflow.python.eager.context:eager_mode",
    "probing the allocator while a graph is being built",
    "exactness cannot be tested",
)


@_of_object("Context._initialized", "leaving a program to set its devices up", "it cannot")
def runtime_is_set_up() -> bool:
    """Tell whether devices are set up, after which a program can no longer configure them."""
    return bool(getattr(_context(), "_initialized", True))


@_of_object("Context.ensure_initialized", "keeping log lines of the set-up back", "they show")
def set_runtime_up() -> None:
    """Set devices up, as the first operation would."""
    getattr(_context(), "ensure_initialized", lambda: None)()


#: Class of eager tensors.
EagerTensor: Final = _part(
    "tensorflow.python.framework.ops:EagerTensor", "finding tensors", "tensors are not counted"
)
#: Context manager: no tape records what is read in the block.
stop_recording: Final = _part(
    "tensorflow.python.eager.record:stop_recording",
    "reading a variable behind the back of the user's tapes",
    "variables whose shape can change count no bytes",
)
_CACHES: Final = "whether a cache of the eager runtime is what grows", "that cache is not tested"
_enter("tensorflow.python.pywrap_tfe:TFE_ClearScalarCache", *_CACHES)


@_of_object("Context.clear_kernel_cache", *_CACHES)
def cache_cleaners() -> Iterator[tuple[str, Callable[[], None]]]:
    """Give the functions that empty caches of the eager runtime, with the caches' names."""
    for name, holder, attribute in (
        ("scalar", pywrap_tfe, "TFE_ClearScalarCache"),
        ("kernel", _context(), "clear_kernel_cache"),
    ):
        if (clear := getattr(holder, attribute, None)) is not None:
            yield name, clear


_CANCEL: Final = "stopping a graph that runs too long", "an answer stops at Python's next line only"
_Manager: Final = _part("tensorflow.python.eager.cancellation:CancellationManager", *_CANCEL)
_Managed: Final = _part("tensorflow.python.eager.cancellation:CancellationManagerContext", *_CANCEL)


def cancellation() -> tuple[Any, Any] | None:
    """Make a manager that can cancel running graphs, and the context that installs it."""
    if isinstance(_Manager, Missing) or isinstance(_Managed, Missing):
        return None
    manager = _Manager()
    return manager, _Managed(manager)


#: Base of all look-up tables.
LookupInterface: Final = _part(
    "tensorflow.python.ops.lookup_ops:LookupInterface", "recognising tables", "they are not counted"
)


# --- Graphs --------------------------------------------------------------------------------------

_NO_LINES: Final = "what runs inside functions, loops and branches gets no line"

_RUNS: Final = "whether an exercise's answer ran a graph", "exercises cannot be graded"
#: Class of the eager runtime; ``call_function`` runs every function that was traced.
EagerContext: Final = _part("tensorflow.python.eager.context:Context", *_RUNS)
_enter("tensorflow.python.eager.context:Context.call_function", *_RUNS)


@_of_object("Context.get_function_def", *_RUNS)
def function_definition(name: str) -> Any:
    """Give what a traced function consists of, by its name; None where it is not known any more."""
    try:
        return _context().get_function_def(name)
    except tf.errors.OpError:
        return None


@_of_object(
    "ag_error_metadata",
    "the words and the user's line of an error in a tf.function",
    "AutoGraph's report is shown instead",
)
def traced_error(error: BaseException) -> tuple[str, list[Any]] | None:
    """Give an error's own words and its stack in the user's code, if AutoGraph has wrapped it."""
    told = getattr(error, "ag_error_metadata", None)
    if told is None:
        return None
    return told.cause_message.partition(": ")[2], list(told.translated_stack)


#: Gives TensorFlow's stack of the caller, with AutoGraph's lines mapped to the user's.
extract_stack: Final = _part(
    "tensorflow.python.util.tf_stack:extract_stack",
    "the user's line that calls for a trace",
    "traces cannot be watched",
)
#: Functions of AutoGraph that run a loop of Python's while tracing, as a traceback names them.
AUTOGRAPH_LOOPS: Final = ("_py_for_stmt", "_py_while_stmt")
_module(
    "tensorflow.python.autograph.operators.control_flow",
    " ".join(AUTOGRAPH_LOOPS),
    "seeing that a Python loop was unrolled into a graph",
    "unrolled loops are not reported",
)


@_of_object("Graph._functions", "the graphs of the functions that a graph calls", _NO_LINES)
def functions_of(graph: Any) -> Mapping[Any, Any]:
    """Give the functions that a graph calls, by name (which may be bytes)."""
    functions: Mapping[Any, Any] = graph._functions
    return functions


@_of_object("Graph.version", _GRADIENTS, _NO_LINES)
def count_operations(graph: Any) -> int:
    """Tell how many operations a graph has; of the old name, which asks C++ at once."""
    return int(graph.version)


@_of_object("StackTrace.get_user_frames", "reading large graphs quickly", "a graph is read slowly")
def outside_frames(trace: Any) -> list[tuple[str, int]] | None:
    """Give the frames of a graph operation's stack that are not TensorFlow's, outermost first.

    Reading the whole stack takes 25 times as long.  None where this TensorFlow cannot tell.
    """
    read = getattr(trace, "get_user_frames", None)
    return None if read is None else [(frame.filename, frame.lineno) for frame in read()]


_transpiler: Final = _part(
    "tensorflow.python.autograph.impl.api:_TRANSPILER",
    "the user's line of code that AutoGraph generated",
    "what runs in it outside of a trace, or in a thread of its own, gets an outer line",
)


@_of_object("PyToTF._cache", "the user's line of code that AutoGraph generated", _NO_LINES)
def autograph_lines(filename: str) -> dict[int, tuple[str, int]]:
    """Map the lines of a file that AutoGraph generated to the user's files and lines."""
    try:
        known = list(_transpiler._cache._cache.values())
        for factory in (one for some in known for one in list(some.values())):
            if factory.module.__file__ == filename:
                return {
                    generated.lineno: (origin.loc.filename, origin.loc.lineno)
                    for generated, origin in factory.source_map.items()
                }
    except Exception:  # another TensorFlow, or another thread that converts just now
        return {}
    return {}


@_of_object("AtomicFunction._cached_graph", "the graph that a function was traced to", _NO_LINES)
def traced_graph(function: Any) -> Any:
    """Give the graph that TensorFlow still has from tracing a function, or None."""
    return getattr(function, "_cached_graph", None)


@_of_object("_CondGradFuncGraph._forward_graph", _GRADIENTS, "it is told by captured tensors")
def forward_graph(graph: Any) -> Any:
    """Give the graph that a loop's or branch's gradient differentiates, or None."""
    return getattr(graph, "_forward_graph", None)


@_of_object("FuncGraph._weak_outer_graph", "who owns a graph", "graphs of loops count as orphans")
def outer_graph(graph: Any) -> Any:
    """Give the living graph around this one, or None."""
    return getattr(graph, "_weak_outer_graph", lambda: None)()


# --- tf.function ---------------------------------------------------------------------------------

_TRACING: Final = "tensorflow.python.eager.polymorphic_function"
_NO_TRACES: Final = "traces cannot be watched"
_NO_REPORT: Final = "trace reports cannot be made"

#: What ``tf.function`` returns.
Function: Final = _part(
    f"{_TRACING}.polymorphic_function:Function", "timing the calls that trace", _NO_TRACES
)
_enter("Function._call", "timing the calls that trace", _NO_TRACES)
tracing_compilation: Final = _module(
    f"{_TRACING}.tracing_compilation",
    "_create_concrete_function",
    "noticing every trace",
    _NO_TRACES,
)
#: Gives the part of a trace's key that is not an argument (device, eager or graph, …).
make_function_context: Final = _part(
    f"{_TRACING}.function_context:make_function_context",
    "the part of a trace's key that is not an argument",
    _NO_TRACES,
)
_ARGUMENTS: Final = "what a trace was made for", "arguments show as the names of their types"
#: Types of arguments in a trace's key.
default_types: Final = _module(
    "tensorflow.core.function.trace_type.default_types",
    "Attrs Dict List Literal NamedTuple NanMarker Tuple Weakref",
    *_ARGUMENTS,
)
#: Type of an argument whose class has ``__tf_flatten__``.
CustomNestTraceType: Final = _part(
    "tensorflow.core.function.trace_type.custom_nest_trace_type:CustomNestTraceType", *_ARGUMENTS
)
#: Type of a variable that is an argument.
VariableSpec: Final = _part("tensorflow.python.ops.resource_variable_ops:VariableSpec", *_ARGUMENTS)


@_of_object("Weakref._ref", *_ARGUMENTS)
def weak_key(type_: Any) -> Any:
    """Give the weak reference by which a trace's key knows an object."""
    return type_._ref


@_of_object("Function._function_cache", "the traces that a function holds", _NO_REPORT)
def trace_cache(function: Any) -> Any:
    """Give the cache in which a ``tf.function`` keeps its traces; None before the first one."""
    return function._function_cache


@_of_object("FunctionCache._primary", "the traces that a function holds", _NO_REPORT)
def traces_in(cache: Any) -> list[tuple[Any, Any]]:
    """Give a cache's traces as (context, concrete function), oldest first."""
    if cache is None:
        return []
    return [(context, concrete) for (context, _), concrete in list(cache._primary.items())]


@_of_object("Function._descriptor_cache", "a method's traces for each instance", _NO_REPORT)
def bound_functions(function: Any) -> list[Any]:
    """Give the functions that a method was bound to, one for each instance."""
    return list(function._descriptor_cache.values())


@_of_object("Function._list_all_concrete_functions", "counting traces", "growth counts none")
def concrete_functions(function: Any) -> list[Any]:
    """List the traces that a ``tf.function`` holds."""
    try:
        return list(function._list_all_concrete_functions())
    except Exception:  # it may be gone, or fail in the middle of a first call
        return []


#: Module of the functions that are loaded from a file.
LOADED_FUNCTIONS: Final = "tensorflow.python.saved_model.function_deserialization"
_module(
    LOADED_FUNCTIONS,
    "RestoredFunction",
    "telling functions that were loaded from a file",
    "their calls are reported as traces of a library's function",
)


@_of_object(
    "IteratorSpec._element_spec",
    "what an iterator gives, where it is an argument",
    "iterators of several kinds are told apart by their whole text",
)
def elements_of(type_: Any) -> Any:
    """Give the structure of what an iterator or data set gives; None for other types."""
    return getattr(type_, "element_spec", getattr(type_, "_element_spec", None))


_MAPPED: Final = "the user's function in tf.data's map", "its traces show under TensorFlow's name"
#: Module of the functions that ``tf.data`` makes around the user's.
TF_DATA_FUNCTIONS: Final = "tensorflow.python.data.ops.structured_function"
_module(TF_DATA_FUNCTIONS, "StructuredFunctionWrapper", *_MAPPED)


@_of_object("StructuredFunctionWrapper._func", *_MAPPED)
def mapped_function(wrapper: Any) -> Any:
    """Give the user's function that a ``tf.data`` transformation wraps, or None."""
    return getattr(wrapper, "_func", None)


# --- Keras, IPython and CPython ------------------------------------------------------------------

#: Module in which Keras makes ``train_function``, ``test_function`` and ``predict_function``.
KERAS_TRAINER: Final = "keras.src.backend.tensorflow.trainer"
_TRAINER: Final = f"{KERAS_TRAINER}:TensorFlowTrainer.make_train_function"
_enter(_TRAINER, "advice on models that are made anew", "the general advice is given", "Keras 3.0")


@_of_object("Layer._flatten_layers", "a model's layers", "training cannot be split", "Keras 3.0")
def layers_of(model: Any) -> list[Any]:
    """List a model's innermost layers and the ones that hold them, the model itself left out."""
    return list(model._flatten_layers(include_self=False))


_IN_FILE: Final = "lines show under the name that IPython gives to a cell's file"


@_of_object("CachingCompiler._filename_map", "the number of a line's cell", _IN_FILE, "IPython 8.0")
def cell_numbers() -> Mapping[str, int]:
    """Give the numbers of the notebook's cells, by the file names of their code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    known = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return known if isinstance(known, dict) else {}


@_of_object("Snapshot.traces._traces", "summing very many blocks", "growth fails", "CPython 3.11")
def traced_blocks() -> list[tuple[Any, ...]]:
    """Give what tracemalloc knows, as tuples that begin with the domain and the bytes."""
    traces: Any = tracemalloc.take_snapshot().traces
    blocks: list[tuple[Any, ...]] = traces._traces
    return blocks


_MADE: Final = "where an instance was made, for which Python 3.11 looks at a wrong address"


@_of_object("_PyTraceMalloc_GetTraceback", _MADE, "instances show without a line", "CPython 3.11")
def traceback_at(address: int) -> list[tuple[str, int]]:
    """Give the frames (file, line) that allocated the block at an address, innermost first."""
    try:
        look = ctypes.pythonapi._PyTraceMalloc_GetTraceback
    except AttributeError:
        return []
    look.argtypes, look.restype = [ctypes.c_uint, ctypes.c_size_t], ctypes.py_object
    return list(look(0, address) or ())


#: Type of the entries of a ``functools.lru_cache``, which refer to each other.
LRU_LINK: Final = "functools._lru_list_elem"
_enter(LRU_LINK, "leaving a cache's links out of a chain", "the links show", "CPython 3.11")


@_of_object("re._cache", "that its cache is bounded", "this is not said", "CPython 3.11")
def pattern_cache_limit(thing: object) -> int | None:
    """Give how many expressions Python's own cache of them holds; None for other objects."""
    if any(thing is getattr(re, name, None) for name in ("_cache", "_cache2")):
        return int(getattr(re, "_MAXCACHE", 512))
    return None


# --- NumPy ---------------------------------------------------------------------------------------


@_of_object(
    "_multiarray_umath._ARRAY_API",
    "NumPy's C API, for its functions that replace the allocator",
    "exercises cannot be graded",
    "NumPy 1.22",
)
def numpy_api() -> Any:
    """Give the capsule with the table of NumPy's C functions."""
    try:
        module = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:  # NumPy 1
        module = importlib.import_module("numpy.core._multiarray_umath")
    return module._ARRAY_API
