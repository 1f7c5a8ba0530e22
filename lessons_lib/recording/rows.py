"""Buffers of a run as columns, and fewer points of a long curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lessons_lib.recording.buffers import Floats, Ints


@dataclass(slots=True)
class Rows:
    """Buffers in columns: `born` and `died` are numbers of events, -1 when outside of the run."""

    site: Ints
    nbytes: Ints
    reserved: Ints
    born: Ints
    died: Ints
    born_at: Floats
    died_at: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, float]]) -> Rows:
        """Make columns of (site, nbytes, reserved, born, born_at); nothing has died yet."""
        columns = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4)
        site, nbytes, reserved, born = columns.T.copy()
        born_at = np.array([row[4] for row in rows], np.float64)
        died = np.full(len(rows), -1, np.int64)
        return cls(site, nbytes, reserved, born, died, born_at, np.zeros(len(rows)))

    def __len__(self) -> int:
        return len(self.site)

    def described(self, row: int) -> tuple[int, int]:
        """Give the number of a row's description, and its bytes."""
        return int(self.site[row]), int(self.nbytes[row])

    def taken(self, chosen: np.ndarray) -> Rows:
        """Give some of the rows."""
        return Rows(*(getattr(self, name)[chosen] for name in Rows.__slots__))

    def with_more(self, other: Rows) -> Rows:
        """Give these rows, and others after them."""
        return Rows(
            *(np.concatenate((getattr(self, n), getattr(other, n))) for n in Rows.__slots__)
        )


def fold_into(folded: dict[int, list[int]], rows: Rows, begin: int) -> None:
    """Add rows that were born from an event on to counts and bytes by site."""
    mine = rows.born >= begin
    sites, place = np.unique(rows.site[mine], return_inverse=True)
    counts = np.bincount(place, minlength=len(sites))
    # Summed as whole numbers: floating point would lose bytes above 2**53.
    nbytes = np.zeros(len(sites), np.int64)
    np.add.at(nbytes, place, rows.nbytes[mine])
    for site, count, size in zip(sites.tolist(), counts.tolist(), nbytes.tolist(), strict=True):
        entry = folded.setdefault(site, [0, 0])
        entry[0] += count
        entry[1] += size


def thinned(points: np.ndarray, most: int) -> np.ndarray:
    """Give fewer points of a curve: of each part of it the highest one and the last one.

    Parameters
    ----------
    points : float array, shape (points, 3)
        Number, time and value.
    most : int
        How many may be left, about.
    """
    if len(points) <= most:
        return points
    parts = np.array_split(np.arange(len(points)), most // 2)
    chosen = {int(place) for p in parts for place in (p[np.argmax(points[p, 2])], p[-1])}
    return points[sorted(chosen)]


def freed_first(ranks: Ints, born: Ints, sizes: Ints, excess: int) -> list[int]:
    """Choose which buffers to take for freed, by a count that is lower by an excess.

    Parameters
    ----------
    ranks, born, sizes : array of int
        Of each buffer: its rank, of which the lowest goes first, when it was born, of which the
        latest goes first, and its bytes.
    excess : int
        Bytes that were freed at least; more, if something was made meanwhile.

    Returns
    -------
    list of int
        The places of those.
    """
    chosen: list[int] = []
    order = np.lexsort((-born, ranks))
    for rank in np.unique(ranks):
        left: list[int] = []
        living = order[ranks[order] == rank]
        alone = living[abs(sizes[living] - excess) <= excess // 64]
        # One that accounts for it all is likelier than some that do so together.
        for place in (alone[:1] if excess > 0 and len(alone) else living).tolist():
            fits = int(sizes[place]) <= excess
            (chosen if fits else left).append(place)
            excess -= int(sizes[place]) if fits else 0
        nearest = min(left, key=lambda place: int(sizes[place]), default=-1)
        if nearest >= 0 and int(sizes[nearest]) < 2 * excess:
            chosen.append(nearest)
            excess -= int(sizes[nearest])
        if excess <= 0:
            break
    return chosen
