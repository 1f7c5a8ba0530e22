"""Claims of lesson 07, "Fix your own code"."""

from __future__ import annotations

from lessons_lib.common.units import MIB
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("07_your_own_code")

#: Bytes of the script's hidden layer.
HIDDEN = 2048 * 128 * 4


@CLAIMS.add(
    1,
    "It runs out of memory, so it needs a larger machine.",
    "false",
    measured=lambda found: (
        f"the peak rises by ≈ {(found['script'][12] - found['script'][4]) / 8:.1f} MiB in each step"
    ),
    advice="Find out what the peak depends on: steps, batch, length. A straight line is a clue.",
    was=("07.1",),
)
def _(found):
    peaks = [found["script"].peaks[n].peak_bytes for n in (4, 8, 12)]
    first, second = peaks[1] - peaks[0], peaks[2] - peaks[1]
    return first > 4 * 2 * MIB and abs(second - first) < 0.1 * first


@CLAIMS.add(
    2,
    "Call gc.collect() in every step.",
    "it depends",
    measured=lambda script, cycles: (
        f"the script ≈ {script['without'].peak_bytes / MIB:.0f} MiB, with collecting "
        f"≈ {script['with'].peak_bytes / MIB:.0f} MiB; objects in cycles "
        f"≈ {cycles['without'].peak_bytes / MIB:.0f} MiB, with collecting "
        f"≈ {cycles['with'].peak_bytes / MIB:.0f} MiB"
    ),
    advice="Find out who holds it. Collecting helps only where objects form cycles.",
    was=("07.2",),
)
def _(script, cycles):
    without, collected = (script[way].peak_bytes for way in ("without", "with"))
    return (
        abs(collected - without) < 0.01 * without
        and cycles["with"].peak_bytes < 3 * MIB
        and cycles["without"].peak_bytes > 2 * cycles["with"].peak_bytes
    )


@CLAIMS.add(
    3,
    "A good meter finds all of it.",
    "false",
    measured=lambda rec, kept, watch, seen: (
        f"{_lines_at_peak(rec)} lines in the recording; {watch.new_traces} traces and "
        f"≈ {seen.heap_peak_bytes / MIB:.0f} MiB of NumPy arrays are for other meters"
    ),
    advice="Ask three: ll.record (tensors), ll.watch_retracing (graphs), ll.process_memory "
    "(Python).",
    was=("07.3",),
)
def _(rec, kept, watch, seen):
    lines = [row.line.text for row in rec.by_line().rows if row.line and row.peak_bytes >= MIB]
    return (
        any("tf.tanh" in line for line in lines)
        and any("tf.concat" in line for line in lines)
        and not any("astype" in line or "learning_rate" in line for line in lines)
        and kept["tapes and rows"].law == kept["tapes"].law == "2.5 n"
        and kept["rows"].law == "n"
        and kept["copies of rows"][8] < 0.01
        and watch.new_traces == 100
        and seen.heap_peak_bytes > 0.95 * 8 * 2 * HIDDEN  # eight arrays in float64
    )


def _lines_at_peak(rec):
    """Count the lines that have a MiB or more at the peak."""
    return sum(row.line is not None and row.peak_bytes >= MIB for row in rec.by_line().rows)


@CLAIMS.add(
    4,
    "To need less memory, one has to compute less.",
    "false",
    measured=lambda both: "{} before, {} after, and the same results".format(
        *(f"≈ {m.peak_bytes / MIB:.1f} MiB" for m in both.measurements)
    ),
    advice="Keep numbers, not tensors; copy the row that you want (tf.gather); let the tape go.",
    was=("07.4",),
)
def _(both):
    before, after = (m.peak_bytes for m in both.measurements)
    return bool(both.agree) and after < before / 4


@CLAIMS.add(
    5,
    "Memory is too noisy to be tested.",
    "partly",
    measured=lambda peaks, grown, kept: (
        f"peaks of {', '.join(str(peak) for peak in peaks)}, resident "
        f"set {', '.join(f'≈ {g / MIB:+.0f} MiB' for g in grown)}; over the budget of 2 MiB: "
        f"{'refused' if not kept['2 MiB'] else 'passed'}"
    ),
    advice="Test tensor bytes, with some room, more for graphs; not the resident set.",
    was=("07.5",),
)
def _(peaks, grown, kept):
    found = [peak.peak_bytes for peak in peaks]
    return max(found) - min(found) < MIB / 100 and kept == {"16 MiB": True, "2 MiB": False}


@CLAIMS.add(
    6,
    "When `nvidia-smi` shows a full GPU, tensors fill it.",
    "not measured",
    measured=lambda: "nothing: this lesson runs on the CPU",
    advice="Set memory growth first of all, then read get_memory_info.",
    was=("07.6",),
)
def _():
    return True
