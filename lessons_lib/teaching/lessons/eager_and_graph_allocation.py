"""Claims of lesson 02, "See which operations allocate, in eager and in graph mode"."""

from __future__ import annotations

from lessons_lib.common.units import format_bytes
from lessons_lib.teaching.lessons.claim import Claims

S = 512 * 512 * 4  # bytes
CLAIMS = Claims("02_eager_and_graph_allocation")


@CLAIMS.add(
    1,
    "Every operation puts its result into new memory.",
    "false",
    measured=lambda shares, makes: (
        f"{len(shares)} operations took 0 S; {len(makes)} others the size of their result"
    ),
    advice="Use reshape, expand_dims, squeeze and identity freely; transpose and concat copy.",
    was=("02.1",),
)
def _(shares, makes):
    return all(peak.peak_bytes < 64 for peak in shares.values()) and all(
        abs(peak.peak_bytes - peak.kept_bytes) < 4096 and peak.units in (1, 2)
        for peak in makes.values()
    )


@CLAIMS.add(
    2,
    "A slice is a view, as in NumPy, so it costs nothing.",
    "it depends",
    measured=lambda slices, kept, copied: (
        f"x[0] takes {slices['x[0]']}, x[:, :256] {slices['x[:, :256]']}; a kept row keeps "
        + ", ".join(f"{peak.kept_bytes:,} bytes of {shape}" for shape, peak in kept.items())
    ),
    advice="To share, index step by step, t[7][3], not t[7, 3]; to keep a row, copy it: "
    "tf.gather(t, i).",
    was=("02.2", "02.3"),
)
def _(slices, kept, copied):
    def size(*sides):
        return kept[sides].kept_bytes / 4

    return (
        [peak.units for peak in slices.values()] == [0, 0, 0, 0, 0.5, 0.5]
        and [slices[name].kept_bytes for name in ("x4[7][3]", "x4[7, 3]")] == [0, 16 * 16 * 4]
        and size(32, 28, 28, 1) == 32 * 28 * 28
        and size(32, 1024) == 32 * 1024
        and copied.kept_bytes == 4 * 512 * 4
        and (size(32, 10, 10), size(32, 10), size(32, 1000)) == (10 * 10, 10, 1000)
    )


@CLAIMS.add(
    3,
    "An operation needs memory for its result, and no more.",
    "false",
    measured=lambda needs: ", ".join(f"{name}: {peak}" for name, peak in needs.items()),
    advice="Leave room for two to four times the tensor where you sort, mask or draw at random.",
    was=("02.4",),
)
def _(needs):
    *several, near, apart = needs.values()
    return (
        all(peak.peak_bytes > 1.2 * peak.kept_bytes >= S for peak in several)
        and near.peak_bytes < 2048
        and apart.units == 1
        and apart.kept_bytes == 32 * 16 * 4
    )


@CLAIMS.add(
    4,
    "A graph takes no memory for tensors until it runs.",
    "partly",
    measured=lambda tracing, call, description, first, end: (
        f"tracing for 1 GiB {tracing.allocated_bytes} bytes of tensors; an array of 32 S: "
        f"{format_bytes(description)} in the graph, {format_bytes(first.kept_bytes)} kept by the "
        "first call"
    ),
    advice="Trace for large shapes without fear; hand large arrays in as tensors or variables.",
    was=("02.9", "02.10"),
)
def _(tracing, call, description, first, end):
    def near(nbytes):
        return 32 * S <= nbytes < 32.01 * S

    return (
        tracing.allocated_bytes < 64
        and call.units == 1
        and near(description)
        and near(first.kept_bytes)
        and near(-end.kept_bytes)
    )


@CLAIMS.add(
    5,
    "In a graph, intermediate results are free.",
    "it depends",
    measured=lambda eager, graph, beyond: (
        f"three steps: eager {eager}, graph {graph}; beyond the result: "
        + ", ".join(f"{name}: {size:g} S" for name, size in beyond.items())
    ),
    advice="A chain of element-wise operations may need less in a tf.function: measure it; do "
    "not expect it for transposes, matmuls and casts.",
    was=("02.11", "02.12"),
)
def _(eager, graph, beyond):
    free = ("tanh(p)", "softmax(p)", "p, tanh(p)")
    return (
        (eager.units, graph.units) == (2, 1)
        and eager.allocated_bytes > 2.9 * graph.allocated_bytes
        and all(size == (0 if name in free else 1) for name, size in beyond.items())
    )


@CLAIMS.add(
    6,
    "A layer needs the same memory in both modes; only the speed differs.",
    "false",
    measured=lambda peaks: "; ".join(f"{name} {peak}" for name, peak in peaks.items()),
    advice="Measure the mode that you will run in.",
    was=("02.13",),
)
def _(peaks):
    return [peak.units for peak in peaks.values()] == [2, 1, 4, 2, 2, 1, 3, 3]
