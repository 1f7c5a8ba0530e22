"""Claims of the further lesson 05, "Look further into growth"."""

from __future__ import annotations

from lessons_lib.common.units import KIB, MIB
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("05_more_on_growth")


@CLAIMS.add(
    1,
    "Layers and variables that a loop makes and drops leave nothing behind.",
    "false",
    measured=lambda named, layers, same: (
        f"each new name ≈ {named.bytes_per_call / KIB:.0f} KiB, each new layer "
        f"≈ {layers.bytes_per_call / KIB:.0f} KiB; with one name: {same.cause}"
    ),
    advice="Make layers and variables once; don't number names.",
    was=("05.8",),
)
def _(named, layers, same):
    return (
        named.cause == layers.cause == "runtime cache"
        and layers.bytes_per_call > 8 * KIB
        and "runtime cache" not in [finding.cause for finding in same.causes]
    )


@CLAIMS.add(
    2,
    "A Python number that becomes a tensor leaves nothing behind.",
    "false",
    measured=lambda new, other: (
        f"new numbers ≈ {new.bytes_per_call / 60:.0f} B each; the same ones or NumPy's: "
        f"{other.cause}"
    ),
    advice="Pass numbers that change as NumPy scalars, or compute them in TensorFlow.",
    was=("05.15",),
)
def _(new, other):
    causes = [finding.cause for finding in new.causes]
    others = [finding.cause for finding in other.causes]
    return "runtime cache" in causes and "runtime cache" not in others


@CLAIMS.add(
    3,
    "A TF1-style loop leaks, and closing the session frees it.",
    "partly",
    measured=lambda operations, size, running, closing, found, alive, fixed: (
        f"{operations[0] / 10:g} operations a round, {operations[1]} after closing; "
        f"{found.cause}. One graph and a feed: {fixed.kept_bytes} bytes kept"
    ),
    advice="The graph holds it: build once and feed, or take a graph for each round.",
    was=("05.11", "05.12"),
)
def _(operations, size, running, closing, found, alive, fixed):
    return (
        operations == [20, 40]
        and size >= 20 * 40_000  # the constants, 100 · 100 · 4 bytes a round
        and running.kept_bytes >= 5 * 40_000
        and closing.kept_bytes <= -running.kept_bytes
        and found.cause == "graph growth"
        and alive == 0
        and fixed.kept_bytes == 0
    )


@CLAIMS.add(
    4,
    "`clear_session()` frees the Keras models that a loop made.",
    "false",
    measured=lambda left, cause: (
        "MiB kept of two models of 1 MiB: "
        + ", ".join(f"{name} ≈ {size / MIB:.1f}" for name, size in left.items())
    ),
    advice="Reuse one model (set_weights), or run each round in a process of its own.",
    was=("05.13",),
)
def _(left, cause):
    training = ("train_on_batch", "the same, clear_session", "fit")
    return (
        all(left[name] >= 1.7 * MIB for name in training)
        and all(abs(left[name]) < MIB / 2 for name in set(left) - set(training))
        and cause["all_reduce"][3] - cause["all_reduce"][1] > 1.7
        and abs(cause["without"][3]) < 0.5
    )


@CLAIMS.add(
    5,
    "A dataset streams, so it only ever holds one element.",
    "false",
    measured=lambda in_use, cached, found, dropped: "; ".join(
        f"{name} ≈ {size:.2f} MiB" for name, size in {**in_use, **cached}.items()
    ),
    advice="Shuffle and cache small records, decode after; let iterators go.",
    was=("05.14",),
)
def _(in_use, cached, found, dropped):
    return (
        in_use["map, shuffle"] > 3
        and in_use["shuffle, map"] < 2
        and cached["map, cache"] >= 16 * 0.25
        and cached["cache, map"] < 0.5
        and found.cause == "dataset buffers"
        and found.bytes_per_call > 3 * MIB
        and dropped < MIB
    )


@CLAIMS.add(
    6,
    "Custom C++ operations prevent leaks.",
    "not measured",
    measured=lambda: "nothing: it needs a compiler",
    advice="Find the holder first; see the guide www.tensorflow.org/guide/create_op.",
    was=("05.17",),
)
def _():
    return True


@CLAIMS.add(
    7,
    "Quantization and pruning prevent leaks.",
    "not measured",
    measured=lambda: "nothing: it needs other packages",
    advice="They are about the size of a model, www.tensorflow.org/model_optimization.",
    was=("05.18",),
)
def _():
    return True
