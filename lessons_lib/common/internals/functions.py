"""Private parts of ``tf.function`` and of trace keys."""

from __future__ import annotations

import collections
import gc
from typing import Any, Final

from lessons_lib.common.internals.entries import enter, module, of_object, part

_TRACING: Final = "tensorflow.python.eager.polymorphic_function"
_NO_TRACES: Final = "traces cannot be watched"
_NO_REPORT: Final = "trace reports cannot be made"

#: What ``tf.function`` returns.
Function: Final = part(
    f"{_TRACING}.polymorphic_function:Function", "timing the calls that trace", _NO_TRACES
)
enter("Function._call", "timing the calls that trace", _NO_TRACES)
tracing_compilation: Final = module(
    f"{_TRACING}.tracing_compilation",
    "_create_concrete_function",
    "noticing every trace",
    _NO_TRACES,
)
#: Gives the part of a trace's key that is not an argument (device, eager or graph, …).
make_function_context: Final = part(
    f"{_TRACING}.function_context:make_function_context",
    "the part of a trace's key that is not an argument",
    _NO_TRACES,
)
_ARGUMENTS: Final = "what a trace was made for", "arguments show as the names of their types"
#: Types of arguments in a trace's key.
default_types: Final = module(
    "tensorflow.core.function.trace_type.default_types",
    "Attrs Dict List Literal NamedTuple NanMarker Tuple Weakref",
    *_ARGUMENTS,
)
#: Type of an argument whose class has ``__tf_flatten__``.
CustomNestTraceType: Final = part(
    "tensorflow.core.function.trace_type.custom_nest_trace_type:CustomNestTraceType", *_ARGUMENTS
)
#: Type of a variable that is an argument.
VariableSpec: Final = part("tensorflow.python.ops.resource_variable_ops:VariableSpec", *_ARGUMENTS)


@of_object("Weakref._ref", *_ARGUMENTS)
def weak_key(type_: Any) -> Any:
    """Give the weak reference by which a trace's key knows an object."""
    return type_._ref


@of_object("Function._function_cache", "the traces that a function holds", _NO_REPORT)
def trace_cache(function: Any) -> Any:
    """Give the cache in which a ``tf.function`` keeps its traces; None before the first one."""
    return function._function_cache


@of_object("FunctionCache._primary", "the traces that a function holds", _NO_REPORT)
def traces_in(cache: Any) -> list[tuple[Any, Any]]:
    """Give a cache's traces as (context, concrete function), oldest first."""
    if cache is None:
        return []
    return [(context, concrete) for (context, _), concrete in list(cache._primary.items())]


_BOUNDED: Final = ("that a function remembers so many types only", "it is called growth")
_MOST_TYPES: Final = part(
    "tensorflow.core.function.polymorphism.type_dispatch:_MAX_DISPATCH_CACHE", *_BOUNDED
)


@of_object("TypeDispatchTable._dispatch_cache", *_BOUNDED)
def type_cache_limit(thing: object) -> int | None:
    """Give how many types of arguments a function's table of them holds; None for other objects."""
    if not isinstance(thing, collections.OrderedDict) or not isinstance(_MOST_TYPES, int):
        return None
    for holder in gc.get_referrers(thing):
        namespace = holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})
        if namespace.get("_dispatch_cache") is thing:
            return _MOST_TYPES
    return None


@of_object("Function._descriptor_cache", "a method's traces for each instance", _NO_REPORT)
def bound_functions(function: Any) -> list[Any]:
    """Give the functions that a method was bound to, one for each instance."""
    return list(function._descriptor_cache.values())


def concrete_functions(function: Any) -> list[Any]:
    """List the traces that a ``tf.function`` holds.

    TensorFlow's own list would first trace a function of a signature that was never called.
    """
    try:
        if loaded := getattr(function, "concrete_functions", None):  # from a file
            return list(loaded)
        return [trace for _, trace in traces_in(trace_cache(function))]
    except Exception:  # it may be gone, or in the middle of a first call
        return []


#: Module of the functions that are loaded from a file.
LOADED_FUNCTIONS: Final = "tensorflow.python.saved_model.function_deserialization"
module(
    LOADED_FUNCTIONS,
    "RestoredFunction",
    "telling functions that were loaded from a file",
    "their calls are reported as traces of a library's function",
)


@of_object(
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
StructuredFunctionWrapper: Final = part(
    f"{TF_DATA_FUNCTIONS}:StructuredFunctionWrapper",
    "the user's function in tf.data's map, and the lines of its operations",
    "its traces show under TensorFlow's name",
)


@of_object("StructuredFunctionWrapper._func", *_MAPPED)
def mapped_function(wrapper: Any) -> Any:
    """Give the user's function that a ``tf.data`` transformation wraps, or None."""
    return getattr(wrapper, "_func", None)


_PIPELINE: Final = "lines of what tf.data's functions allocate", "these have no lines"
#: What ``iter(dataset)`` gives.
OwnedIterator: Final = part("tensorflow.python.data.ops.iterator_ops:OwnedIterator", *_PIPELINE)
enter("OwnedIterator._create_iterator", *_PIPELINE)


@of_object("OwnedIterator._dataset", *_PIPELINE)
def dataset_of(iterator: Any) -> Any:
    """Give the data set that an iterator reads, or None."""
    return getattr(iterator, "_dataset", None)


@of_object("DatasetV2._inputs", *_PIPELINE)
def inputs_of_dataset(dataset: Any) -> list[Any]:
    """Give the data sets that one takes from."""
    return list(dataset._inputs())


@of_object("DatasetV2._functions", *_PIPELINE)
def graphs_of_dataset(dataset: Any) -> list[Any]:
    """Give the graphs of the functions that a data set's transformation runs."""
    functions = [wrapper.function for wrapper in dataset._functions()]
    return [function.graph for function in functions if hasattr(function, "graph")]
