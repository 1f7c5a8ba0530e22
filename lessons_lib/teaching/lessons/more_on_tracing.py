"""Claims of the further lesson 04, "Explore what traces depend on"."""

from __future__ import annotations

from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("04_more_on_tracing")


@CLAIMS.add(
    1,
    "TensorFlow warns you when a function is traced too often.",
    "partly",
    measured=lambda said: (
        f"29 traces in a row: {said['once'][0]} warnings; four calls for each: {said['4 times'][0]}"
    ),
    advice="Watch with ll.watch_retracing(), or look at ll.trace_report(f) now and then.",
    was=("04.5",),
)
def _(said):
    warnings = {name: number for name, (number, _) in said.items()}
    return (
        warnings["once"] >= 1
        and warnings["3 times"] >= 1
        and warnings["4 times"] == warnings["once, the same code"] == 0
        and all(traces == 29 for _, traces in said.values())
    )


@CLAIMS.add(
    2,
    "Arguments that look alike share a trace.",
    "partly",
    measured=lambda new, sides: (
        f"equal objects that are kept {new['equal objects, kept']} trace, dropped "
        f"{new['equal objects, dropped']}; a shape as a tuple {new['a shape as a tuple']}, "
        f"as a tensor {new['a shape as a tensor']}; two sides relaxed {len(sides.traces)}"
    ),
    advice="Make functions, lambdas and objects once, outside the loop, and keep them.",
    was=("04.7",),
)
def _(new, sides):
    return list(new.values()) == [1, 1, 1, 1, 3, 2, 2, 3, 1, 3, 3, 3] and len(sides.traces) == 3


@CLAIMS.add(
    3,
    "With a Python bool, both branches are in the graph.",
    "false",
    measured=lambda branches: (
        f"bool: {branches['bool', False][2]} traces with a branch each; tensor: "
        f"{branches['tensor', False][2]} with both, and a call without the product needs "
        f"{branches['tensor', False][1]}"
    ),
    advice="Python flags for settings, tensors for what changes from step to step.",
    was=("04.8",),
)
def _(branches):
    types = {key: found[0] for key, found in branches.items()}
    return (
        types["bool", True] == {"MatMul"}
        and types["bool", False] == set()
        and types["tensor", True] == types["tensor", False] == {"StatelessIf"}
        and [branches[kind, False][2] for kind in ("bool", "tensor")] == [2, 1]
        and all(round(found[1].units) == flag for (_, flag), found in branches.items())
    )


@CLAIMS.add(
    4,
    "A loop in a tf.function becomes one compact graph.",
    "it depends",
    measured=lambda operations, watch: (
        f"range(100): {operations['unrolled'][1]} operations; tf.range(100): "
        f"{operations['looped'][1]}; recursion to a depth of 5: {watch.new_traces} traces"
    ),
    advice="Loop over tf.range where the steps are alike and many; never call a tf.function in "
    "itself.",
    was=("04.9", "04.10"),
)
def _(operations, watch):
    return (
        operations["unrolled"][1] > 9 * operations["unrolled"][0]
        and operations["looped"][0] == operations["looped"][1] < 50
        and watch.new_traces == 6
    )


@CLAIMS.add(
    5,
    "A function uses the present value of what it takes from outside.",
    "it depends",
    measured=lambda before, after, change, end: (
        f"number, tensor and variable were {before}, and are {after} after the change; the old "
        f"tensor's {format_bytes(-end.kept_bytes)} lived as long as the function"
    ),
    advice="What changes is an argument or a tf.Variable.",
    was=("04.12",),
)
def _(before, after, change, end):
    return (
        before == [1, 1, 1]
        and after == [1, 1, 2]
        and round(change.kept_bytes / MIB, 2) == 1
        and round(-end.kept_bytes / MIB, 2) == 1
    )


@CLAIMS.add(
    6,
    "tf.function compiles with XLA.",
    "false",
    measured=lambda refused, chosen, only_cpu: (
        f"compiled by default: {not refused[None]}, with jit_compile=True: {not refused[True]}; "
        f"Keras' auto here: {chosen}"
    ),
    advice="Ask for XLA by jit_compile=True; say so to Keras too, so that it doesn't depend.",
    was=("04.14",),
)
def _(refused, chosen, only_cpu):
    return refused == {None: True, True: False} and (not chosen or not only_cpu)


@CLAIMS.add(
    7,
    "XLA reduces memory.",
    "it depends",
    measured=lambda peaks: (
        f"the gradient of 20 tanh {peaks['gradient, tanh, XLA']} instead of "
        f"{peaks['gradient, tanh, graph']}; 6 matmuls {peaks['6 matmuls, XLA']} instead of "
        f"{peaks['6 matmuls, graph']}"
    ),
    advice="Try it on long element-wise chains; measure it everywhere.",
    was=("04.15",),
)
def _(peaks):
    return (
        peaks["gradient, tanh, XLA"].units <= 2
        and peaks["gradient, tanh, graph"].low > 15
        and peaks["4 element-wise, XLA"].units == 1
        and peaks["6 matmuls, XLA"].units > peaks["6 matmuls, eager"].units
        and peaks["gradient, tanh(t @ w), XLA"].units >= 18
    )


@CLAIMS.add(
    8,
    "Wrap the expensive part in tf.function, and it needs less memory.",
    "it depends",
    measured=lambda parts, zeros: "; ".join(
        f"{name}: {peak}" for name, peak in parts.items() if not name.startswith("map_fn")
    ),
    advice="Put the tape inside the function; give accumulation an order.",
    was=("04.16",),
)
def _(parts, zeros):
    loop = parts["loop and tape, eager"].units
    return (
        parts["sum, graph"].low >= 6 > parts["sum, graph in order"].units
        and parts["sum, eager"].units <= 4
        and parts["map_fn, eager"].low >= 20
        and parts["map_fn, graph"].low >= 20
        and parts["loop in a graph, tape outside"].low > 2 * loop
        and parts["loop and tape in a graph"].units < 1.4 * loop
        and zeros > 30 * MIB
    )


@CLAIMS.add(
    9,
    "On a GPU, tf.function pins tensors and holds GPU memory.",
    "not measured",
    measured=lambda: "nothing: this lesson runs on the CPU",
    advice="Set memory growth first, then read tf.config.experimental.get_memory_info on your GPU.",
    was=("04.17",),
)
def _():
    return True
