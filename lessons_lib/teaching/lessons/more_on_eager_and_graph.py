"""Claims of "More on eager and graph", which goes on from lesson 02."""

from __future__ import annotations

from lessons_lib.common.units import format_bytes
from lessons_lib.teaching.lessons.claim import Claims

S = 512 * 512 * 4  # bytes
CLAIMS = Claims("02_more_on_eager_and_graph")


@CLAIMS.add(
    1,
    "A tensor's size is its number of elements times the size of its dtype.",
    "partly",
    measured="numbers: exact; 1000 strings of 1 or of 65,536 letters: both {long.kept_bytes} bytes",
    advice="Trust the product for numbers. For strings, look at the process's memory.",
    was=("02.5",),
)
def _(sizes, short, long):
    return (
        sizes == {"bool": 0.25, "bfloat16": 0.5, "float32": 1, "int64": 2, "complex128": 4}
        and short.kept_bytes == long.kept_bytes == 1000 * 24
    )


@CLAIMS.add(
    2,
    "A tensor made from an array does not change when the array does.",
    "it depends",
    measured=lambda copied, shared, batches: (
        f"by tf.constant it changes: {copied}; by stop_gradient, aligned: {shared[0]}, not: "
        f"{shared[16]}; a generator's batches, aligned: {batches[0]}"
    ),
    advice="Start with tf.constant(array). In a generator, yield a new array each time.",
    was=("02.7",),
)
def _(copied, shared, batches):
    return (
        copied == shared[16] == {False} and shared[0] == {True} and batches[16] == [0.0, 1.0, 2.0]
    )


@CLAIMS.add(
    3,
    "`.numpy()` shares the tensor's memory, if possible.",
    "false",
    measured=lambda by_numpy, by_asarray, shares, copies, writable: (
        f".numpy() copies, and keeps {format_bytes(by_numpy.tensor_kept_bytes)} of tensors; "
        f"np.asarray shares, and keeps {format_bytes(by_asarray.tensor_kept_bytes)}"
    ),
    advice="Use np.asarray(t) to look, t.numpy() to keep; better, keep a summary.",
    was=("02.8", "05.4"),
)
def _(by_numpy, by_asarray, shares, copies, writable):
    return (
        by_numpy.tensor_kept_bytes < 64
        and S <= by_numpy.heap_kept_bytes < 1.5 * S
        and S <= by_asarray.tensor_kept_bytes < S + 64
        and by_asarray.heap_kept_bytes < S / 2
        and list(shares.values()) == [True, True, False, False]
        and all(copies.values())
        and not writable["float32"]
    )


@CLAIMS.add(
    4,
    "A variable has memory of its own.",
    "partly",
    measured=lambda sharing, writes: (
        f"two variables of a tensor: {round(sharing.kept_bytes / S, 2):g} S; writes: "
        + ", ".join(f"{size:g} S" for size in writes)
    ),
    advice="Let go of the initial tensor before the first write, and the write is free.",
    was=("02.18",),
)
def _(sharing, writes):
    return sharing.kept_bytes < 4096 and writes == [1, 0, 1]


@CLAIMS.add(
    5,
    "Updating a variable needs a second buffer of its size.",
    "it depends",
    measured=lambda eager, graph, held: (
        "; ".join(f"{name}: {peak}" for name, peak in eager.items())
        + f"; v.assign_add(d) while a value is held: {format_bytes(held.peak_bytes)}"
    ),
    advice="Prefer assign_add and assign_sub; don't hold on to values that you read.",
    was=("02.19",),
)
def _(eager, graph, held):
    figures = [[peak.units for peak in peaks.values()] for peaks in (eager, graph)]
    return figures == [[0, 1, 1, 0]] * 2 and S <= held.peak_bytes < S + 64


@CLAIMS.add(
    6,
    "`v[i].assign(row)` writes one row, so it costs one row.",
    "false",
    measured="allocated in all: {found.laws}",
    advice="Write rows with v.scatter_nd_update or v.scatter_update.",
    was=("02.20",),
)
def _(found):
    return found["v[i].assign"].law == "n" and found["scatter_nd_update"].law == "0"


@CLAIMS.add(
    7,
    "Reading a variable is free.",
    "it depends",
    measured=lambda reads, again, cured, layer: (
        "v * 1.0, after " + ", ".join(f"{name}: {peak}" for name, peak in reads.items())
    ),
    advice="Don't mix lookups and whole-table arithmetic on one large tf.Variable.",
    was=("02.21",),
)
def _(reads, again, cured, layer):
    return [peak.units for peak in reads.values()] == [1, 1, 1, 2, 2, 2, 2] and (
        again.units,
        cured.units,
        layer.units,
    ) == (2, 1, 1)


@CLAIMS.add(
    8,
    "`tf.config.run_functions_eagerly(True)` enables eager execution.",
    "false",
    measured="it turns tf.function off: {on} instead of {off}",
    advice="Use it to debug, and switch it off before you measure.",
    was=("02.14",),
)
def _(on, off, inside):
    return (on.units, off.units) == (2, 1) and not inside


@CLAIMS.add(
    9,
    "A session that is not closed leaks its memory.",
    "it depends",
    measured="five unclosed sessions: dropped {dropped:.2f} S, still referred to {kept:.2f} S",
    advice="Use `with Session(...)`; better, use tf.function and no sessions.",
    was=("02.15",),
)
def _(dropped, kept, closed):
    return [round(size, 2) for size in (dropped, kept, closed)] == [0, 5, 0]


@CLAIMS.add(
    10,
    "`get_variable` with `reuse` gives the same variable again.",
    "it depends",
    measured="in a graph: {in_graph}; eagerly two variables, which keep {eager.kept_bytes!b}",
    advice="In TensorFlow 2, make a tf.Variable once and keep it.",
    was=("02.16",),
)
def _(in_graph, first, second, eager):
    return in_graph and first is not second and 2 * S <= eager.kept_bytes < 2 * S + 4096


@CLAIMS.add(
    11,
    "`tf.config.experimental.get_memory_info()` tells how many bytes tensors take.",
    "partly",
    measured="≈ {told:,} bytes for a tensor of {rec.kept_bytes:,}",
    advice="Give it a device; read it as the allocator's figure, an upper bound.",
    was=("02.17",),
)
def _(rec, told):
    return told > rec.kept_bytes == 300 * 300 * 4
