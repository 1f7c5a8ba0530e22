"""Claims of lesson 05, "Find what grows in a loop, and name the cause"."""

from __future__ import annotations

from lessons_lib.common.units import MIB, format_bytes
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("05_growth_in_loops")


def _resident(seen):
    return seen.resident_after_bytes - seen.resident_before_bytes


@CLAIMS.add(
    1,
    "The process stays large, so something leaks.",
    "false",
    measured=lambda first, second, found: (
        f"{first.tensor_kept_bytes} bytes of tensors kept; the process "
        f"≈ {_resident(first) / MIB:+.0f} MiB after the first call, "
        f"≈ {_resident(second) / MIB:+.0f} MiB more after the second"
    ),
    advice="Count what is alive before you suspect a leak; keep the largest step small.",
    was=("05.16",),
)
def _(first, second, found):
    return (
        first.tensor_kept_bytes == second.tensor_kept_bytes == 0
        and min(first.tensor_peak_bytes, second.tensor_peak_bytes) >= 128 * MIB
        and _resident(second) < 64 * MIB  # of the 128 MiB that it takes
        and found.cause not in ("retained tensors", "allocator")
    )


@CLAIMS.add(
    2,
    "Without `del`, tensors pile up in a loop.",
    "false",
    measured="MiB at any n: {found.laws}",
    advice="Use del only to lower a peak; put a loop's body into a function.",
    was=("05.1", "05.2"),
)
def _(found, chain):
    return (
        found["plain"].law == "2"
        and found["with del"].law == "1"
        and (chain["with names"].units, chain["without"].units) == (3, 2)
    )


@CLAIMS.add(
    3,
    "`history.append(loss)` keeps the whole computation of the loss.",
    "false",
    measured=lambda kept, logged, held: (
        f"a loss {kept['loss'].peaks[20].kept_bytes // 20} B of tensors, "
        f"≈ {logged.causes[0].paid / 20:.0f} B of the process; "
        f"a gradient {kept['gradient'].peaks[20].kept_bytes // 20 // MIB} MiB"
    ),
    advice="Keep float(loss), or a small summary of a large tensor; drop a callback when it ran.",
    was=("05.3", "05.6"),
)
def _(kept, logged, held):
    small = logged.causes[0]
    holders = [thing.holder for thing in held.causes[0].held]
    return (
        kept["loss"].peaks[20].kept_bytes == 20 * 4
        and kept["float(loss)"].peaks[20].kept_bytes == 0
        and kept["gradient"].law == "n"
        and small.cause == held.cause == "retained tensors"
        and small.bytes_per_call == 20 * 4
        and small.paid > 20 * 100  # each costs about a thousand bytes in the process
        and held.causes[0].bytes_per_call == 2 * MIB
        and any(holder.startswith("history") for holder in holders)
        and any(holder.startswith("jobs") and "function" in holder for holder in holders)
    )


@CLAIMS.add(
    4,
    "Keeping one row of each batch is cheap.",
    "it depends",
    measured=lambda kept: (
        "rows of "
        + ", ".join(f"{c.label}: {format_bytes(c.peaks[50].kept_bytes)}" for c in kept)
        + " kept by 50"
    ),
    advice="Copy what you keep: tf.gather(t, 0), or t[0].numpy().",
    was=("05.5",),
)
def _(kept):
    return (
        kept["512 numbers"].law == "n"
        and kept["301 numbers"].peaks[50].kept_bytes == 50 * 301 * 4
        and kept["tf.gather, 512 numbers"].peaks[50].kept_bytes == 50 * 512 * 4
    )


@CLAIMS.add(
    5,
    "`gc.collect()` in the loop fixes leaks.",
    "partly",
    measured="MiB without and with it: cycles {kept[cycles]}, a list {kept[a list]}",
    advice="If gc.collect() helps, there are cycles. If not, find who holds it.",
    was=("05.7",),
)
def _(kept):
    return kept == {"cycles": [3, 0], "a list": [3, 3]}


@CLAIMS.add(
    6,
    "A tape releases by itself what it recorded.",
    "partly",
    measured="MiB kept by n tapes: {kept.laws}; peak of a persistent one {persistent[0]}, "
    "asked inside its block {persistent[1]}",
    advice="Keep no tapes; open one only where a gradient is taken, and ask it after its block.",
    was=("05.9", "05.10"),
)
def _(kept, plain, persistent):
    return (
        kept["asked"].law == "0"
        and kept["never asked"].law == kept["persistent"].law == "2 n"
        and plain[0].peak_bytes == plain[1].peak_bytes
        and persistent[1].peak_bytes > persistent[0].peak_bytes
    )


@CLAIMS.add(
    7,
    "What a step makes is freed when the step returns, unless I put it into a list.",
    "false",
    measured=lambda dropped, found, after: (
        "; ".join(f"{finding.cause}, {finding.size}" for finding in found.causes)
        + f"; fixed: {after.cause}"
    ),
    advice="Make a variable once and assign to it; pass numbers that change as tensors.",
    was=("05.8",),
)
def _(dropped, found, after):
    sizes = {finding.cause: finding.bytes_per_call for finding in found.causes}
    holders = {f.cause: f.held[0].holder for f in found.causes if f.held}
    return (
        dropped["variables under one name"].law == "2"
        and sizes.get("variables") == MIB
        and sizes.get("retracing", 0) > 0
        and holders["variables"].startswith("ensemble")
        and holders["retracing"].startswith("scaled")
        and after.cause not in ("variables", "retracing", "retained tensors")
    )
