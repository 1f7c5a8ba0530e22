"""What the atlas measures: operations that people use, in groups.

Each entry is a name as one would write it, and a function whose parameters name its inputs (see
`inputs`).  Where the answer depends on whether rows or ends lie on 64-byte boundaries, as
TensorFlow's buffers do, there is an entry for each.  Keras layers are in `layers`.  Nothing is run
here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lessons_lib.common.runtime import tf
from lessons_lib.instruments.operations.inputs import OperationInputs

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of the atlas.

    Attributes
    ----------
    group, name : str
        Where it stands, and how it is written.
    function : callable
        Its parameters name its inputs.  For a layer, it makes the layer.
    inputs : tuple of str
        Names of the inputs.
    is_layer : bool
        Whether `function` makes a layer, which is then called with the inputs.
    """

    group: str
    name: str
    function: Function
    inputs: tuple[str, ...]
    is_layer: bool = False

    def prepare(self, made: OperationInputs) -> tuple[Function, list[Any]]:
        """Give what is to be called, and its inputs."""
        inputs = [made[name] for name in self.inputs]
        return (self.function() if self.is_layer else self.function), inputs


def _entries(group: str, functions: dict[str, Function]) -> list[Entry]:
    return [
        Entry(group, name, function, tuple(inspect.signature(function).parameters))
        for name, function in functions.items()
    ]


def _while(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, tf.sin(t)), [0, x])[1]


def _only_run(_: Any) -> None:
    """Return nothing: a graph that returned the variable would read, and so copy it."""


#: All entries but the Keras layers, in the order in which they are shown.
OPERATIONS: Final = (
    *_entries(
        "creation",
        {
            "tf.zeros": lambda: tf.zeros([512, 512]),
            "tf.ones": lambda: tf.ones([512, 512]),
            "tf.fill": lambda: tf.fill([512, 512], 7.0),
            "tf.eye": lambda: tf.eye(512),
            "tf.range": lambda: tf.range(512 * 512),
            "tf.linspace": lambda: tf.linspace(0.0, 1.0, 512 * 512),
            "tf.one_hot": lambda rows: tf.one_hot(rows, 512),
            "tf.zeros_like": lambda x: tf.zeros_like(x),
            "tf.ones_like": lambda x: tf.ones_like(x),
            "tf.identity": lambda x: tf.identity(x),
            "tf.convert_to_tensor": lambda x: tf.convert_to_tensor(x),
            "tf.stop_gradient": lambda x: tf.stop_gradient(x),
        },
    ),
    *_entries(
        "element-wise",
        {
            "x + y": lambda x, y: x + y,
            "x + 1": lambda x: x + 1.0,
            "x + bias row": lambda x, bias: x + bias,
            "x * y": lambda x, y: x * y,
            "x / y": lambda x, y: x / y,
            "x ** 2": lambda x: x**2,
            "-x": lambda x: -x,
            "x > y": lambda x, y: x > y,
            "tf.square": lambda x: tf.square(x),
            "tf.sqrt": lambda x: tf.sqrt(x),
            "tf.exp": lambda x: tf.exp(x),
            "tf.math.log": lambda x: tf.math.log(x),
            "tf.sin": lambda x: tf.sin(x),
            "tf.abs": lambda x: tf.abs(x),
            "tf.maximum": lambda x, y: tf.maximum(x, y),
            "tf.where": lambda mask, x, y: tf.where(mask, x, y),
            "tf.where (x > y)": lambda x, y: tf.where(x > y, x, y),
            "tf.clip_by_value": lambda x: tf.clip_by_value(x, 0.2, 0.8),
            "tf.cast to float32": lambda x: tf.cast(x, tf.float32),
            "tf.cast to float64": lambda x: tf.cast(x, tf.float64),
            "tf.cast to int32": lambda x: tf.cast(x, tf.int32),
            "tf.bitcast": lambda x: tf.bitcast(x, tf.int32),
            "three in a row": lambda x: tf.sqrt(tf.sin(x) + 1.5),
            "tf.while_loop of sin": _while,
        },
    ),
    *_entries(
        "reduction",
        {
            "tf.reduce_sum": lambda x: tf.reduce_sum(x),
            "tf.reduce_sum axis 0": lambda x: tf.reduce_sum(x, axis=0),
            "tf.reduce_mean": lambda x: tf.reduce_mean(x),
            "tf.reduce_max axis 1": lambda x: tf.reduce_max(x, axis=1),
            "tf.math.reduce_std": lambda x: tf.math.reduce_std(x),
            "tf.reduce_logsumexp": lambda x: tf.reduce_logsumexp(x),
            "tf.norm": lambda x: tf.norm(x),
            "tf.argmax": lambda x: tf.argmax(x, axis=1),
            "tf.cumsum": lambda x: tf.cumsum(x),
            "tf.math.segment_sum": lambda x, segments: tf.math.segment_sum(x, segments),
            "tf.add_n": lambda x, y: tf.add_n([x, y]),
        },
    ),
    *_entries(
        "linear algebra",
        {
            "tf.matmul": lambda x, y: tf.matmul(x, y),
            "tf.matmul (transposed)": lambda x, y: tf.matmul(x, y, transpose_b=True),
            "tf.matmul (batch)": lambda cube: tf.matmul(cube, cube),
            "tf.tensordot": lambda x, y: tf.tensordot(x, y, 1),
            "tf.einsum ij,jk->ik": lambda x, y: tf.einsum("ij,jk->ik", x, y),
            "tf.einsum ij,ij->i": lambda x, y: tf.einsum("ij,ij->i", x, y),
            "tf.linalg.matvec": lambda x, bias: tf.linalg.matvec(x, bias),
            "tf.linalg.diag_part": lambda x: tf.linalg.diag_part(x),
            "tf.linalg.band_part": lambda x: tf.linalg.band_part(x, -1, 0),
            "tf.linalg.cholesky": lambda definite: tf.linalg.cholesky(definite),
            "tf.linalg.inv": lambda definite: tf.linalg.inv(definite),
            "tf.linalg.solve": lambda definite, cube: tf.linalg.solve(definite, cube),
            "tf.signal.fft": lambda signal: tf.signal.fft(signal),
        },
    ),
    *_entries(
        "shape",
        {
            "tf.reshape": lambda x: tf.reshape(x, [-1]),
            "tf.expand_dims": lambda x: tf.expand_dims(x, 0),
            "tf.squeeze": lambda x: tf.squeeze(x),
            "tf.transpose": lambda x: tf.transpose(x),
            "tf.transpose (no change)": lambda x: tf.transpose(x, [0, 1]),
            "tf.broadcast_to": lambda bias: tf.broadcast_to(bias, [512, 512]),
            "tf.tile": lambda bias: tf.tile(bias, [512]),
            "tf.repeat": lambda bias: tf.repeat(bias, 512),
            "tf.concat": lambda x, y: tf.concat([x, y], 0),
            "tf.stack": lambda x, y: tf.stack([x, y]),
            "tf.unstack (aligned rows)": lambda x: tf.unstack(x),
            "tf.unstack (unaligned rows)": lambda odd: tf.unstack(odd),
            "tf.split axis 0 (aligned)": lambda x: tf.split(x, 4),
            "tf.split axis 0 (unaligned)": lambda odd: tf.split(odd, 6),
            "tf.split axis 1": lambda x: tf.split(x, 4, axis=1),
            "tf.pad": lambda x: tf.pad(x, [[1, 1], [1, 1]]),
            "tf.reverse": lambda x: tf.reverse(x, [0]),
            "tf.roll": lambda x: tf.roll(x, 1, 0),
            "tf.sort": lambda x: tf.sort(x),
            "tf.argsort": lambda x: tf.argsort(x),
            "tf.math.top_k": lambda x: tf.math.top_k(x, 8),
        },
    ),
    *_entries(
        "indexing",
        {
            "x[3] (aligned rows)": lambda x: x[3],
            "x[3] (unaligned rows)": lambda odd: odd[3],
            "x[16] (on a boundary by chance)": lambda odd: odd[16],
            "x[:256] (aligned)": lambda x: x[:256],
            "x[3:256] (unaligned)": lambda odd: odd[3:256],
            "x[:, :256]": lambda x: x[:, :256],
            "x[::2]": lambda x: x[::2],
            "x[:n] of a vector (aligned)": lambda vector: vector[:131072],
            "x[:n] of a vector (unaligned)": lambda vector: vector[:131071],
            "x[n:] of a vector (aligned)": lambda vector: vector[131072:],
            "x[n:] of a vector (unaligned)": lambda vector: vector[131071:],
            "x[..., tf.newaxis]": lambda x: x[..., tf.newaxis],
            "tf.slice of rows (aligned)": lambda x: tf.slice(x, [0, 0], [256, 512]),
            "tf.slice of rows (unaligned)": lambda odd: tf.slice(odd, [3, 0], [256, 301]),
            "tf.gather": lambda x, rows: tf.gather(x, rows),
            "tf.gather axis 1": lambda x, rows: tf.gather(x, rows, axis=1),
            "tf.gather_nd": lambda x, rows: tf.gather_nd(x, rows[:, tf.newaxis]),
            "tf.boolean_mask": lambda x, mask: tf.boolean_mask(x, mask),
            "tf.scatter_nd": lambda x, rows: tf.scatter_nd(rows[:, None], x, [512, 512]),
            "tf.tensor_scatter_nd_update": lambda x, rows, y: tf.tensor_scatter_nd_update(
                x, rows[:, tf.newaxis], y
            ),
            "tf.unique": lambda whole: tf.unique(tf.reshape(whole, [-1])),
        },
    ),
    *_entries(
        "variables",
        {
            "tf.Variable(x)": lambda x: tf.Variable(x),
            "v.read_value()": lambda v: v.read_value(),
            "v + 1": lambda v: v + 1.0,
            "v.assign(x)": lambda v, x: v.assign(x),
            "v.assign(v @ x)": lambda v, x: v.assign(v @ x),
            "v.assign_add(x)": lambda v, x: v.assign_add(x),
            "v[3].assign(row)": lambda v, bias: _only_run(v[3].assign(bias)),
            "v.scatter_nd_update": lambda v, bias: _only_run(
                v.scatter_nd_update([[3]], bias[tf.newaxis])
            ),
            "tf.gather(v)": lambda v, rows: tf.gather(v, rows),
            "v + 1 after tf.gather(v)": lambda v: (tf.gather(v, [0]), v + 1.0)[1],
        },
    ),
    *_entries(
        "tf.nn",
        {
            "tf.nn.relu": lambda x: tf.nn.relu(x),
            "tf.nn.gelu": lambda x: tf.nn.gelu(x),
            "tf.nn.silu": lambda x: tf.nn.silu(x),
            "tf.nn.leaky_relu": lambda x: tf.nn.leaky_relu(x),
            "tf.nn.softplus": lambda x: tf.nn.softplus(x),
            "tf.tanh": lambda x: tf.tanh(x),
            "tf.sigmoid": lambda x: tf.sigmoid(x),
            "tf.nn.softmax": lambda x: tf.nn.softmax(x),
            "tf.nn.log_softmax": lambda x: tf.nn.log_softmax(x),
            "tf.nn.bias_add": lambda x, bias: tf.nn.bias_add(x, bias),
            "tanh(x @ y + b)": lambda x, y, bias: tf.tanh(tf.nn.bias_add(x @ y, bias)),
            "tf.nn.dropout": lambda x: tf.nn.dropout(x, 0.5),
            "tf.nn.l2_normalize": lambda x: tf.nn.l2_normalize(x, 1),
            "tf.nn.moments": lambda x: tf.nn.moments(x, [0]),
            "tf.nn.embedding_lookup": lambda x, rows: tf.nn.embedding_lookup(x, rows),
            "tf.nn.softmax_cross_entropy…": lambda x, y: tf.nn.softmax_cross_entropy_with_logits(
                y, x
            ),
            "tf.nn.sparse_softmax_cross…": lambda labels, x: (
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
            ),
        },
    ),
    *_entries(
        "convolution",
        {
            "tf.nn.conv2d 3 × 3": lambda image, filters: tf.nn.conv2d(image, filters, 1, "SAME"),
            "tf.nn.conv2d stride 2": lambda image, filters: tf.nn.conv2d(image, filters, 2, "SAME"),
            "tf.nn.depthwise_conv2d": lambda image, deep: tf.nn.depthwise_conv2d(
                image, deep, [1, 1, 1, 1], "SAME"
            ),
            "tf.nn.conv2d_transpose": lambda image, filters: tf.nn.conv2d_transpose(
                image, filters, [4, 64, 64, 16], 1, "SAME"
            ),
            "tf.nn.max_pool2d": lambda image: tf.nn.max_pool2d(image, 2, 2, "SAME"),
            "tf.nn.avg_pool2d": lambda image: tf.nn.avg_pool2d(image, 2, 2, "SAME"),
            "tf.image.resize": lambda image: tf.image.resize(image, [64, 128]),
            "tf.image.flip_left_right": lambda image: tf.image.flip_left_right(image),
        },
    ),
    *_entries(
        "random",
        {
            "tf.random.uniform": lambda: tf.random.uniform([512, 512]),
            "tf.random.normal": lambda: tf.random.normal([512, 512]),
            "tf.random.truncated_normal": lambda: tf.random.truncated_normal([512, 512]),
            "tf.random.stateless_uniform": lambda: tf.random.stateless_uniform([512, 512], [1, 2]),
            "tf.random.stateless_normal": lambda: tf.random.stateless_normal([512, 512], [1, 2]),
            "tf.random.shuffle": lambda x: tf.random.shuffle(x),
            "tf.random.categorical": lambda x: tf.random.categorical(x, 8),
        },
    ),
    *_entries(
        "strings, ragged, sparse",
        {
            "tf.identity of strings": lambda words: tf.identity(words),
            "tf.strings.upper": lambda words: tf.strings.upper(words),
            "tf.strings.length": lambda words: tf.strings.length(words),
            "tf.strings.split": lambda words: tf.strings.split(words),
            "tf.as_string": lambda bias: tf.as_string(bias),
            "ragged * 2": lambda ragged: ragged * 2.0,
            "ragged.to_tensor()": lambda ragged: ragged.to_tensor(),
            "tf.reduce_sum of ragged": lambda ragged: tf.reduce_sum(ragged, axis=1),
            "tf.sparse.to_dense": lambda sparse: tf.sparse.to_dense(sparse),
            "tf.sparse.from_dense": lambda x: tf.sparse.from_dense(x),
            "tf.sparse.sparse_dense_matmul": lambda sparse, x: tf.sparse.sparse_dense_matmul(
                sparse, x
            ),
        },
    ),
)
