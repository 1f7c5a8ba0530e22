"""A program that uses much of TensorFlow, in parts that people's own programs are made of.

Run as ``python ordinary_program.py [import]``; with ``import`` it imports this package first.  It
prints what it finds and exits with 3: the same whether it is watched or not.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

if "import" in sys.argv:
    import lessons_lib  # noqa: F401
import numpy as np
import tensorflow as tf

from tests.support import dropping

v1 = tf.compat.v1


def threads() -> Any:
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.experimental.enable_op_determinism()
    return tf.config.threading.get_intra_op_parallelism_threads()


def devices() -> Any:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_visible_devices([cpu], "CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return len(tf.config.list_logical_devices("CPU"))


def randoms() -> Any:
    tf.random.set_seed(7)
    drawn = [tf.random.normal([2]), tf.function(lambda: tf.random.uniform([2]))()]
    tf.keras.utils.set_random_seed(8)
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 2])
    return [np.asarray(one).round(6) for one in (*drawn, layer.kernel)]


def traces() -> Any:
    step = tf.function(lambda x: x * 2)
    for value in (1, 2, tf.constant(1.0), tf.constant([1.0])):
        step(value)
    return step.experimental_get_tracing_count(), step.get_concrete_function(1).name


def jacobian() -> Any:
    w = tf.Variable(tf.random.stateless_normal([8, 8], [1, 2]))
    x = tf.random.stateless_normal([8], [3, 4])
    with tf.GradientTape() as tape:
        y = tf.tanh(tf.linalg.matvec(w, x))
    return tf.norm(tape.jacobian(y, w))


def batch_jacobian() -> Any:
    x = tf.random.stateless_normal([4, 8], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x) * x
    return tf.norm(tape.batch_jacobian(y, x))


def forward_mode() -> Any:
    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.ones([2])) as accumulator:
        y = tf.reduce_sum(tf.tanh(x) * x)
    return accumulator.jvp(y)


def second_order() -> Any:
    x = tf.Variable([1.0, 2.0])

    @tf.function
    def slope() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(x**3)
            first = inner.gradient(y, x)
        return outer.gradient(first, x)

    return slope()


def vectorized() -> Any:
    return tf.vectorized_map(lambda row: tf.tensordot(row, row, 1), tf.ones([3, 4]))


def names() -> Any:
    with tf.Graph().as_default() as graph:
        for _ in range(2):
            with tf.name_scope("scope"):
                x = v1.placeholder(tf.float32, [2], name="x")
        tf.gradients(tf.tanh(x) * x, x)
    return [op.name for op in graph.get_operations()]


def error() -> Any:
    @tf.function
    def fails(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reshape(tf.tanh(x), [3])
        return tape.gradient(y, x)

    try:
        fails(tf.ones([4]))
    except (ValueError, tf.errors.OpError) as raised:
        return type(raised).__name__, str(raised).splitlines()[-1]


def mixed() -> Any:
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(2)])
        model.compile("adam", "mse")
        x = np.ones([4, 4], np.float32)
        model.fit(x, x[:, :2], verbose=0)
        return model.compute_dtype, np.asarray(model.optimizer.iterations)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def mirrored() -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        v = tf.Variable(1.0)

    @tf.function
    def step() -> Any:
        def replica() -> Any:
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            with tf.GradientTape() as tape:
                y = v * tf.cast(number + 1, tf.float32)
            return tape.gradient(y, v)

        return strategy.reduce("SUM", strategy.run(replica), axis=None)

    return step()


def sessions() -> Any:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2])
        v = v1.get_variable("v", initializer=[1.0, 2.0], use_resource=False)
        y = tf.reduce_sum(x * v)
        session.run(v1.global_variables_initializer())
        gradient = tf.gradients(y, v)[0]
        return session.run([y, gradient], {x: [3.0, 4.0]})


def dropped() -> Any:
    programs = (dropping.functions, dropping.models, dropping.tapes, dropping.sessions)
    return [[tuple(dropping.leavings(program)) for _ in range(2)][1] for program in programs]


def debugged_data() -> Any:
    tf.data.experimental.enable_debug_mode()
    seen: list[float] = []
    data = tf.data.Dataset.range(3).map(lambda x: seen.append(float(x)) or x * 2)
    return [int(x) for x in data], seen


def numerics() -> Any:
    tf.debugging.enable_check_numerics()
    try:
        tf.math.log(tf.constant(-1.0))
    except tf.errors.InvalidArgumentError as raised:
        return type(raised).__name__
    finally:
        tf.debugging.disable_check_numerics()


def handlers() -> Any:
    seen: list[Any] = []

    def asked(*_: Any) -> None:
        seen.append("asked")

    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        seen += [before, signal.signal(number, asked)]
        signal.raise_signal(number)
        seen += [signal.getsignal(number), signal.signal(number, before)]
        seen += [signal.getsignal(number), signal.signal(number, signal.SIG_IGN)]
        signal.raise_signal(number)
        seen += [signal.signal(number, before), signal.getsignal(number)]
    return [getattr(one, "__qualname__", str(one)) for one in seen]


PARTS: tuple[Callable[[], Any], ...] = (
    threads, devices, randoms, traces, jacobian, batch_jacobian, forward_mode, second_order,
    vectorized, names, error, mixed, mirrored, sessions, dropped, debugged_data, numerics,
    handlers,
)  # fmt: skip


def main() -> None:
    """Run all parts, each on its own."""
    np.set_printoptions(precision=6)
    for part in PARTS:
        try:
            found = part()
        except Exception as raised:
            found = f"{type(raised).__name__}: {raised}"
        if isinstance(found, tf.Tensor):
            found = found.numpy()
        print(f"{part.__name__}: {found}")
    sys.exit(3)


if __name__ == "__main__":
    main()
