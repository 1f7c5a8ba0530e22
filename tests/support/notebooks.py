"""Where the lessons are, what form they have, and what they may use.

Used by the tests, ``python -m tests.tools.execute`` and ``python -m tests``, so that an author
sees the same complaints before a commit as the tests give after it.  Sizes are bytes, times
seconds.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import nbformat

# Kernels inherit it: a progress bar would be an output only where a machine is slow.
os.environ["TQDM_DISABLE"] = "1"

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "notebooks"

MAX_CELL_LINES = 25
MAX_SECONDS = 15.0  # of a lesson, beyond the import of TensorFlow
MAX_RESIDENT_BYTES = int(1.2 * 1024**3)  # of a lesson's kernel, at its highest

#: Names the file of the learner's progress (`lessons_lib.teaching.progress`).
PROGRESS = "LESSONS_LIB_PROGRESS"

#: The metadata of every lesson: nothing that differs between two machines.
METADATA: dict[str, Any] = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\(\s*<?(?P<target>[^)\s>]+)>?[^)]*\)")
_IMPORT = re.compile(r"^\s*(import|from)\s+(lessons_lib|tensorflow)\b", re.MULTILINE)


@contextmanager
def nobodys_progress() -> Iterator[None]:
    """Have lessons show the progress of a learner who has done nothing, and leave yours alone."""
    with tempfile.TemporaryDirectory(prefix="lessons_lib-progress-") as folder:
        with mock.patch.dict(os.environ, {PROGRESS: os.path.join(folder, "progress.json")}):
            yield


def lesson_paths(folder: Path = LESSONS) -> list[Path]:
    """Find the lessons in a folder, without Jupyter's checkpoints."""
    return sorted(
        path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
    )


def imports_tensorflow(source: str) -> bool:
    """Say whether a cell loads TensorFlow, directly or through this package."""
    return bool(_IMPORT.search(source))


def peak_resident_bytes(pid: int | None) -> int | None:
    """Read the kernel's own record of a process's highest resident size (``VmHWM``).

    Returns
    -------
    int or None
        Bytes; None where the system keeps no such record (anything but Linux) or the process is
        gone.
    """
    if pid is None or sys.platform != "linux":
        return None
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def faults(path: Path) -> list[str]:
    """List what is wrong with a committed notebook's form; nothing is run.

    Parameters
    ----------
    path : Path
        A notebook.

    Returns
    -------
    list of str
        One sentence for each fault, with the cell it is in (counted from 1, all cells).
    """
    notebook = nbformat.read(path, as_version=4)
    found = list(_whole_faults(notebook))
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code":
            problems = _code_faults(cell)
        elif cell.cell_type == "markdown":
            problems = text_faults(cell.source, path.parent)
        else:
            problems = iter(())
        found += [f"cell {number}: {problem}" for problem in problems]
    return found


def _whole_faults(notebook: Any) -> Iterator[str]:
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        yield f"not a valid notebook: {str(error).splitlines()[0]}"
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.cell_type != "markdown" or not re.match(r"# \S", first.source):
        yield "the first cell must be text that starts with a heading (`# ...`)"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not any(cell.outputs for cell in code):
        yield "there are no outputs: execute it and commit it with them"
    counts = [cell.execution_count for cell in code if cell.source.strip()]
    if counts != list(range(1, len(counts) + 1)):
        yield "not run from top to bottom in a fresh kernel (execution counts are not 1, 2, 3...)"
    if dict(notebook.metadata) != METADATA:
        yield "its metadata is not the standard one (`python -m tests.tools.execute` sets it)"


def _code_faults(cell: Any) -> Iterator[str]:
    lines = len(cell.source.splitlines())
    if lines > MAX_CELL_LINES:
        yield f"{lines} lines of code; at most {MAX_CELL_LINES} can be read at a glance"
    expected = "raises-exception" in cell.metadata.get("tags", [])
    for output in cell.outputs:
        match output.output_type:
            case "stream" if output.name == "stderr":
                yield f"writes to stderr: {str(output.text).strip().splitlines()[:1]}"
            case "error" if not expected:
                yield f"ends with {output.ename}, and has no tag raises-exception"
            case "display_data" | "execute_result":
                page = output.data.get("text/html")
                if page is not None:
                    yield from html_faults(page)
                elif any(kind.startswith("image/") for kind in output.data):
                    yield "a picture without alternative text (show it as an HTML image)"


def text_faults(source: str, folder: Path) -> Iterator[str]:
    """List images without alternative text, and links within the project that lead nowhere.

    Parameters
    ----------
    source : str
        Markdown; what stands in code is passed over.
    folder : Path
        The folder that links are relative to.
    """
    text = _CODE.sub("", _FENCE.sub("", source))
    for link in _LINK.finditer(text):
        if link["image"] and not link["text"].strip():
            yield f"the image {link['target']} has no alternative text"
        if not link["target"].startswith("attachment:"):
            yield from _target_faults(link["target"], folder)
    yield from html_faults(text, folder)


def _target_faults(target: str, folder: Path) -> Iterator[str]:
    file, _, _ = target.partition("#")
    if not file or re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", file):
        return  # a place in this page, or another site
    if file.startswith("/"):
        yield f"the link to {target} is not relative"
    elif not (folder / unquote(file)).exists():
        yield f"the link to {target} leads nowhere"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "img":
            self.images.append(values)
        target = values.get("href" if tag == "a" else "src" if tag == "img" else "")
        if target:
            self.targets.append(target)


def html_faults(text: str | list[str], folder: Path | None = None) -> Iterator[str]:
    """List images without alternative text and, given a folder, links that lead nowhere."""
    page = _Page()
    page.feed(text if isinstance(text, str) else "".join(text))
    page.close()
    for image in page.images:
        if not (image.get("alt") or "").strip():
            yield f"an image without alternative text: {(image.get('src') or '')[:40]}"
    if folder is not None:
        for target in page.targets:
            yield from _target_faults(target, folder)
