"""From where on something counts as growth: every threshold of the rules, with its reason.

Bytes per call unless said otherwise.
"""

from __future__ import annotations

from typing import Final

from lessons_lib.common.units import KIB, MIB

#: Small blocks of Python's: an interpreter that warms up takes some more with each call, for a
#: while, and fewer and fewer.
BLOCKS_FLOOR: Final = 8
#: Objects that hold something else than numbers and texts: one small object a call.
OBJECTS_FLOOR: Final = 64
#: Objects beside another cause: a dictionary around each kept tensor is a part of that cause.
BESIDE_FLOOR: Final = 4 * KIB
#: Logs of numbers and short texts: a million calls of less than this are 16 GiB, of a usual log's
#: 200 B they are 200 MB, which nobody looks for.
NOTES_FLOOR: Final = 16 * KIB
#: Native memory: what the C heap gains by chance, fragmentation included, stays below.
NATIVE_FLOOR: Final = 16 * KIB
#: ... and beside other causes, this share of what they take: sizes of objects are estimates.
NATIVE_SHARE: Final = 0.5
#: Objects of at least this share of it may own it: a Keras model's variables have parts in C++.
#: A reloaded SavedModel leaves some KiB of objects beside megabytes that are not theirs.
OWNERS_SHARE: Final = 0.25
#: The allocator takes its memory by the MiB.  Where tensors gain less than this a call, that is a
#: rare jump, which the C heap's series leaves out: then their bytes are none of its slope.
SMALL_POOL: Final = MIB // 2
#: Tensors that only TensorFlow holds: a trace has constants of some bytes.
UNHELD_FLOOR: Final = KIB
#: What an eager tensor costs beside its elements: Python's object, TensorFlow's handle and buffer.
TENSOR_COST: Final = 2 * KIB
#: The same of a variable, with its resource, its handle and its names.
VARIABLE_COST: Final = 16 * KIB
#: What the process pays is said from this many times the tensors' own bytes on.
PAID_FACTOR: Final = 4
#: A cache that gave back less is not what grows.
CACHE_FLOOR: Final = 4 * KIB
#: The resident set must rise by this over the second half of the run, in bytes.
RESIDENT_FLOOR: Final = 8 * MIB
#: ... and most of its slope must be left over, or the other causes explain it.
RESIDENT_SHARE: Final = 0.5
#: Constants in graphs are said from here on.
CONSTANTS_FLOOR: Final = 16 * KIB
#: NumPy arrays that look at tensors' memory must be the greater part of what is hidden.
VIEWS_SHARE: Final = 0.5
#: A dataset's own settings (sizes, seeds) are small tensors.
SETTINGS_CEILING: Final = KIB
#: Variables share memory where the allocator gains less than this share of their bytes.
SHARED_SHARE: Final = 0.5
#: How many times a tensor's bytes the allocator may set aside: a hole of its pool that is less
#: than twice as large is given whole.
MOST_ROUNDING: Final = 2
