"""The rules accuse each byte once, and say what is no growth: from series that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lessons_lib.common.units import KIB, MIB
from lessons_lib.instruments.growth import Growth, notes
from lessons_lib.instruments.growth.case import CacheTest
from lessons_lib.instruments.growth.causes import Cause, Finding, Retained
from lessons_lib.instruments.growth.notes import run_notes
from lessons_lib.instruments.growth.observation import HeapGain, HiddenBytes, Observation
from lessons_lib.instruments.growth.resources import LostTables
from lessons_lib.instruments.growth.rules import judge
from lessons_lib.instruments.holders.object_types import Kind
from lessons_lib.instruments.holders.reachability import Tier
from tests.support.growing.by_hand import CALLS, evidence, group, objects, seen

Found = list[tuple[Cause, int]]
TENSOR, GRAPH, VARIABLE = Kind.TENSOR, Kind.GRAPH, Kind.VARIABLE
ALIVE = np.ones(10)
#: What a call adds to the series, what was seen to stay, and the causes with their bytes a call.
CASES: dict[str, tuple[dict[str, Any], Observation, Found, str]] = {
    "functions that are never called": (
        {"functions": 2, "c_heap": 10_000}, seen(),
        [(Cause.RETRACING, 10_000)], "multiply: 2 more tf.function objects a call.",
    ),
    "functions with what is baked into their traces": (
        {"functions": 1, "concrete_functions": 2, "hidden_bytes": 50_000}, seen(),
        [(Cause.RETRACING, 50_000)], "with 2 traces; tensors baked into them weigh ≈ 48.8 KiB",
    ),
    "traces bake in no more than their graphs hold": (
        {"concrete_functions": 1, "hidden_bytes": 100_000, "live_tensors": 1,
         "live_tensor_bytes": 400},
        seen(group(TENSOR, 400), group(GRAPH, 0, constant_bytes=30_000)),
        [(Cause.RETAINED_TENSORS, 400 + 70_000), (Cause.RETRACING, 30_000)], "1 more concrete",
    ),
    "graphs of a dataset's functions belong to it": (
        {"datasets": 1, "orphan_graphs": 1, "graph_ops": 3, "hidden_bytes": 64_000},
        seen(group(GRAPH, 0, in_dataset=True)),
        [(Cause.DATASET_BUFFERS, 64_000)], "Datasets and iterators multiply (1 more a call)",
    ),
    "graphs beside a dataset": (
        {"datasets": 1, "orphan_graphs": 1, "graph_ops": 3, "hidden_bytes": 64_000,
         "c_heap": 32_000},
        seen(group(GRAPH, 0, in_dataset=True), group(GRAPH, 0)),
        [(Cause.DATASET_BUFFERS, 64_000), (Cause.GRAPH_GROWTH, 32_000)], "1 a call, with 3 op",
    ),
    "graphs that have no function": (
        {"graphs": 1, "graph_ops": 3, "hidden_bytes": 9000}, seen(group(GRAPH, 0)),
        [(Cause.GRAPH_GROWTH, 9000)], "Graphs multiply: 1 a call, with 3 operations",
    ),
    "graphs with constants in a pool that is extended now and then": (
        {"orphan_graphs": 1, "graph_ops": 9, "c_heap": 70_000, "tensor_bytes": 200_000,
         "hidden_bytes": 200_000}, seen(group(GRAPH, 0)),
        [(Cause.GRAPH_GROWTH, 270_000)], "Graphs of functions that are gone",
    ),
    "graphs with constants that take a region of the C heap each": (
        {"orphan_graphs": 1, "graph_ops": 9, "c_heap": 4_070_000, "tensor_bytes": 4_000_000,
         "hidden_bytes": 4_000_000}, seen(group(GRAPH, 0)),
        [(Cause.GRAPH_GROWTH, 4_070_000)], "Graphs of functions that are gone",
    ),
    "traces whose functions are gone beside those of a living one": (
        {"concrete_functions": 1, "orphan_graphs": 1, "graph_ops": 3, "c_heap": 9000}, seen(),
        [(Cause.RETRACING, 9000), (Cause.GRAPH_GROWTH, 0)], "Graphs of functions that are gone",
    ),
    "variables that hang on traces": (
        {"concrete_functions": 1, "variables": 1, "variable_bytes": 4096},
        seen(group(VARIABLE, 4096, Tier.GRAPH)),
        [(Cause.RETRACING, 4096)], "1 more concrete function a call",
    ),
    "variables, with their handles in the C heap": (
        {"variables": 1, "variable_bytes": 4096, "tensor_bytes": 4096, "c_heap": 4096 + 16 * KIB},
        seen(group(VARIABLE, 4096)),
        [(Cause.VARIABLES, 4096)], "multiply: 1 more a call",
    ),
    "variables that share a tensor's memory": (
        {"variables": 1, "variable_bytes": 4096, "tensor_bytes": 256},
        seen(group(VARIABLE, 4096)),
        [(Cause.VARIABLES, 256)], "share the memory of the tensors",
    ),
    "variables whose bytes do not rise steadily": (
        {"variables": 1, "tensor_bytes": 4160}, seen(group(VARIABLE, 4096), group(VARIABLE, 64)),
        [(Cause.VARIABLES, 4160)], "multiply: 1 more a call",
    ),
    "a variable of ever larger values": (
        {"variable_bytes": 64}, seen(), [(Cause.VARIABLES, 64)], "assigned ever larger values",
    ),
    "tensors that hang on traces": (
        {"concrete_functions": 1, "live_tensors": 1, "live_tensor_bytes": 4096},
        seen(group(TENSOR, 4096, Tier.GRAPH)),
        [(Cause.RETRACING, 4096)], "1 more concrete function a call",
    ),
    "more tensors of fewer bytes": (
        {"live_tensors": 1, "live_tensor_bytes": -100}, seen(group(TENSOR, 4)), [], "",
    ),
    "a dataset's own settings": (
        {"datasets": 1, "live_tensors": 2, "live_tensor_bytes": 16, "hidden_bytes": 50_000},
        seen(group(TENSOR, 8, in_dataset=True)),
        [(Cause.DATASET_BUFFERS, 50_000)], "Datasets and iterators multiply",
    ),
    "tensors that become larger": (
        {"live_tensor_bytes": 4000}, seen(), [(Cause.RETAINED_TENSORS, 4000)], "become larger",
    ),
    "tensors that become larger beside what a dataset keeps": (
        {"live_tensor_bytes": 4000, "hidden_bytes": 9000, "datasets": ALIVE}, seen(),
        [(Cause.DATASET_BUFFERS, 9000), (Cause.RETAINED_TENSORS, 4000)], "while a dataset or",
    ),
    "tensors in cycles": (
        {"live_tensors": 1, "live_tensor_bytes": 4000}, seen(group(TENSOR, 4000, in_cycle=True)),
        [(Cause.RETAINED_TENSORS, 4000)], "1 more a call, and Python's garbage collector is",
    ),
    "lost tables, with the tensors in them": (
        {"c_heap": 40_000, "hidden_bytes": 8000}, seen(lost_tables=LostTables(1, 2000)),
        [(Cause.NATIVE_MEMORY, 48_000)], "1 table a call, of up to 2,000 entries",
    ),
    "lost tables that are hardly seen": (
        {"c_heap": 9000}, seen(lost_tables=LostTables(1, 2000)), [], "",
    ),
    "arrays that share tensors' memory": (
        {"hidden_bytes": 16_384}, seen(objects(16_384, array=True)),
        [(Cause.PYTHON_OBJECTS, 16_384)], "share the memory of tensors",
    ),
    "arrays that are too few to be what is hidden": (
        {"hidden_bytes": 16_384}, seen(objects(4096, array=True)),
        [(Cause.RETAINED_TENSORS, 16_384)], "for which Python has no object",
    ),
    "a queue of small tensors": (
        {"table_entries": 1, "hidden_bytes": 2048, "c_heap": 300}, seen(),
        [(Cause.RETAINED_TENSORS, 2048)], "1 entry",
    ),
    "a queue of large tensors": (
        {"table_entries": 1, "hidden_bytes": 200_704, "c_heap": 300}, seen(),
        [(Cause.RETAINED_TENSORS, 200_704)], "1 entry",
    ),
    "a queue beside kept tensors, which are no slices": (
        {"table_entries": 1, "hidden_bytes": 2096, "live_tensors": 1, "live_tensor_bytes": 2000},
        seen(group(TENSOR, 2000), hidden=HiddenBytes(0, 2000)),
        [(Cause.RETAINED_TENSORS, 2000), (Cause.RETAINED_TENSORS, 2000)], "1 more a call.",
    ),
    "entries of a table": (
        {"table_entries": 1, "c_heap": 5000}, seen(), [(Cause.RETAINED_TENSORS, 5000)], "1 entry",
    ),
    "small arrays are no cause": ({}, seen(heap=HeapGain(numpy=15, known=True)), [], ""),
    "arrays alone": (
        {}, seen(objects(4096, array=True), heap=HeapGain(numpy=4096, known=True)),
        [(Cause.PYTHON_OBJECTS, 4096)], "Python objects stay alive: NumPy arrays.",
    ),
    "arrays and objects": (
        {}, seen(objects(4096, array=True), objects(100), heap=HeapGain(3000, 0, 4096, known=True)),
        [(Cause.PYTHON_OBJECTS, 7096)], "4 KiB of them NumPy arrays.",
    ),
    "a log of numbers": (
        {}, seen(objects(5000, is_note=True), heap=HeapGain(5000, known=True)), [], "",
    ),
    "a large log": (
        {}, seen(objects(20_000, is_note=True), heap=HeapGain(20_000, known=True)),
        [(Cause.PYTHON_OBJECTS, 20_000)], "Python objects stay alive.",
    ),
    "objects where the C heap has no figure": (
        {"c_heap": None}, seen(objects(5000)), [(Cause.PYTHON_OBJECTS, 5000)], "stay alive.",
    ),
    "objects in cycles": (
        {"python_objects": 2}, seen(garbage=2, heap=HeapGain(3000, known=True)),
        [(Cause.PYTHON_OBJECTS, 3000)], "stay in reference cycles, and",
    ),
    "hardly anything in cycles": (
        {"python_objects": 2}, seen(garbage=2, heap=HeapGain(63, known=True)), [], "",
    ),
    "objects that nobody holds": (
        {}, seen(unheld=("3 list",), heap=HeapGain(20_000, known=True)),
        [(Cause.PYTHON_OBJECTS, 20_000)], "seems to hold: ≈ 3 list a call.",
    ),
    "objects beside tensors": (
        {"live_tensors": 1, "live_tensor_bytes": 8000},
        seen(group(TENSOR, 8000), objects(5000), heap=HeapGain(4500, known=True)),
        [(Cause.RETAINED_TENSORS, 8000), (Cause.PYTHON_OBJECTS, 4500)], "Python objects stay",
    ),
    "containers of tensors are a part of their cause": (
        {"live_tensors": 1, "live_tensor_bytes": 8000},
        seen(group(TENSOR, 8000), objects(5000, target_bytes=8000),
             heap=HeapGain(5000, known=True)),
        [(Cause.RETAINED_TENSORS, 8000)], "Eager tensors stay alive: 1 more a call.",
    ),
    "objects with native memory": (
        {"c_heap": 50_000}, seen(objects(100, is_native=True), heap=HeapGain(100, known=True)),
        [(Cause.PYTHON_OBJECTS, 50_100)], "with ≈ 48.8 KiB of native memory",
    ),
    "native memory, with the tensors that nobody holds": (
        {"c_heap": 20_000, "hidden_bytes": 8000}, seen(),
        [(Cause.NATIVE_MEMORY, 28_000)], "no counter names, ≈ 19.5 KiB a call",
    ),
    "memory that does not go back": (
        {"rss": 2 * MIB, "rss_trimmed": 2 * MIB}, seen(),
        [(Cause.ALLOCATOR, 2 * MIB)], "freed and that does not go back",
    ),
    "memory that goes back when it is asked for": (
        {"rss": 2 * MIB}, seen(), [(Cause.ALLOCATOR, 2 * MIB)], "(malloc_trim)",
    ),
    "memory of which nobody can ask": (
        {"rss": 2 * MIB, "rss_trimmed": None}, seen(), [(Cause.ALLOCATOR, 2 * MIB)], "freed and",
    ),
    "tensors that TensorFlow itself keeps are alive": (
        {"rss": 2 * MIB, "tensor_bytes": 2 * MIB, "hidden_bytes": 2 * MIB},
        seen(hidden=HiddenBytes(0, 2 * MIB - 100)),
        [(Cause.RETAINED_TENSORS, 2 * MIB - 100)], "as in a staging area",
    ),
    "tensors of which few were seen in the recorded calls": (
        {"tensor_bytes": 20_480, "hidden_bytes": 20_480}, seen(hidden=HiddenBytes(0, 10_000)),
        [(Cause.RETAINED_TENSORS, 20_480)], "as in a staging area",
    ),
    "beside an idle dataset": (
        {"hidden_bytes": 9000, "datasets": ALIVE}, seen(hidden=HiddenBytes(0, 9000)),
        [(Cause.RETAINED_TENSORS, 9000)], "as in a staging area",
    ),
    "beside a dataset that fills": (
        {"hidden_bytes": 9000, "datasets": ALIVE}, seen(hidden=HiddenBytes(0, 6000, 3000)),
        [(Cause.RETAINED_TENSORS, 6000), (Cause.DATASET_BUFFERS, 3000)], "as in a staging area",
    ),
    "ever larger tensors, of which the recorded ones are the largest": (
        {"live_tensors": 1, "live_tensor_bytes": 8000, "hidden_bytes": 4500},
        seen(group(TENSOR, 8000), hidden=HiddenBytes(0, 0)),
        [(Cause.RETAINED_TENSORS, 8000)], "1 more a call.",
    ),
    "slices of ever larger tensors": (
        {"live_tensors": 1, "live_tensor_bytes": 64, "hidden_bytes": 4500},
        seen(group(TENSOR, 64), hidden=HiddenBytes(9000, 0)),
        [(Cause.RETAINED_TENSORS, 64 + 4500)], "they are slices",
    ),
    "slices of elements of a pipeline, which had made more ahead before": (
        {"live_tensors": 1, "live_tensor_bytes": 64, "hidden_bytes": 4500, "datasets": ALIVE},
        seen(group(TENSOR, 64), hidden=HiddenBytes(0, 0, 0, 5000)),
        [(Cause.RETAINED_TENSORS, 64 + 5000)], "they are slices",
    ),
    "a pipeline's own, which the allocator rounds up": (
        {"hidden_bytes": 9000, "datasets": ALIVE}, seen(hidden=HiddenBytes(0, 0, 6000)),
        [(Cause.DATASET_BUFFERS, 6000)], "caches",
    ),
    "what the allocator rounds up is no tensor": (
        {"variables": 1, "variable_bytes": 40_000, "hidden_bytes": 20_000, "tensor_bytes": 60_000},
        seen(group(VARIABLE, 40_000)), [(Cause.VARIABLES, 40_000)], "multiply",
    ),
    # Over the second half of ten calls, from the sixth to the last: four times that.
    "a resident set that rises little": ({"rss": 2 * MIB - 1}, seen(), [], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_counted_names_the_causes_and_each_byte_once(name: str) -> None:
    given, observed, expected, text = CASES[name]
    found = judge(evidence(**given), observed, CacheTest())
    assert [(finding.cause, finding.bytes_per_call) for finding in found] == expected
    assert text in " ".join(finding.text for finding in found)


@pytest.mark.parametrize(
    ("given", "cache", "expected"),
    [
        ({"c_heap": 10_000}, CacheTest("scalar", 0.8, 8000), [(Cause.RUNTIME_CACHE, 8000)]),
        ({"c_heap": 10_000}, CacheTest("scalar", 0.8, 4095), []),
        ({"c_heap": 10_000}, CacheTest(), []),
        # A cache fills faster once it was emptied: it has no more than what the heap gained.
        ({"c_heap": 10_000}, CacheTest("kernel", 1, 12_000), [(Cause.RUNTIME_CACHE, 10_000)]),
        # What the resident set gains beside it is less than half, or more.
        (
            {"c_heap": MIB + MIB // 2, "rss": 2 * MIB},
            CacheTest("kernel", 1, MIB + 1),
            [(Cause.RUNTIME_CACHE, MIB + 1)],
        ),
        (
            {"c_heap": MIB, "rss": 2 * MIB},
            CacheTest("kernel", 1, MIB),
            [(Cause.RUNTIME_CACHE, MIB), (Cause.ALLOCATOR, MIB)],
        ),
    ],
)
def test_a_cache_has_what_emptying_it_gave_back(
    given: dict[str, float], cache: CacheTest, expected: Found
) -> None:
    found = judge(evidence(**given), seen(), cache)
    assert [(finding.cause, finding.bytes_per_call) for finding in found] == expected


def test_only_what_is_known_to_the_byte_is_exact() -> None:
    def exact(observed: Observation, **given: Any) -> list[bool]:
        return [finding.exact for finding in judge(evidence(**given), observed, CacheTest())]

    arrays = objects(4096, array=True)
    assert exact(seen(arrays, heap=HeapGain(numpy=4096, known=True))) == [True]
    assert exact(seen(arrays, heap=HeapGain())) == [False]  # sizes of what was found
    assert exact(seen(group(TENSOR, 64)), live_tensors=1, live_tensor_bytes=64) == [True]
    slices = {"live_tensors": 1, "live_tensor_bytes": 64, "hidden_bytes": 8192}
    assert exact(seen(group(TENSOR, 64)), **slices) == [False]


def test_what_was_not_read_is_shown_so_and_all_holders_have_a_row() -> None:
    assert "resident set" in evidence()._repr_html_()
    assert "resident set" not in evidence(rss=None, rss_trimmed=None)._repr_html_()
    failed = evidence(rss=np.append(np.nan, CALLS[1:]))._repr_html_()  # one reading did
    assert ("not read" in failed, "not read" in evidence()._repr_html_()) == (True, False)
    held = (objects(64).held, objects(128).held)
    causes = (Finding(Cause.PYTHON_OBJECTS, 192, False, "Python objects stay alive.", held),)
    table = Growth("step", 10, 3, causes, evidence(), ())._repr_html_()
    assert all(size in table for size in ("64 B", "128 B"))


def said(
    observed: Observation | None = None, *causes: Finding, waiting: float = 0.0, **given: Any
) -> str:
    return " ".join(run_notes(evidence(**given), observed or seen(), causes, waiting))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"live_tensors": 2.0 * (CALLS >= 7)}, "live tensors rose by 2 until call 8 and stayed"),
        ({"tensor_bytes": 8192.0 * (CALLS >= 7)}, "tensor bytes rose by 8 KiB until call 8"),
        # A full buffer beside a number that is made anew: 256 B more or less.
        (
            {"tensor_bytes": 28_672.0 * np.minimum(CALLS, 6) - 256 * (CALLS % 2 == 0)},
            "until call 7",
        ),
        ({"tensor_bytes": 1024.0 * (CALLS >= 7)}, ""),
        # Of a large chunk that is handed out whole a part grows.
        ({"tensor_bytes": 8192.0 * (CALLS >= 7), "live_tensor_bytes": 64}, ""),
        ({"variables": np.maximum(0, CALLS - 7)}, "rose by 2 towards the end"),
        ({"c_heap": 5000}, "C library's heap gains ≈ 4.88 KiB a call: too little"),
        ({"tensor_bytes": 2048, "hidden_bytes": 2048}, "Python has no object gain ≈ 2 KiB a call"),
        ({"tensor_bytes": 2048, "live_tensor_bytes": 2048}, ""),
        ({"tensor_bytes": None}, "reports no figures in this process"),
    ],
)
def test_what_is_no_growth_is_said(given: dict[str, Any], text: str) -> None:
    notes = said(**given)
    assert text in notes
    assert bool(text) is bool(notes)


def test_what_may_grow_is_said_where_nothing_else_does() -> None:
    # Slow ups and downs: it falls for three calls, rises for five, and may fall again.
    queue = np.array([0.0, -1, -2, -3, -3, -1, 1, 2, 3, 4])
    assert said(live_tensors=queue).startswith("The live tensors rose, but no more than such ups")
    cause = Finding(Cause.NATIVE_MEMORY, 20_000, False, "Native memory.")
    assert said(None, cause, live_tensors=queue) == ""


def test_garbage_and_small_logs_are_said() -> None:
    assert "Each call leaves ≈ 64 KiB of tensors in reference cycles" in said(waiting=64 * KIB)
    assert said(waiting=64 * KIB - 1) == ""
    log = seen(objects(200, is_note=True), heap=HeapGain(200, known=True))
    assert "gains ≈ 200 B a call, as a log of numbers and texts does (kept)" in said(log)
    full = seen(objects(200, is_note=True, is_bounded=True), heap=HeapGain(200, known=True))
    assert said(full) == ""
    ends = seen(notes=("It ends there.", "It ends there."))
    assert said(ends, python_objects=1) == "It ends there."
    assert said(ends) == ""
    other = seen(heap=HeapGain(200, known=True))
    assert "gains ≈ 200 B a call: too little" in said(other, python_blocks=10)
    assert said(other) == said(seen(objects(200, is_note=True)), python_blocks=10) == ""
    cause = Finding(Cause.PYTHON_OBJECTS, 4096, False, "Python objects stay alive.")
    assert said(log, cause) == ""


def test_what_a_version_leaks_itself_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    held = objects(1024).held
    some, most = (
        Finding(Cause.PYTHON_OBJECTS, nbytes, False, "Python objects stay alive.", (held,))
        for nbytes in (2048, 2049)
    )
    for loses in (False, True):
        monkeypatch.setattr(notes, "LOSES_REFERENCES", loses)
        assert said(seen(), some) == ""
        assert ("itself leaks" in said(seen(), most)) is loses


def test_an_array_that_was_replaced_is_named_only_where_none_stays() -> None:
    longer = Retained("numpy.ndarray", (8192,), "float32", 32_768, 0.0, None, ("log",))
    heap = HeapGain(numpy=4096, known=True)
    (alone,) = judge(evidence(), seen(heap=heap, lengthened=(longer,)), CacheTest())
    assert (alone.held, alone.bytes_per_call) == ((longer,), 4096)
    stays = objects(4096, array=True)
    (finding,) = judge(evidence(), seen(stays, heap=heap, lengthened=(longer,)), CacheTest())
    assert finding.held == (stays.held,)
