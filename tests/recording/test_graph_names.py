"""Names of a graph's operations that cannot be followed, by graphs made by hand."""

from __future__ import annotations

import types
from typing import Any
from unittest import mock

import pytest

from lessons_lib.common.runtime import tf
from lessons_lib.recording import graph_flow, graph_ops, graph_phases
from lessons_lib.recording.allocator_counters import counters
from lessons_lib.recording.recorder import record
from tests.support.tensors import new


def operation(kind: str, *inputs: str) -> Any:
    return types.SimpleNamespace(name=kind, type=kind, inputs=inputs)


def graph(**operations: Any) -> Any:
    return types.SimpleNamespace(operations=operations, calls={})


def test_recursion_in_a_graph_cannot_be_followed() -> None:
    known = graph(a=operation("Add"))
    assert graph_ops._follow(known, "a", 0) is not None
    assert graph_ops._follow(known, "a", 41) is None
    assert graph_ops._follow(known, "a/body/_1/b", 0) is None  # it calls no function


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("layer/ArithmeticOptimizer/ReuseCompute_mul", "layer/mul"),
        ("mul-0-TransposeNHWCToNCHW-LayoutOptimizer", "mul"),
        ("while_0", "while"),
        ("mul", None),
    ],
)
def test_what_the_optimiser_renames(name: str, original: str | None) -> None:
    assert graph_ops._original_name(name) == original


def test_a_chain_that_two_inputs_may_lead_to_is_not_read() -> None:
    one = graph(m=operation("MatMul"), r=operation("Relu", "m"))
    assert graph_ops.fused_operations(one, operation("Relu", "m"), "_FusedMatMul") == (
        "MatMul",
        ("Relu",),
    )
    two = graph(m=operation("MatMul"), n=operation("MatMul"))
    assert graph_ops.fused_operations(two, operation("BiasAdd", "m", "n"), "_FusedMatMul") is None


def test_an_operation_from_a_file_tells_nobody_who_made_it() -> None:
    loaded = types.SimpleNamespace(traceback=None)
    assert graph_phases._Frames([loaded]).any(0, lambda frame: True) is False


def test_a_graph_that_is_too_large_is_recorded_without_categories() -> None:
    product = tf.function(lambda x: tf.exp(x) + 1.0)
    x = new(9)
    product(x)
    with mock.patch.object(graph_flow, "_MOST_NODES", 1), record() as recording:
        y = product(x)
    assert (recording.kept_bytes, recording.exact) == (36, True)
    del y


def test_another_devices_meter_is_left_alone() -> None:
    answered = counters._answered(lambda handle, device: {"peak": 5})
    assert answered(None, "GPU:0") == {"peak": 5}
    assert counters._noticed(lambda handle, device: device)(None, "GPU:0") == "GPU:0"
