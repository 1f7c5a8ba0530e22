"""What the operating system and the C library say about this process.

All figures are bytes, and None where the system does not offer them (resident set: Linux;
the C heap and trimming: glibc).  None of them can tell whose memory it is; `growth` uses them as
a last resort and as evidence, never to accuse a tensor.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from functools import lru_cache
from typing import Any, Final

#: What mallinfo2 gives, in its order; see mallinfo(3).
_FIELDS: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallocInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


@lru_cache(maxsize=1)
def _c_library() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _MallocInfo
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        return library
    return None


def resident_bytes() -> int | None:
    """Read the resident set size."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def c_heap_bytes() -> int | None:
    """Read how much of the C library's heap is in use (handed out and not freed)."""
    library = _c_library()
    if library is None:
        return None
    info = library.mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)


def trim() -> bool:
    """Ask the C library to give free memory back to the system; False where it cannot."""
    library = _c_library()
    if library is None:
        return False
    library.malloc_trim(0)
    return True
