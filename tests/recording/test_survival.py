"""Whatever happens in a block, the recorder comes to an end and leaves nothing behind.

In every test, a fixture checks that the profiler is off, that TensorFlow's functions, the handler
of interrupts and the standard streams are as before, and that the temporary folder is empty.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

import lessons_lib as ll
from lessons_lib.common import runtime
from lessons_lib.common.runtime import tf
from lessons_lib.recording import (
    call_watcher,
    gate,
    lifetimes,
    profile_folder,
    profiler,
    recorder,
    session,
)
from lessons_lib.recording.profile_format import ProfileError, read_profile
from lessons_lib.recording.recorder import record
from tests.support.exactness_checks import ints, nbytes, new, ready, scalar
from tests.support.state import nothing_left

ROOT = Path(__file__).resolve().parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs fork or POSIX limits")


@pytest.fixture(autouse=True)
def temporary(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Give a temporary folder of its own to each test, and check that all is as before."""
    new(9), scalar(2.0)
    folder = tmp_path_factory.mktemp("temporary")
    with nothing_left(folder, monkeypatch):
        yield folder


def still_works() -> None:
    """Check that the next recording is exact."""
    with record() as recording:
        x = new(9) * scalar(2.0)
    assert (recording.allocated_bytes, recording.exact) == (72, True)
    del x


def in_a_new_process(program: str, **environment: str) -> str:
    """Run a program in a Python of its own; give what it printed."""
    # Importing lessons_lib here has set what the new process shall find unset.
    ours = (runtime.ALLOCATOR_VARIABLE, runtime.LOG_VARIABLE)
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------- errors and interrupts


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_propagates_and_what_was_seen_is_kept(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, record("broken") as recording:
        x = new(9)
        raise error
    assert caught.value is error
    assert (recording.peak_bytes, recording.kept_bytes, recording.exact) == (36, 36, True)
    assert recording.label == "broken"
    del x
    still_works()


def test_a_recording_cannot_be_read_while_it_runs() -> None:
    with record() as recording:
        with pytest.raises(RuntimeError, match="still running"):
            _ = recording.peak_bytes
        assert "still running" in repr(recording)
    assert recording.peak_bytes == 0


def test_a_record_is_used_once() -> None:
    watch = record()
    with watch:
        pass
    with pytest.raises(RuntimeError, match="used before"), watch:
        pass


@pytest.mark.parametrize("label", [None, 3, b"bytes"])
def test_a_label_is_text(label: Any) -> None:
    with pytest.raises(TypeError, match="label"):
        record(label)


STAGES = [
    (profiler.Profiler, "start"),
    (profiler.Profiler, "end"),
    (profiler, "read_profile"),
    (profile_folder.ProfileFolder, "profile"),
    (gate.Gate, "install"),
    (gate.Gate, "remove"),
    (call_watcher.Watcher, "install"),
    (call_watcher.Watcher, "remove"),
    (call_watcher.Watcher, "take"),
    (lifetimes.Ledger, "add"),
    (lifetimes.Ledger, "finish"),
    (session, "mark_moment"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), STAGES, ids=[name for _, name in STAGES])
def test_an_interrupt_at_each_stage(owner: Any, name: str, after: bool) -> None:
    real = getattr(owner, name)
    sent: list[bool] = []

    def interrupted(*args: Any) -> Any:
        if not sent and not after:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)
        result = real(*args)
        if not sent and after:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)
        return result

    with (
        mock.patch.object(owner, name, interrupted),
        pytest.raises(KeyboardInterrupt),
        record(),
    ):
        new(9)
    assert sent
    still_works()


class _At:
    """Sends an interrupt at the n-th line that the package runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.where: tuple[str, int] | None = None
        self._count = 0
        self._package = str(Path(ll.__file__).parent)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._package) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._count += 1
            if self._count == self.number:
                self.where = frame.f_code.co_name, frame.f_lineno
                signal.raise_signal(signal.SIGINT)
        return self._line


@pytest.mark.slow
def test_an_interrupt_at_any_line(temporary: Path) -> None:
    still_works()
    number, missed = 1, []
    while True:
        at = _At(number)
        before = sys.gettrace()
        try:
            sys.settrace(at)
            with record():
                new(9)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if recorder._session.open:
            missed.append(at.where)
            for left in list(recorder._session.open):
                left._end(None)
        if at.where is None:
            break
        # All of the beginning and of the end, and samples of the long reading in between.
        number += 1 if number < 350 else 7
    assert number > 350
    # Python looks for signals when it enters a function: no code can come before that.
    assert [name for name, _ in missed] in ([], ["__exit__"])
    assert list(temporary.glob("*lessons_lib*")) == []


def test_an_interrupt_before_a_call_costs_no_lines() -> None:
    x, c = new(9), scalar(2.0)

    def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return" and frame.f_code.co_name == "note":  # and its call is yet to come
            sys.settrace(before)
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    try:
        with record() as recording:
            first = x * c
            sys.settrace(interrupt)
            with contextlib.suppress(KeyboardInterrupt):
                x * c
            last = x * c
    finally:
        sys.settrace(before)
    found = [buffer.line.text for buffer in recording.buffers if buffer.line]
    assert found == ["first = x * c", "last = x * c"]
    del first, last


def test_an_interrupt_in_another_handlers_hands() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        real = profiler.read_profile

        def read(data: bytes) -> Any:
            signal.raise_signal(signal.SIGINT)
            return real(data)

        with mock.patch.object(profiler, "read_profile", read), record() as recording:
            x = new(9)
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
    assert recording.peak_bytes == 36
    del x


# ---------------------------------------------------------------- blocks in blocks, threads


def test_blocks_in_blocks() -> None:
    ready(ints(9), ints(3), ints(5), ints(7))
    with record("outer") as outer:
        a = new(9)
        for n in (3, 5):
            with record("inner") as inner:
                with record("innermost") as innermost:
                    b = new(n)
                c = new(7)
                del b, c
            assert innermost.peak_bytes == innermost.kept_bytes == 4 * n
            assert (inner.peak_bytes, inner.kept_bytes) == (4 * n + 28, 0)
        del a
    assert (outer.peak_bytes, outer.kept_bytes) == (36 + 20 + 28, 0)
    assert outer.allocated_bytes == 36 + (12 + 28) + (20 + 28)
    assert outer.exact
    assert outer.notes == ()


def test_an_exception_through_several_blocks() -> None:
    x = []
    with pytest.raises(ZeroDivisionError), record() as outer:
        x.append(new(9))
        with record() as inner:
            x.append(new(3))
            _ = 1 / 0
    assert (inner.kept_bytes, outer.kept_bytes) == (12, 48)


def test_blocks_of_threads_overlap() -> None:
    first_open, second_open, first_closed = (threading.Event() for _ in range(3))
    found: dict[str, Any] = {}

    def first() -> None:
        with record() as found["first"]:
            first_open.set()
            second_open.wait(20)
        first_closed.set()

    def second() -> None:
        first_open.wait(20)
        with record() as found["second"]:
            second_open.set()
            first_closed.wait(20)
            found["x"] = new(9)

    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found["second"].kept_bytes == 36
    assert found["first"].kept_bytes == 0


def test_threads_that_follow_each_other_are_seen_or_said_to_be_missing() -> None:
    kept: list[Any] = []
    with record() as recording:
        for _ in range(6):
            thread = threading.Thread(target=lambda: kept.append(new(9) * scalar(2.0)))
            thread.start()
            thread.join()
    seen = (recording.kept_bytes, recording.allocated_bytes) == (6 * 36, 12 * 36)
    assert seen == recording.exact
    # TensorFlow 2.16 loses what a thread did when a later one gets its number.
    assert seen or tf.__version__.startswith("2.16.")


def test_many_threads_record_at_once() -> None:
    problems: list[BaseException] = []
    kept: list[int] = []

    def work(k: int) -> None:
        try:
            for _ in range(5):
                with record():
                    x = new(9)
                del x
            kept.append(k)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert sorted(kept) == list(range(6))


def test_what_another_thread_does_in_between_is_said_to_be_missing() -> None:
    x = new(9)
    real = session.Session._start

    def slow(self: Any) -> None:
        if self.open:  # the session starts again for the outer block
            keep.append(new(5))
        real(self)

    keep: list[Any] = []
    with mock.patch.object(session.Session, "_start", slow), record() as outer:
        y = x * scalar(2.0)
        with record() as inner:
            pass
        z = x * scalar(2.0)
    assert inner.exact
    assert keep
    assert not outer.exact
    assert "not reported" in outer.notes[0]
    del y, z


def test_a_block_inside_python_inside_a_graph() -> None:
    inside: list[Any] = []

    def python(a: Any) -> Any:
        with record() as recording:
            b = a * scalar(2.0)
        inside.append(recording)
        return b

    graph = tf.function(lambda x: tf.py_function(python, [x], tf.float32))
    graph(new(9))
    with record() as outer:
        y = graph(new(9))
    assert inside[-1].peak_bytes == 36
    assert outer.kept_bytes == 36
    del y


# ---------------------------------------------------------------- other profilers


def test_a_profiler_that_runs_already(temporary: Path, tmp_path: Path) -> None:
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(ProfileError, match="already running") as caught, record():
            pass
        assert str(caught.value).count(".") <= 4  # one sentence, with the call to make in it
    finally:
        tf.profiler.experimental.stop()
    assert any(tmp_path.rglob("*.xplane.pb"))  # theirs went on, and ended well
    still_works()


def test_a_profiler_session_that_tensorflows_books_do_not_know(tmp_path: Path) -> None:
    from tensorflow.python.profiler import profiler_v2

    other = profiler_v2._pywrap_profiler.ProfilerSession()
    other.start(str(tmp_path), {"host_tracer_level": 2})
    try:
        with pytest.raises(ProfileError, match="already running"), record():
            pass
    finally:
        other.export_to_tb()
    del other
    still_works()


def test_the_block_stops_the_profiler() -> None:
    with pytest.raises(ProfileError, match="inside the block stopped"), record() as recording:
        new(9)
        tf.profiler.experimental.stop()
    assert not recording.exact
    assert "stopped" in recording.notes[0]
    still_works()


def test_the_block_stops_the_profiler_and_fails() -> None:
    with pytest.raises(ZeroDivisionError), record() as recording:
        tf.profiler.experimental.stop()
        _ = 1 / 0
    assert "stopped" in recording.notes[0]
    still_works()


def test_the_block_starts_a_profiler_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="inside the block stopped"), record():
        tf.profiler.experimental.stop()
        tf.profiler.experimental.start(str(tmp_path))
    tf.profiler.experimental.stop()  # it is still theirs to stop
    assert any(tmp_path.rglob("*.xplane.pb"))
    still_works()


def test_the_block_tries_to_start_the_profiler(tmp_path: Path) -> None:
    with record() as recording:
        with pytest.raises(tf.errors.AlreadyExistsError):
            tf.profiler.experimental.start(str(tmp_path))
        x = new(9)
    assert recording.kept_bytes == 36
    del x


# ---------------------------------------------------------------- folders and files


def test_no_temporary_folder_can_be_written(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(profile_folder, "_OTHERS", ())
    for place in ("missing", "file"):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / place))
        with pytest.raises(ProfileError, match="TMPDIR"), record():
            pass


def test_a_temporary_folder_that_goes_away(temporary: Path) -> None:
    keep = []
    with record() as outer:
        keep.append(new(9))
        with record() as inner:
            keep.append(new(3))
    assert outer.kept_bytes == 48
    with pytest.raises(ProfileError, match="TMPDIR"), record() as outer:
        keep.append(new(9))
        with (
            mock.patch.object(tempfile, "mkdtemp", side_effect=OSError(28, "No space left")),
            record() as inner,
        ):
            keep.append(new(3))
        # The inner one was whole; inside the outer one nothing can be recorded any more.
        assert (inner.kept_bytes, inner.exact) == (12, True)
        with pytest.raises(ProfileError, match="TMPDIR"), record():
            pass
        keep.append(new(5))
    assert outer.kept_bytes == 48
    assert not outer.exact
    still_works()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), tf.errors.UnknownError(None, None, "disk")]
)
def test_a_profile_that_cannot_be_written(error: Exception, monkeypatch: Any) -> None:
    real = tf.profiler.experimental.stop

    def stop(save: bool = True) -> None:
        real(save=False)
        if save:
            raise error

    monkeypatch.setattr(tf.profiler.experimental, "stop", stop)
    with pytest.raises(ProfileError, match="make room") as caught, record() as recording:
        new(9)
    assert caught.value.__cause__ is None
    assert not recording.exact
    monkeypatch.undo()


def test_no_profile_is_found(monkeypatch: Any) -> None:
    real = tf.profiler.experimental.stop
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda save=True: real(save=False))
    with pytest.raises(ProfileError, match="left no profile"), record():
        pass
    monkeypatch.undo()


@pytest.mark.further
@pytest.mark.slow
@pytest.mark.child
@POSIX
def test_a_full_disk(tmp_path: Path) -> None:
    # A limit on the size of files is the nearest to a full disk that needs no rights.
    out = in_a_new_process(
        """
        import os, resource, signal, tempfile
        import lessons_lib as ll
        tf = ll.runtime.tf
        ll.preflight()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            with ll.record() as recording:
                for _ in range(200):
                    tf.ones([10])
        except ll.ProfileError as error:
            print("one sentence:", error)
        print(recording.exact, os.listdir(tempfile.gettempdir()))
        """,
        TMPDIR=str(tmp_path),
    )
    assert "one sentence:" in out
    assert "False []" in out


def _profile() -> bytes:
    taken: list[bytes] = []
    real = profiler.read_profile

    def read(data: bytes) -> Any:
        taken.append(data)
        return real(data)

    with mock.patch.object(profiler, "read_profile", read), record():
        new(9)
    return taken[0]


def test_a_truncated_profile() -> None:
    data = _profile()
    whole = read_profile(data)
    assert [event.requested for event in whole.memory if event.allocates] == [36]
    # Cut inside the last message, at whatever length: never another error, never more events.
    for size in (1, 10, len(data) // 2, len(data) - 1):
        with contextlib.suppress(ProfileError):
            assert len(read_profile(data[:size]).memory) <= len(whole.memory)
    with pytest.raises(ProfileError, match="truncated"):
        read_profile(data[:-1])


@pytest.mark.parametrize("data", [b"no profile at all", b"\xff" * 99, b"{}", b"\x0a\xff\xff\xff"])
def test_a_foreign_file_instead_of_a_profile(data: bytes) -> None:
    with pytest.raises(ProfileError, match="record again"):
        read_profile(data)


def test_an_empty_profile() -> None:
    segment = read_profile(b"")
    assert (segment.memory, segment.calls, segment.windows) == ([], {}, {})


def test_a_damaged_profile_in_a_recording() -> None:
    with (
        mock.patch.object(profile_folder.ProfileFolder, "profile", return_value=b"damaged"),
        pytest.raises(ProfileError, match="record again"),
        record() as recording,
    ):
        new(9)
    assert not recording.exact
    assert recording.peak_bytes == 0
    still_works()


# ---------------------------------------------------------------- what TensorFlow can do


def test_xla() -> None:
    compiled = tf.function(lambda x: tf.tanh(x) * x, jit_compile=True)
    x = new(33, 65)
    gc.collect()  # compiling takes long enough for Python to collect what other tests left
    with record() as first:  # compiles inside the block
        y = compiled(x)
    with record() as second:
        z = compiled(x)
    assert first.kept_bytes >= nbytes((33, 65))
    assert second.kept_bytes == nbytes((33, 65))
    assert second.exact
    del y, z


def test_keras_fit() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = tf.ones([64, 8]), tf.ones([64, 1])
    model.fit(x, y, batch_size=16, verbose=0)
    with record() as recording:
        model.fit(x, y, batch_size=16, verbose=0)
    assert recording.exact
    assert recording.peak_bytes > 0
    rows = recording.by_line().rows
    assert "test_survival.py" in " ".join(row.key for row in rows)


def test_an_empty_block() -> None:
    with record() as recording:
        pass
    assert (recording.peak_bytes, recording.kept_bytes, recording.allocated_bytes) == (0, 0, 0)
    assert len(recording.buffers) == 0
    assert recording.at_peak() == ()
    assert recording.by_op().rows == recording.by_line().rows == ()
    times, live = recording.timeline()
    assert live.tolist() == [0, 0]
    assert times[0] == 0.0 <= times[1] == recording.seconds
    assert repr(recording).startswith("<Recording: peak 0 B")


def test_born_before_and_freed_in_another_thread() -> None:
    x = [new(9)]
    with record() as recording:
        thread = threading.Thread(target=x.clear)
        thread.start()
        thread.join()
    assert (recording.peak_bytes, recording.kept_bytes) == (0, -36)


def test_the_instruments_themselves_do_not_grow() -> None:
    import tracemalloc

    def several() -> None:
        for _ in range(30):
            with record():
                new(9)

    several()
    gc.collect()
    tracemalloc.start()
    try:
        several()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        several()
        gc.collect()
        growth = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # A recording that stayed would be some 10 KiB each; the interpreter's own noise is far less.
    assert growth < 30 * 500


# ---------------------------------------------------------------- other processes


REPORT = """
import lessons_lib as ll
tf = ll.runtime.tf
found = ll.preflight()
with ll.record() as recording:
    x = tf.fill([1000], 1.0)
    y = tf.fill([1000, 1000], 1.0)
print(found.exact, recording.exact, recording.allocated_bytes >= 4_004_000)
print(" ".join(found.problems), "|", " ".join(recording.notes), flush=True)
"""


@pytest.mark.further
@POSIX
@pytest.mark.child
@pytest.mark.slow
def test_a_forked_child_is_told_what_to_do_also_without_onednn() -> None:
    out = in_a_new_process(
        REPORT
        + textwrap.dedent("""
        import os

        def record():
            with ll.record():
                pass

        tools = (record, ll.preflight, lambda: ll.measure(int), lambda: ll.process_memory(int))
        with ll.record() as outer:
            tf.ones([9])
            for tool in tools:
                if os.fork() == 0:
                    try:
                        tool()
                        print("no error", flush=True)
                    except RuntimeError as error:
                        print("spawn" in str(error), flush=True)
                    os._exit(0)
                os.wait()
        print(outer.exact, outer.allocated_bytes >= 36)

        child = False
        try:
            with ll.record() as recording:
                kept = tf.fill([1000], 2.0)
                child = os.fork() == 0
                if not child:
                    os.wait()
        except RuntimeError as error:
            print("child:", "spawn" in str(error), flush=True)
            os._exit(0)
        print("parent:", recording.exact, recording.kept_bytes >= 4000)
        """),
        TF_ENABLE_ONEDNN_OPTS="0",
        TF_CPU_ALLOCATOR_USE_BFC="1",
    )
    report, _, *told, outer, child, parent = out.splitlines()
    assert report == "True True True"
    assert told == ["True"] * 4
    assert outer == "True True"
    # A child that leaves its parent's block is told, too.
    assert (child, parent) == ("child: True", "parent: True True")


@pytest.mark.child
@pytest.mark.slow
def test_tensorflow_was_imported_first() -> None:
    out = in_a_new_process("import tensorflow as tf; tf.ones([2])\n" + REPORT)
    exact, words = out.splitlines()
    assert exact.startswith("False False")
    problem, note = (part.strip() for part in words.split("|"))
    assert "imported before lessons_lib" in problem
    assert "restart the kernel" in problem
    assert note == problem


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_the_allocator_variable_is_preset_to_0() -> None:
    out = in_a_new_process(REPORT, TF_CPU_ALLOCATOR_USE_BFC="0")
    assert out.startswith("False False")
    assert "TF_CPU_ALLOCATOR_USE_BFC=0" in out


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_without_onednn_and_without_the_variable() -> None:
    out = in_a_new_process(REPORT, TF_ENABLE_ONEDNN_OPTS="0", TF_CPU_ALLOCATOR_USE_BFC="0")
    assert out.startswith("False False False")
    assert "reports no allocations" in out


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_ipython_in_a_terminal(tmp_path: Path) -> None:
    lines = (
        "import lessons_lib as ll",
        "tf = ll.runtime.tf",
        "with ll.record() as rec: x = tf.fill([1000], 1.0)",
        "",
        "print('found', rec.exact, max(b.nbytes for b in rec.buffers), rec.at_peak()[0].line)",
        "%load_ext lessons_lib",
        "%mem y = x * x",
        "rec",
    )
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"],
        input="\n".join(lines) + "\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "found True 4000 In [3]:1" in done.stdout
    assert "peak 3.906 KiB, kept 3.906 KiB" in done.stdout  # 4000 bytes
    assert "<Recording: peak" in done.stdout  # and no HTML
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.further
@pytest.mark.child
@pytest.mark.slow
def test_a_spawned_process() -> None:
    out = in_a_new_process(
        """
        import multiprocessing as mp, sys
        sys.path.insert(0, ".")
        import lessons_lib as ll
        from tests.support.spawned import kept
        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.apply(kept))
        """
    )
    assert out.strip() == "(36, True)"


@pytest.mark.parametrize("lines", [False, True])
def test_a_session_that_asks_for_a_profile_of_its_own_is_refused(lines: bool) -> None:
    v1 = tf.compat.v1
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    metadata = v1.RunMetadata()
    with tf.Graph().as_default(), v1.Session() as session:
        y = tf.tanh(tf.ones([9]))
        with record(lines=lines) as recording:
            session.run(y)
            with pytest.raises(ProfileError, match=r"FULL_TRACE.*outside of the recording"):
                session.run(y, None, options, metadata)
            session.run(y, options=v1.RunOptions())
        assert recording.exact
        session.run(y, options=options, run_metadata=metadata)
    assert len(metadata.step_stats.dev_stats) > 0
    still_works()
