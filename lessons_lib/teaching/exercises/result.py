"""What a check says: `CheckResult`, with its status, figures and picture.

A result shows itself as a table, and as a picture where there is one to draw (see
`score_plot`): the learner's timeline with the budget when it is over, bars when it
passed.  In plain Python it is text.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from enum import StrEnum

from lessons_lib.common import results
from lessons_lib.common.source import Line
from lessons_lib.notebook import display
from lessons_lib.recording.recording import Recording
from lessons_lib.teaching.exercises.limits import Figure, Quantity


class Status(StrEnum):
    """How an answer fared."""

    NOT_ATTEMPTED = "not attempted"
    ERROR = "error"
    STOPPED = "stopped"
    WRONG_VALUE = "wrong value"
    NOT_AS_ASKED = "not as asked"
    OVER_BUDGET = "over budget"
    REFUSED = "not measured"
    PASSED = "passed"

    @property
    def sign(self) -> str:
        """One character for it."""
        match self:
            case Status.NOT_ATTEMPTED:
                return "○"
            case Status.PASSED:
                return "✓"
            case _:
                return "✗"


@dataclass(frozen=True, repr=False)
class CheckResult(results.Result):
    """The outcome of one check.

    Attributes
    ----------
    exercise : str
        Its key, such as ``"loops.q1"``.
    title : str
        Its title.
    status : Status
        A text, such as ``"over budget"``.
    message : str
        Why, in a sentence or two.
    next_step : str
        What helps now; empty when it passed.
    figures : tuple of Figure
        What was measured, the decisive figure first; empty when nothing was.
    peak_bytes : int or None
        Highest growth of tensor bytes in a run, plus that of NumPy and Python.
    heap_bytes : int
        The part of `peak_bytes` that NumPy and Python took.
    blame : Line or None
        The learner's line that is at fault, where one is known.
    recording : Recording or None
        The recording of the run that was graded.
    """

    exercise: str
    title: str
    status: Status
    message: str
    next_step: str = ""
    figures: tuple[Figure, ...] = ()
    peak_bytes: int | None = None
    heap_bytes: int = 0
    blame: Line | None = None
    recording: Recording | None = field(default=None, compare=False)

    @property
    def figure(self) -> Figure | None:
        """The decisive figure: the first one that is over budget, or else the first."""
        return self.figures[0] if self.figures else None

    @property
    def budget_bytes(self) -> int | None:
        """Limit of the decisive figure when that is in bytes, else of the peak, else None."""
        ranked = sorted(self.figures, key=lambda f: f.quantity is not Quantity.PEAK)
        chosen = [f for f in (self.figure, *ranked) if f is not None and f.quantity.in_bytes]
        return chosen[0].budget if chosen else None

    @property
    def passed(self) -> bool:
        """Whether the status is ``"passed"``."""
        return self.status is Status.PASSED

    @property
    def beats_reference(self) -> bool:
        """Whether a passed answer needed less than the reference solution."""
        figure = self.figure
        return self.passed and figure is not None and figure.beats_reference

    def __str__(self) -> str:
        lines = [f"{self.status.sign} {self.exercise}: {self.status}. {self.message}"]
        lines += [f"  {figure.sentence()}" for figure in self.figures]
        lines += [f"  {self.next_step}"] if self.next_step else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<CheckResult {self.exercise}: {self.status}>"

    def _ipython_display_(self) -> None:
        """Show nothing: `Exercise.check` has shown the result already."""

    def show(self) -> None:
        """Show the result (again)."""
        display.show(str(self), results.summary_html(self))


@results.summary_html.register
def _(result: CheckResult) -> str:
    head = (
        f"<strong>{result.status.sign} {html.escape(result.exercise)}: {result.status}.</strong> "
        f"{html.escape(result.message)}"
    )
    parts = [f'<div role="status">{head}</div>']
    if result.figures:

        def optional(figure: Figure, value: int | None) -> str:
            return "" if value is None else figure.quantity.write(value)

        rows = [
            (
                figure.quantity,
                figure.quantity.write(figure.measured),
                figure.quantity.write(figure.budget),
                optional(figure, figure.reference),
                optional(figure, figure.floor),
            )
            for figure in result.figures
        ]
        headers = ("figure", "yours", "budget", "reference", "least possible")
        parts.append(results.html_table(headers, rows))
        if result.status in (Status.PASSED, Status.OVER_BUDGET):
            parts.append(display.picture_html(result))
    if result.next_step:
        parts.append(f"<div>{html.escape(result.next_step)}</div>")
    return "".join(parts)
