"""`peak`: the most that a call needs, as one short figure; and `in_graph`, the same as a graph.

Eager code repeats to the byte, so it is measured once.  A graph's operations may run in another
order on the next call, so a graph is measured several times, and its lowest and highest peak are
said.  Bytes are those of TensorFlow's allocator, beyond what was alive before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common.arguments import check_count, check_does_work, check_runs
from lessons_lib.common.gc_control import frozen_heap
from lessons_lib.common.results import Result, html_table, summary_html
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.units import MIB, Unit, byte_range, used_unit
from lessons_lib.instruments.measure import name_of
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

#: Calls of a graph that are measured.
GRAPH_CALLS: Final = 3


@dataclass(frozen=True, repr=False)
class Peak(Result):
    """The most that a call needed.

    Attributes
    ----------
    label : str
        The function's name.
    peaks : tuple of int
        Peak bytes of each measured call.
    noisy : bool
        Whether the figure may be another one on the next run, as a graph's may.
    recording : Recording
        Of the call with the highest peak.
    unit : Unit
        What figures are written in: the lesson's unit, else MiB.
    """

    label: str
    peaks: tuple[int, ...]
    noisy: bool
    recording: Recording
    unit: Unit

    @property
    def peak_bytes(self) -> int:
        """Highest peak of all measured calls."""
        return max(self.peaks)

    @property
    def kept_bytes(self) -> int:
        """What was still alive when the call had returned, its result included."""
        return self.recording.kept_bytes

    @property
    def allocated_bytes(self) -> int:
        """All that was allocated in the call, one after the other or at once."""
        return self.recording.allocated_bytes

    @property
    def units(self) -> float:
        """Highest peak in the lesson's unit (else in MiB), rounded to two decimals."""
        return self.unit.of(self.peak_bytes)

    @property
    def low(self) -> float:
        """Lowest peak in the lesson's unit (else in MiB), rounded to two decimals."""
        return self.unit.of(min(self.peaks))

    def __str__(self) -> str:
        text = byte_range(min(self.peaks), max(self.peaks))
        return f"≈ {text}" if self.noisy and not text.startswith("≈") else text

    __repr__ = __str__


@summary_html.register
def _(result: Peak) -> str:
    return html_table(("measured", "peak"), [(result.label, str(result))])


def peak(
    fn: Callable[..., Any],
    *args: Any,
    repeats: int | None = None,
    noisy: bool | None = None,
    **kwargs: Any,
) -> Peak:
    """Measure the most that a call needs, beyond what was there before.

    The function is called once unmeasured, so that traces and caches are in place.

    Parameters
    ----------
    fn : callable
        What to call.  Its result is alive when the measurement ends.
    *args, **kwargs
        What it is called with.
    repeats : int, optional
        How many calls are measured; by default one, and three where a graph runs.
    noisy : bool, optional
        Whether the figure may be another one on the next run, so that it stands after ``≈``.  By
        default only where the calls differed.

    Returns
    -------
    Peak
        It shows itself as ``3 S``, or ``≈ 26 to 30 S``.

    Raises
    ------
    TypeError, ValueError
        If there is nothing to call.
    Exception
        Whatever the function raises.

    Examples
    --------
    >>> ll.peak(tf.matmul, x, x)
    1 MiB
    """
    if not callable(fn):
        raise TypeError(
            f"peak calls a function, and {type(fn).__name__} is none: write ll.peak(f, x), "
            "not ll.peak(f(x))"
        )
    check_does_work(fn, "peak")
    wanted = None if repeats is None else check_count(repeats, "repeats", 1)
    require_home_process()
    check_runs("peak is called", "call it outside of the function")
    fn(*args, **kwargs)
    label = name_of(fn)
    recordings = _recorded(lambda: _once(fn, args, kwargs, label), wanted)
    peaks = tuple(recording.peak_bytes for recording in recordings)
    highest = recordings[peaks.index(max(peaks))]
    differ = min(peaks) != max(peaks)
    unit = used_unit() or Unit("MiB", MIB)
    return Peak(label, peaks, differ if noisy is None else noisy or differ, highest, unit)


def _recorded(call: Callable[[], Recording], wanted: int | None) -> list[Recording]:
    recordings = [call()]
    if wanted is None:
        wanted = GRAPH_CALLS if _runs_a_graph(recordings[0]) else 1
    while len(recordings) < wanted:
        recordings.append(call())
    return recordings


def _runs_a_graph(recording: Recording) -> bool:
    return any(site.function is not None for site in recording.buffers.sites)


def _once(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], label: str
) -> Recording:
    # Garbage of earlier work must not be freed, and so counted, in this call.
    with frozen_heap(), record(label) as recording:
        result = fn(*args, **kwargs)
    del result
    return recording


class GraphFunction:
    """A function as graphs, one for each set of arguments that are no tensors.

    Attributes
    ----------
    python_function : callable
        What was given.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.python_function = function
        self.__name__ = name_of(function)
        self._graphs: dict[Hashable, tuple[Any, Any]] = {}

    def __repr__(self) -> str:
        return f"<{self.__name__} in a graph>"

    def _graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        everything = (*args, *kwargs.values())
        fixed = [value for value in everything if not tf.is_tensor(value)]
        key = (len(args), *kwargs, *map(_key, fixed))
        if key not in self._graphs:
            inner = self.python_function
            made = tf.function(lambda *args, **kwargs: inner(*args, **kwargs))
            self._graphs[key] = made, fixed  # what is known by its address must stay
        return self._graphs[key][0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph for these arguments; it is traced at the first call."""
        return self._graph(args, kwargs)(*args, **kwargs)

    def operations(self, *args: Any, **kwargs: Any) -> int:
        """Count the operations of the graph for these arguments, which is traced if need be."""
        concrete = self._graph(args, kwargs).get_concrete_function(*args, **kwargs)
        return len(concrete.graph.get_operations())


def _key(value: Any) -> Hashable:
    if isinstance(value, (bool, int, float, str, type(None))):
        return type(value), value
    return type(value), id(value)


def in_graph(fn: Callable[..., Any]) -> GraphFunction:
    """Give a function as a graph: what ``tf.function`` makes of it, traced anew.

    Numbers, texts and functions among its arguments are fixed in the graph, and each new set of
    them gets a graph of its own.  Nothing that was traced before is used again.

    Parameters
    ----------
    fn : callable
        A Python function.

    Returns
    -------
    GraphFunction
        Call it as you call the function; ``.operations(...)`` counts a graph's operations.

    Raises
    ------
    TypeError
        If `fn` is no function.

    Examples
    --------
    >>> ll.peak(ll.in_graph(chain), 10)
    """
    if not callable(fn):
        raise TypeError(
            f"in_graph takes a function, not {type(fn).__name__}: write ll.in_graph(f), "
            "not ll.in_graph(f(x))"
        )
    return GraphFunction(fn)
