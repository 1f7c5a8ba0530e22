"""Recordings as JSON files: written whole or not at all, and checked when they are read.

The file holds the columns of `lessons_lib.recording.buffers.BufferStore` and the shared
descriptions.  Nothing is ever unpickled or evaluated, so a file from a stranger can do no harm.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from lessons_lib.common.files import write_atomically
from lessons_lib.common.source import Line
from lessons_lib.recording.buffers import BufferStore, Floats, Folded, Ints, Purpose, Site
from lessons_lib.recording.categories import Category, Phase
from lessons_lib.recording.step_log import Said, StepMark

FORMAT: Final = "lessons_lib recording"
VERSION: Final = 3
_READABLE: Final = (1, 2, VERSION)
_COLUMNS: Final = ("site", "nbytes", "reserved", "born", "died")
_FOLDED: Final = ("buffers", "nbytes", "times", "live")


def write(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write a recording's fields to a file, and make the folder that it lies in.

    Raises
    ------
    TypeError, ValueError, OSError
        In one sentence, if there can be no such file; then nothing was written.
    """
    store: BufferStore = fields["buffers"]
    document = {
        "format": FORMAT,
        "version": VERSION,
        **{name: value for name, value in fields.items() if name != "buffers"},
        "sites": [asdict(site) for site in store.sites],
        "folded": None if store.folded is None else _lists(store.folded, _FOLDED),
        "times": store.times.tolist(),
        **_lists(store, _COLUMNS),
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text)


def _lists(holder: object, names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: getattr(holder, name).tolist() for name in names}


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a recording's fields from a file; see `Recording.load` for what it raises."""
    try:
        name = os.fspath(path)
    except TypeError:
        raise TypeError(
            f"a recording is read from a file, not from {path!r}: give the path of one that "
            "Recording.save wrote"
        ) from None
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(
            f"{name} is not a recording (it is not complete JSON): "
            "give a file that Recording.save wrote"
        ) from None
    except OSError as error:
        # The same class, so that a missing file can be told from one that may not be read.
        raise type(error)(
            error.errno,
            f"{name} cannot be read ({error.strerror}): give a file that Recording.save wrote",
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{name} is not a recording: give a file that Recording.save wrote")
    version = document.get("version")
    if type(version) is not int or version not in _READABLE:
        raise ValueError(
            f"{name} was written in format {version!r} and this version reads "
            f"formats up to {VERSION}: use the version of lessons_lib that wrote it"
        )
    try:
        return _fields(document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} is a damaged recording ({error}): write it again with Recording.save"
        ) from None


def _check(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _typed(document: dict[str, Any], name: str, kinds: tuple[type, ...]) -> Any:
    _check(name in document, f"{name} is missing")
    value = document[name]
    # True is an int to Python, never to this format.
    good = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    _check(good, f"{name} has the wrong type")
    return value


def _optional(value: Any, kind: type, name: str) -> Any:
    _check(value is None or (isinstance(value, kind) and not isinstance(value, bool)), name)
    return value


def _line(value: Any) -> Line | None:
    if value is None:
        return None
    _check(isinstance(value, dict), "a line is not an object")
    return Line(
        _typed(value, "file", (str,)),
        _typed(value, "number", (int,)),
        _typed(value, "text", (str,)),
        _optional(value.get("cell"), int, "a cell is not a number"),
    )


def _whole(values: Any, name: str) -> tuple[int, ...]:
    good = isinstance(values, list) and all(type(value) is int for value in values)
    _check(good, f"{name} is not a list of whole numbers")
    return tuple(values)


def _site(value: Any) -> Site:
    _check(isinstance(value, dict), "a site is not an object")
    text: Callable[[str], Any] = lambda name: _optional(value.get(name), str, f"{name} is not text")  # noqa: E731
    shape, fused = value.get("shape"), value.get("fused", [])
    _check(isinstance(fused, list) and all(isinstance(f, str) for f in fused), "fused is not text")
    return Site(
        op=text("op"),
        name=text("name"),
        shape=None if shape is None else _whole(shape, "shape"),
        dtype=text("dtype"),
        kind=text("kind"),
        line=_line(value.get("line")),
        forward_line=_line(value.get("forward_line")),
        function=text("function"),
        fused=tuple(fused),
        purpose=_purpose(value.get("purpose") or {}),
        chain=_chain(value.get("chain", [])),
    )


def _chain(value: Any) -> tuple[Line, ...]:
    _check(isinstance(value, list), "a chain is not a list")
    lines = [line for entry in value if (line := _line(entry)) is not None]
    return tuple(lines)


def _purpose(value: Any) -> Purpose:
    _check(isinstance(value, dict), "a purpose is not an object")
    category, phase, before = (value.get(name) for name in ("category", "phase", "before"))
    held = value.get("held", 0)
    _check(type(held) is int, "held is not a number")
    return Purpose(
        category=Category.OTHER if category is None else Category(category),
        phase=None if phase is None else Phase(phase),
        layer=_optional(value.get("layer"), str, "layer is not text"),
        variable=_optional(value.get("variable"), str, "variable is not text"),
        held=held,
        before=None if before is None else Category(before),
        sharers=tuple(_purpose(sharer) for sharer in value.get("sharers", [])),
    )


def _moments(document: dict[str, Any]) -> Floats:
    times = np.array(_typed(document, "times", (list,)), np.float64)
    _check(times.ndim == 1 and bool(np.isfinite(times).all()), "times are not numbers")
    _check(bool((np.diff(times) >= 0).all()), "times run backwards")
    return times


def _integers(document: dict[str, Any], name: str) -> Ints:
    return np.array(_whole(_typed(document, name, (list,)), name), np.int64)


def _spans(value: Any) -> tuple[tuple[float, float], ...]:
    good = isinstance(value, list) and all(
        isinstance(span, list) and len(span) == 2 and all(type(n) in (int, float) for n in span)
        for span in value
    )
    _check(good, "unwatched is not a list of spans of time")
    return tuple((float(begin), float(end)) for begin, end in value)


def _marks(value: Any) -> tuple[StepMark, ...]:
    good = isinstance(value, list) and all(
        isinstance(mark, list)
        and [type(part) for part in mark[1:]]
        in ([str, int, int, int, bool], [str, int, int, int, bool, int])
        and type(mark[0]) in (int, float)
        for mark in value
    )
    _check(good, "step_marks is not a list of moments")
    marks = tuple(StepMark(float(at), Said(said), *rest) for at, said, *rest in value)
    _check(all(a.at <= b.at for a, b in itertools.pairwise(marks)), "steps run backwards")
    return marks


def _folded(value: Any, sites: int) -> Folded | None:
    if value is None:
        return None
    _check(isinstance(value, dict), "folded is not an object")
    counts, sizes = _integers(value, "buffers"), _integers(value, "nbytes")
    times, live = _moments(value), _integers(value, "live")
    _check(len(counts) == len(sizes) == sites, "folded has not a row for each site")
    _check(bool((counts >= 0).all() and (sizes >= 0).all()), "folded has a negative number")
    _check(len(times) == len(live), "the curve's columns differ in length")
    return Folded(counts, sizes, times, live)


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    seconds = float(_typed(document, "seconds", (int, float)))
    _check(0 <= seconds < float("inf"), "seconds are not a length of time")
    notes = _typed(document, "notes", (list,))
    _check(all(isinstance(note, str) for note in notes), "notes are not text")
    versions = _typed(document, "versions", (dict,))
    _check(all(isinstance(v, str) for v in versions.values()), "versions are not text")
    times = _moments(document)
    columns = {name: _integers(document, name) for name in _COLUMNS}
    sites = tuple(_site(value) for value in _typed(document, "sites", (list,)))
    size = len(columns["nbytes"])
    _check(all(len(column) == size for column in columns.values()), "columns differ in length")
    limits = {"site": (0, len(sites)), "born": (-1, len(times)), "died": (-1, len(times))}
    for name, (low, high) in limits.items():
        column = columns[name]
        _check(
            not size or bool((column >= low).all() and (column < high).all()),
            f"{name} is out of range",
        )
    for name in ("nbytes", "reserved"):
        _check(bool((columns[name] >= 0).all()), f"{name} has a negative size")
    site, nbytes, reserved, born, died = (columns[name] for name in _COLUMNS)
    events = np.sort(np.concatenate((born[born >= 0], died[died >= 0])))
    whole = np.array_equal(events, np.arange(len(times)))
    _check(whole, "an event belongs to no buffer, or to two")
    _check(bool(((died < 0) | (died > born)).all()), "a buffer is freed before it is allocated")
    _check(bool(((died >= 0) | (born >= 0)).all()), "a buffer was never there")
    missing = document.get("missing_bytes", 0)
    _check(type(missing) is int and missing >= 0, "missing_bytes is not a size")
    folded = _folded(document.get("folded"), len(sites))
    resident = _optional(document.get("resident_bytes"), int, "resident_bytes is not a number")
    return {
        "label": _typed(document, "label", (str,)),
        "seconds": seconds,
        "exact": _typed(document, "exact", (bool,)),
        "notes": tuple(notes),
        "versions": versions,
        "missing_bytes": missing,
        "resident_bytes": resident,
        "step_marks": _marks(document.get("step_marks", [])),
        "unwatched": _spans(document.get("unwatched", [])),
        "buffers": BufferStore(sites, site, nbytes, reserved, born, died, times, folded),
    }
