"""Every buffer in a session's graph is tied to the line that made its operation, or to none."""

from __future__ import annotations

import numpy as np

from lessons_lib.common.runtime import tf
from tests.support.marked_lines import Marked, N, big, run

_HERE = Marked(__file__)
line, lines = _HERE.line, _HERE.lines


def test_a_sessions_graph() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [N, N])
        loop = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, a: (i + 1, tf.sin(a) @ a),  # here: session_body
            [0, x],
        )
        loss = tf.reduce_sum(loop[1])
        gradient = tf.gradients(loss, x)[0]  # here: session_gradient
        fed = np.ones([N, N], np.float32)
        recording = run(lambda: session.run(gradient, {x: fed}))
    named = [b for b in big(recording) if b.op in ("Sin", "Cos", "MatMul")]
    assert {b.op for b in named} == {"Sin", "Cos", "MatMul"}
    for buffer in named:
        assert buffer.line is not None
        forward = buffer.forward_line
        if forward is None:
            assert buffer.line.number == line("session_body")
        else:
            assert (buffer.line.number, forward.number) == (
                line("session_gradient"),
                line("session_body"),
            )
    assert any(b.forward_line is not None for b in named)


def test_two_sessions_with_the_same_names_are_not_confused() -> None:
    v1 = tf.compat.v1
    fed = np.ones([N, N], np.float32)
    runs = []
    makers = (
        lambda x: tf.sin(x, name="y"),
        lambda x: tf.sin(x, name="y"),
        lambda x: tf.cos(x, name="z"),  # here: of_two_graphs
    )
    for make in (*makers, makers[-1]):
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [N, N], name="x")
            y = make(x)
            runs.append((v1.Session(graph=graph), {x: fed}, y))

    def both() -> None:
        for session, feed, y in runs:
            session.run(y, feed)

    found = lines(run(both))
    # Two graphs have a "y", of two lines, and the profile does not say which of them ran.
    assert [number for op, number in found if op == "Sin"] == [None, None]
    # Two more have a "z", of one line.
    assert [number for op, number in found if op == "Cos"] == [line("of_two_graphs")] * 2
    for session, _, _ in runs:
        session.close()
