"""`budget`: to the byte, and what it says.  S is 1 MiB: 512 × 512 float32."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import lessons_lib as ll
from lessons_lib.instruments.budget import MemoryBudgetExceeded, budget
from lessons_lib.recording import recorder
from lessons_lib.recording.exactness import Exactness

tf = ll.runtime.tf
S = 512 * 512 * 4
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def x() -> Any:
    return tf.random.stateless_uniform([512, 512], [1, 2])


def three(x: Any) -> Any:
    a = tf.sin(x)
    b = tf.cos(x)
    return tf.add(a, b)


def test_budget_of_exactly_the_peak_is_kept_and_a_byte_less_is_not(x: Any) -> None:
    with budget(3 * S) as recording:
        three(x)
    assert recording.peak_bytes == 3 * S
    with pytest.raises(MemoryBudgetExceeded) as caught, budget(3 * S - 1):
        three(x)
    assert caught.value.limit_bytes == 3 * S - 1
    assert caught.value.peak_bytes == 3 * S
    assert caught.value.recording.kept_bytes == 0
    assert isinstance(caught.value, AssertionError)


def test_error_lists_what_was_alive_with_lines(x: Any) -> None:
    with pytest.raises(MemoryBudgetExceeded) as caught, budget("2 MiB"):
        rows = [tf.sin(x) for _ in range(3)]
        rows.append(tf.cos(x))
        del rows
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "the block needed 4 MiB at its peak (4,194,304 bytes), 2 MiB more than its budget of 2 MiB"
    )
    here = "test_budget.py:"
    sin, cos = (line for line in lines if here in line)
    assert "3 MiB = 3 × 1 MiB  Sin" in sin
    assert "rows = [tf.sin(x) for _ in range(3)]" in sin
    assert "1 MiB  Cos" in cos
    assert "rows.append(tf.cos(x))" in cos


def test_error_counts_what_it_does_not_list() -> None:
    inputs = [tf.ones([n, 256]) for n in range(1, 16)]
    with pytest.raises(MemoryBudgetExceeded) as caught, budget(2**10):
        [tf.sin(one) for one in inputs]
    # Of fifteen sizes, from 1 to 15 KiB, the three smallest are left out.
    listed = str(caught.value)
    assert (" 4 KiB  Sin" in listed, " 3 KiB  Sin" in listed) == (True, False)
    assert "… and 3 more, together 6 KiB" in listed


def test_error_says_when_memory_from_before_made_room(x: Any) -> None:
    before = tf.sin(x)
    with pytest.raises(MemoryBudgetExceeded, match="less 1 MiB from before the block"), budget(0):
        del before
        kept = [tf.sin(x), tf.sin(x)]
    del kept


@pytest.mark.slow
def test_garbage_of_earlier_work_makes_no_room(x: Any) -> None:
    def leave_garbage() -> None:
        cycle: list[Any] = [tf.sin(x), tf.cos(x)]
        cycle.append(cycle)

    def needs_two() -> None:
        gc.collect()  # as Python itself does at some moment
        kept = [tf.sin(x), tf.cos(x)]
        assert len(kept) == 2

    leave_garbage()
    with pytest.raises(MemoryBudgetExceeded) as caught, budget(S):
        needs_two()
    assert caught.value.peak_bytes == 2 * S
    leave_garbage()
    with pytest.raises(MemoryBudgetExceeded) as caught:
        budget(S)(needs_two)()
    assert caught.value.peak_bytes == 2 * S


def test_exception_of_the_block_passes_untouched_though_it_was_over_budget(x: Any) -> None:
    error = LookupError("mine")
    with pytest.raises(LookupError) as caught, budget(0):
        three(x)
        raise error
    assert caught.value is error
    assert error.__context__ is None
    with ll.record() as recording:
        three(x)
    assert recording.peak_bytes == 3 * S


def test_decorated_function_is_held_at_each_call(x: Any) -> None:
    @budget("3 MiB")
    def step(n: int) -> Any:
        """Make n tensors."""
        return [tf.sin(x) for _ in range(n)]

    assert (step.__name__, step.__doc__) == ("step", "Make n tensors.")
    assert len(step(3)) == 3
    assert len(step(3)) == 3
    with pytest.raises(MemoryBudgetExceeded, match=r"^step needed 4 MiB"):
        step(4)


def test_decorated_coroutine_is_held_while_it_runs(x: Any) -> None:
    @budget("1 MiB")
    async def step(n: int) -> int:
        await asyncio.sleep(0)
        return len([tf.sin(x) for _ in range(n)])

    assert asyncio.run(step(1)) == 1
    with pytest.raises(MemoryBudgetExceeded):
        asyncio.run(step(2))


def traced(how: str, x: Any) -> Any:
    """Give a function that holds a budget while a tf.function is being traced."""

    @budget("1 MiB")
    def step() -> Any:
        return tf.sin(x) + 1.0

    def block() -> Any:
        with budget("1 MiB"):
            return tf.sin(x) + 1.0

    match how:
        case "decorated":
            return tf.function(step)
        case "around an inner function":
            inner = budget("1 MiB")(tf.function(lambda: tf.sin(x) + 1.0))
            return tf.function(lambda: inner())
        case "block":
            return tf.function(block)
        case _:
            data = tf.data.Dataset.range(1)
            return lambda: list(data.map(lambda _: step()))


HOWS = ["decorated", "around an inner function", "block", "tf.data"]


@pytest.mark.parametrize("how", HOWS)
def test_budget_where_a_function_is_traced_is_refused(x: Any, how: str) -> None:
    with pytest.raises(RuntimeError, match=r"while a tf\.function is being") as caught:
        traced(how, x)()
    assert "put the budget around the call" in str(caught.value)
    with ll.record() as recording:
        three(x)
    assert recording.peak_bytes == 3 * S


@pytest.mark.slow
def test_budget_around_a_traced_function_holds_every_call(x: Any) -> None:
    step = tf.function(lambda: [tf.sin(x), tf.cos(x)])
    for _ in range(2):  # the first call traces
        with pytest.raises(MemoryBudgetExceeded) as caught, budget(2 * S - 1):
            step()
        # The graph's own small constants stay out of the comparison.
        assert caught.value.peak_bytes >= 2 * S
    with budget(2 * S):
        assert len(budget("2 MiB")(step)()) == 2

    @budget("2 MiB")
    def eager() -> Any:
        return tf.sin(x) + 1.0

    # What runs eagerly inside of a graph is no tracing.
    assert tf.function(lambda: tf.py_function(eager, [], tf.float32))().shape == [512, 512]


def test_error_carries_the_table_at_the_peak(x: Any) -> None:
    with pytest.raises(MemoryBudgetExceeded) as caught, budget(0):
        three(x)
    table = caught.value.at_peak
    assert [(buffer.op, buffer.nbytes) for buffer in table] == [
        ("Sin", S),
        ("Cos", S),
        ("AddV2", S),
    ]
    assert "test_budget.py" in table._repr_html_()


@pytest.mark.slow
def test_nested_budgets_count_from_their_own_start(x: Any) -> None:
    with budget("2 MiB"):
        a = tf.sin(x)
        with budget("1 MiB"):
            b = tf.sin(x)
        del a, b
    with budget("2 MiB"), pytest.raises(MemoryBudgetExceeded), budget(S - 1):
        tf.sin(x)


def test_budget_can_be_used_again(x: Any) -> None:
    one = budget(S)
    for _ in range(2):
        with one:
            tf.sin(x)
    assert repr(one) == "budget('1 MiB')"


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize("limit", ["30", "many MiB", -1, 1.5, None, True])
def test_what_is_no_size_is_refused_in_one_sentence(limit: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        budget(limit)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fn", [generator, async_generator, int, "text", 3])
def test_what_cannot_be_held_is_refused_in_one_sentence(fn: Any) -> None:
    with pytest.raises(TypeError) as caught:
        budget(1)(fn)
    assert "\n" not in str(caught.value)
    assert "with budget(" in str(caught.value)


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_order_of_decorators_is_told(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"write @{kind.__name__} above @budget"):
        budget(1)(kind(three))


def test_error_survives_pickling(x: Any) -> None:
    with pytest.raises(MemoryBudgetExceeded) as caught, budget(0):
        tf.sin(x)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.limit_bytes, again.peak_bytes) == (0, S)


@pytest.mark.slow
def test_budget_that_cannot_be_checked_for_certain_warns(
    x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = Exactness(False, ("Small buffers are not reported.",), "cpu")
    with warnings.catch_warnings(), budget("1 MiB"):
        warnings.simplefilter("error")
        tf.sin(x)
    monkeypatch.setattr(recorder.exactness, "exactness", lambda: blind)
    with pytest.warns(RuntimeWarning, match="Small buffers are not reported"), budget("1 MiB"):
        tf.sin(x)
    with pytest.raises(MemoryBudgetExceeded, match="Small buffers are not reported"), budget(0):
        tf.sin(x)


PLUGIN_TESTS = """
import sys

loaded_by_the_plugin = {"lessons_lib", "tensorflow"} & set(sys.modules)
import tensorflow as tf  # as most test modules do, before any fixture

def test_nothing_is_loaded_by_the_plugin():
    assert "lessons_lib_pytest" in sys.modules
    assert not loaded_by_the_plugin
    assert "lessons_lib" not in sys.modules

def test_small_buffers_count_although_tensorflow_was_imported_first(tf_memory_budget):
    assert "lessons_lib.instruments.budget" in sys.modules
    with tf_memory_budget("100 kB"):
        tf.zeros([20_000])

def test_over_budget(tf_memory_budget):
    with tf_memory_budget("70 kB"):
        tf.zeros([20_000])
"""


@pytest.mark.further
@pytest.mark.slow
@pytest.mark.child
def test_fixture_loads_nothing_until_used_and_is_exact_where_tensorflow_came_first(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_plugin.py").write_text(PLUGIN_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run_pytest(tmp_path, "test_plugin.py", "-W", "error::RuntimeWarning:lessons_lib")
    assert "test_nothing_is_loaded_by_the_plugin PASSED" in done
    assert "imported_first PASSED" in done
    assert "test_over_budget FAILED" in done
    assert "MemoryBudgetExceeded: the block needed 78.1" in done  # KiB, and a shape
    assert "tf.zeros([20_000])" in done


def run_pytest(folder: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(ROOT / "lessons_lib" / "pytest_plugin"), str(ROOT)])
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPU_ALLOCATOR_USE_BFC"}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-p", "no:lessons_lib", "-p", "lessons_lib_pytest", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
