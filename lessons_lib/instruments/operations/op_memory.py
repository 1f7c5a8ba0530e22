"""`op_memory`: what one operation does with memory, in eager mode, in a graph and under XLA.

Everything is found out by running the operation and watching, never by its name.  It is run on the
given inputs, which are held meanwhile, and on copies that nobody else holds: what is still alive
afterwards tells whether the output shares an input's buffer, and what was not allocated the second
time was forwarded.  Addresses of buffers are compared as well.  Sizes are requested bytes.
Not seen: memory outside TensorFlow's allocator, and buffers that are no input and no output.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.measure import name_of
from lessons_lib.instruments.operations.sections import Phases
from lessons_lib.instruments.tracing import unobserved

#: Temporaries below this share of the largest input or output (axes, say) decide no verdict.
_MATTERS: Final = 1 / 64
_COPY: Final = "DeepCopy"
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
        Highest growth while the operation runs: output and temporaries.
    constant_bytes : int
        What the first call left behind for later ones: a graph's folded constants, the weights of
        a layer.
    """

    verdict: Verdict
    shares: bool
    forwards: bool
    output_bytes: int
    temporary_bytes: int
    kept_bytes: int
    peak_bytes: int
    constant_bytes: int = 0


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
            f"{mode} {cost.verdict} (peak {format_bytes(cost.peak_bytes)})"
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
            format_bytes(cost.temporary_bytes),
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
    require_home_process()
    try:
        return study(op, inputs, xla=xla, label=label or name_of(op))
    finally:
        gc.collect()  # graphs are in reference cycles, and hold their constants until then


class _Trial:
    """An operation with its inputs, ready to be run in any mode."""

    def __init__(self, op: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        self.op = op
        self.autograph = False
        self._structure = inputs
        self._given = [_prepared(value) for value in tf.nest.flatten(inputs)]
        self._places = [i for i, v in enumerate(self._given) if _is_dynamic(v)]
        self.tensors = [self._given[i] for i in self._places]
        self.held = [*_components(self.tensors), *filter(_is_variable, self._given)]

    def call(self, tensors: list[Any]) -> Any:
        given = list(self._given)
        for place, tensor in zip(self._places, tensors, strict=True):
            given[place] = tensor
        return self.op(*tf.nest.pack_sequence_as(self._structure, given))

    def copies(self, tensors: list[Any]) -> list[Any]:
        """Copy tensors, so that nobody else holds them."""
        return [tf.nest.map_structure(_copied, t, expand_composites=True) for t in tensors]

    def function(self, *, copying: bool, xla: bool = False) -> Callable[[list[Any]], Any]:
        """Make a graph; one that copies its inputs itself if wanted."""
        # A partial has no code object, by which TensorFlow would count traces and warn of many.
        run = functools.partial(_run_in_graph, self.copies if copying else None, self.call)
        return tf.function(run, autograph=self.autograph, jit_compile=True if xla else None)


def _run_in_graph(
    copies: Callable[[list[Any]], list[Any]] | None,
    call: Callable[[list[Any]], Any],
    tensors: list[Any],
) -> Any:
    return call(tensors if copies is None else copies(tensors))


def _copied(tensor: Any) -> Any:
    # Unlike tf.identity it really copies, and no optimiser removes it.
    return tf.raw_ops.DeepCopy(x=tensor)


def _prepared(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return tf.constant(value)
    if tf.is_tensor(value) and not tf.is_symbolic_tensor(value):
        return value
    if tf.is_tensor(value):
        raise TypeError(
            f"op_memory needs tensors with values, and {value!r} is symbolic: "
            "call it outside of a tf.function, with eager tensors"
        )
    return value


def _is_variable(value: Any) -> bool:
    return isinstance(value, tf.Variable) or hasattr(value, "assign")


def _is_dynamic(value: Any) -> bool:
    return bool(tf.is_tensor(value)) and not _is_variable(value)


def _components(values: Any) -> Iterator[Any]:
    for value in tf.nest.flatten(values, expand_composites=True):
        if tf.is_tensor(value) or _is_variable(value):
            yield value


def _span(value: Any) -> tuple[int, int]:
    """Give the addresses between which a tensor lies; (0, 0) where they cannot be told."""
    try:
        if _is_variable(value):
            tensor, again = tf.convert_to_tensor(value), tf.convert_to_tensor(value)
        else:
            tensor = again = value
        view, second = np.asarray(tensor), np.asarray(again)
    except (TypeError, ValueError, NotImplementedError, tf.errors.OpError):
        return 0, 0
    if view.flags.owndata or view.dtype.hasobject or not view.nbytes:
        return 0, 0
    # A variable that is copied whenever it is read does not show where it lies.
    if view.ctypes.data != second.ctypes.data:
        return 0, 0
    return view.ctypes.data, view.ctypes.data + view.nbytes


def _lies_in(outputs: Any, spans: list[tuple[int, int]]) -> bool | None:
    """Tell whether an output begins in one of the inputs; None where no address is known."""
    starts = [start for output in _components(outputs) if (start := _span(output)[0])]
    known = [span for span in spans if span[0]]
    if not starts or not known:
        return None
    return any(low <= start < high for start in starts for low, high in known)


def _nbytes(value: Any) -> int:
    try:
        size = value.shape.num_elements() if hasattr(value.shape, "num_elements") else None
        size = int(np.prod(tuple(value.shape))) if size is None else size
        return int(size) * int(tf.as_dtype(value.dtype).size)
    except (TypeError, ValueError):
        return 0


def _cost(
    trial: _Trial, held_call: Callable[[], Any], fresh_call: Callable[[], Any], *, repeats: int
) -> OpCost:
    """Measure one mode: calls on inputs that are held, and calls on copies that nobody holds."""
    spans: list[bool | None] = []
    output_sizes = [1]
    names = [f"held {turn}" for turn in range(repeats)]
    with Phases() as phases:
        with phases.phase("first"):
            held_call()  # traces, and makes what later calls find; its output is dropped at once
        for name in names:
            before = [_span(value) for value in trial.held]
            with phases.phase(name):
                output = held_call()
            spans.append(_lies_in(output, before))
            output_sizes.append(sum(map(_nbytes, _components(output))))
            del output
        fresh_call()
        with phases.phase("fresh"):
            output = fresh_call()
        del output
    held = [phases.results[name] for name in names]
    fresh = phases.results["fresh"]
    worst = max(held, key=lambda phase: phase.peak_bytes)
    output_bytes = max(0, worst.kept_bytes)
    # Executors free and forward in varying order, so only what every run allocated counts.
    allocated = min(phase.allocated_bytes for phase in held)
    forwarded = allocated - (fresh.allocated_bytes - fresh.by_op.get(_COPY, 0))
    matters = _MATTERS * max(*output_sizes, *map(_nbytes, trial.held), 1)
    # Where addresses cannot be told, an output that keeps its input alive is taken to share it.
    unknown = all(span is None for span in spans)
    shares = fresh.kept_bytes > output_bytes if unknown else any(spans)
    forwards = not shares and forwarded > matters
    return OpCost(
        verdict=_verdict(shares, forwards, output_bytes, worst.peak_bytes, matters),
        shares=shares,
        forwards=forwards,
        output_bytes=output_bytes,
        temporary_bytes=worst.peak_bytes - output_bytes,
        kept_bytes=max(0, fresh.kept_bytes),
        peak_bytes=worst.peak_bytes,
        constant_bytes=max(0, phases.results["first"].kept_bytes),
    )


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
    trial = _Trial(op, inputs)
    notes: list[str] = []
    if hasattr(op, "get_concrete_function"):
        notes.append(f"{label} is a tf.function, so “eager” is a call of its graph.")
    with unobserved():
        eager = _cost(
            trial,
            lambda: trial.call(trial.tensors),
            lambda: trial.call(trial.copies(trial.tensors)),
            repeats=1,
        )
        graph = _attempt(trial, "in a graph", False, label, notes)
        compiled = _attempt(trial, "under XLA", True, label, notes) if xla else None
    return OpMemory(
        op=label,
        input_bytes=sum(map(_nbytes, trial.held)),
        eager=eager,
        graph=graph,
        xla=compiled,
        notes=tuple(notes),
    )


def _attempt(trial: _Trial, mode: str, xla: bool, label: str, notes: list[str]) -> OpCost | None:
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


def _in_graph(trial: _Trial, xla: bool) -> OpCost:
    held = trial.function(copying=False, xla=xla)
    if xla:  # there is no copying under XLA: the copies come from outside and are then dropped
        return _cost(
            trial,
            lambda: held(trial.tensors),
            lambda: held(trial.copies(trial.tensors)),
            repeats=2,
        )
    fresh = trial.function(copying=True)
    return _cost(trial, lambda: held(trial.tensors), lambda: fresh(trial.tensors), repeats=2)
