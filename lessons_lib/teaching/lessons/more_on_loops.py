"""Claims of "More on loops", which goes on from lesson 03."""

from __future__ import annotations

from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("03_more_on_loops")


@CLAIMS.add(
    1,
    "A result that grows by `tf.concat` costs as much as it holds.",
    "false",
    measured="allocated in all: {found.laws}",
    advice="Append to a list and stack once, or write into a variable made in advance.",
    was=("03.8",),
)
def _(found, most):
    return (
        found["concat"].law == "0.5 n² + 1.5 n − 1"
        and found["list, stack"].law == found["TensorArray"].law == "2 n"
        and most["concat"].law == most["list, stack"].law == "2 n"
    )


@CLAIMS.add(
    2,
    "A `TensorArray` needs less memory than a Python list.",
    "false",
    measured="{found.laws}",
    advice="Use it where a list cannot be used: in a loop in a graph.",
    was=("03.9",),
)
def _(found, graph):
    return found["list, stack"].law == found["TensorArray"].law == "2 n" and 40 <= graph.units < 42


@CLAIMS.add(
    3,
    "A variable as the loop's state avoids new tensors.",
    "partly",
    measured="ten steps allocate: {found.laws}",
    advice="Use assign_add and assign_sub where the step is a sum.",
    was=("03.7",),
)
def _(found):
    return [curve.law for curve in found] == ["0", "n", "n"]


@CLAIMS.add(
    4,
    "The gradients of one weight are added up as they come, so they take one weight.",
    "false",
    measured="30 uses: eager {eager}, unrolled {unrolled}, with tf.range {ranged}",
    advice="For many steps over one large weight, use tf.range in a tf.function.",
    was=("03.20",),
)
def _(eager, unrolled, ranged, wide):
    return (
        31 <= eager.units < 32
        and 30 <= unrolled.units < 34
        and ranged.units < 20
        and 512 <= wide.units < 700  # without an early sum it would be 976
    )


@CLAIMS.add(
    5,
    "`tf.while_loop` keeps the gradient's memory constant.",
    "false",
    measured="20 steps: unrolled {unrolled}, with tf.while_loop {looped}",
    advice="To need less, keep fewer steps: shorten the backward pass, or recompute (lesson 06).",
    was=("03.14",),
)
def _(unrolled, looped, short):
    return all(20 <= peak.units <= 66 for peak in (unrolled, looped)) and short.units < 14


@CLAIMS.add(
    6,
    "`tf.stop_gradient` in the loop stops the growth.",
    "it depends",
    measured="{found.laws}",
    advice="Don't rely on it for memory: leave the steps out of the tape.",
    was=("03.15",),
)
def _(found):
    flat = [curve.label for curve in found if curve[6] == curve[12]]
    return flat == ["square", "sin"] and all(
        curve[12] - curve[6] == 6 for curve in found if curve.label not in flat
    )


@CLAIMS.add(
    7,
    "In a graph's `while_loop`, `stop_gradient` helps wherever it stands.",
    "false",
    measured="20 steps: no stop {peaks[no stop]}, at the body's input {peaks[input]}, "
    "at its output {peaks[output]}",
    advice="Stop at the body's output, or better, keep the loop out of the tape.",
    was=("03.16",),
)
def _(peaks):
    return peaks["input"].units >= 20 > 5 >= peaks["output"].units


@CLAIMS.add(
    8,
    "`parallel_iterations` changes a loop's speed, not its memory.",
    "it depends",
    measured="a sum of 20 products: {peaks[1]} with 1, {peaks[10]} with 10",
    advice="Where steps can run ahead, parallel_iterations=1 needs least.",
    was=("03.18",),
)
def _(peaks, chain):
    # How far steps run ahead depends on how busy the processors are.
    return peaks[1].units <= 4 < peaks[10].units and chain.units <= 3


@CLAIMS.add(
    9,
    "`shape_invariants`, `swap_memory` and `tf.identity` save memory or protect the state.",
    "false",
    measured="{forward}; with shape_invariants {invariant}; the gradient {plain}, with swap_memory "
    "{swapped}; with tf.identity {identity}",
    advice="Give shape_invariants when a state changes its shape; leave the others out.",
    was=("03.5", "03.6", "03.19"),
)
def _(forward, invariant, plain, swapped, identity, unchanged):
    return (
        abs(forward.units - invariant.units) < 0.05
        and abs(plain.units - swapped.units) <= 4
        and identity.units == 2
        and unchanged
    )


@CLAIMS.add(
    10,
    "A loop in NumPy takes no memory, and is faster.",
    "it depends",
    measured=lambda seen, seconds: (
        f"the heap grows by ≈ {seen.heap_peak_bytes / (256 * 256 * 4):.0f} S; TensorFlow's time "
        "over NumPy's: " + ", ".join(f"≈ {ratio:.1f} at {n} × {n}" for n, ratio in seconds.items())
    ),
    advice="Give arrays a dtype; measure time at your own size.",
    was=("03.10", "03.11"),
)
def _(seen, seconds):
    # The time is shown, and decides nothing: a busy machine may turn any ratio.
    return seen.tensor_peak_bytes == 0 and 5.9 < seen.heap_peak_bytes / (256 * 256 * 4) < 7
