"""`op_memory`: what an operation does, found by measuring it.  S is 1 MiB: 512 × 512 float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lessons_lib as ll
from lessons_lib.instruments.operations.op_memory import OpCost, OpMemory, Verdict, op_memory
from lessons_lib.instruments.operations.sections import RecordedSections
from lessons_lib.plots.operations import describe_op
from lessons_lib.plots.theme import get_alt
from tests.support.cases import or_further

tf = ll.runtime.tf
S = 512 * 512 * 4
ROW = 301 * 4


def uniform(*shape: int) -> Any:
    return tf.random.stateless_uniform(shape, [1, 2], 0.1, 0.9)


@pytest.fixture(scope="module")
def x() -> Any:
    return uniform(512, 512)


# Name, operation, inputs' shapes; then of eager mode: verdict, output, temporaries, kept by output.
Shapes = list[tuple[int, ...]]
Cost = tuple[Verdict, int, int, int]
EAGER: list[tuple[str, Callable[..., Any], Shapes, Cost]] = [
    ("tanh", tf.tanh, [(512, 512)], (Verdict.OUTPUT, S, 0, S)),
    ("matmul", tf.matmul, [(512, 512)] * 2, (Verdict.OUTPUT, S, 0, S)),
    ("identity", tf.identity, [(512, 512)], (Verdict.SHARES, 0, 0, S)),
    ("aligned row", lambda x: x[0], [(512, 512)], (Verdict.SHARES, 0, 0, S)),
    ("other row", lambda x: x[1], [(512, 301)], (Verdict.OUTPUT, ROW, 0, ROW)),
    ("columns", lambda x: x[:, :256], [(512, 512)], (Verdict.OUTPUT, S // 2, 0, S // 2)),
    ("wider", lambda x: tf.cast(x, tf.float64), [(512, 512)], (Verdict.OUTPUT, 2 * S, 0, 2 * S)),
    ("stack", lambda x, y: tf.stack([x, y]), [(512, 512)] * 2, (Verdict.OUTPUT, 2 * S, 0, 2 * S)),
    ("mask", lambda x: tf.where(x > 0.5, x, -1.0), [(512, 512)], (Verdict.MORE, S, S // 4, S)),
    ("two", lambda x: tf.sin(tf.sin(x)), [(512, 512)], (Verdict.MORE, S, S, S)),
    ("zeros like", tf.zeros_like, [(512, 512)], (Verdict.OUTPUT, S, 0, S)),
    ("pieces", lambda x: tf.split(x, 4), [(512, 512)], (Verdict.SHARES, 0, 0, S)),
    ("nothing", lambda x: None, [(512, 512)], (Verdict.NOTHING, 0, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "op", "shapes", "expected"), EAGER, ids=[e[0] for e in EAGER])
def test_eager_figures_are_those_of_hand_arithmetic(
    name: str,
    op: Callable[..., Any],
    shapes: Shapes,
    expected: Cost,
) -> None:
    cost = op_memory(op, *(uniform(*shape) for shape in shapes), label=name).eager
    verdict, output, temporary, kept = expected
    assert cost.verdict is verdict
    assert (cost.output_bytes, cost.kept_bytes) == (output, kept)
    # Axes and indices are small tensors of their own.
    assert temporary <= cost.temporary_bytes <= temporary + 64
    assert cost.peak_bytes == cost.output_bytes + cost.temporary_bytes
    assert cost.shares is (verdict is Verdict.SHARES)
    assert not cost.forwards  # Python holds the inputs of an eager operation


def test_graph_forwards_what_nobody_else_needs(x: Any) -> None:
    forwarded = op_memory(tf.tanh, x).graph
    assert forwarded is not None
    assert (forwarded.verdict, forwarded.forwards) == (Verdict.FORWARDS, True)
    assert forwarded.output_bytes == S
    # A matrix product reads its inputs until its end, so it cannot.
    product = op_memory(tf.matmul, x, x + 1.0).graph
    assert product is not None
    assert (product.verdict, product.forwards) == (Verdict.OUTPUT, False)


def test_graph_keeps_what_it_folded(x: Any) -> None:
    folded = op_memory(tf.zeros_like, x).graph
    assert folded is not None
    assert (folded.verdict, folded.peak_bytes) == (Verdict.NOTHING, 0)
    assert S <= folded.constant_bytes <= S + 64
    made = op_memory(tf.tanh, x).graph
    assert made is not None
    assert made.constant_bytes < 64


def test_a_name_deceives_nobody(x: Any) -> None:
    def identity(x: Any) -> Any:
        return x + 1.0

    def tanh(x: Any) -> Any:
        return x

    assert op_memory(identity, x).eager.verdict is Verdict.OUTPUT
    assert op_memory(tanh, x).eager.verdict is Verdict.SHARES


def test_variables_share_what_they_are_given_until_they_must_not(x: Any) -> None:
    v = tf.Variable(x + 1.0)
    shared = op_memory(lambda v, x: v.assign(x), v, x)
    product = op_memory(lambda v, x: v.assign(v @ x), v, x)
    read = op_memory(lambda v: v + 1.0, v)
    for cost in shared.modes.values():
        assert (cost.verdict, cost.peak_bytes) == (Verdict.SHARES, 0)
    for cost in product.modes.values():
        assert (cost.verdict, cost.temporary_bytes, cost.output_bytes) == (Verdict.MORE, S, 0)
    assert read.eager.verdict is Verdict.OUTPUT
    assert read.input_bytes == S


@pytest.mark.parametrize("read", ["read_value", "value"])
def test_value_that_is_read_keeps_the_variables_buffer(x: Any, read: str) -> None:
    cost = op_memory(lambda v: getattr(v, read)(), tf.Variable(x + 1.0)).eager
    assert (cost.verdict, cost.output_bytes, cost.kept_bytes) == (Verdict.SHARES, 0, S)
    # The twins: what is computed from it keeps its own, and what is assigned is counted once.
    assert op_memory(lambda v: v.read_value() + 1.0, tf.Variable(x)).eager.kept_bytes == S
    assigned = op_memory(lambda v, x: v.assign(x), tf.Variable(x + 1.0), x)
    assert [cost.kept_bytes for cost in assigned.modes.values()] == [S, S]


def test_tensor_that_is_given_twice_is_one_input(x: Any) -> None:
    twice = op_memory(tf.add, x, x)
    assert twice.input_bytes == S
    assert op_memory(tf.add, x, tf.identity(x)).input_bytes == S
    assert op_memory(tf.add_n, [x, x, x]).input_bytes == S
    assert op_memory(tf.add, x, x + 1.0).input_bytes == 2 * S


def test_strings_have_bytes() -> None:
    words = tf.fill([1000], "word")  # a handle of 24 bytes each, which holds so short a text
    found = op_memory(tf.identity, words)
    assert (found.input_bytes, found.eager.kept_bytes) == (24_000, 24_000)
    assert op_memory(tf.strings.upper, words).eager.output_bytes == 24_000
    assert op_memory(tf.strings.length, words).eager.output_bytes == 4000


def test_peak_of_a_graph_is_the_highest_of_its_runs() -> None:
    assert op_memory(tf.tanh, tf.ones([16])).modes["graph"].peak_range == (64, 64)
    varies = OpCost(Verdict.MORE, False, False, S, S, S, 2 * S, lowest_peak_bytes=S)
    shown = OpMemory("op", S, varies, None)
    assert "(peak ≈ 1 to 2 MiB)" in repr(shown)
    assert "≈ 0 B to 1 MiB" in shown._repr_html_()


def test_xla_is_measured_on_request_only(x: Any) -> None:
    def three(x: Any) -> Any:
        return tf.sin(tf.sin(tf.sin(x)))

    without, compiled = op_memory(three, x), op_memory(three, x, xla=True)
    assert without.xla is None
    assert compiled.xla is not None
    assert (compiled.xla.output_bytes, compiled.xla.temporary_bytes) == (S, 0)
    assert list(compiled.modes) == ["eager", "graph", "xla"]


def test_mode_in_which_it_cannot_run_is_left_out_with_the_reason(x: Any) -> None:
    made = op_memory(tf.Variable, x, label="tf.Variable")
    assert made.graph is None
    assert made.notes[0].startswith("tf.Variable cannot run in a graph: ValueError: ")
    assert made.eager.shares
    words = op_memory(tf.strings.upper, tf.fill([64], "a"), xla=True, label="upper")
    assert words.xla is None
    assert words.notes[0].startswith("upper cannot run under XLA: ")
    assert len(words.notes[0]) <= 240
    assert words.graph is not None
    assert words.graph.output_bytes == 64 * 24


def test_inputs_may_be_lists_arrays_and_python_values(x: Any) -> None:
    joined = op_memory(tf.concat, [x, np.ones([512, 512], np.float32)], 0)
    assert (joined.input_bytes, joined.eager.output_bytes) == (2 * S, 2 * S)
    assert op_memory(tf.reshape, x, [-1]).eager.verdict is Verdict.SHARES
    assert op_memory(tf.fill, [512, 512], 1.0).eager.output_bytes == S


def branches(x: Any) -> Any:
    if tf.reduce_sum(x) > 0:
        return x * 2.0
    return x


def test_functions_that_need_autograph_get_it(x: Any) -> None:
    found = op_memory(branches, x)
    assert found.notes == ()
    assert found.graph is not None
    assert found.graph.output_bytes == S


@pytest.mark.parametrize("compiled", or_further([False, True], {True}))
def test_a_function_within_a_function_is_said_to_run_as_a_graph(x: Any, compiled: bool) -> None:
    @tf.function(jit_compile=compiled)
    def inner(x: Any) -> Any:
        return tf.tanh(x) + 1.0

    inside = "inner, compiled with XLA" if compiled else "inner"
    result = op_memory(lambda x: inner(x), x, label="outer")
    assert result.notes == (
        f"outer calls a tf.function ({inside}), which “eager” runs as a graph.",
    )
    assert result.eager.peak_bytes == S  # the sum takes over the buffer, or is in one kernel
    plain = op_memory(lambda x: inner.python_function(x), x)
    assert (plain.notes, plain.eager.peak_bytes) == ((), 2 * S)


def test_tf_function_is_said_to_be_one(x: Any) -> None:
    assert "tf.function" in op_memory(tf.function(lambda x: x + 1.0), x).notes[0]
    assert op_memory(tf.tanh, x).notes == ()


def test_wrong_arguments_get_one_sentence(x: Any) -> None:
    with pytest.raises(TypeError, match="calls an operation with its inputs"):
        op_memory(x)

    @tf.function
    def inside(x: Any) -> Any:
        op_memory(tf.tanh, x)
        return x

    with pytest.raises(TypeError, match="symbolic"):
        inside(x)


def test_error_of_the_operation_passes_through_and_recording_is_off(x: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        op_memory(tf.matmul, x, tf.ones([3, 3]))
    with ll.record() as recording:
        y = tf.sin(x)
    assert recording.peak_bytes == S
    del y


def test_traces_of_the_instrument_are_no_business_of_the_user(
    x: Any, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with ll.watch_retracing() as watch:
        for _ in range(4):
            op_memory(tf.tanh, x)
        assert tf.function(lambda: tf.ones([2]))().shape == [2]
    assert watch.new_traces == 1
    assert "retracing" not in caplog.text + capfd.readouterr().err


def test_result_shows_itself(x: Any) -> None:
    found: OpMemory = op_memory(lambda x: tf.sin(tf.sin(x)), x, label="two sines")
    assert repr(found) == (
        "<OpMemory two sines: eager needs temporaries (peak 2 MiB), "
        "graph forwards its input (peak 1 MiB)>"
    )
    assert "two sines on 1 MiB" in found._repr_html_()
    ax = found.plot()
    assert [bar.get_width() for bar in ax.patches] == [S, S, S]
    assert get_alt(ax) == describe_op(found)
    assert "temporaries 1 MiB (1,048,576 bytes)" in describe_op(found)


def test_sections_are_cut_where_they_begin_and_end(x: Any) -> None:
    with RecordedSections() as sections:
        with sections.section("grows"):
            y = tf.sin(x)
        z = tf.sin(x)
        with sections.section("shrinks"):
            del y
        with sections.section("passes"):
            tf.sin(tf.sin(x))
    del z
    grows, shrinks, passes = (sections.results[n] for n in ("grows", "shrinks", "passes"))
    assert (grows.peak_bytes, grows.kept_bytes, grows.by_op) == (S, S, {"Sin": S})
    assert (shrinks.peak_bytes, shrinks.kept_bytes, shrinks.by_op) == (0, -S, {})
    assert (passes.peak_bytes, passes.kept_bytes, passes.allocated_bytes) == (2 * S, 0, 2 * S)
