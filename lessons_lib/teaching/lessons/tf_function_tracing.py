"""Claims of lesson 04, "Find out when a function is traced, and what a trace costs"."""

from __future__ import annotations

from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("04_tf_function_tracing")


@CLAIMS.add(
    1,
    "The code in a tf.function runs at every call.",
    "false",
    measured=lambda python_saw, results: (
        f"{len(results)} calls: Python ran {len(python_saw)} time, the graph {len(results)} times"
    ),
    advice="What must happen at each call has to be a TensorFlow operation.",
    was=("04.1",),
)
def _(python_saw, results):
    return len(python_saw) == 1 and len(results) == 5 and not hasattr(python_saw[0], "numpy")


@CLAIMS.add(
    2,
    "Tracing allocates the tensors, so its cost grows with the input's size.",
    "false",
    measured=lambda traced, run, report: (
        f"tracing makes {format_bytes(traced.allocated_bytes)} of tensors, running "
        f"{format_bytes(run.allocated_bytes)}; a graph of {report.traces[-1].ops} operations takes "
        f"{format_bytes(report.traces[-1].graph_bytes)}"
    ),
    advice="Count operations, not bytes, to see what a trace costs.",
    was=("04.2",),
)
def _(traced, run, report):
    short, short_large, long, long_large = (trace.graph_bytes for trace in report.traces)
    return (
        traced.allocated_bytes < 1024
        and run.peak_bytes >= 64 * MIB
        and abs(short_large - short) < 64  # inputs of 1 GiB and of 1 KiB
        and abs(long_large - long) < 64
        and long > 20 * short
    )


@CLAIMS.add(
    3,
    "A number is a number: as an argument, 1 is as good as 2.",
    "false",
    measured=lambda numbers, dtypes: (
        "traces for 50 numbers: "
        + ", ".join(f"{name} {n}" for name, n in numbers.items())
        + f"; 1.0 after 1: {dtypes[1]}"
    ),
    advice="Pass numbers that change as tensors; keep Python numbers for what stays.",
    was=("04.4",),
)
def _(numbers, dtypes):
    return list(numbers.values()) == [50, 50, 1, 1] and dtypes == ["int32", "int32"]


@CLAIMS.add(
    4,
    "Every batch size costs a trace.",
    "it depends",
    measured=lambda sizes, watch: (
        "traces for 29 sizes: "
        + ", ".join(f"{name} {n}" for name, n in sizes.items())
        + f"; a function made anew 8 times: {watch.new_traces}"
    ),
    advice="Use batches of one size, reduce_retracing=True or an input_signature; make the "
    "tf.function once.",
    was=("04.6",),
)
def _(sizes, watch):
    return list(sizes.values()) == [29, 2, 1] and watch.new_traces == len(watch.reports) == 8


@CLAIMS.add(
    5,
    "An array from outside is used where it is.",
    "false",
    measured=lambda found: "; ".join(
        f"three traces with the {name}: graphs of {format_bytes(report.graph_bytes)}, "
        f"{format_bytes(rec.kept_bytes)} of tensors kept"
        for name, (report, rec, _) in found.items()
    ),
    advice="Turn arrays into tensors or variables once, outside the function.",
    was=("04.11",),
)
def _(found):
    array, used_array, _ = found["array"]
    tensor, used_tensor, _ = found["tensor"]
    return (
        array.constant_bytes == 12 * MIB
        and abs(used_array.kept_bytes - 12 * MIB) < 65536
        and tensor.graph_bytes < 8192
        and abs(used_tensor.kept_bytes) < 65536
        and all(trace.captured_bytes == 4 * MIB for trace in tensor.traces)
    )


@CLAIMS.add(
    6,
    "The first call of a function needs more memory.",
    "it depends",
    measured=lambda calls: "; ".join(
        f"{name}: first {format_bytes(calls[name, 512][0].peak_bytes)}, later "
        f"{format_bytes(calls[name, 512][1].peak_bytes)}"
        for name in ("tanh(t * 2)", "t + eye")
    ),
    advice="Pass large fixed tensors in, or make them outside once, where you can see them.",
    was=("04.3",),
)
def _(calls):
    def found(name, side):
        first, later = calls[name, side]
        sizes = (first.peak_bytes, later.peak_bytes, first.kept_bytes)
        return tuple(round(nbytes / (4 * side**2), 2) for nbytes in sizes)

    return (
        found("tanh(t * 2)", 512) == found("tanh(t * 2)", 2048) == (1, 1, 0)
        and found("t + ones * 2", 512) == found("t + ones * 2", 2048) == (2, 1, 1)
        and found("t + eye", 512) == (2, 1, 1)
        and found("t + eye", 2048) == (2, 1, 0)
    )


@CLAIMS.add(
    7,
    "A graph needs less memory than eager code.",
    "it depends",
    measured=lambda peaks: ", ".join(f"{name}: {peak}" for name, peak in peaks.items()),
    advice="Make the step a function, not the loop around it.",
    was=("04.13", "04.16"),
)
def _(peaks):
    return (
        (peaks["formula, eager"].units, peaks["formula, graph"].units) == (3, 1)
        and peaks["sum, eager"].units == 3
        and peaks["sum, one graph"].low >= 6
        and peaks["sum, a graph for each step"].units <= 3
    )
