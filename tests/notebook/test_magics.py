"""``%mem`` and ``%%mem`` in a shell of IPython's own: a cell runs once and as it always does."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import lessons_lib
from lessons_lib.recording import recorder
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

PREPARE = """
import lessons_lib as ll
tf = ll.runtime.tf
dims, one = tf.constant([9]), tf.constant(1.0)
def new():
    return tf.raw_ops.Fill(dims=dims, value=one)
"""
FIGURES = re.compile(
    r"peak (?P<peak>[^,]+), kept (?P<kept>[^,]+), (?P<buffers>\d+) buffers?, ≈ \S+ ms\n"
)


@pytest.fixture(scope="module")
def shared() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    yield shell
    shell.reset(new_session=False)
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(shared: InteractiveShell) -> Iterator[InteractiveShell]:
    names = set(shared.user_ns)
    shared.run_cell(PREPARE, store_history=False)
    shared.run_line_magic("load_ext", "lessons_lib")
    yield shared
    shared.run_line_magic("unload_ext", "lessons_lib")
    assert not [name for name in shared.user_ns if "lessons_lib_" in name]
    for name in set(shared.user_ns) - names:
        del shared.user_ns[name]
    assert recorder._session.open == []


Run = Callable[..., str]


@pytest.fixture
def run(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a cell, and returns what it printed."""

    def run(cell: str, fails: type[BaseException] | None = None) -> str:
        capsys.readouterr()
        result = shell.run_cell(cell, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if fails is None:
            assert error is None, error
        else:
            assert isinstance(error, fails), error
        printed = capsys.readouterr()
        return str(printed.out + printed.err)

    return run


def figures(printed: str) -> tuple[str, str, int]:
    """Read the line of figures; there must be exactly one."""
    lines = list(FIGURES.finditer(printed))
    assert len(lines) == 1, printed
    return lines[0]["peak"], lines[0]["kept"], int(lines[0]["buffers"])


def test_a_statement(shell: InteractiveShell, run: Run) -> None:
    assert figures(run("%mem x = new()")) == ("36 B", "36 B", 1)
    assert shell.user_ns["x"].shape == (9,)


def test_a_cell(shell: InteractiveShell, run: Run) -> None:
    printed = run("%%mem\nx = new()\ny = new()\ndel x\n")
    assert figures(printed) == ("72 B", "36 B", 2)
    assert "y" in shell.user_ns
    assert "x" not in shell.user_ns


def test_the_recording_is_kept(shell: InteractiveShell, run: Run) -> None:
    run("%mem x = new()")
    found = shell.user_ns["_mem"]
    assert isinstance(found, Recording)
    assert found.peak_bytes == 36
    run("%mem z = [new(), new()]")
    assert shell.user_ns["_mem"].peak_bytes == 72
    assert found.peak_bytes == 36


def test_a_cell_runs_once(shell: InteractiveShell, run: Run) -> None:
    shell.user_ns["count"] = 0
    run("%%mem\ncount += 1\nx = new()")
    run("%mem count += 1")
    assert shell.user_ns["count"] == 2


def test_variables_of_before_are_seen_and_changed(shell: InteractiveShell, run: Run) -> None:
    shell.user_ns["numbers"] = [1]
    run("%%mem\nfor k in range(3):\n    numbers.append(k)\ndef f():\n    return numbers\n")
    assert shell.user_ns["f"]() == [1, 0, 1, 2]
    run("%mem numbers = f()[:2]")
    assert shell.user_ns["numbers"] == [1, 0]


def test_multi_line_strings_stay_as_they_are(shell: InteractiveShell, run: Run) -> None:
    text = 'a = """one\n  two\n\n\tthree\n%mem x\n%%mem\n"""\n'
    run("%%mem\n" + text)
    assert shell.user_ns["a"] == "one\n  two\n\n\tthree\n%mem x\n%%mem\n"
    run("if True:\n    %mem b = 1\n    c = '''\n  %mem d\n'''\n")
    assert (shell.user_ns["b"], shell.user_ns["c"]) == (1, "\n  %mem d\n")


def test_comments_and_blank_lines_first(run: Run) -> None:
    printed = run("%%mem\n\n# a comment\n\nx = new()  # another\n# a last one\n")
    assert figures(printed) == ("36 B", "36 B", 1)


def test_a_cell_of_comments(run: Run) -> None:
    assert figures(run("%%mem\n# nothing but this\n")) == ("0 B", "0 B", 0)


def test_imports_from_the_future(shell: InteractiveShell, run: Run) -> None:
    run("%%mem\nfrom __future__ import annotations\ndef f(x: NotThere): return x\ny = f(1)")
    assert shell.user_ns["y"] == 1


def test_await(shell: InteractiveShell, run: Run) -> None:
    printed = run(
        "%%mem\nimport asyncio\nawait asyncio.sleep(0)\nx = new()\nawait asyncio.sleep(0)"
    )
    assert figures(printed)[:2] == ("36 B", "36 B")
    run("async def make():\n    return new()\n")
    assert figures(run("%mem y = await make()"))[0] == "36 B"
    run("%%mem\nz = [await make() for _ in range(2)]")
    assert len(shell.user_ns["z"]) == 2


# ---------------------------------------------------------------- what is displayed


def test_the_last_expression_is_displayed(shell: InteractiveShell, run: Run) -> None:
    printed = run("%%mem\nx = new()\n6 * 7")
    assert "Out[" in printed
    assert "]: 42" in printed
    assert shell.user_ns["_"] == 42
    assert printed.index("42") < printed.index("peak")
    assert "]: 43" in run("%mem 43")


def test_a_semicolon_suppresses_it(shell: InteractiveShell, run: Run) -> None:
    printed = run("%%mem\nx = new()\n6 * 7;")
    assert "Out[" not in printed
    assert "peak" in printed
    assert "Out[" not in run("%mem 43;")


def test_only_what_ends_the_cell_is_displayed(run: Run) -> None:
    printed = run("%mem 41\n42")
    assert "]: 41" not in printed
    assert "]: 42" in printed
    assert "Out[" not in run("%%mem\n41\nx = 42")
    assert "Out[" not in run("for k in range(2):\n    %mem 41")


def test_none_is_not_displayed(run: Run) -> None:
    assert "Out[" not in run("%mem None")


def test_the_displayed_value_is_counted_as_kept(run: Run) -> None:
    assert figures(run("%mem new()"))[:2] == ("36 B", "36 B")


def test_output_comes_before_the_figures(run: Run) -> None:
    printed = run("%%mem\nprint('hello')\n")
    assert printed.startswith("hello\n")
    assert FIGURES.fullmatch(printed.removeprefix("hello\n"))


# ---------------------------------------------------------------- errors


def test_an_error_shows_its_line_and_leaves_the_recording(
    shell: InteractiveShell, run: Run
) -> None:
    printed = run("%%mem\nx = new()\n1 / 0\ny = 1\n", fails=ZeroDivisionError)
    assert "----> 3 1 / 0" in re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert shell.user_ns["_mem"].kept_bytes == 36
    assert "y" not in shell.user_ns
    assert figures(run("%mem z = new()"))[0] == "36 B"


def test_an_interrupt(shell: InteractiveShell, run: Run) -> None:
    shell.user_ns["signal"] = signal
    run("%%mem\nx = new()\nsignal.raise_signal(signal.SIGINT)\n", fails=KeyboardInterrupt)
    assert shell.user_ns["_mem"].kept_bytes == 36


def test_a_syntax_error_is_shown_and_nothing_runs(shell: InteractiveShell, run: Run) -> None:
    run("%%mem\nx = 1\nx ===\n", fails=SyntaxError)
    assert "x" not in shell.user_ns
    run("%mem x ===", fails=SyntaxError)


def test_lines_are_those_of_the_cell(shell: InteractiveShell, run: Run) -> None:
    run("%%mem\n\nx = tf.add(one, one)\ny = tf.tanh(\n    x)\n")
    rows = shell.user_ns["_mem"].by_line().rows
    cell = shell.execution_count - 1
    assert {row.key for row in rows} == {f"In [{cell}]:3", f"In [{cell}]:4"}
    texts = {row.line.text for row in rows if row.line}
    assert texts == {"x = tf.add(one, one)", "y = tf.tanh("}
    run("a = 1\n%mem b = tf.add(one, one)\n")
    assert [row.key for row in shell.user_ns["_mem"].by_line().rows] == [f"In [{cell + 1}]:2"]


def test_the_same_cell_three_times(run: Run) -> None:
    cell = "%%mem\nx = new()\nfor _ in range(5):\n    x = tf.tanh(x)\n"
    # The second and the third time, the x of before goes when it gets a new value.
    assert [figures(run(cell)) for _ in range(3)] == [
        ("72 B", "36 B", 6), ("36 B", "0 B", 7), ("36 B", "0 B", 7),
    ]  # fmt: skip


# ---------------------------------------------------------------- nesting


def test_a_statement_inside_a_cell(shell: InteractiveShell, run: Run) -> None:
    printed = run("%%mem\nx = new()\n%mem y = new()\nz = new()\n")
    lines = list(FIGURES.finditer(printed))
    assert [(line["peak"], line["kept"]) for line in lines] == [
        ("36 B", "36 B"), ("108 B", "108 B"),
    ]  # fmt: skip
    assert shell.user_ns["_mem"].peak_bytes == 108


def test_statements_in_blocks_and_functions(shell: InteractiveShell, run: Run) -> None:
    printed = run("def f():\n    %mem x = new()\n    return x\nif f() is not None:\n    %mem f()\n")
    assert [line["peak"] for line in FIGURES.finditer(printed)] == ["36 B", "36 B", "36 B"]


def test_several_statements(run: Run) -> None:
    printed = run("%mem x = new()\n%mem y = [new(), x]\n")
    assert [line["peak"] for line in FIGURES.finditer(printed)] == ["36 B", "36 B"]


def test_a_statement_over_several_lines(shell: InteractiveShell, run: Run) -> None:
    assert figures(run("%mem x = [new(), \\\n  new()]\n"))[0] == "72 B"
    assert len(shell.user_ns["x"]) == 2


def test_a_record_block_inside(shell: InteractiveShell, run: Run) -> None:
    run("%%mem\nwith ll.record() as inner:\n    x = new()\ny = new()\n")
    assert shell.user_ns["inner"].peak_bytes == 36
    assert shell.user_ns["_mem"].peak_bytes == 72


def test_a_magic_as_the_statement(shell: InteractiveShell, run: Run) -> None:
    assert figures(run("%mem %time x = new()\n"))[0] == "36 B"
    assert "x" in shell.user_ns


def test_compound_statements_on_the_line(shell: InteractiveShell, run: Run) -> None:
    run("%mem for k in range(3): x = new()\n")
    assert shell.user_ns["k"] == 2
    assert shell.user_ns["_mem"].allocated_bytes == 108


def test_a_magic_inside(shell: InteractiveShell, run: Run) -> None:
    printed = run("%%mem\nx = new()\n%time y = new()\n")
    assert figures(printed)[0] == "72 B"


def test_under_another_cell_magic(run: Run) -> None:
    assert figures(run("%%capture out\nx = 1\n%mem y = new()\n") or run("print(out)"))[0] == "36 B"
    assert "peak 36 B" in run("%%time\n%mem y = new()\n")


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("flag", "type_shown"), [("--lines", "Breakdown"), ("--ops", "Breakdown"), ("--plot", "Axes")]
)
@pytest.mark.parametrize("form", ["%mem {flag} x = new()", "%%mem {flag}\nx = new()\n"])
def test_flags_add_a_table_or_a_picture(
    flag: str, type_shown: str, form: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import IPython.display

    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    assert figures(run(form.format(flag=flag)))[0] == "36 B"
    assert [type_shown in type(thing).__name__ for thing in shown] == [True]
    if flag == "--ops":
        assert [row.key for row in shown[0].rows] == ["Fill"]
    if flag == "--lines":
        assert shown[0].by == "line"


def test_several_flags_in_their_order(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    run("%mem --ops --lines x = new()")
    assert [thing.by for thing in shown] == ["op", "line"]


@pytest.mark.parametrize("cell", ["%mem --plots x = 1", "%%mem --plots\nx = 1\n"])
def test_unknown_flags(cell: str, shell: InteractiveShell, run: Run) -> None:
    printed = run(cell, fails=Exception)
    assert "no flag --plots" in printed
    assert "Traceback" not in printed
    assert "x" not in shell.user_ns


@pytest.mark.parametrize("cell", ["%mem", "%mem --lines", "%%mem\n", "%%mem --ops\n\n"])
def test_nothing_to_measure(cell: str, run: Run) -> None:
    printed = run(cell, fails=Exception)
    # IPython has words of its own for a cell magic without a cell.
    assert "nothing to measure" in printed or "cell body is empty" in printed
    assert "Traceback" not in printed


def test_a_statement_on_the_line_of_a_cell_magic(shell: InteractiveShell, run: Run) -> None:
    printed = run("%%mem x = 1\ny = 2\n", fails=Exception)
    assert "next line" in printed
    assert "y" not in shell.user_ns


def test_a_negative_number_is_no_flag(shell: InteractiveShell, run: Run) -> None:
    assert "]: -1" in run("%mem -1")
    assert "]: -9" in run("%mem - 9")


@pytest.mark.parametrize("cell", ["%mem --help", "%mem -h"])
def test_help(cell: str, run: Run) -> None:
    printed = run(cell)
    assert "%mem [--plot] [--lines] [--ops]" in printed
    assert "bytes by source line" in printed
    assert "peak 0 B" not in printed


def test_help_does_not_run_a_cell(shell: InteractiveShell, run: Run) -> None:
    assert "stands alone" in run("%%mem --help\nx = 1\n", fails=Exception)
    assert "x" not in shell.user_ns


# ---------------------------------------------------------------- loading


def test_without_the_extension_nothing_changes(shared: InteractiveShell) -> None:
    before = (
        list(shared.ast_transformers),
        list(shared.input_transformers_cleanup),
        list(shared.input_transformer_manager.token_transformers),
        {kind: set(found) for kind, found in shared.magics_manager.magics.items()},
        sys.displayhook,
    )
    for _ in range(2):
        lessons_lib.load_ipython_extension(shared)
        lessons_lib.load_ipython_extension(shared)  # twice changes nothing
        assert len(shared.ast_transformers) == len(before[0]) + 1
        lessons_lib.unload_ipython_extension(shared)
        lessons_lib.unload_ipython_extension(shared)
        after = (
            list(shared.ast_transformers),
            list(shared.input_transformers_cleanup),
            list(shared.input_transformer_manager.token_transformers),
            {kind: set(found) for kind, found in shared.magics_manager.magics.items()},
            sys.displayhook,
        )
        assert after == before


@pytest.mark.slow
def test_a_foreign_profiler_is_one_sentence(run: Run, tmp_path: Any) -> None:
    tf = lessons_lib.common.runtime.tf
    tf.profiler.experimental.start(str(tmp_path))
    try:
        printed = run("%mem x = new()", fails=lessons_lib.ProfileError)
    finally:
        tf.profiler.experimental.stop()
    assert "already running" in printed
    with record() as recording:
        pass
    assert recording.exact
