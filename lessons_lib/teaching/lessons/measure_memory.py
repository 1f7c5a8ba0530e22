"""Claims of lesson 01, "Measure memory, and know which figure to trust"."""

from __future__ import annotations

import platform
import sys

from lessons_lib.common.units import MIB
from lessons_lib.teaching.lessons.claim import Claims

CLAIMS = Claims("01_measure_memory")


@CLAIMS.add(
    1,
    "Measure the process: its growth is what the program needs.",
    "false",
    measured="tensors {first.tensor_peak_bytes!b} both times; the process "
    "{first.resident_growth_bytes!n}, then {second.resident_growth_bytes!n}",
    advice="Use the resident set size to see whether a machine suffices, not what a line costs.",
    was=("01.1",),
)
def _(first, second):
    exact = [run.tensor_peak_bytes for run in (first, second)] == [128 * MIB] * 2
    return exact and second.resident_growth_bytes < 32 * MIB


@CLAIMS.add(
    2,
    "tracemalloc sees all memory that Python code allocates.",
    "partly",
    measured=lambda array, tensor: (
        f"≈ {array.heap_peak_bytes / MIB:.0f} MiB of an array, "
        f"≈ {tensor.heap_peak_bytes / MIB:.0f} MiB of a tensor of that size"
    ),
    advice="tracemalloc for Python and NumPy, ll.record for tensors.",
    was=("01.4",),
)
def _(array, tensor):
    return (
        16 * MIB <= array.heap_peak_bytes < 17 * MIB
        and array.tensor_peak_bytes == 0
        and tensor.heap_peak_bytes < MIB
        and 16 * MIB <= tensor.tensor_peak_bytes < 16 * MIB + 64  # and its shape
    )


@CLAIMS.add(
    3,
    "`get_memory_info` works on GPUs only.",
    "false",
    measured=lambda rec, told: (
        f"on the CPU it said ≈ {told / 1e6:.1f} MB for {rec.kept_bytes / 1e6:g} MB requested"
    ),
    advice="Good for a quick look; it counts the allocator's chunks, so it may say more.",
    was=("01.5",),
)
def _(rec, told):
    return rec.kept_bytes == 20 * 300 * 300 * 4 and rec.kept_bytes <= told < 3 * rec.kept_bytes


@CLAIMS.add(
    4,
    "If memory does not come back to the system, something leaks.",
    "false",
    measured=lambda small, large, pooled: (
        f"nothing alive, yet a plain process keeps ≈ {small[1]:.0f} MiB of ≈ {small[0]:.0f} MiB "
        f"until it is asked, and with oneDNN ≈ {pooled[2]:.0f} MiB of large tensors after that"
    ),
    advice="Judge a leak by live bytes (lesson 05), never by the resident set size alone.",
    was=("01.6",),
)
def _(small, large, pooled):
    if sys.platform != "linux":  # elsewhere nothing is asked to give memory back
        return True
    stays = platform.machine() != "x86_64" or pooled[2] > pooled[0] / 2
    return small[1] > small[0] / 2 > small[2] and large[2] < large[0] / 2 and stays


@CLAIMS.add(
    5,
    "This recorder sees everything.",
    "false",
    measured="≈ {seen} of 40 tensors made from arrays, {made} of 40 made by operations; "
    "{strings.kept_bytes!b} of a million letters",
    advice="For exact figures make inputs with tf.random, tf.fill, tf.zeros.",
    was=("01.7", "02.6"),
)
def _(alone, seen, made, strings):
    return alone.peak_bytes == 0 and made == 40 > seen and strings.kept_bytes == 1000 * 24
