"""``python -m lessons_lib run``: the program notices nothing, and the report says what it did."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import lessons_lib as ll
from lessons_lib.cli import html_report, program
from lessons_lib.cli import main as cli
from lessons_lib.cli.html_report import ProgramReport
from tests.support.drawn import rested, small
from tests.support.sessions import cut_after
from tests.support.state import state

tf = ll.runtime.tf
S = 2**20
ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """\
import sys
import tensorflow as tf
kept = [tf.random.uniform([512, 512])]
for _ in range(3):
    kept.append(tf.sin(kept[0]))  # <script>alert("&")</script>
passing = tf.random.uniform([512, 1024])
del passing
print("out", *sys.argv[1:])
print("err", file=sys.stderr)
"""
ASKS = """\
import os, pickle, sys
class Thing: pass
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
names = sorted(n for n in globals() if n.startswith("__"))
print(sys.argv, sys.path[0], __name__, __file__, __spec__ and __spec__.name, __package__, names)
print(type(__loader__).__name__, sys.stdin.read(), file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what running a program in this process changes."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Page(HTMLParser):
    """What matters of a page: its texts, its elements, and the images' alternative texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text, self.elements, self.alts = "", [], []
        self.addresses: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        values = dict(attrs)
        if tag == "img":
            self.alts.append(values.get("alt"))
        self.addresses += [str(values[name]) for name in ("src", "href") if name in values]

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def run_script(folder: Path, source: str, *arguments: str, name: str = "train.py") -> int:
    (folder / name).write_text(source)
    # What an earlier script left in cycles would make room if it were collected in this one.
    gc.collect()
    return cli.main(["run", "-o", "report.html", name, *arguments])


def test_report_has_the_figures_and_the_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state()
    assert run_script(folder, SCRIPT, "a", "-o", "b") == 0
    assert state() == before
    out, err = capsys.readouterr()
    assert out == "out a -o b\n"
    assert err.splitlines()[0] == "err"
    assert err.splitlines()[-1] == f"lessons_lib: peak 6 MiB; report: {folder / 'report.html'}"
    page = Page(folder / "report.html")
    # Four tensors of 1 MiB that stay, one of 2 MiB that passes.
    assert re.search(r"peak\n6 MiB \(6,291,\d\d\d bytes\)", page.text)
    others = r"held by the allocator for it\n([\d.]+) MiB\s+process \(resident set\)\n≈ "
    held = re.search(others, page.text)
    assert held is not None
    assert float(held[1]) >= 6
    assert "train.py:5  kept.append(tf.sin(kept[0]))  # <script>" in page.text
    for heading, row in (("category", "other"), ("layer", "(no layer)")):
        assert re.search(
            rf"{re.escape(row)}\n\d+\n6 MiB\n", page.text.partition(f"By {heading}")[2]
        )
    assert "Sin\n3\n3 MiB\n" in page.text.partition("By operation")[2]
    assert "train.py:6  passing = tf.random.uniform" in page.text
    assert "The program ran to its end." in page.text
    assert "Memory of train.py a -o b" in page.text


def test_page_stands_alone_and_runs_nothing(folder: Path) -> None:
    run_script(folder, SCRIPT, "<img src=x>")
    page = Page(folder / "report.html")
    assert "script" not in page.elements
    assert len(page.alts) == page.elements.count("img") == 2
    assert all(alt and alt.startswith("TensorFlow memory") for alt in page.alts)
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    assert "Memory of train.py '<img src=x>'" in page.text
    source = (folder / "report.html").read_text()
    assert "prefers-color-scheme: dark" in source
    assert '<html lang="en">' in source


def test_traces_are_in_the_report(folder: Path) -> None:
    source = (
        "import tensorflow as tf\n"
        "@tf.function\n"
        "def step(x, k):\n"
        "    return x * k\n"
        "for k in range(2):\n"
        "    step(tf.ones([4]), k)\n"
    )
    run_script(folder, source)
    page = Page(folder / "report.html")
    assert "traces of tf.function\n2\n" in page.text
    assert "step" in page.text.partition("Traces of tf.function")[2]
    run_script(folder, "import tensorflow as tf\ntf.ones([4])\n")
    assert "No function was traced." in Page(folder / "report.html").text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code", "outcome", "said"),
    [
        ("sys.exit()", 0, "with exit code 0", ""),
        ("sys.exit(3)", 3, "with exit code 3", ""),
        ("sys.exit('words')", 1, "exit code 1: words", "words\n"),
        ("raise ValueError('<b>mine</b>')", 1, "raised ValueError", "ValueError: <b>mine</b>\n"),
    ],
)
def test_ending_passes_through_and_the_report_is_written(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    ending: str,
    code: int,
    outcome: str,
    said: str,
) -> None:
    assert run_script(folder, SCRIPT + ending + "\n") == code
    err = capsys.readouterr().err
    assert said in err
    assert err.splitlines()[-1].startswith("lessons_lib: peak 6 MiB")
    page = Page(folder / "report.html")
    assert outcome in page.text
    assert "6 MiB" in page.text
    assert ("Traceback" in err) is ending.startswith("raise")
    assert str(ROOT / "lessons_lib") not in err  # the traceback is the program's alone


def test_interrupts_pass_through_and_the_report_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = ProgramReport.html

    def interrupted(report: ProgramReport) -> str:
        signal.raise_signal(signal.SIGINT)
        return real(report)

    monkeypatch.setattr(ProgramReport, "html", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_script(folder, SCRIPT + "raise KeyboardInterrupt\n")
    assert "The program was interrupted." in Page(folder / "report.html").text
    assert capsys.readouterr().err.count("the report is being written to") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "missing.py"], "there is no file 'missing.py'"),
        (["run", "."], "has no __main__.py"),
        (["run", "-m", "no_such_module_of_ours"], "no module named 'no_such_module_of_ours'"),
        (["run", "-o", ".", "here.py"], "is a folder"),
        (["run", "-o", "nowhere/html_report.html", "here.py"], "cannot be written"),
    ],
)
def test_what_cannot_be_run_gets_one_sentence_and_nothing_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (folder / "here.py").write_text("print('ran')\n")
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["here.py"]


def test_report_that_cannot_be_written_at_the_end_is_said_and_changes_no_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "here.py").write_text("import os\nos.rmdir('place')\nopen('place', 'w')\n")
    (folder / "place").mkdir()
    assert cli.main(["run", "-o", "place/html_report.html", "here.py"]) == 0
    assert "there is no report" in capsys.readouterr().err


def test_program_that_cannot_be_recorded_is_run_all_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tf.profiler.experimental.start(str(tmp_path / "theirs"))
    try:
        assert run_script(folder, "import sys\nprint('ran')\nsys.exit(5)\n") == 5
    finally:
        tf.profiler.experimental.stop(save=False)
    out, err = capsys.readouterr()
    assert out == "ran\n"
    assert "nothing was recorded" in err
    assert "already running" in err
    assert not (folder / "report.html").exists()


def test_setting_that_came_too_late_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_LATE_SETTING", "0")
    run_script(folder, "import os\nos.environ['TF_LATE_SETTING'] = '1'\n")
    assert (
        "changed TF_LATE_SETTING after TensorFlow was loaded" in Page(folder / "report.html").text
    )
    run_script(folder, "import os\nos.environ['MY_SETTING'] = '1'\n")
    assert "after TensorFlow was loaded, which" not in Page(folder / "report.html").text


def test_what_a_thread_does_after_the_main_program_is_in_the_report(folder: Path) -> None:
    source = (
        "import threading, time\n"
        "import tensorflow as tf\n"
        "kept = []\n"
        "def work():\n"
        "    time.sleep(0.2)\n"
        "    kept.append(tf.fill([2**20], 1.0))\n"
        "threading.Thread(target=work).start()\n"
    )
    run_script(folder, source)
    assert "4 MiB" in Page(folder / "report.html").text


def test_figures_of_a_program_that_was_watched_in_parts_say_so() -> None:
    page = ProgramReport("x", rested(), None, "It ran.").html()
    assert re.search(r"peak</td><td[^>]*>≈ 4 MiB; at most ≈ 6 MiB when nobody watched,", page)
    assert "buffers in what was watched" in page
    whole = ProgramReport("x", small(), None, "It ran.").html()
    assert "12 MiB (12,582,912 bytes)" in whole
    assert "watched" not in whole


@pytest.mark.parametrize(("option", "parts"), [([], False), (["-s", "0.5"], True)])
def test_beginning_is_watched_whole_unless_a_share_is_asked_for(
    folder: Path, option: list[str], parts: bool
) -> None:
    Path("loop.py").write_text(
        "import tensorflow as tf\nfor _ in range(60): tf.fill([9], 1.0)\n", encoding="utf-8"
    )
    with cut_after(200):
        assert cli.main(["run", "-o", "report.html", *option, "loop.py"]) == 0
    assert ("Watched whole: " in Path("report.html").read_text(encoding="utf-8")) == parts


def test_picture_that_cannot_be_drawn_leaves_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("no matplotlib <here>")

    with ll.record() as recording:
        y = tf.ones([3])
    del y
    whole = ProgramReport("x", recording, None, "It ran.")
    assert "There is no picture" not in whole.html()
    monkeypatch.setattr(html_report, "draw", missing)
    assert "There is no picture here: no matplotlib &lt;here&gt;." in whole.html()


@pytest.mark.parametrize(
    ("given", "ours", "theirs"),
    [
        (["run", "a.py", "-o", "x"], ["run", "a.py"], ["-o", "x"]),
        (["run", "-o", "x", "a.py", "--help"], ["run", "-o", "x", "a.py"], ["--help"]),
        (["run", "-m", "a.b", "run"], ["run", "-m", "a.b"], ["run"]),
        (["run", "run", "-m"], ["run", "run"], ["-m"]),
        (["--version"], ["--version"], []),
    ],
)
def test_arguments_of_the_program_are_its_own(
    given: list[str], ours: list[str], theirs: list[str]
) -> None:
    assert cli._split(given) == (ours, theirs)


def python(folder: Path, *arguments: str) -> tuple[int, str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        input="typed",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.child
def test_script_finds_everything_as_without(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "asks.py").write_text(ASKS + "sys.exit(7)\n")
    script = str(Path("inner", "asks.py"))
    code, out, err = python(tmp_path, script, "a", "-m")
    code_here, out_here, err_here = python(tmp_path, "-m", "lessons_lib", "run", script, "a", "-m")
    assert (code_here, out_here) == (code, out)
    assert code == 7
    assert "inner" in out
    assert err_here == err + f"lessons_lib: peak 0 B; report: {tmp_path / 'asks_memory.html'}\n"


# A child that comes back from the fork ends as the program does: it must write no report.
FORKS = """\
if hasattr(os, "fork"):
    pid = os.fork()
    os.waitpid(pid, 0) if pid else None
    print("parent" if pid else "child", flush=True)
"""


@pytest.mark.further
@pytest.mark.slow
@pytest.mark.child
def test_module_finds_everything_as_without_and_a_forked_child_writes_no_report(
    tmp_path: Path,
) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "asks.py").write_text(ASKS + FORKS)
    quiet = ("-W", "ignore", "-u")  # Python 3.12 warns of a fork
    code, out, err = python(tmp_path, *quiet, "-m", "pack.asks", "a")
    code_here, out_here, err_here = python(
        tmp_path, *quiet, "-m", "lessons_lib", "run", "-m", "pack.asks", "a"
    )
    assert (code_here, out_here) == (code, out)
    assert code == 0
    if hasattr(os, "fork"):
        assert out.split()[-2:] == ["child", "parent"]
    assert err_here.startswith(err)
    report = f"report: {tmp_path / 'pack.asks_memory.html'}"
    assert err_here.splitlines()[-1] == f"lessons_lib: peak 0 B; {report}"


def test_folder_with_a_main_module_can_be_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "app").mkdir()
    (folder / "app" / "__main__.py").write_text("import sys\nprint(__name__, sys.argv)\n")
    assert cli.main(["run", "-o", "report.html", "app", "x"]) == 0
    assert capsys.readouterr().out == "__main__ ['app', 'x']\n"


def test_missing_script_changes_nothing() -> None:
    argv, path = list(sys.argv), list(sys.path)
    with pytest.raises(ValueError, match="no file"):
        program.script("missing.py", [])
    assert (sys.argv, sys.path) == (argv, path)
