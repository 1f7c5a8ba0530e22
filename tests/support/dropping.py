"""Programs that make objects, use them and drop them, and what they leave.

Each leaves nothing, or what TensorFlow itself keeps for it.  `leavings` says so by weak references,
which know of objects, and by the allocator's own count, which knows of bytes.  Nothing of this
package is imported: without it, the same must be left.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

#: Elements of what is captured: 4,000 bytes.
SIZE = 1000
Keep = Callable[[Any], None]


class Leavings(NamedTuple):
    """What a program left: objects that are alive, and bytes that the allocator has handed out."""

    alive: int
    nbytes: int


def _ones() -> Any:
    return tf.ones([SIZE])


def functions(see: Keep) -> None:
    """Make a function that captures a tensor."""
    big = _ones()
    total = tf.function(lambda x: tf.reduce_sum(x * big))
    total(tf.constant(1.0))
    see(total.get_concrete_function(tf.constant(1.0)).graph)
    see(big)


def nested_functions(see: Keep) -> None:
    """Make functions within functions, with a loop and a branch."""
    big = _ones()
    inner = tf.function(lambda x: x + big)

    @tf.function
    def outer(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.cond(x[0] > 0, lambda x=x: inner(x), lambda x=x: x)
        return x

    outer(_ones())
    see(outer.get_concrete_function(_ones()).graph)
    see(big)


def modules(see: Keep) -> None:
    """Make a module with a variable and a method that is traced."""

    class Scale(tf.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.scale = tf.Variable(_ones())

        @tf.function
        def __call__(self, x: Any) -> Any:
            return x * self.scale

    module = Scale()
    module(_ones())
    see(module)
    see(module.scale)


def layers(see: Keep) -> None:
    """Make a Keras layer that is used in a function."""
    layer = tf.keras.layers.Dense(3)
    apply = tf.function(lambda x: layer(x))
    x = tf.ones([2, 5])
    apply(x)
    see(layer)
    see(layer.kernel.value)
    see(apply.get_concrete_function(x).graph)


def models(see: Keep) -> None:
    """Make a Keras model with an optimizer and a step."""
    model = tf.keras.Sequential([tf.keras.Input([5]), tf.keras.layers.Dense(3)])
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    x = tf.ones([2, 5])

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step()
    see(model)
    see(optimizer)
    see(step.get_concrete_function().graph)


def pipelines(see: Keep) -> None:
    """Make a data pipeline with a mapped function."""
    data = tf.data.Dataset.from_tensors(_ones()).repeat(3).map(lambda x: x * 2.0).batch(2)
    for batch in data:
        see(batch)
    see(data)


def tapes(see: Keep) -> None:
    """Use a tape twice, around an operation and around a function."""
    big = _ones()
    square = tf.function(lambda x: x * x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(big)
        z = square(big)
        y = tf.tanh(big) * z
    see(tape.gradient(y, big))
    see(tape.gradient(y, z))
    see(y)
    see(tape)
    see(square.get_concrete_function(big).graph)


def jacobians(see: Keep) -> None:
    """Compute a Jacobian, for which TensorFlow builds a graph out of eager tensors."""
    x = tf.ones([5])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x) * x
    see(tape.jacobian(y, x))
    see(tape)


def custom_gradients(see: Keep) -> None:
    """Give an operation a gradient of the program's own, which captures a tensor."""
    big = _ones()

    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        return x * 2.0, lambda upstream: upstream * big

    x = _ones()
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = doubled(x)
    see(tape.gradient(y, x))
    see(doubled)
    see(big)


def sessions(see: Keep) -> None:
    """Make a graph of TensorFlow 1, and its session."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.Session() as session:
        session.run(tf.constant(np.ones([SIZE], np.float32)) * 2.0)
    see(graph)
    see(session)


def generators(see: Keep) -> None:
    """Leave a generator in the middle."""

    def batches() -> Iterator[Any]:
        held = _ones()
        see(held)
        while True:
            yield held * 2.0

    made = batches()
    see(next(made))
    see(made)


def threads(see: Keep) -> None:
    """Make a function on a thread."""
    worker = threading.Thread(target=functions, args=(see,))
    worker.start()
    worker.join()
    see(worker)


def code(see: Keep) -> None:
    """Run code that is dropped, as the cells of a notebook are."""
    made = compile("made = tf.ones([1000]) + 1.0", "<ipython-input-7-dropped>", "exec")
    names = {"tf": tf}
    exec(made, names)
    see(names["made"])


def rebound(see: Keep) -> None:
    """Rebind a name while its function goes on."""
    concrete = tf.function(lambda x: x + 1.0).get_concrete_function(_ones())
    first = _ones()
    see(first)
    second = concrete(first)
    first = second
    see(concrete)
    see(tf.tanh(first))


PROGRAMS: tuple[Callable[[Keep], None], ...] = (
    functions, nested_functions, modules, layers, models, pipelines, tapes, jacobians,
    custom_gradients, sessions, generators, threads, code, rebound,
)  # fmt: skip
#: What is quick enough to be done again and again.
QUICK = (functions, tapes, sessions, generators, threads, code, rebound)


def leavings(program: Callable[[Keep], None]) -> Leavings:
    """Run a program, and tell what it left."""
    seen: list[weakref.ref[Any]] = []
    gc.collect()
    before = _in_use()
    program(lambda thing: seen.append(weakref.ref(thing)))
    gc.collect()
    return Leavings(sum(one() is not None for one in seen), _in_use() - before)


def _in_use() -> int:
    return int(tf.config.experimental.get_memory_info("CPU:0")["current"])


def all_leavings() -> dict[str, Leavings]:
    """Run all programs; the first two times make what TensorFlow keeps for them."""
    for program in PROGRAMS:
        leavings(program)
        leavings(program)
    return {program.__name__: leavings(program) for program in PROGRAMS}
