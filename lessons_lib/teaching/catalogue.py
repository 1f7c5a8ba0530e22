"""The lessons with exercises, by number, and how many exercises each has.

A table of its own, so that to show what has been done need not load them.
"""

from __future__ import annotations

from typing import Final

#: The modules of the exercises, by the number of the lesson that they belong to.
LESSONS: Final = {
    "01": "measure_memory",
    "02": "eager_and_graph",
    "03": "loops",
    "04": "tracing",
    "05": "growth",
    "06": "state",
    "07": "capstone",
}
#: Exercises of each; they are named q1, q2 and so on.
COUNTS: Final = {
    "measure_memory": 5,
    "eager_and_graph": 5,
    "loops": 6,
    "tracing": 5,
    "growth": 5,
    "state": 5,
    "capstone": 3,
}
