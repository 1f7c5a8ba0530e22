"""Programs whose true peak is known by hand, for tests/benchmarks/accuracy.py.

Each makes what it needs beforehand, and returns the function to measure and its true peak: the
highest growth of live tensor bytes over the start, from shapes and data types.  TensorFlow is
handed in, since other tools are tried in a process without lessons_lib.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MIB = 2**20
Workload = tuple[Callable[[], Any], int]


def kept_in_a_list(tf: Any) -> Workload:
    """Thirty tensors of 4 MiB, all kept."""
    dims, one = tf.constant([MIB]), tf.constant(1.0)

    def run() -> Any:
        return [tf.raw_ops.Fill(dims=dims, value=one) for _ in range(30)]

    return run, 30 * 4 * MIB


def a_chain(tf: Any) -> Workload:
    """Ten tanh of 16 MiB one after the other, of which two are alive at a time."""
    x = tf.fill([2048, 2048], 1e-3)

    def run() -> Any:
        y = x
        for _ in range(10):
            y = tf.raw_ops.Tanh(x=y)
        return y

    return run, 2 * 2048 * 2048 * 4


def many_small_ones(tf: Any) -> Workload:
    """Thirty thousand tensors of 4 KiB."""
    dims, one = tf.constant([1024]), tf.constant(1.0)

    def run() -> Any:
        return [tf.raw_ops.Fill(dims=dims, value=one) for _ in range(30_000)]

    return run, 30_000 * 4096


def a_spike(tf: Any) -> Workload:
    """Make a tensor of 120 MiB that is gone again at once."""
    dims, one = tf.constant([30 * MIB]), tf.constant(1.0)
    small = tf.constant([MIB])

    def run() -> Any:
        kept = tf.raw_ops.Fill(dims=small, value=one)
        tf.raw_ops.Fill(dims=dims, value=one)
        return kept

    return run, 4 * MIB + 120 * MIB


def a_tape(tf: Any) -> Workload:
    """Thirty tanh of 4 MiB under a tape, which keeps every result."""
    x = tf.fill([1024, 1024], 1e-3)

    def run() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(30):
                y = tf.raw_ops.Tanh(x=y)
        return tape, y

    return run, 30 * 4 * MIB


def a_graph(tf: Any) -> Workload:
    """Join 16 MiB six times in a graph, and reverse the result: 96 MiB twice."""
    x = tf.fill([4, MIB], 1.0)

    @tf.function(input_signature=[tf.TensorSpec([4, None], tf.float32)])
    def graph(x: Any) -> Any:
        return tf.reverse(tf.concat([x] * 6, 0), [0])

    graph(x[:, :1])  # traced and ready, but nothing large has been made yet

    def run() -> Any:
        return graph(x)

    return run, 2 * 6 * 16 * MIB


WORKLOADS: dict[str, Callable[[Any], Workload]] = {
    "30 × 4 MiB in a list": kept_in_a_list,
    "a chain of 16 MiB": a_chain,
    "30,000 × 4 KiB": many_small_ones,
    "a spike of 120 MiB": a_spike,
    "a tape of 30 × 4 MiB": a_tape,
    "a graph, 2 × 96 MiB": a_graph,
}
