"""Growth: does memory grow from call to call, by how much, and why, by name.

`growth` calls a step and gives a `Growth`.  The parts, from the bottom: `process` and `fence` read
the process and the garbage collector; `series` fits numbers; `sampling` reads them after each call;
`reach` and `naming` find who holds what; `observe` puts these together for a few more calls;
`verdict` holds the rules; `report` is the answer.
"""

from __future__ import annotations

from lessons_lib.instruments.growth.causes import Cause, Finding, Held
from lessons_lib.instruments.growth.counters import Evidence
from lessons_lib.instruments.growth.result import Growth
from lessons_lib.instruments.growth.run import growth
from lessons_lib.instruments.growth.trend import Series

__all__ = ["Cause", "Evidence", "Finding", "Growth", "Held", "Series", "growth"]
