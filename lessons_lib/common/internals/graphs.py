"""Private parts of TensorFlow's graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lessons_lib.common.internals.eager import eager_context
from lessons_lib.common.internals.entries import enter, module, of_object, part
from lessons_lib.common.runtime import tf

_GRADIENTS: Final = "telling gradients by their forward operation"
_NO_LINES: Final = "what runs inside functions, loops and branches gets no line"

func_graph: Final = module(
    "tensorflow.python.framework.func_graph",
    "func_graph_from_py_func",
    "telling what tracing takes of Python's heap from what an exercise's answer takes",
    "exercises cannot be graded",
)
_RUNS: Final = (
    "whether an exercise's answer ran a graph; which variables a training step's functions use",
    "exercises cannot be graded, and training_memory cannot be used",
)
#: Class of the eager runtime; ``call_function`` runs every function that was traced.
EagerContext: Final = part("tensorflow.python.eager.context:Context", *_RUNS)
enter("tensorflow.python.eager.context:Context.call_function", *_RUNS)


@of_object("Context.get_function_def", *_RUNS)
def function_definition(name: str) -> Any:
    """Give what a traced function consists of, by its name; None where it is not known any more."""
    try:
        return eager_context().get_function_def(name)
    except tf.errors.OpError:
        return None


@of_object(
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
extract_stack: Final = part(
    "tensorflow.python.util.tf_stack:extract_stack",
    "the user's line that calls for a trace",
    "traces cannot be watched",
)
#: Functions of AutoGraph that run a loop of Python's while tracing, as a traceback names them.
AUTOGRAPH_LOOPS: Final = ("_py_for_stmt", "_py_while_stmt")
module(
    "tensorflow.python.autograph.operators.control_flow",
    " ".join(AUTOGRAPH_LOOPS),
    "seeing that a Python loop was unrolled into a graph",
    "unrolled loops are not reported",
)


@of_object("Graph._functions", "the graphs of the functions that a graph calls", _NO_LINES)
def functions_of(graph: Any) -> Mapping[Any, Any]:
    """Give the functions that a graph calls, by name (which may be bytes)."""
    functions: Mapping[Any, Any] = graph._functions
    return functions


@of_object("Graph.version", _GRADIENTS, _NO_LINES)
def count_operations(graph: Any) -> int:
    """Tell how many operations a graph has; of the old name, which asks C++ at once."""
    return int(graph.version)


@of_object("StackTrace.get_user_frames", "reading large graphs quickly", "a graph is read slowly")
def outside_frames(trace: Any) -> list[tuple[str, int]] | None:
    """Give the frames of a graph operation's stack that are not TensorFlow's, outermost first.

    Reading the whole stack takes 25 times as long.  None where this TensorFlow cannot tell.
    """
    read = getattr(trace, "get_user_frames", None)
    return None if read is None else [(frame.filename, frame.lineno) for frame in read()]


_transpiler: Final = part(
    "tensorflow.python.autograph.impl.api:_TRANSPILER",
    "the user's line of code that AutoGraph generated",
    "what runs in it outside of a trace, or in a thread of its own, gets an outer line",
)


@of_object("PyToTF._cache", "the user's line of code that AutoGraph generated", _NO_LINES)
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


@of_object("AtomicFunction._cached_graph", "the graph that a function was traced to", _NO_LINES)
def traced_graph(function: Any) -> Any:
    """Give the graph that TensorFlow still has from tracing a function, or None."""
    return getattr(function, "_cached_graph", None)


@of_object("_CondGradFuncGraph._forward_graph", _GRADIENTS, "it is told by captured tensors")
def forward_graph(graph: Any) -> Any:
    """Give the graph that a loop's or branch's gradient differentiates, or None."""
    return getattr(graph, "_forward_graph", None)


@of_object("FuncGraph._weak_outer_graph", "who owns a graph", "graphs of loops count as orphans")
def outer_graph(graph: Any) -> Any:
    """Give the living graph around this one, or None."""
    return getattr(graph, "_weak_outer_graph", lambda: None)()
