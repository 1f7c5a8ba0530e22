"""`growth` tells native memory and what libraries hold, with one cause for each."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from typing import Any

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import Cause, Growth, growth
from lessons_lib.instruments.growth.causes import counted
from tests.support.cases import or_further
from tests.support.growing import libraries
from tests.support.growing.looking import assert_none_grows, explain, look
from tests.support.growing.unit import UNIT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("time_enough")]

#: What stays in the check: each cause, and each sort of holder.
IN_THE_CHECK = frozenset({"interpreters", "lost_native_memory", "one_operation"})


#: Programs whose memory native code or a library takes: the cause, what the chain says, the
#: fewest and the most bytes a call.
OWNED: dict[str, tuple[Cause, str, float, float]] = {
    # Input and output of the net: 256 × 64 float32 each.
    "interpreters": (Cause.PYTHON_OBJECTS, "by_request (dict) → Interpreter", 131_072, 600_000),
    # 1000 rows of 100 bytes, in pages that are not full
    "databases": (Cause.PYTHON_OBJECTS, "opened (dict) → Connection", 100_000, 400_000),
    # zlib's manual: (1 << (15 + 2)) + (1 << (8 + 9)) bytes for deflate, "plus a few kilobytes"
    "compressors": (Cause.PYTHON_OBJECTS, "streams (list) → Compress", 262_144, 300_000),
    "lost_native_memory": (Cause.NATIVE_MEMORY, "", 49_000, 56_000),
    # 2000 words with their numbers
    "reloaded": (Cause.NATIVE_MEMORY, "", 2000 * (24 + 8), 800_000),
    "made_tables": (Cause.NATIVE_MEMORY, "", 2000 * (4 + 4), 400_000),
    "net_called_on_new_inputs": (Cause.PYTHON_OBJECTS, "._inbound_nodes", 4096, 65_536),
    "layer_called_on_new_inputs": (Cause.PYTHON_OBJECTS, "._inbound_nodes", 4096, 65_536),
    "linked": (Cause.PYTHON_OBJECTS, ".saved (list) → Link → .before (Link)", 50 * 56, 16_384),
    "library_objects": (Cause.PYTHON_OBJECTS, "specs (list) → TensorSpec", 64, 4096),
    "saved_datasets": (Cause.GRAPH_GROWTH, "FuncGraph", UNIT, 400_000),
    "tensors_of_arrays": (
        *(Cause.RETAINED_TENSORS, "history (list) → tf.Tensor"),
        *(UNIT, UNIT),
    ),
    "variables_of_arrays": (
        *(Cause.VARIABLES, "history (list) → tf.Variable"),
        *(UNIT, UNIT),
    ),
    "objects_of_tensors": (
        *(Cause.RETAINED_TENSORS, "kept (list) → numpy.ndarray → tf.Tensor"),
        *(UNIT, UNIT),
    ),
    "one_operation": (Cause.GRAPH_GROWTH, "graph (Graph)", 200, 20_000),
}


@functools.cache
def grown(name: str) -> Growth:
    """Look at a growing step of `OWNED` once for all tests."""
    return look(getattr(libraries, name)(True))


@pytest.mark.further
def test_largest_part_leads_and_no_byte_is_accused_twice() -> None:
    kept: list[Any] = []

    def step(_: int) -> None:
        layers = [tf.keras.Input([8]), tf.keras.layers.Dense(8)]
        kept.append(tf.keras.Sequential(layers))

    result = look(step)
    # A Keras model is mostly objects; its kernel and bias can be told to the byte.
    found = {finding.cause: finding.bytes_per_call for finding in result.causes}
    assert result.cause is Cause.PYTHON_OBJECTS
    assert found[Cause.VARIABLES] == (8 * 8 + 8) * 4
    # The kernels of its operations may have a name of their own, or be among its native memory.
    assert set(found) <= {Cause.PYTHON_OBJECTS, Cause.VARIABLES, Cause.RUNTIME_CACHE}
    assert result.causes[0].bytes_per_call > 10_000
    assert result.causes[0].held[0].chain == ("kept (list)", "Sequential")
    assert result.bytes_per_call < 1.2 * measured_bytes(result), explain(result)


def measured_bytes(result: Growth) -> float:
    """Give what the process gained a call: the C heap, and at most 512 B for each small block."""
    evidence = result.evidence
    return evidence.c_heap.slope + 512 * max(0.0, evidence.python_blocks.slope)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the C library's heap")
@pytest.mark.parametrize("name", or_further(OWNED, IN_THE_CHECK))
def test_memory_of_libraries_has_one_cause(name: str) -> None:
    cause, chain, least, most = OWNED[name]
    result = grown(name)
    assert [f.cause for f in result.causes] == [cause], explain(result)
    assert chain in result.holder, explain(result)
    assert least <= result.bytes_per_call <= most, explain(result)


def test_no_twin_of_memory_of_libraries_grows() -> None:
    assert_none_grows(functools.partial(getattr(libraries, name), False) for name in OWNED)


def test_native_memory_is_said_to_be_native() -> None:
    text = grown("interpreters").causes[0].text
    assert "of native memory, which grows with their number" in text
    assert "no counter names" in grown("lost_native_memory").causes[0].text


@pytest.mark.further
def test_lost_tables_are_named() -> None:
    tables = grown("reloaded").causes[0].text
    assert "Lookup tables that nothing in the program can reach any more" in tables
    assert "1 table a call, of up to 2,000 entries" in tables


def test_objects_that_nothing_in_python_holds_are_told_by_type() -> None:
    class Lost:
        def __init__(self) -> None:
            self.parts = [[] for _ in range(3)]

    def step() -> None:
        for _ in range(200):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(Lost()))  # as a library in C may forget

    result = look(step)
    assert [f.cause for f in result.causes] == [Cause.PYTHON_OBJECTS], explain(result)
    assert not result.causes[0].held
    text = r"nothing in Python seems to hold: ≈ 8\d\d list, 200 \S*Lost a call"
    assert re.search(text, result.causes[0].text), explain(result)


def test_small_finding_does_not_silence_a_large_one() -> None:
    lose, log = libraries.lost_native_memory(True), libraries.library_objects(True)
    replace = libraries.replaced_sets(False)

    def step(i: int) -> None:
        lose(i)
        log(i)
        replace(i)

    result = look(step)
    assert [f.cause for f in result.causes] == [Cause.NATIVE_MEMORY, Cause.PYTHON_OBJECTS]
    assert result.causes[1].held[0].chain[0] == "specs (list)", explain(result)
    # A set that is replaced at each call holds nothing that grows.
    assert not any("seen" in held.holder for f in result.causes for held in f.held)


def test_one_is_singular() -> None:
    (finding,) = grown("one_operation").causes
    assert "gains 1 operation a call" in finding.text
    assert counted(1, "operation") == "1 operation"
    assert counted(2000, "entry", "entries") == "2,000 entries"
    assert counted(0.5, "trace") == "0.5 traces"


def test_kept_tables_are_no_slices() -> None:
    buckets, tables = 2**13, {}

    def step(i: int) -> None:
        tables[i] = tf.lookup.experimental.DenseHashTable(
            tf.int64, tf.float32, -1.0, -1, -2, initial_num_buckets=buckets
        )

    (found,) = growth(step, iterations=8).causes
    assert (found.cause, found.text) == (
        Cause.NATIVE_MEMORY,
        "Lookup tables or queues multiply: 1 more a call.",
    )
    assert found.held[0].holder == "tables (dict) → DenseHashTable"
    assert buckets * (8 + 4) <= found.bytes_per_call < 1.02 * buckets * (8 + 4)


@pytest.mark.further
def test_slices_among_others_are_called_so() -> None:
    kept: list[Any] = []

    def step() -> None:
        kept.extend((tf.ones([16, 1024])[0], tf.ones([256])))

    (found,) = growth(step, iterations=8).causes
    assert found.bytes_per_call == (16 * 1024 + 256) * 4
    assert "; some of them are slices" in found.text


@pytest.mark.parametrize("filled", or_further(["first", "second"], {"second"}))
def test_the_table_that_grows_is_named(filled: str) -> None:
    first, second = (
        tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1) for _ in range(2)
    )
    table, values = {"first": first, "second": second}[filled], tf.range(50, dtype=tf.int64)
    found = growth(lambda i: table.insert(values + 50 * i, values), iterations=6)
    assert found.causes[0].text == "Lookup tables or queues gain 50 entries a call."
    (held,) = found.causes[0].held
    assert held.chain[0].startswith(f"{filled} in test_the_table_that_grows")
