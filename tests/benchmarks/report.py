"""Tables of the benchmarks: as text, and in README.md between markers."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [headers, ["---"] + ["--:"] * (len(headers) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def origin(*packages: str) -> str:
    """Say when, with which versions and on which machine the figures were measured."""
    versions = []
    for package in packages:
        for name in (package, f"{package}-cpu"):
            try:
                versions.append(f"{name} {metadata.version(name)}")
                break
            except metadata.PackageNotFoundError:
                continue
    return (
        f"Measured {datetime.date.today().isoformat()} with Python {platform.python_version()}, "
        f"{', '.join(versions)}; {platform.system()} {platform.machine()}, {_processor()}, "
        f"{os.cpu_count()} processors."
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor() or "unknown processor"


def put(text: str, part: str, path: Path = README) -> None:
    """Write a part of the benchmark into a file, between its markers.

    The file must hold ``<!-- benchmark:PART:begin -->`` and ``<!-- benchmark:PART:end -->``, or
    the pair ``<!-- benchmark:begin -->`` and ``<!-- benchmark:end -->``, in which a new part is put
    at the end.

    Raises
    ------
    ValueError
        If there are no markers.
    """
    page = path.read_text(encoding="utf-8")
    begin, end = (f"<!-- benchmark:{part}:{word} -->" for word in ("begin", "end"))
    last = "<!-- benchmark:end -->"
    if begin not in page:
        if last not in page:
            raise ValueError(
                f"{path.name} has no place for the benchmark: write <!-- benchmark:begin --> and "
                f"{last} on lines of their own where it shall go"
            )
        page = page.replace(last, f"{begin}\n{end}\n{last}", 1)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
