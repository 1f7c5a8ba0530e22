"""What a program drops goes while it is watched, as it goes without: by every instrument.

The programs are in `tests.support.dropping`; each says by weak references and by the allocator's
own count what it left.  That must be the same within an instrument as without.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import lessons_lib as ll
from lessons_lib.common.runtime import tf
from lessons_lib.recording import call_watcher
from lessons_lib.recording.recorder import record
from tests.support.dropping import (
    PROGRAMS,
    QUICK,
    SIZE,
    Leavings,
    all_leavings,
    code,
    functions,
    leavings,
    sessions,
)

pytestmark = pytest.mark.slow

Step = Callable[[], None]
Instrument = Callable[[Step], None]


@pytest.fixture(scope="module", autouse=True)
def _quiet(set_aside: None) -> Iterator[None]:
    """Make collections quick, and keep TensorFlow's warnings of many traces back."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    yield
    logger.setLevel(level)


@pytest.fixture(scope="module")
def bare() -> dict[str, Leavings]:
    return all_leavings()


def recording(step: Step) -> None:
    with record():
        step()


def without_lines(step: Step) -> None:
    with record(lines=False):
        step()


def nested(step: Step) -> None:
    with record(), record(lines=False), record():
        step()
        with record():
            step()
        step()


def measured(step: Step) -> None:
    ll.measure(step, repeats=2)


def compared(step: Step) -> None:
    ll.compare({"one": step, "two": step}, repeats=1)


def grown(step: Step) -> None:
    ll.growth(step, iterations=5, warmup=1)


def within_a_budget(step: Step) -> None:
    with ll.budget("1 GiB"):
        step()


def retracing(step: Step) -> None:
    with ll.watch_retracing():
        step()


def _model(step: Step) -> Any:
    class Stepping(tf.keras.Sequential):  # type: ignore[name-defined, misc, unused-ignore]
        def train_step(self, data: Any) -> Any:
            step()
            return super().train_step(data)

    model = Stepping([tf.keras.Input([3]), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def training(step: Step) -> None:
    ll.training_memory(_model(step), tf.ones([4, 3]), tf.ones([4, 2]))


def fitting(step: Step) -> None:
    x, y = tf.ones([4, 3]), tf.ones([4, 2])
    _model(step).fit(x, y, batch_size=2, verbose=0, callbacks=[ll.MemoryCallback()])


def magics(step: Step) -> None:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    try:
        shell.user_ns["step"] = step
        shell.run_line_magic("load_ext", "lessons_lib")
        shell.run_line_magic("mem", "step()")
        shell.run_cell_magic("mem", "", "step()")
    finally:
        shell.run_line_magic("unload_ext", "lessons_lib")
        InteractiveShell.clear_instance()


def left_within(instrument: Instrument, programs: Any) -> list[dict[str, Leavings]]:
    """Run programs within an instrument; give what each call of them left."""
    found: list[dict[str, Leavings]] = []
    note = found.append  # a list that the step reaches itself, training_memory would give back

    def step() -> None:
        note({program.__name__: leavings(program) for program in programs})

    instrument(step)
    return found


@pytest.mark.parametrize("instrument", [recording, without_lines, nested])
def test_within_recordings(instrument: Instrument, bare: dict[str, Leavings]) -> None:
    found = left_within(instrument, PROGRAMS)
    assert found
    for left in found:
        assert left == bare


@pytest.mark.parametrize(
    "instrument",
    [
        measured, compared, pytest.param(grown, marks=pytest.mark.further),
        within_a_budget, retracing, training, fitting, magics,
    ],
)  # fmt: skip
def test_within_instruments(
    instrument: Instrument, bare: dict[str, Leavings], capsys: pytest.CaptureFixture[str]
) -> None:
    programs = (functions, sessions, code) if instrument is grown else QUICK
    expected = {program.__name__: bare[program.__name__] for program in programs}
    found = left_within(instrument, programs)
    assert found
    for left in found:
        assert left == expected


@pytest.mark.parametrize("lines", [False, True])
def test_ten_dropped_functions(lines: bool) -> None:
    def program() -> None:
        for _ in range(10):
            big = tf.ones([1_000_000])
            total = tf.function(lambda x, big=big: tf.reduce_sum(x * big))
            total(tf.constant(1.0))
            del total, big
            gc.collect()

    with record(lines=lines) as found:
        program()
    # The tensor and the product, 4 MB each, beside three scalars: 1.0, the sum, the axis.
    assert (found.peak_bytes, found.kept_bytes, found.exact) == (8_000_012, 0, True)


def test_the_gradients_of_dropped_functions() -> None:
    def program() -> None:
        for _ in range(3):
            big = tf.ones([SIZE])
            square = tf.function(lambda x, big=big: x * x * big)
            with tf.GradientTape() as tape:
                tape.watch(big)
                y = square(big)
            tape.gradient(y, big)
            del square, big, tape, y
            gc.collect()

    program()
    figures = []
    for lines in (False, True):
        with record(lines=lines) as found:
            program()
        figures.append((found.peak_bytes, found.kept_bytes, found.allocated_bytes))
    assert figures[0] == figures[1]
    assert figures[0][1] == 0


def test_a_recorder_that_keeps_one_graph_is_noticed(
    monkeypatch: pytest.MonkeyPatch, bare: dict[str, Leavings]
) -> None:
    kept: list[Any] = []
    real = call_watcher.facts_of

    def keeping(graph: Any) -> Any:
        if not kept:
            kept.append(graph)
        return real(graph)

    monkeypatch.setattr(call_watcher, "facts_of", keeping)
    (left,) = left_within(recording, QUICK)
    differing = {name for name, found in left.items() if found != bare[name]}
    assert differing == {"functions"}
    expected = bare["functions"]
    assert left["functions"].alive == expected.alive + 2  # the graph, and what it captured
    assert left["functions"].nbytes >= expected.nbytes + 4 * SIZE


def test_a_call_of_code_that_is_gone_is_forgotten() -> None:
    # Another code object may get its address: the line would be the old one's.
    lines = []
    with record() as found:
        for number in range(1, 40):
            made = compile("\n" * number + "tf.ones([1000]) + 1.0", f"<cell {number}>", "exec")
            made = made.replace(co_filename=f"{__file__[:-3]}_{number}.py")
            exec(made, {"tf": tf})
            del made
    lines = [(b.line.file, b.line.number) for b in found.buffers if b.op == "AddV2" and b.line]
    assert lines == [(f"{__file__[:-3]}_{n}.py", n + 1) for n in range(1, 40)]
