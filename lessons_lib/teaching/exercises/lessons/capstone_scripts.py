"""The scripts of `capstone.q3`: unseen programs with four faults each, drawn by seat."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.teaching.exercises.diagnosis import Diagnosis, Fault
from lessons_lib.teaching.exercises.evidence import lines_table, traces_by_line
from lessons_lib.teaching.exercises.inputs import integers, normal

#: What may be answered in the lesson's diagnoses.
CAUSES: Final = {
    "tape": "it keeps tapes, and with them what they recorded",
    "view": "it keeps a part of a tensor, which shares the whole buffer",
    "list": "it keeps large tensors of which one number is wanted",
    "trace": "each call asks for a new trace",
    "baked": "an array is written into the graph as a constant",
    "concat": "it copies all that was there in each step",
    "numpy": "it keeps NumPy arrays, wider than they were",
}
_TITLE: Final = "Diagnose a script that you have not seen"
_PROMPT: Final = """
    Put the number of your seat into `show`: it chooses one of three scripts, so that neighbours
    get different ones. Four lines of yours are faults, each of another kind. Name them:
    `{line: cause, …}`, four pairs. NumPy's arrays are in no recording.
    """


def look(run: Any) -> tuple[Any, ...]:
    """Run a script under the recorder and the tracer of traces."""
    with ll.record() as recording:
        _, traces = traces_by_line(run)
    return recording, lines_table(recording), traces


def rank_faulty(queries: Any, table: Any) -> Any:
    """Look ids up in a NumPy table; return each query's first row and largest score."""

    @tf.function
    def embed(ids: Any) -> Any:
        return tf.gather(table, ids)

    first, scores = [], []
    for ids in queries:
        rows = embed(ids)
        score = tf.matmul(rows, rows, transpose_b=True)
        scores.append(score)
        first.append(rows[0])
    largest = [tf.reduce_max(score) for score in scores]
    return tf.stack(first), tf.stack(largest)


def _look_at_ranking(program: Any) -> tuple[Any, ...]:
    queries = [integers(seed, 200 + 10 * seed, 4000) for seed in range(12)]
    table = normal(1, 4000, 64).numpy()
    return look(lambda: program(queries, table))


_ranking = Diagnosis(
    key="capstone.q3",
    title=_TITLE,
    prompt=_PROMPT,
    program=rank_faulty,
    evidence=_look_at_ranking,
    causes=CAUSES,
    faults=(
        Fault(
            "return tf.gather(table, ids)",
            "baked",
            "The NumPy table becomes a constant of 1 MB in every graph. A tensor made outside is "
            "captured instead.",
        ),
        Fault(
            "rows = embed(ids)",
            "trace",
            "Each length is a new shape, and each trace writes the table into its graph again. An "
            "`input_signature` with `tf.TensorSpec([None], tf.int32)` needs one.",
        ),
        Fault(
            "scores.append(score)",
            "list",
            "Whole matrices wait until the end for one number each.",
            also=("largest = [tf.reduce_max(score) for score in scores]",),
        ),
        Fault("first.append(rows[0])", "view", "A row keeps all rows of its query."),
    ),
    near={
        "score = tf.matmul(rows, rows, transpose_b=True)": "the matrix is needed for a moment; "
        "which line keeps it?",
    },
    hints=(
        "Two faults are about graphs and are in the table of traces; two are about what lists "
        "keep.",
        "What is `table` inside `embed`? What is new in each call of `embed`? What is in `scores`, "
        "and what of `first`?",
    ),
)


def evaluate_faulty(batches: Any, weight: Any) -> Any:
    """Return the outputs for all batches, and each batch's first row and spread."""

    def project(batch: Any) -> Any:
        return tf.tanh(batch @ weight)

    outputs = tf.zeros([0, weight.shape[1]])
    first, arrays = [], []
    for batch in batches:
        forward = tf.function(project)
        output = forward(batch)
        outputs = tf.concat([outputs, output], axis=0)
        first.append(batch[0])
        arrays.append(batch.numpy().astype(np.float64))
    spread = [array.std() for array in arrays]
    return outputs, tf.stack(first), tf.constant(spread, tf.float32)


def _look_at_evaluation(program: Any) -> tuple[Any, ...]:
    weight = normal(1, 256, 128, scale=1 / 16)
    return look(lambda: program((normal(seed, 512, 256) for seed in range(2, 12)), weight))


_evaluation = Diagnosis(
    key="capstone.q3",
    title=_TITLE,
    prompt=_PROMPT,
    program=evaluate_faulty,
    evidence=_look_at_evaluation,
    causes=CAUSES,
    faults=(
        Fault(
            "forward = tf.function(project)",
            "trace",
            "The function is made anew for each batch, with no traces yet. Make it once, before "
            "the loop.",
            also=("output = forward(batch)",),
        ),
        Fault(
            "outputs = tf.concat([outputs, output], axis=0)",
            "concat",
            "All outputs so far are copied for each batch. Collect them in a list, and concatenate "
            "once.",
        ),
        Fault(
            "first.append(batch[0])",
            "view",
            "A row keeps its whole batch. `tf.gather(batch, 0)` copies the row.",
        ),
        Fault(
            "arrays.append(batch.numpy().astype(np.float64))",
            "numpy",
            "Each batch stays as an array of twice its bytes, for one number.",
            also=("spread = [array.std() for array in arrays]",),
        ),
    ),
    near={
        "return tf.tanh(batch @ weight)": "`weight` is a tensor, so the graph only refers to it.",
    },
    hints=(
        "One fault is in the table of traces, two keep something for each batch, and one copies "
        "more with each batch.",
        "What is made anew in the loop? How long is `outputs` when it is copied? What does "
        "`batch[0]` share, and of which type are the numbers in `arrays`?",
    ),
)


def sharpen_faulty(images: Any, weight: Any, target: Any, steps: int) -> Any:
    """Move images towards a NumPy target; return their path, and how far each step went."""

    @tf.function
    def distance(features: Any) -> Any:
        return tf.reduce_mean(tf.square(features - target))

    tapes, gradients, path = {}, [], images[tf.newaxis]
    for step in range(steps):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(images)
            features = tf.tanh(images @ weight)
            loss = distance(features)
        tapes[step] = tape
        gradient = tape.gradient(loss, images)
        images = images - 10.0 * gradient
        gradients.append(gradient)
        path = tf.concat([path, images[tf.newaxis]], axis=0)
    return path, tf.stack([tf.norm(gradient) for gradient in gradients])


def _look_at_sharpening(program: Any) -> tuple[Any, ...]:
    images, weight = normal(1, 256, 512), normal(2, 512, 256, scale=1 / 32)
    target = normal(3, 256, 256).numpy()
    return look(lambda: program(images, weight, target, 10))


_sharpening = Diagnosis(
    key="capstone.q3",
    title=_TITLE,
    prompt=_PROMPT,
    program=sharpen_faulty,
    evidence=_look_at_sharpening,
    causes=CAUSES,
    faults=(
        Fault(
            "return tf.reduce_mean(tf.square(features - target))",
            "baked",
            "The NumPy target becomes a constant of the graph. A tensor made outside is captured "
            "instead.",
        ),
        Fault(
            "tapes[step] = tape",
            "tape",
            "Each tape keeps its step's features and more, though its gradient was taken.",
        ),
        Fault(
            "gradients.append(gradient)",
            "list",
            "Whole gradients wait until the end for one number each.",
            also=("tf.norm(gradient) for gradient in gradients",),
        ),
        Fault(
            "path = tf.concat([path, images[tf.newaxis]], axis=0)",
            "concat",
            "The whole path is copied in each step. Collect the images in a list, and stack once.",
        ),
    ),
    near={
        "loss = distance(features)": "its graph is traced once; see the table.",
        "gradient = tape.gradient(loss, images)": "a gradient is needed for a moment; which line "
        "keeps it?",
        "with tf.GradientTape(persistent=True) as tape:": "one tape that goes at the end of its "
        "step does no harm: which line keeps it?",
    },
    hints=(
        "One fault is in the graph, two keep something for each step, and one copies more with "
        "each step.",
        "What is `target` inside `distance`? What is in `tapes`, and what is wanted of "
        "`gradients`? How long is `path` when it is copied?",
    ),
)

#: By seat.
SCRIPTS: Final = (_ranking, _evaluation, _sharpening)
