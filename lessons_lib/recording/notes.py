"""What a reader must know about a recording, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lessons_lib.common.units import counted, format_bytes
from lessons_lib.recording.buffers import NOT_WATCHED
from lessons_lib.recording.pacing import Rest
from lessons_lib.recording.session_checks import Completeness

TOO_LITTLE_MEMORY: Final = (
    "there was too little memory to read a part of what TensorFlow's profiler had written, so it "
    "is missing: give the process more memory"
)
_LOST: Final = (
    "Some allocations were not reported (the profiler was disturbed, or, in TensorFlow 2.16, a "
    "thread ended and another one followed)"
)
_CHANGED: Final = (
    "Some allocations were not reported, or may not have been: other threads worked at {times} "
    "when the profiler was stopped, to be read, and started again, as in a long recording or when "
    "a recording inside this one ends"
)


def missing(found: Completeness) -> str:
    """Say in a sentence what a recording lacks, and which figures are off by how much at most."""
    said, lost = _LOST, found.missing_bytes
    if found.changes:
        said = _CHANGED.format(times=counted(found.changes, "moment"))
    if found.above is None:
        much = f" by {format_bytes(lost)} or more" if lost else ", by how much is not known"
        return f"{said}: the peak, what is kept and what was allocated may be off{much}."
    return (
        f"{said}: by the allocator's count this alone puts the peak off by at most "
        f"{format_bytes(lost + found.above)} and what is kept by at most {format_bytes(lost)}; "
        "more may be missing only from what was allocated in all."
    )


def rested(rests: Sequence[Rest], seconds: float, seen: int) -> Iterator[str]:
    """Say in a sentence what was not watched."""
    if not rests:
        return
    watched = seconds - sum(rest.end - rest.begin for rest in rests)
    over = max(rest.peak for rest in rests) - seen
    above = "no more than in the windows" if over <= 0 else f"up to ≈ {format_bytes(over)} more"
    yield (
        f"Watched whole: ≈ {watched:.3g} s of ≈ {seconds:.3g} s, in "
        f"{counted(len(rests) + 1, 'part')}. Operations, lines, and what was allocated in all are "
        f"of these parts; in between only the allocator's count was read, which was {above}. "
        "It has whole pieces, larger than what was asked for: so have the steps of that time. "
        f"What was left of that time is listed as “{NOT_WATCHED}”, and which of the older buffers "
        "went is guessed. To watch all, record with share=1."
    )
