"""Claims of lesson 06, "See what a training step keeps, and make it keep less"."""

from __future__ import annotations

from lessons_lib.common.units import format_bytes
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("06_batch_state")


@CLAIMS.add(
    1,
    "A model's size tells how much memory its training takes.",
    "false",
    measured=lambda eager, graph: (
        f"weights {format_bytes(eager.categories['weights'])}, activations "
        f"{format_bytes(eager.categories['activations'])}, in all "
        f"{format_bytes(eager.peak_bytes)}; in a graph ≈ {format_bytes(graph.peak_bytes)}"
    ),
    advice="Look at ll.training_memory(model, x, y) before you change anything.",
    was=("06.1",),
)
def _(eager, graph):
    weights = eager.categories["weights"]
    return (
        weights == graph.categories["weights"] == 8 * 128 * 128 * 4
        and eager.categories["optimizer state"] >= 2 * weights
        and eager.categories["activations"] >= 8 * weights
        and all(step.peak_bytes > 10 * weights for step in (eager, graph))
    )


@CLAIMS.add(
    2,
    "A batch twice as large needs twice the memory.",
    "partly",
    measured=lambda steps, graphs: (
        ", ".join(f"batch {batch}: {steps[batch]}" for batch in (16, 64, 1024, 2048))
        + f"; in a graph: {graphs[64]} at 64, {graphs[2048]} at 2048"
    ),
    advice="Reduce the batch while activations are the peak; below that it saves nothing.",
    was=("06.2",),
)
def _(steps, graphs):
    return (
        steps[64].units < 1.2 * steps[16].units
        and steps[2048].units == 2 * steps[1024].units == 4 * steps[512].units
        and {step.kept_bytes for step in steps.values()} == {8 * 128 * 128 * 4}  # the gradients
        and graphs[64].units < 3 < 10 < graphs[2048].low
    )


@CLAIMS.add(
    3,
    "The largest batch that fits has to be found by trial and error.",
    "false",
    measured=lambda fit: (
        f"≈ {fit.batch} examples fit {format_bytes(fit.budget_bytes)}, found in "
        f"≈ {len(fit.measured)} tries"
    ),
    advice="Ask for ll.training_memory(model, x, y, budget='8 GiB').largest_batch.",
    was=("06.3",),
)
def _(fit):
    return (
        fit.verified
        and max(fit.peak_bytes, fit.held_bytes) <= fit.budget_bytes
        and fit.low <= fit.batch <= fit.high
    )


@CLAIMS.add(
    4,
    "An optimizer keeps a second copy of the weights.",
    "it depends",
    measured=lambda states, working: (
        f"{states.laws}; Adam's update of eight equal weights that take S: "
        f"{working['eight weights']}, in a graph {working['eight, in a graph']}"
    ),
    advice="If the optimizer's state is what does not fit, try SGD with momentum, or Lion.",
    was=("06.4",),
)
def _(states, working):
    laws = [curve.law for curve in states]
    eager = working["eight weights"]
    return (
        laws == ["0", "n", "n", "n", "2 n", "2 n", "n", "3 n"]
        and working["one weight"].units == 3
        and eager.units < 0.5
        and working["eight, in a graph"].peak_bytes > 1.5 * eager.peak_bytes
    )


@CLAIMS.add(
    5,
    "The more micro-batches, the less memory; it costs one extra copy of the gradients.",
    "it depends",
    measured=lambda by_parts, agree, ways: (
        ", ".join(f"{peak} in {n}" for n, peak in by_parts.items())
        + " parts; the floor: "
        + ", ".join(f"{name} {peak}" for name, peak in ways.items())
    ),
    advice="Put gradients and assign_add into one tf.function, with variables for the sums.",
    was=("06.8", "06.9"),
)
def _(by_parts, agree, ways):
    return (
        agree
        and by_parts[1].units > by_parts[2].units > by_parts[4].units > by_parts[16].units == 3
        and ways["lists"].units == 3
        and 2 <= ways["one_by_one"].units < 2.3
        and 2 <= ways["variables"].units < 2.2
        and 3 <= ways["by_keras"].units < 3.3
        and ways["one_function"].low < 2
    )


@CLAIMS.add(
    6,
    "The more you recompute at once, the more you save.",
    "false",
    measured=lambda blocks, plain, graphs, gelu, found: (
        f"16 layers, plain {plain}, {blocks.laws}; gelu: "
        + ", ".join(f"{name} {peak}" for name, peak in gelu.items())
    ),
    advice="Recompute in blocks of about √(n/c) layers; pass watched tensors as arguments.",
    was=("06.12", "03.22"),
)
def _(blocks, plain, graphs, gelu, found):
    curve = blocks["blocks of k"]
    return (
        curve.law == "16/k + k + 3"
        and curve[16] == curve[1] > plain.units > curve[4]
        and graphs[4].units < 0.7 * graphs[16].low
        and gelu["plain"].units > 3 * gelu["blocks of 1"].units
        and gelu["blocks of 1"].units > gelu["blocks of 2"].units
        and gelu["blocks of 16"].units >= gelu["plain"].units
        and found["plain"] is not None
        and found["recomputed"] is None
    )
