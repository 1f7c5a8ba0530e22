"""What the operating system, the C library and TensorFlow's allocator say about this process.

All figures are bytes, and None where they are not offered (the C heap and trimming: glibc; the
allocator: depends on how TensorFlow was started).  The system's figures cannot tell whose memory
it is.  Nobody else in the package asks for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from functools import lru_cache
from typing import Any, Final

import psutil

from lessons_lib.common.internals import runtime_is_set_up
from lessons_lib.common.runtime import tf

#: TensorFlow's CPU allocator sets aside multiples of it, however small a tensor is.
LEAST_CHUNK: Final = 256
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
        return int(psutil.Process().memory_info().rss)
    except (psutil.Error, OSError):  # a sandbox that hides processes
        return None


def _allocator(figure: str) -> int | None:
    if not runtime_is_set_up():  # to ask would set the devices up
        return None
    try:
        return int(tf.config.experimental.get_memory_info("CPU:0")[figure])
    except (ValueError, KeyError, RuntimeError, tf.errors.OpError):
        return None


def allocator_bytes() -> int | None:
    """Read what TensorFlow's CPU allocator has handed out now, its rounding included."""
    return _allocator("current")


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


def memory_limit(root: str = "/sys/fs/cgroup") -> tuple[int, str]:
    """Give the memory that this process may use.

    Parameters
    ----------
    root : str
        Where control groups are mounted.

    Returns
    -------
    (int, str)
        Bytes, and where the figure comes from.
    """
    machine = psutil.virtual_memory().total
    best = (machine, "the machine's memory")
    for path, source in _limit_files(root):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue
        # "max" (version 2) or a number near 2**63 (version 1) mean: no limit.
        if text.isdigit() and int(text) < best[0]:
            best = (int(text), source)
    return best


def _limit_files(root: str) -> list[tuple[str, str]]:
    groups: dict[str, str] = {}
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            for entry in file:
                _, controllers, path = entry.rstrip("\n").split(":", 2)
                groups[controllers] = path
    except (OSError, ValueError):
        pass
    files = [
        (os.path.join(root, "memory.max"), "control group v2 limit"),
        (os.path.join(root, "memory", "memory.limit_in_bytes"), "control group v1 limit"),
    ]
    # Every group on the way to ours may set a limit, and the lowest counts.
    place = groups.get("", "")
    while place.strip("/"):
        files.append((f"{root}{place}/memory.max", "control group v2 limit"))
        place = os.path.dirname(place)
    for controllers, place in groups.items():
        if "memory" in controllers.split(","):
            path = f"{root}/memory{place}/memory.limit_in_bytes"
            files.append((path, "control group v1 limit"))
    return files


def usable_processors() -> int:
    """Count the processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))  # type: ignore[attr-defined, unused-ignore]
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1
