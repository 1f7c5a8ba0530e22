"""`Growth`: the answer of `growth`, with its evidence; numbers and texts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.growth.causes import Cause, Finding
from lessons_lib.instruments.growth.counters import Evidence

#: What `growth` cannot see.
BLIND: Final = (
    "Not seen: who took native memory that no living object stands for, memory on other devices "
    "than the CPU, and anything that only begins to grow after the calls that were made."
)


@dataclass(frozen=True, repr=False)
class Growth(Result):
    """Whether a step makes memory grow, and why.

    Attributes
    ----------
    label : str
        The step's name.
    iterations, warmup : int
        How many calls were measured, and made before.
    causes : tuple of Finding
        All causes found, largest first; empty when memory does not grow.
    evidence : Evidence
        The numbers after every call.
    notes : tuple of str
        What else a reader should know, in sentences; the last one says what cannot be seen.
    """

    label: str
    iterations: int
    warmup: int
    causes: tuple[Finding, ...]
    evidence: Evidence
    notes: tuple[str, ...]

    @property
    def cause(self) -> Cause:
        """The largest cause, or ``Cause.NONE``."""
        return self.causes[0].cause if self.causes else Cause.NONE

    @property
    def grows(self) -> bool:
        """Whether memory grows."""
        return bool(self.causes)

    @property
    def bytes_per_call(self) -> int:
        """Bytes that each call adds, of all causes together."""
        return sum(finding.bytes_per_call for finding in self.causes)

    @property
    def holder(self) -> str:
        """Who holds the largest part, as a chain; empty when it cannot be told."""
        return next((finding.held[0].holder for finding in self.causes if finding.held), "")

    def __repr__(self) -> str:
        if not self.causes:
            return f"<Growth of {self.label}: none in {self.iterations} calls>"
        first = self.causes[0]
        more = "" if len(self.causes) == 1 else f" (and {len(self.causes) - 1} more)"
        where = f"; {first.held[0].holder}" if first.held else ""
        return f"<Growth of {self.label}: {first.cause}, {first.size}{more}{where}>"


def _nothing(result: Growth) -> str:
    rising = ", ".join(series.name for series in result.evidence.growing())
    if not rising:
        return f"Nothing grew in {result.iterations} calls."
    calls = f"{result.iterations} calls"
    return f"No cause in {calls}; what rises is too little to be growth: {rising}."


def _line(finding: Finding) -> str:
    return next((h.line.described for h in finding.held if h.line is not None), "")


@summary_html.register
def _(result: Growth) -> str:
    causes = [
        (finding.cause, finding.size, finding.text, finding.held[0].holder if finding.held else "",
         _line(finding))
        for finding in result.causes
    ] or [(Cause.NONE, "", _nothing(result), "", "")]  # fmt: skip
    html = html_table(
        ("cause", "adds", "what was seen", "held by", "made at"), causes, align="lrlll",
        caption=result.label,
    )  # fmt: skip
    held = [
        (h.what, "" if h.shape is None else list(h.shape), h.dtype or "",
         format_bytes(h.nbytes) if h.nbytes else "", f"{h.per_call:.3g}",
         "" if h.line is None else h.line.described, h.holder)
        for finding in result.causes
        for h in finding.held
    ]  # fmt: skip
    if len(held) > 1:
        html += html_table(
            ("what stays", "shape", "type", "size", "a call", "made at", "held by"), held,
            align="lllrrll",
        )  # fmt: skip
    advice = [(f.advice,) for f in result.causes if f.advice]
    return (
        html + (html_table(("what helps",), advice) if advice else "") + notes_table(result.notes)
    )


@summary_html.register
def _(result: Evidence) -> str:
    def value(number: float, unit: str) -> str:
        if number != number:
            return "not read"
        return format_bytes(number) if unit == "bytes" else f"{number:.3g}"

    rows = [
        (s.name, value(s.values[0], s.unit), value(s.values[-1], s.unit), value(s.slope, s.unit),
         value(s.noise, s.unit), s.shape)
        for s in result
        if s.known and s.values
    ]  # fmt: skip
    headers = ("after each call", "first", "last", "per call", "noise", "runs")
    return html_table(headers, rows, align="lrrrrl")
