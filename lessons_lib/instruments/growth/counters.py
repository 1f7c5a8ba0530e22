"""`Evidence`: the numbers that `growth` read after every call.

Counts are counts of living objects; bytes are bytes.  The resident set and the C heap are noisy,
the rest is exact in a program without threads.  A series that the system does not offer is all
NaN, and its `known` is False.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from lessons_lib.common.results import Result
from lessons_lib.instruments.growth.trend import Series


@dataclass(frozen=True, repr=False)
class Evidence(Result):
    """One series for everything that was counted.

    Attributes
    ----------
    tensor_bytes : Series
        What TensorFlow's allocator has handed out (its chunks, up to twice the tensors' bytes).
    live_tensors, live_tensor_bytes : Series
        Eager tensors alive in Python, and their bytes (shared buffers once).
    variables, variable_bytes : Series
    functions, concrete_functions : Series
        What ``tf.function`` returned and is alive; the traces that these hold.
    graphs, orphan_graphs, graph_ops : Series
        Graphs alive; those whose function is gone; operations in all graphs.
    datasets : Series
        Datasets and iterators alive.
    table_entries : Series
        Elements in lookup tables and queues.
    hidden_bytes : Series
        Tensor bytes that no living tensor or variable of Python accounts for.
    python_objects : Series
        Objects made since the start that are alive, as far as the garbage collector tracks them.
    python_blocks : Series
        Small blocks that Python's own allocator has handed out (up to 512 B each): numbers, short
        texts, and every object's head.
    c_heap : Series
        Bytes in use in the C library's heap, without jumps (a pool that is extended at once): NumPy
        arrays, long texts, larger containers, and what native code allocates.
    rss, rss_trimmed : Series
        Resident set size after the call, and after the C library was asked to give memory back.
    """

    tensor_bytes: Series
    live_tensors: Series
    live_tensor_bytes: Series
    variables: Series
    variable_bytes: Series
    functions: Series
    concrete_functions: Series
    graphs: Series
    orphan_graphs: Series
    graph_ops: Series
    datasets: Series
    table_entries: Series
    hidden_bytes: Series
    python_objects: Series
    python_blocks: Series
    c_heap: Series
    rss: Series
    rss_trimmed: Series

    def __iter__(self) -> Iterator[Series]:
        return (getattr(self, field.name) for field in fields(self))

    def growing(self) -> tuple[Series, ...]:
        """Give the series that still grow at the end."""
        return tuple(series for series in self if series.grows)

    def __repr__(self) -> str:
        names = ", ".join(series.name for series in self.growing())
        return f"<Evidence: growing: {names or 'nothing'}>"
