"""What a recorder must say, to the byte, about small programs; by hand arithmetic.

Each check takes the `record` to try, so that it can be shown to fail: test_exactness.py runs
all of them with the real recorder, and with deliberately broken ones (broken_recorders.py).
Shapes, axes and scalars are tensors made beforehand, so a program allocates what it names and
nothing else.  Expected bytes come from shapes and data types, never from an earlier run.
"""

from tests.support.exactness import eager, graphs
from tests.support.exactness.checking import CHECKS, Check, Record

__all__ = ["CHECKS", "Check", "Record", "eager", "graphs"]
