"""`preflight`: what it finds here, how it reads memory limits, and what it advises."""

from __future__ import annotations

import builtins
import io
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from lessons_lib.common import runtime
from lessons_lib.common.runtime import tf
from lessons_lib.common.system import memory_limit
from lessons_lib.instruments.preflight import preflight
from lessons_lib.recording.exactness import _probe, exactness
from lessons_lib.recording.profiler import Profiler
from lessons_lib.recording.recorder import record
from lessons_lib.recording.segment import MemoryEvent, Segment

MACHINE = psutil.virtual_memory().total
Groups = Callable[[str], None]


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    """Give a function that makes up what the kernel says about this process's control groups."""

    def pretend(text: str) -> None:
        real = builtins.open

        def opened(path: Any, *args: Any, **options: Any) -> Any:
            if str(path) == "/proc/self/cgroup":
                return io.StringIO(text)
            return real(path, *args, **options)

        monkeypatch.setattr(builtins, "open", opened)

    return pretend


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


LIMIT = 300 * 2**20
V2, V1 = "control group v2 limit", "control group v1 limit"


@pytest.mark.parametrize(
    ("kernel", "files", "expected"),
    [
        # version 2: as seen inside a container, and in a nested group
        ("0::/\n", {"memory.max": f"{LIMIT}\n"}, (LIMIT, V2)),
        ("0::/a/b\n", {"a/b/memory.max": f"{LIMIT}\n"}, (LIMIT, V2)),
        ("0::/a/b\n", {"a/memory.max": f"{LIMIT}\n", "a/b/memory.max": "max\n"}, (LIMIT, V2)),
        ("0::/a/b\n", {"a/memory.max": "500000", "a/b/memory.max": "400000"}, (400_000, V2)),
        ("0::/a/b\n", {"a/memory.max": "400000", "a/b/memory.max": "500000"}, (400_000, V2)),
        ("0::/a\n", {"b/memory.max": f"{LIMIT}\n"}, None),  # someone else's group
        ("0::/\n", {"memory.max": "max\n"}, None),
        # version 1
        (
            "5:memory:/docker/x\n4:cpu:/\n",
            {"memory/docker/x/memory.limit_in_bytes": f"{LIMIT}\n"},
            (LIMIT, V1),
        ),
        ("5:memory:/gone\n", {"memory/memory.limit_in_bytes": f"{LIMIT}\n"}, (LIMIT, V1)),
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ("7:cpu,memory:/j\n", {"memory/j/memory.limit_in_bytes": "123456"}, (123_456, V1)),
        # both, and neither
        (
            "5:memory:/\n0::/\n",
            {"memory.max": "200000", "memory/memory.limit_in_bytes": "100000"},
            (100_000, V1),
        ),
        ("", {}, None),
        ("nonsense\n", {"memory.max": "200000"}, (200_000, V2)),
        # files that say nothing
        ("0::/\n", {"memory.max": ""}, None),
        ("0::/\n", {"memory.max": "-1"}, None),
        ("0::/\n", {"memory.max": "lots"}, None),
        ("0::/\n", {"memory.max": "9" * 40}, None),
    ],
)
def test_memory_limits(
    kernel: str,
    files: dict[str, str],
    expected: tuple[int, str] | None,
    tmp_path: Path,
    groups: Groups,
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    groups(kernel)
    assert memory_limit(str(tmp_path)) == (expected or (MACHINE, "the machine's memory"))


def test_a_limit_above_the_machines_memory_is_none(tmp_path: Path, groups: Groups) -> None:
    write(tmp_path, "memory.max", str(MACHINE + 1))
    groups("0::/\n")
    assert memory_limit(str(tmp_path))[0] == MACHINE


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert memory_limit(str(tmp_path / "missing"))[0] == MACHINE


def test_here() -> None:
    found = preflight()
    assert found.exact
    assert found.problems == ()
    assert found.python == platform.python_version()
    assert found.tensorflow == tf.__version__
    assert found.keras == tf.keras.__version__
    assert any(device.startswith("CPU") for device in found.devices)
    assert 0 < found.memory_bytes <= MACHINE
    assert found.threads >= 1
    assert found.allocator
    assert "figures are exact" in repr(found)
    assert "every buffer is seen" in found._repr_html_()


def test_while_recording() -> None:
    x = tf.ones([1000])
    with record() as recording:
        exactness.cache_clear()  # as in a process that has not asked yet
        assert preflight().exact
        y = tf.tanh(x)
        tf.sqrt(y)
    assert recording.exact
    assert recording.peak_bytes == 8000  # the probes do not count, and their lines are nobody's
    lines = [(buffer.op, buffer.line and buffer.line.text) for buffer in recording.buffers]
    assert lines == [("Tanh", "y = tf.tanh(x)"), ("Sqrt", "tf.sqrt(y)")]


def test_a_recording_within_the_first_one() -> None:
    x = tf.ones([1000])
    with record() as outer:
        exactness.cache_clear()
        with record() as inner:
            y = tf.tanh(x)
        tf.sqrt(y)
    assert inner.exact
    assert outer.exact
    assert (inner.kept_bytes, outer.kept_bytes, outer.peak_bytes) == (4000, 4000, 8000)


def _segment(*sizes: int) -> Segment:
    events = [
        MemoryEvent(k, 0, True, k, size, size, 0, "cpu", 0, "", "", 0, "")
        for k, size in enumerate(sizes)
    ]
    return Segment(memory=events)


SMALL, BIG = 200 * 1024, 2**20


@pytest.mark.parametrize(
    ("sizes", "first", "variable", "words"),
    [
        ((BIG,), False, None, "under 256 KiB are not reported"),
        ((BIG,), True, None, "imported before lessons_lib"),
        ((BIG,), False, "0", "TF_CPU_ALLOCATOR_USE_BFC=0"),
        ((), False, None, "reports no allocations"),
        ((), True, None, "restart the kernel"),
        ((), False, "false", "TF_CPU_ALLOCATOR_USE_BFC=false"),
        # the allocator's rounding is no proof
        ((SMALL + 256, BIG + 256), False, None, "reports no allocations"),
        ((SMALL,), False, None, "reports no allocations"),
    ],
)
def test_problems_and_what_to_do(
    sizes: tuple[int, ...],
    first: bool,
    variable: str | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Profiler.stop

    def stop(self: Profiler) -> Segment:
        real(self)
        return _segment(*sizes)

    monkeypatch.setattr(Profiler, "stop", stop)
    monkeypatch.setattr(runtime, "imported_first", first)
    monkeypatch.setattr(runtime, "allocator_variable_found", variable)
    exactness.cache_clear()
    try:
        found = preflight()
    finally:
        exactness.cache_clear()
    assert not found.exact
    assert len(found.problems) == 1
    assert words in found.problems[0]
    assert "not exact" in repr(found)
    assert "to do" in found._repr_html_()


@pytest.mark.parametrize("traced", [False, True])
def test_asked_while_a_graph_is_built(traced: bool) -> None:
    exactness.cache_clear()
    found = []
    if traced:
        graph = tf.function(lambda: found.append(exactness())).get_concrete_function().graph
    else:
        with tf.Graph().as_default() as graph:
            found.append(exactness())
    assert found[0].exact
    assert graph.get_operations() == []


def test_both_probes_must_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Profiler, "start", lambda self: None)
    monkeypatch.setattr(Profiler, "stop", lambda self: _segment(SMALL, BIG))
    assert _probe() == ((True, True), "cpu")
    monkeypatch.setattr(Profiler, "stop", lambda self: _segment(BIG))
    assert _probe() == ((False, True), "cpu")


def test_a_probe_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    exactness.cache_clear()
    monkeypatch.setattr(tf, "fill", None)
    with pytest.raises(TypeError):
        preflight()
    monkeypatch.undo()
    assert preflight().exact


def test_what_is_shown_is_escaped() -> None:
    from dataclasses import replace

    page = replace(preflight(), problems=("<b>",), exact=False)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
