"""What one reading counts: graphs that belong to nobody, variables of any shape, queues."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_lib.common import system
from lessons_lib.common.gc_control import HeapBaseline
from lessons_lib.common.runtime import tf
from lessons_lib.instruments.growth import sampler
from lessons_lib.instruments.growth.sampler import Sampler, is_orphan, operations_of


def test_graphs_of_branches_belong_to_the_function_around_them() -> None:
    inner: list[Any] = []

    def branch(x: Any) -> Any:
        inner.append(tf.compat.v1.get_default_graph())
        return x + 1.0

    @tf.function(autograph=False)
    def choose(x: Any) -> Any:
        return tf.cond(
            x > 0, lambda: branch(x), lambda: tf.cond(x < -1, lambda: branch(x), lambda: x)
        )

    outer = choose.get_concrete_function(tf.TensorSpec([])).graph
    assert len({outer, *inner}) == 3
    for graph in (outer, *inner):
        assert not is_orphan(graph, {id(outer)})
        assert is_orphan(graph, set())
    assert not is_orphan(tf.Graph(), set())  # it never had a function
    assert not is_orphan(tf.__internal__.FuncGraph("__backward_choose_1"), set())


def test_operations_are_counted_while_they_can_be() -> None:
    def changed() -> int:
        raise RuntimeError("the graph is being changed")

    with tf.Graph().as_default() as graph:
        tf.no_op()
        tf.no_op()
    assert operations_of(graph) == 2
    assert operations_of(types.SimpleNamespace(num_operations=changed)) == 0


def test_variables_have_the_bytes_of_their_values_and_queues_their_elements() -> None:
    value, any_shape = tf.ones([3]), tf.TensorShape(None)
    assert [sampler._variable_bytes(tf.Variable(value, shape=s)) for s in ([3], any_shape)] == [
        *(3 * 4, 3 * 4)
    ]
    queue = tf.queue.FIFOQueue(4, tf.float32)
    queue.enqueue_many([[1.0, 2.0]])
    assert sampler._entries(queue) == 2
    with tf.Graph().as_default():
        assert sampler._entries(tf.queue.FIFOQueue(4, tf.float32)) == 0  # nobody runs it


def test_traces_are_counted_and_none_is_made() -> None:
    ran: list[str] = []

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def declared(x: Any) -> Any:
        ran.append("declared")
        return x

    @tf.function
    def without_arguments() -> Any:
        ran.append("without arguments")
        return tf.zeros([])

    functions = [declared, without_arguments]
    counts = []
    for call in (lambda: None, lambda: declared(tf.ones([2])), without_arguments):
        call()
        counts.append((sampler._functions(functions, [])["concrete_functions"], len(ran)))
    assert counts == [(0, 0), (1, 1), (2, 2)]


def test_traces_of_a_loaded_function_are_those_of_its_file(tmp_path: Path) -> None:
    saved = tf.Module()
    saved.double = tf.function(lambda x: 2.0 * x)
    for shape in ([2], [3]):
        saved.double(tf.ones(shape))
    tf.saved_model.save(saved, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert sampler._functions([loaded.double], [])["concrete_functions"] == 2


def test_what_the_system_does_not_offer_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(*, native: bool) -> dict[str, bool]:
        baseline = HeapBaseline()
        baseline.move()
        try:
            reading = Sampler(baseline, 1, [], collect=False, native=native)
            reading.read()
        finally:
            baseline.lift()
        return {name: bool(np.isfinite(values[0])) for name, values in reading.rows.items()}

    monkeypatch.setattr(system, "resident_bytes", lambda: 2**20)
    for given_back in (True, False):
        monkeypatch.setattr(system, "trim", lambda given_back=given_back: given_back)
        found = known(native=True)
        assert (found["rss"], found["rss_trimmed"]) == (True, given_back)
    assert not any(known(native=False)[name] for name in ("c_heap", "rss", "rss_trimmed"))
