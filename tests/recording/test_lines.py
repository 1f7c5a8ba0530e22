"""Lines of code that a library calls, or that was generated, edited or copied."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

from lessons_lib.common.runtime import tf
from lessons_lib.recording.recorder import record
from tests.support.marked_lines import Marked, N, S, big, run

_HERE = Marked(__file__)
line, lines = _HERE.line, _HERE.lines


def test_a_librarys_function_counts_for_the_line_that_calls_it_now() -> None:
    class Mine(tf.keras.layers.Layer):  # type: ignore[name-defined, misc, unused-ignore]
        def call(self, x: Any) -> Any:
            return tf.matmul(x, x)  # here: layer_in_fit

    model = tf.keras.Sequential([tf.keras.Input([N]), Mine(), tf.keras.layers.Dense(N)])
    model.compile("sgd", "mse")
    x = tf.ones([N, N])
    model.fit(x, x, batch_size=N, verbose=0)
    with record() as recording:
        model.fit(x, x, batch_size=N, verbose=0)  # here: second_fit
    own, library = line("layer_in_fit"), line("second_fit")
    assert {number for _, number in lines(recording)} - {None} == {own, library}
    assert lines(recording).count(("MatMul", own)) == 1
    # A dense layer's gradient for its weights, [N, N] as all here, is the library's.
    assert lines(recording).count(("MatMul", library)) >= 2
    forward = {b.forward_line.number for b in big(recording) if b.forward_line is not None}
    assert forward <= {own, library}


def test_a_loaded_function_counts_for_the_line_that_calls_it(tmp_path: Path) -> None:
    module = tf.Module()
    signature = [tf.TensorSpec([N, N])]
    module.f = tf.function(lambda x: tf.matmul(x, x), input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    x = tf.ones([N, N])
    loaded.f(x)
    with record() as recording:
        loaded.f(x)  # here: loaded
    assert lines(recording) == [("MatMul", line("loaded"))]


@dataclasses.dataclass
class _State:
    made: Any = dataclasses.field(default_factory=lambda: tf.fill([N, N], 1.0))  # here: factory
    zeros: Any = dataclasses.field(default_factory=functools.partial(tf.zeros, [N, N]))


def test_a_dataclass_factory_of_a_library_counts_for_the_line_that_calls_it(x: Any) -> None:
    def program() -> Any:
        return _State()  # here: dataclass

    numbers = [number for _, number in lines(run(program))]
    assert numbers == [line("factory"), line("dataclass")]


def test_a_callback_that_is_defined_in_a_traced_function(x: Any) -> None:
    @tf.function
    def program(x: Any) -> Any:
        def callback(a: Any) -> Any:
            b = a * 2.0  # here: callback
            return tf.matmul(
                b,
                b,
            )

        return tf.py_function(callback, [x], tf.float32)

    # AutoGraph writes a statement anew on one line, so its first line is known.
    first = line("callback")
    assert lines(run(program, x)) == [("Mul", first), ("MatMul", first + 1)]


def test_lines_of_replicas_are_the_users(x: Any) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    def outside() -> Any:
        return tf.tanh(x)  # here: replica_outside

    @tf.function
    def step() -> Any:
        def inside() -> Any:
            y = tf.matmul(x, x)  # here: replica_inside
            return tf.cumsum(y)  # here: replica_second

        return strategy.run(inside), strategy.run(outside)

    assert set(lines(run(step))) == {
        ("MatMul", line("replica_inside")),
        ("Cumsum", line("replica_second")),
        ("Tanh", line("replica_outside")),
    }
    assert lines(run(lambda: strategy.run(outside))) == [("Tanh", line("replica_outside"))]


def _imported(path: Path, text: str) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def test_two_files_with_the_same_text(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\ndef block(n):\n    return tf.fill([n], 1.0)\n"
    one, two = (_imported(tmp_path / folder / "layers.py", text) for folder in ("one", "two"))
    with record() as recording:
        kept = one.block(S), two.block(2 * S), one.block(3 * S)
    found = [(b.nbytes, Path(b.line.file).parent.name) for b in big(recording) if b.line]
    assert found == [(4 * S, "one"), (8 * S, "two"), (12 * S, "one")]
    del kept


def test_a_file_that_is_edited_and_run_again(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\ndef step(n):\n    return tf.fill([n], 1.0)\n"
    path = tmp_path / "edited.py"
    for lines_more in range(3):
        module = _imported(path, "# more\n" * lines_more + text)
        os.utime(path, ns=(0, lines_more))  # a clock too coarse may not tell the two apart
        with record() as recording:
            module.step(S)
        (line_,) = {b.line for b in big(recording)}
        assert line_ is not None
        assert (line_.number, line_.text) == (4 + lines_more, "return tf.fill([n], 1.0)")


def test_a_project_in_a_folder_that_tensorflow_takes_for_its_own(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\n@tf.function\ndef step(x):\n    return tf.matmul(x, x)\n"
    module = _imported(tmp_path / "tensorflow" / "python" / "step.py", text)
    x = tf.ones([N, N])
    recording = run(module.step, x)
    (found,) = {b.line for b in big(recording)}
    assert found is not None
    assert (Path(found.file).name, found.number) == ("step.py", 5)
