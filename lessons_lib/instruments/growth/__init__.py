"""Growth: does memory grow from call to call, by how much, and why, by name.

`growth` calls a step and gives a `Growth`.  The parts, from the bottom: `trend` fits numbers;
`sampler` reads them after each call; `leftovers` observes a few more calls, with what `resources`
tells of TensorFlow's tables, and `groups` names what stays; `cache_test` empties the runtime's
caches; `rules` turn all that into findings; `notes` say the rest; `result` is the answer.
"""

from __future__ import annotations

from lessons_lib.instruments.growth.causes import Cause, Finding, Retained
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.result import Growth
from lessons_lib.instruments.growth.run import growth
from lessons_lib.instruments.growth.trend import Series

__all__ = ["Cause", "Evidence", "Finding", "Growth", "Retained", "Series", "growth"]
