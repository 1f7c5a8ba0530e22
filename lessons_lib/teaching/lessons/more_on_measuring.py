"""Claims of "More on measuring", which goes on from lesson 01."""

from __future__ import annotations

from lessons_lib.common.units import MIB
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("01_more_on_measuring")


@CLAIMS.add(
    1,
    "%memit gives the memory of a statement.",
    "false",
    measured=lambda increments, rec: (
        f"the second and third time ≈ {increments[1]:.0f} and ≈ {increments[2]:.0f} MiB; "
        f"recorded {rec.peak_bytes // MIB} MiB"
    ),
    advice="Use %%mem for tensors; keep %memit for fresh processes and for other libraries.",
    was=("01.2",),
)
def _(increments, rec):
    return max(increments[1:]) < 32 and (rec.peak_bytes, rec.kept_bytes) == (64 * MIB, 0)


@CLAIMS.add(
    2,
    "A line table of memory_profiler shows which line is to blame.",
    "false",
    measured=lambda increments, rec: (
        f"its table gives the line ≈ {increments[2]:.0f} MiB, the recorder "
        f"{rec.by_line().rows[0].allocated_bytes // MIB} MiB"
    ),
    advice="Use rec.by_line() or %%mem --lines for tensors.",
    was=("01.3",),
)
def _(increments, rec):
    rows = sorted(row.allocated_bytes for row in rec.by_line().rows)
    return abs(increments[2]) < 32 and rows == [MIB, 64 * MIB]
