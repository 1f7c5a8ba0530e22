"""`op_memory`: what one operation does with memory, in eager mode, in a graph and under XLA.

Everything is found out by running the operation and watching, never by its name.  It is run on the
given inputs, which are held meanwhile, and on copies that nobody else holds: what is still alive
afterwards tells whether the output shares an input's buffer, and what was not allocated the second
time was forwarded.  Addresses of buffers are compared as well.  Sizes are requested bytes.
Not seen: memory outside TensorFlow's allocator, and buffers that are no input and no output.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lessons_lib.common.arguments import check_does_work
from lessons_lib.common.gc_control import frozen_heap
from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.units import byte_range, format_bytes
from lessons_lib.instruments.measure import name_of
from lessons_lib.instruments.operations.sections import RecordedSections
from lessons_lib.instruments.operations.trial import (
    COPY,
    Trial,
    components,
    nbytes,
    sharing,
    span,
)
from lessons_lib.instruments.tracing import unobserved

#: Temporaries below this share of the largest input or output (axes, say) decide no verdict.
_MATTERS: Final = 1 / 64
_LONGEST: Final = 240  # characters of a note


class Verdict(StrEnum):
    """What an operation does with memory, in words."""

    NOTHING = "allocates nothing"
    SHARES = "shares its input"
    FORWARDS = "forwards its input"
    OUTPUT = "allocates its output"
    MORE = "needs temporaries"


@dataclass(frozen=True, slots=True)
class OpCost:
    """What an operation needs in one mode, on inputs that are held by somebody else.

    Attributes
    ----------
    verdict : Verdict
        In words; temporaries under 1/64 of the largest input or output do not decide it.
    shares : bool
        The output, or a part of it, lies in an input's buffer.
    forwards : bool
        The operation reuses the buffer of an input that nobody else needs.
    output_bytes : int
        What the output needs beyond its inputs, as long as it is kept.
    temporary_bytes : int
        What is needed beyond that while the operation runs.
    kept_bytes : int
        What the output keeps alive once its inputs are dropped, shared buffers included.
    peak_bytes : int
        Highest growth while the operation runs: output and temporaries.  Of a graph, whose
        executor runs operations in varying order, the highest of three runs.
    constant_bytes : int
        What the first call left behind for later ones: a graph's folded constants, the weights of
        a layer.
    lowest_peak_bytes : int or None
        Lowest peak of these runs; None where there was one.
    """

    verdict: Verdict
    shares: bool
    forwards: bool
    output_bytes: int
    temporary_bytes: int
    kept_bytes: int
    peak_bytes: int
    constant_bytes: int = 0
    lowest_peak_bytes: int | None = None

    @property
    def peak_range(self) -> tuple[int, int]:
        """Lowest and highest peak of all runs."""
        lowest = self.lowest_peak_bytes
        return self.peak_bytes if lowest is None else lowest, self.peak_bytes


@dataclass(frozen=True, repr=False)
class OpMemory(Result):
    """What an operation does with memory in each mode.

    Attributes
    ----------
    op : str
        Its name.
    input_bytes : int
        Bytes of its tensors and variables together.
    eager : OpCost
    graph, xla : OpCost or None
        None where the operation cannot run, or was not asked to; `notes` says why.
    notes : tuple of str
        What a reader must know, in sentences.
    """

    op: str
    input_bytes: int
    eager: OpCost
    graph: OpCost | None
    xla: OpCost | None = None
    notes: tuple[str, ...] = ()

    @property
    def modes(self) -> dict[str, OpCost]:
        """The modes that were measured, by name."""
        costs = {"eager": self.eager, "graph": self.graph, "xla": self.xla}
        return {mode: cost for mode, cost in costs.items() if cost is not None}

    def __repr__(self) -> str:
        said = (
            f"{mode} {cost.verdict} (peak {byte_range(*cost.peak_range)})"
            for mode, cost in self.modes.items()
        )
        return f"<OpMemory {self.op}: {', '.join(said)}>"


@summary_html.register
def _(result: OpMemory) -> str:
    rows = [
        (
            mode,
            cost.verdict,
            "yes" if cost.shares else "no",
            "yes" if cost.forwards else "no",
            format_bytes(cost.output_bytes),
            byte_range(*(max(0, peak - cost.output_bytes) for peak in cost.peak_range)),
            format_bytes(cost.kept_bytes),
            format_bytes(cost.constant_bytes),
        )
        for mode, cost in result.modes.items()
    ]
    headers = (
        f"{result.op} on {format_bytes(result.input_bytes)}",
        "verdict",
        "shares",
        "forwards",
        "output",
        "temporaries",
        "output keeps alive",
        "constants kept",
    )
    table = html_table(headers, rows, align="llllrrrr")
    return table + notes_table(result.notes)


def op_memory(op: Callable[..., Any], *inputs: Any, xla: bool = False, label: str = "") -> OpMemory:
    """Find out what an operation does with memory.

    Parameters
    ----------
    op : callable
        An operation, a layer, or any function of tensors: ``tf.tanh``, ``lambda x: x[0]``.
    *inputs
        Its arguments.  Tensors and variables, also inside lists and dicts, are its inputs; NumPy
        arrays are made into tensors first; anything else is handed over as it is.
    xla : bool
        Whether to measure it compiled by XLA as well, which takes a moment.
    label : str
        A name for it; by default the function's own.

    Returns
    -------
    OpMemory

    Raises
    ------
    TypeError
        If `op` cannot be called, or an input is a symbolic tensor.
    Exception
        Whatever the operation raises in eager mode.

    Notes
    -----
    The operation is called about ten times, so a change that it makes to a variable is made as
    often.  Inputs that a function finds by itself (closures) are not known as inputs.

    Examples
    --------
    >>> x = tf.random.uniform([512, 512])
    >>> op_memory(lambda x: x[0], x).eager.kept_bytes == x.shape.num_elements() * 4
    True
    """
    if not callable(op):
        raise TypeError(
            f"op_memory calls an operation with its inputs, and {type(op).__name__} cannot be "
            "called: give a function, for example op_memory(tf.sin, x)"
        )
    check_does_work(op, "op_memory")
    require_home_process()
    with frozen_heap():  # what was there before need not be looked at
        try:
            return study(op, inputs, xla=xla, label=label or name_of(op))
        finally:
            gc.collect()  # graphs are in reference cycles, and hold their constants until then


def _cost(
    trial: Trial, held_call: Callable[[], Any], fresh_call: Callable[[], Any], *, repeats: int
) -> tuple[OpCost, frozenset[str]]:
    """Measure one mode: calls on inputs that are held, and calls on copies that nobody holds.

    Also name the functions that ran.
    """
    shared: list[list[int] | None] = []
    output_sizes = [1]
    names = [f"held {turn}" for turn in range(repeats)]
    with RecordedSections() as sections:
        with sections.section("first"):
            held_call()  # traces, and makes what later calls find; its output is dropped at once
        for name in names:
            before = [span(value) for value in trial.held]
            with sections.section(name):
                output = held_call()
            shared.append(sharing(output, before))
            output_sizes.append(sum(map(nbytes, components(output))))
            del output
        fresh_call()
        with sections.section("fresh"):
            output = fresh_call()
        # What is read from a variable keeps its buffer, which was there before the section.
        read = sharing(output, [span(variable) for variable in trial.variables]) or ()
        of_variables = sum(nbytes(trial.variables[i]) for i in read)
        del output
    held = [sections.results[name] for name in names]
    fresh = sections.results["fresh"]
    worst = max(held, key=lambda section: section.peak_bytes)
    output_bytes = max(0, worst.kept_bytes)
    # Executors free and forward in varying order, so only what every run allocated counts.
    allocated = min(section.allocated_bytes for section in held)
    forwarded = allocated - (fresh.allocated_bytes - fresh.by_op.get(COPY, 0))
    matters = _MATTERS * max(*output_sizes, *map(nbytes, trial.held), 1)
    # Where addresses cannot be told, an output that keeps its input alive is taken to share it.
    unknown = all(found is None for found in shared)
    shares = fresh.kept_bytes > output_bytes if unknown else any(shared)
    forwards = not shares and forwarded > matters
    cost = OpCost(
        verdict=_verdict(shares, forwards, output_bytes, worst.peak_bytes, matters),
        shares=shares,
        forwards=forwards,
        output_bytes=output_bytes,
        temporary_bytes=worst.peak_bytes - output_bytes,
        kept_bytes=max(0, fresh.kept_bytes) + of_variables,
        peak_bytes=worst.peak_bytes,
        constant_bytes=max(0, sections.results["first"].kept_bytes),
        lowest_peak_bytes=min(section.peak_bytes for section in held),
    )
    return cost, worst.functions


def _verdict(shares: bool, forwards: bool, output: int, peak: int, matters: float) -> Verdict:
    if peak - output > matters:
        return Verdict.MORE
    if shares and output <= matters:
        return Verdict.SHARES
    if not output:
        return Verdict.NOTHING
    return Verdict.FORWARDS if forwards else Verdict.OUTPUT


def study(op: Callable[..., Any], inputs: tuple[Any, ...], *, xla: bool, label: str) -> OpMemory:
    """Measure an operation; `op_memory` without its checks, and without collecting garbage."""
    trial = Trial(op, inputs)
    notes: list[str] = []
    with unobserved():
        eager, functions = _cost(
            trial,
            lambda: trial.call(trial.tensors),
            lambda: trial.call(trial.copies(trial.tensors)),
            repeats=1,
        )
        names = "; ".join(sorted(functions - {""}))
        if hasattr(op, "get_concrete_function"):
            said = f" ({names})" if names else ""
            notes.append(f"{label} is a tf.function{said}, so “eager” is a call of its graph.")
        elif names:
            notes.append(f"{label} calls a tf.function ({names}), which “eager” runs as a graph.")
        graph = _attempt(trial, "in a graph", False, label, notes)
        compiled = _attempt(trial, "under XLA", True, label, notes) if xla else None
    return OpMemory(
        op=label,
        input_bytes=trial.input_bytes,
        eager=eager,
        graph=graph,
        xla=compiled,
        notes=tuple(notes),
    )


def _attempt(trial: Trial, mode: str, xla: bool, label: str, notes: list[str]) -> OpCost | None:
    """Measure in a graph; where that cannot be, note why and go on, as other modes can be."""
    try:
        try:
            return _in_graph(trial, xla)
        except tf.errors.OperatorNotAllowedInGraphError:
            # Python's `if` on a tensor needs AutoGraph, which for most operations is only slow.
            trial.autograph = True
            return _in_graph(trial, xla)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[-1 if lines[:1] == ["in user code:"] else 0] if lines else ""
        said = f"{label} cannot run {mode}: {type(error).__name__}: {reason}"
        notes.append(said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…")
        return None


def _in_graph(trial: Trial, xla: bool) -> OpCost:
    held = trial.function(copying=False, xla=xla)
    if xla:  # there is no copying under XLA: the copies come from outside and are then dropped
        cost, _ = _cost(
            trial,
            lambda: held(trial.tensors),
            lambda: held(trial.copies(trial.tensors)),
            repeats=2,
        )
        return cost
    fresh = trial.function(copying=True)
    cost, _ = _cost(trial, lambda: held(trial.tensors), lambda: fresh(trial.tensors), repeats=3)
    return cost
