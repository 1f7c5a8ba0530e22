"""The report of a recorded program: one HTML file that needs nothing else.

Everything that comes from the program (names, lines, messages, arguments) is escaped.  Pictures
are images inside the page, with alternative texts; there is no script in it.  It follows the
reader's light or dark setting.  Sizes are bytes, written in units that suit them.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lessons_lib.common.results import Result, draw, html_table, summary_html
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.tracing import RetracingWatch
from lessons_lib.recording.breakdown import Breakdown, buffers_html
from lessons_lib.recording.recording import Recording

_MOST_ROWS: Final = 40
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; padding: 1.5rem;
  color: #1d2433; background: #fdfcf9; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.6rem; }
table { margin: 0.6rem 0; }
td, th { border-bottom: 1px solid rgba(128, 128, 128, 0.35); vertical-align: top; }
caption { font-weight: 600; padding: 0.4rem 0; }
pre { overflow-x: auto; padding: 0.7rem 1rem; border: 1px solid rgba(128, 128, 128, 0.35); }
.wide { overflow-x: auto; }
.failed { border-left: 0.3rem solid #c2403a; padding-left: 0.8rem; }
.facts td:first-child, .facts th:first-child { white-space: nowrap; }
@media (prefers-color-scheme: dark) { body { color: #e6e8ee; background: #16181d; } }
"""

#: What a report cannot show, whatever the program does.
LIMITS: Final = (
    "Bytes are those that TensorFlow's allocator was asked for.  Not seen: NumPy's own arrays "
    "(and tensors that adopted one's memory), Python objects, the characters of strings.",
    "TensorFlow was loaded before the program began, so environment variables for TensorFlow that "
    "the program sets itself had no effect.",
    "Processes that the program started are not in here.",
)


@dataclass(frozen=True)
class ProgramReport:
    """A program that was run and recorded.

    Attributes
    ----------
    command : str
        What was run, with its arguments.
    recording : Recording
        Its memory.
    traces : RetracingWatch or None
        Its ``tf.function`` traces.
    outcome : str
        How it ended, in a sentence.
    failure : str
        The traceback, when it raised; else empty.
    notes : tuple of str
        What a reader must know beside the recording's own notes.
    """

    command: str
    recording: Recording
    traces: RetracingWatch | None
    outcome: str
    failure: str = ""
    notes: tuple[str, ...] = ()

    def html(self) -> str:
        """Build the page."""
        title = html.escape(f"Memory of {self.command}")
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>{title}</h1>\n" + "\n".join(self._sections()) + "\n</main>\n</body>\n</html>\n"
        )

    def _sections(self) -> Iterator[str]:
        recording = self.recording
        kind = ' class="failed"' if self.failure else ""
        yield f"<p{kind}>{html.escape(self.outcome)}</p>"
        if self.failure:
            yield f"<pre>{html.escape(self.failure)}</pre>"
        yield _wide(self._summary())
        yield "<h2>Over time</h2>"
        yield _picture(recording)
        yield "<h2>Alive at the peak</h2>"
        yield _wide(buffers_html(recording.at_peak(), most=_MOST_ROWS))
        yield from _broken_down("By line", recording.by_line(), picture=True)
        yield from _broken_down("By category", recording.by_category())
        yield from _broken_down("By layer", recording.by_layer())
        yield from _broken_down("By operation", recording.by_op())
        if recording.steps:
            yield f"<h2>Steps</h2>{_wide(summary_html(recording.steps))}"
        yield "<h2>Traces of tf.function</h2>"
        if self.traces is None or not self.traces.rows:
            yield "<p>No function was traced.</p>"
        else:
            yield _wide(summary_html(self.traces))
        yield "<h2>What to know about these figures</h2>"
        yield "<ul>"
        for note in (*recording.notes, *self.notes, *LIMITS):
            yield f"<li>{html.escape(note)}</li>"
        yield "</ul>"

    def _summary(self) -> str:
        recording = self.recording
        traces = 0 if self.traces is None else self.traces.new_traces
        versions = ", ".join(f"{name} {version}" for name, version in recording.versions.items())
        peak = f"{format_bytes(recording.peak_bytes)} ({recording.peak_bytes:,} bytes)"
        about, part = "", ""
        if recording.unwatched:  # the allocator rounds up what it counts
            peak, about, part = (
                f"≈ {format_bytes(recording.peak_bytes)}",
                "≈ ",
                " in what was watched",
            )
            if recording.counted_bytes > recording.peak_bytes:
                counted = format_bytes(recording.counted_bytes)
                peak += f"; at most ≈ {counted} when nobody watched, rounded up by the allocator"
        rows = [
            ("peak", peak),
            ("held by the allocator for it", format_bytes(recording.held_bytes)),
            ("process (resident set)", _resident(recording.resident_bytes)),
            ("reached after", f"≈ {recording.peak_at:.3g} s of ≈ {recording.seconds:.3g} s"),
            ("kept at the end", f"{about}{format_bytes(recording.kept_bytes)}"),
            (f"allocated in all{part}", format_bytes(recording.allocated_bytes)),
            (f"buffers{part}", f"{recording.buffers.total:,}"),
            ("traces of tf.function", f"{traces:,}"),
            ("figures", "exact" if recording.exact else "not exact: see the end of the page"),
            ("versions", versions),
        ]
        return f'<div class="facts">{html_table(("", ""), rows, align="ll")}</div>'


def _resident(nbytes: int | None) -> str:
    return "not known here" if nbytes is None else f"≈ {format_bytes(nbytes)} at the end"


def _broken_down(heading: str, breakdown: Breakdown, *, picture: bool = False) -> Iterator[str]:
    yield f"<h2>{heading}</h2>"
    if not breakdown.rows:
        yield "<p>Nothing was allocated.</p>"
        return
    if picture:
        yield _picture(breakdown)
    yield _wide(summary_html(breakdown))


def _wide(table: str) -> str:
    return f'<div class="wide">{table}</div>'


def _picture(result: Result) -> str:
    """Draw a result as an image in the page; a sentence where it cannot be drawn."""
    try:
        axes = draw(result, None)
    except (TypeError, ImportError) as error:
        return f"<p>There is no picture here: {html.escape(str(error))}.</p>"
    return str(getattr(axes, "_repr_html_")())  # noqa: B009 - matplotlib's own axes lack it
