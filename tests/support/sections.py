"""A lesson's sections, and how they are run a second time, each by itself.

The opening is everything up to the first heading after the first code cell.  A section goes from
one heading of the second level, or of a claim, to the next.  After a lesson has run, `again` runs
its opening and each section again in the same kernel.  Before a section, all names are taken away
that other sections made; its own, and the opening's, stay as the first run has left them.  So this
shows at once that a section needs no other one, and that it may be run twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_HEADING = re.compile(r"## |### Claim ")

#: Run in the kernel: what names there are now.
NAMES = "sorted(name for name in globals() if not name.startswith('_'))"
#: Run in the kernel: take all other names away.
KEEP_ONLY = (
    "for _name in [n for n in globals() if not n.startswith('_') and n not in {kept!r}]:\n"
    "    del globals()[_name]"
)
#: What is said when a section fails the second time.
AGAIN = (
    "In a second run of the section “{title}”, with the opening and the names of this section "
    "only: release names first, and use what the opening or this section makes."
)
#: Names that IPython gives.
OF_IPYTHON = frozenset(["In", "Out", "get_ipython", "exit", "quit", "open"])


@dataclass(frozen=True)
class Section:
    """A part of a lesson: its heading, and the places of its code cells in the notebook."""

    title: str
    cells: tuple[int, ...]


def sections(notebook: Any) -> list[Section]:
    """Part a lesson: first its opening, then its sections; those without code are left out."""
    found: list[tuple[str, list[int]]] = [("the opening", [])]
    for place, cell in enumerate(notebook.cells):
        heading = cell.cell_type == "markdown" and _HEADING.match(cell.source)
        if heading and (len(found) > 1 or found[0][1]):
            found.append((cell.source.splitlines()[0].lstrip("# "), []))
        elif cell.cell_type == "code":
            found[-1][1].append(place)
    return [Section(title, tuple(cells)) for title, cells in found if cells]


@dataclass
class NameBook:
    """Which names each section of a lesson has made, noted while the lesson runs."""

    parts: list[Section]
    made: dict[int, set[str]]

    @classmethod
    def of(cls, notebook: Any) -> NameBook:
        """Begin a book for a notebook."""
        return cls(sections(notebook), {})

    def ends(self, place: int) -> int | None:
        """Give the number of the section whose last code cell this is."""
        return next((n for n, part in enumerate(self.parts) if part.cells[-1] == place), None)

    def note(self, number: int, names: list[str]) -> None:
        """Note the names that there are after a section."""
        before = set().union(*(self.made[n] for n in self.made))
        self.made[number] = set(names) - before

    def kept(self, number: int) -> list[str]:
        """Give the names that stay before a section runs again."""
        return sorted(OF_IPYTHON | self.made.get(0, set()) | self.made.get(number, set()))
