"""What one session of the profiler saw: its memory events, and the marks around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from lessons_lib.common.runtime import tf


@dataclass(slots=True)
class MemoryEvent:
    """One allocation or deallocation, as the profile tells it.

    Times are picoseconds from the start of the session; `in_use` is the allocator's own count of
    reserved bytes after the event.
    """

    time: int
    thread: int
    allocates: bool
    address: int
    requested: int
    reserved: int
    in_use: int
    allocator: str
    step: int
    op: str
    kind: str
    dtype: int
    shape: str


def shape_of(text: str) -> tuple[int, ...] | None:
    """Read a shape as an event tells it; None where it is not known."""
    if not text.startswith("["):
        return None
    inner = text.strip("[]")
    try:
        return tuple(int(size) for size in inner.split(",")) if inner else ()
    except ValueError:  # an unknown dimension
        return None


def dtype_of(number: int) -> str | None:
    """Give the name of the type that an event tells by its number; None where it tells none."""
    try:
        return str(tf.dtypes.as_dtype(number).name) if number else None
    except TypeError:
        return None


@dataclass(slots=True)
class Segment:
    """What one profiler session saw.

    Attributes
    ----------
    memory : list of MemoryEvent
        In the order of time.
    calls : dict of int to list of (start, end)
        Per thread of the profile that `lessons_lib.recording.call_watcher` has marked, the calls
        from then on, by start.
    threads : dict of int to int
        Which Python thread (by the number given in its marker) a thread of the profile is.
    windows : dict of int to int
        Time of each window marker, by its number.
    moments : dict of int to (int, int)
        Thread and time of each moment that `lessons_lib.recording.eager_notes` marked.
    functions : dict of int to str
        Name of the function that each execution step ran.
    started : dict of int to (int, int)
        Thread that started each such step, and when.
    function_calls : dict of int to list of (start, end, name)
        Per thread, when a function was called from Python.
    runs : dict of int to (int, int)
        Thread that started any step of a function, and when.
    iterators : dict of int to list of (start, end, name)
        Per thread, when iterators of a data pipeline were running.
    lent : dict of int to list of (start, end, step)
        Per thread of a data pipeline's pool, when it ran operations of a function for an iterator.
    executed : dict of str to set of str
        Types of kernels that ran under each graph operation's name.
    events : int
        How many events the profile had, of all kinds.
    pool : set of int
        Threads of a data pipeline's pool that were at work.
    levels : (int or None, int or None)
        What the allocator itself counted as in use when the session began and when it ended; None
        where that is not known for certain.
    """

    memory: list[MemoryEvent] = field(default_factory=list)
    calls: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    threads: dict[int, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    moments: dict[int, tuple[int, int]] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    started: dict[int, tuple[int, int]] = field(default_factory=dict)
    function_calls: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)
    iterators: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    lent: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    executed: dict[str, set[str]] = field(default_factory=dict)
    events: int = 0
    pool: set[int] = field(default_factory=set)
    levels: tuple[int | None, int | None] = (None, None)

    @property
    def pipeline(self) -> bool:
        """Whether a data pipeline was at work, which goes on when no Python thread does."""
        return bool(self.pool)
