"""What tasks ask for besides a value and its memory, as functions that look at a run."""

from __future__ import annotations

from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.exercise import Attempt, Requirement


def in_graph(*kernels: str) -> Requirement:
    """Require that every call ran a traced function with these types of operation in its graph."""

    def check(evidence: Attempt) -> str:
        calls = max(1, len(evidence.inputs.calls))
        if evidence.graphs.runs_of(*kernels) >= calls:
            return ""
        if not evidence.graphs.calls:
            return (
                "The value is right, but no graph ran: the task asks for a tf.function. "
                "Decorate your function with @tf.function, or call one in it."
            )
        return (
            f"The value is right, but not every call ran a graph with {' and '.join(kernels)} in "
            "it: put the whole computation into the tf.function."
        )

    return check


def loop_in_graph(evidence: Attempt) -> str:
    """Require that a graph with a loop in it ran."""
    graphs = evidence.graphs
    if graphs.runs_of("While") or graphs.runs_of("StatelessWhile"):
        return ""
    if not graphs.calls:
        return in_graph()(evidence)
    return (
        "The value is right, but no graph with a loop in it ran: a loop over `tf.range` or "
        "`tf.while_loop` in a tf.function puts one `While` operation into its graph."
    )


def is_variable(evidence: Attempt) -> str:
    """Require that the result is a variable."""
    if isinstance(evidence.value, tf.Variable):
        return ""
    return "The values are right, but the task asks for a tf.Variable, and this is none."


def is_function(evidence: Attempt) -> str:
    """Require that what the answer makes is a ``tf.function``."""
    if hasattr(evidence.value, "get_concrete_function"):
        return ""
    kind: Any = type(evidence.value).__name__
    return f"The values are right, but the task asks for a tf.function, and this is a plain {kind}."


def in_session(evidence: Attempt) -> str:
    """Require that a ``tf.compat.v1.Session`` ran."""
    if evidence.graphs.session_runs:
        return ""
    return (
        "The values are right, but no tf.compat.v1.Session ran: the task asks for one that runs a "
        "tf.Graph."
    )
