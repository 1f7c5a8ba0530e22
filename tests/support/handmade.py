"""Recordings made by hand, from what was allocated and freed."""

from __future__ import annotations

import numpy as np

from lessons_lib.common.source import Line
from lessons_lib.recording.buffers import BufferStore, Site
from lessons_lib.recording.recording import Recording


def made(
    *lives: tuple[int, int, int, int],
    sites: tuple[Site, ...] = (Site("Add", line=Line("a.py", 1, "x + y")),),
    label: str = "",
    times: int = 0,
) -> Recording:
    """Make a recording by hand from (site, bytes, event of birth, event of death)."""
    columns = np.array(lives, np.int64).reshape(-1, 4).T
    events = times or int(max(columns[2:].max(initial=-1) + 1, 0))
    store = BufferStore(
        sites=sites,
        site=columns[0],
        nbytes=columns[1],
        reserved=(columns[1] + 255) // 256 * 256,
        born=columns[2],
        died=columns[3],
        times=np.arange(events).astype(np.float64) * 0.5,
    )
    recording = Recording.open(label)
    recording.close(seconds=events * 0.5, buffers=store, exact=True, notes=())
    return recording


ADD = Site("Add", shape=(2, 2), dtype="float32", line=Line("/home/a.py", 1, "x + y"))


MUL = Site("Mul", line=Line("/home/a.py", 2, "x * y"), forward_line=Line("/home/a.py", 1, "x + y"))


NOWHERE = Site(None)
