"""`budget`: a limit on TensorFlow's memory that a block of code must keep.

The block is recorded; when it ends and its peak was above the limit, `MemoryBudgetExceeded` says
so and lists what was alive at the peak, with lines.  The limit is in bytes and is compared with
the growth of live tensor bytes over the block's start, in all threads.  Memory outside TensorFlow's
allocator (NumPy, Python) is not counted.  Nothing is stopped: the block always runs to its end.
Where a ``tf.function`` is being traced nothing runs yet, so a budget there is refused.
"""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, TypeVar

from lessons_lib.common.arguments import check_runs
from lessons_lib.common.units import format_bytes, parse_bytes
from lessons_lib.recording.breakdown import BufferList
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

F = TypeVar("F", bound=Callable[..., Any])

_MOST_LISTED: Final = 12


class MemoryBudgetExceeded(AssertionError):
    """A block needed more memory than its budget.

    Attributes
    ----------
    limit_bytes : int
        The budget.
    peak_bytes : int
        What was needed.
    recording : Recording
        Of the block.
    at_peak : BufferList
        What was alive at the peak, largest first; shows itself as a table.
    """

    def __init__(self, limit_bytes: int, recording: Recording, name: str = "") -> None:
        super().__init__(_message(limit_bytes, recording, name))
        self.limit_bytes = limit_bytes
        self.peak_bytes = recording.peak_bytes
        self.recording = recording

    @property
    def at_peak(self) -> BufferList:
        """What was alive at the peak."""
        return self.recording.at_peak()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit_bytes, self.recording)


def _message(limit: int, recording: Recording, name: str) -> str:
    peak = recording.peak_bytes
    who = f"{name} needed" if name else "the block needed"
    alive = recording.at_peak()
    lines = [
        f"{who} {format_bytes(peak)} at its peak ({peak:,} bytes), "
        f"{format_bytes(peak - limit)} more than its budget of {format_bytes(limit)}",
        "alive at the peak, largest first:",
        *_rows(alive),
    ]
    if (freed := alive.nbytes - peak) > 0:
        lines.append(f"  less {format_bytes(freed)} from before the block, freed in it by then")
    return "\n".join([*lines, *recording.notes])


def _rows(buffers: BufferList) -> list[str]:
    """Write a line for each place and kind of buffer, those with most bytes first."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for buffer in buffers:
        shape = "" if buffer.shape is None else str(list(buffer.shape))
        line = "unknown line" if buffer.line is None else buffer.line.described
        what = (buffer.op or "unknown op", f"{buffer.dtype or ''} {shape}".strip(), line)
        alike.setdefault(what, []).append(buffer.nbytes)
    order = sorted(alike, key=lambda what: -sum(alike[what]))
    cells = [(_sizes(alike[what]), *what) for what in order[:_MOST_LISTED]]
    wide = [max((len(row[i]) for row in cells), default=0) for i in range(3)]
    rows = [
        f"  {size:>{wide[0]}}  {op:<{wide[1]}}  {form:<{wide[2]}}  {line}".rstrip()
        for size, op, form, line in cells
    ]
    if rest := order[_MOST_LISTED:]:
        sizes = [size for what in rest for size in alike[what]]
        rows.append(f"  … and {len(sizes):,} more, together {format_bytes(sum(sizes))}")
    return rows


def _sizes(sizes: list[int]) -> str:
    total = format_bytes(sum(sizes))
    if len(sizes) == 1:
        return total
    if len(set(sizes)) == 1:
        return f"{total} = {len(sizes):,} × {format_bytes(sizes[0])}"
    return f"{total} in {len(sizes):,} buffers"


class budget(AbstractContextManager[Recording]):  # noqa: N801 - used like a function
    """Hold a block, or each call of a function, to a memory budget.

    Parameters
    ----------
    limit : int or str
        Bytes, or a number with B, kB, MB, GB (decimal), KiB, MiB, GiB (binary).

    Returns
    -------
    Recording
        From ``with``: of the block, readable once it has ended.

    Raises
    ------
    MemoryBudgetExceeded
        At the end of the block, when live tensor bytes had grown by more than the limit.
    TypeError, ValueError
        If the limit is not a size, or what is decorated is not a function.
    RuntimeError
        At the start of the block, while a ``tf.function`` is being traced.

    Warns
    -----
    RuntimeWarning
        When a block stayed within its limit as far as can be seen, but figures are not exact.

    Notes
    -----
    An exception that the block raises passes through, whatever the block needed.  Budgets may be
    nested, and a budget may be used again.  Python's garbage is collected before the block, so that
    what earlier work left behind is not set against it; with a decorated function, before its
    first call.

    Examples
    --------
    >>> with budget("30 MiB"):
    ...     train_step(batch)

    >>> @budget("1 GiB")
    ... def train_step(batch): ...
    """

    def __init__(self, limit: int | str) -> None:
        self.limit_bytes = parse_bytes(limit)
        self._name = ""
        self._open: list[tuple[record, Recording]] = []
        self._collects = True

    def __repr__(self) -> str:
        return f"budget({format_bytes(self.limit_bytes)!r})"

    def __enter__(self) -> Recording:
        who = f"the budget of {self._name}" if self._name else "a budget"
        check_runs(f"{who} begins", "put the budget around the call of the tf.function")
        if self._collects:
            gc.collect()  # garbage of earlier work, freed in the block, would make room in it
        watch = record(f"budget of {format_bytes(self.limit_bytes)}")
        recording = watch.__enter__()
        self._open.append((watch, recording))
        return recording

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        watch, recording = self._open.pop()
        watch.__exit__(kind, error, trace)
        if error is not None:
            return
        if recording.peak_bytes > self.limit_bytes:
            raise MemoryBudgetExceeded(self.limit_bytes, recording, self._name)
        if not recording.exact:
            warnings.warn(
                f"this budget of {format_bytes(self.limit_bytes)} was kept as far as can be seen, "
                f"but figures are not exact: {' '.join(recording.notes)}",
                RuntimeWarning,
                stacklevel=2,
            )

    def __call__(self, fn: F) -> F:
        """Decorate a function: each call has the whole budget."""
        if isinstance(fn, (staticmethod, classmethod)):
            raise TypeError(
                f"a budget decorates a function, not a {type(fn).__name__}: write "
                f"@{type(fn).__name__} above @budget(...)"
            )
        if isinstance(fn, type) or not callable(fn):
            raise TypeError(
                f"a budget decorates a function, not {fn!r}: decorate the methods of a class, "
                "or use `with budget(...):`"
            )
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError(
                f"a budget cannot decorate the generator {fn.__name__}, whose code runs between "
                "that of its caller: use `with budget(...):` around the loop over it"
            )

        calls = itertools.count()

        def fresh() -> budget:
            one = type(self)(self.limit_bytes)
            one._collects = next(calls) == 0
            one._name = str(getattr(fn, "__name__", None) or type(fn).__name__)
            return one

        wrapper: Any
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def held_async(*args: Any, **kwargs: Any) -> Any:
                with fresh():
                    return await fn(*args, **kwargs)

            wrapper = held_async
        else:

            @functools.wraps(fn)
            def held(*args: Any, **kwargs: Any) -> Any:
                with fresh():
                    return fn(*args, **kwargs)

            wrapper = held
        return wrapper
