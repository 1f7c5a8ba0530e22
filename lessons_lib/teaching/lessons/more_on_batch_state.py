"""Claims of "More on batches and state", which goes on from lesson 06."""

from __future__ import annotations

from lessons_lib.common.units import format_bytes
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("06_more_on_batch_state")

_BATCH = 1024 * 128 * 4  # S, the lesson's unit, in bytes


@CLAIMS.add(
    1,
    "Mixed precision halves the memory.",
    "partly",
    measured="a tape over eight layers keeps: {kept.laws}; weights are {dtype}",
    advice="Use it when activations are most of the step: large batches, sequences, images.",
    was=("06.5",),
)
def _(kept, dtype):
    full, half = kept["float32"], kept["mixed_bfloat16"]
    return (
        full.law == "8 batch/1024"
        and half[64] > full[64]
        and 0.5 < half[4096] / full[4096] < 0.7
        and dtype == "float32"
    )


@CLAIMS.add(
    2,
    "Without a tape, an output is freed as soon as the next layer has used it.",
    "it depends",
    measured="{found.laws}",
    advice="For predictions use predict or predict_on_batch, not model(x).",
    was=("06.6",),
)
def _(found):
    return (
        found["Sequential, called"].law == "n + 1"
        and found["subclass, called"].law == "3"
        and found["predict_on_batch"][8] < 4
    )


@CLAIMS.add(
    3,
    "A new weight takes its own size.",
    "it depends",
    measured=lambda new: ", ".join(f"{name} {peak}" for name, peak in new.items()),
    advice="Draw very large tables in a tf.function, or in parts.",
    was=("06.7",),
)
def _(new):
    return [round(peak.units, 1) for peak in new.values()] == [3, 3, 1, 1, 1]


@CLAIMS.add(
    4,
    "`persistent=True` costs nothing unless you use the tape twice.",
    "false",
    measured="kept after a gradient: {kept.laws}",
    advice="Use it only for several gradients, and `del tape` right after the last.",
    was=("03.21", "06.10"),
)
def _(kept):
    return [curve.law for curve in kept] == ["1", "n + 1", "1"]


@CLAIMS.add(
    5,
    "A custom gradient saves memory.",
    "it depends",
    measured=lambda eager, graph: (
        "ten gelu: "
        + ", ".join(f"{name} {eager[name]} (in a graph {graph[name]})" for name in eager)
    ),
    advice="Use tf.recompute_grad, and measure in the mode that you train in.",
    was=("06.11",),
)
def _(eager, graph):
    plain, plain_graph = eager["plain"].units, graph["plain"].low
    return (
        eager["first_try"].units > 0.8 * plain
        and eager["second_try"].units < 0.5 * plain
        and eager["recompute_grad"].units < 0.5 * plain
        and graph["second_try"].units > 0.8 * plain_graph
        and graph["recompute_grad"].units < 0.6 * plain_graph
    )


@CLAIMS.add(
    6,
    "Recomputing changes the memory and the time, but not the gradients.",
    "it depends",
    measured=lambda lost, fit: (
        "the gradient of a tensor from outside is "
        f"{'None' if lost['a tensor'][0] else 'there'}; with dropout ≈ {100 * fit[1]:.0f} % of the "
        "gradients fit the output"
    ),
    advice="Pass tensors as arguments; inside recomputed blocks use stateless random functions.",
    was=("06.13",),
)
def _(lost, fit):
    return (
        list(lost.values()) == [[True, False], [False, False], [True, False]]
        and fit[0] == fit[2] == 1
        and fit[1] < 0.7
    )


@CLAIMS.add(
    7,
    "Make layers and gradients where you need them.",
    "false",
    measured=lambda tried: "; ".join(f"{name}: {result}" for name, result in tried.items()),
    advice="Make layers once, outside; take gradients with a tape.",
    was=("06.14",),
)
def _(tried):
    return list(tried.values()) == ["ValueError", "RuntimeError", "works", "ValueError"]


@CLAIMS.add(
    8,
    "A state that is carried on keeps all earlier batches alive.",
    "it depends",
    measured="{carried.laws}",
    advice="Open the tape inside the loop over batches.",
    was=("06.15",),
)
def _(carried):
    each = carried["a tape for each batch"]
    return each[2] == each[8] < 8 and carried["one tape"].law == "3 n + 3"


@CLAIMS.add(
    9,
    "To use something of each batch later, append it to what is there.",
    "false",
    measured=lambda means, memories, peaks, reads: (
        f"a mean, peak: {means.laws}; a memory, allocated: {memories.laws}; peak: {peaks.laws}"
    ),
    advice="Keep sums; write into a variable with scatter_nd_update, and read it with gather.",
    was=("06.16", "06.17"),
)
def _(means, memories, peaks, reads):
    return (
        [curve.law for curve in means] == ["2 n", "2"]
        and [curve.law for curve in memories] == ["0.5 n² + 1.5 n − 1", "2 n"]
        and [curve.law for curve in peaks] == ["2 n", "n + 1"]
        and reads["slice"].units < 0.01
        and reads["slice, after a scatter"].units == 8
        and reads["gather"].units == 2
    )


@CLAIMS.add(
    10,
    "With a sparse gradient, an embedding needs memory only for the rows of the batch.",
    "it depends",
    measured=lambda sparse, kinds, steps: (
        "gradients: "
        + ", ".join(f"{name} {format_bytes(sparse[name].kept_bytes)}" for name in sparse)
        + "; steps: "
        + ", ".join(f"{name} {peak}" for name, peak in steps.items())
    ),
    advice="Look rows up in the variable itself; update a huge table by scatter_sub.",
    was=("06.18", "06.19"),
)
def _(sparse, kinds, steps):
    return (
        [round(peak.kept_bytes / _BATCH, 2) for peak in sparse.values()] == [0.25, 8, 8]
        and kinds["gather(table)"] == "IndexedSlices"
        and steps["by hand"].units <= 2
        and all(steps[f"sgd, {mode}"].low >= 8 for mode in ("eager", "graph"))
        and all(steps[f"adam, {mode}"].low >= 16 for mode in ("eager", "graph"))
    )


@CLAIMS.add(
    11,
    "A data pipeline holds one batch at a time.",
    "false",
    measured=lambda held: "; ".join(
        f"{name} ≈ {peak.kept_bytes / _BATCH:.0f} S" for name, peak in held.items()
    ),
    advice="Shuffle before you decode; cache before you make things larger, or to a file.",
    was=("06.20",),
)
def _(held):
    # How far a prefetch has come depends on the moment, so it decides nothing.
    size = {name: peak.kept_bytes / _BATCH for name, peak in held.items()}
    return (
        size["map(decode), shuffle(8)"] >= 7
        and size["map(decode), cache()"] >= 4
        and size["map(decode)"] < 3
        and size["shuffle(8), map(decode)"] < 3
    )
