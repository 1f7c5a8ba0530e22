"""`op_atlas`: what the operations that people use do with memory, measured on this machine.

Every entry is measured with `op_memory` on inputs of about 1 MiB (see `inputs`); what is measured
is listed in `catalogue` and `layers`.  Nothing is looked up in a table of known results.
Sizes are bytes.  The atlas says what an operation does alone: in a larger graph it may be fused
with its neighbours.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lessons_lib.common.progress_bar import progress_bar
from lessons_lib.common.results import Result, html_table, notes_table, summary_html
from lessons_lib.common.runtime import require_home_process
from lessons_lib.common.units import format_bytes
from lessons_lib.instruments.operations.catalogue import OPERATIONS, Entry
from lessons_lib.instruments.operations.inputs import OperationInputs
from lessons_lib.instruments.operations.layers import layers
from lessons_lib.instruments.operations.op_memory import OpMemory, Verdict, study

__all__ = ["AtlasRow", "OpAtlas", "op_atlas"]

MODES = ("eager", "graph", "xla")


@dataclass(frozen=True)
class AtlasRow:
    """One operation of the atlas.

    Attributes
    ----------
    group : str
        What kind of operation it is.
    memory : OpMemory
        What was measured; its `op` is the row's name.
    """

    group: str
    memory: OpMemory

    @property
    def name(self) -> str:
        """The operation, as one writes it."""
        return self.memory.op


@dataclass(frozen=True, repr=False)
class OpAtlas(Result):
    """What operations do with memory.

    Attributes
    ----------
    rows : tuple of AtlasRow
        In the order of their groups.
    notes : tuple of str
        What a reader must know, in sentences.
    """

    rows: tuple[AtlasRow, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[AtlasRow]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> OpMemory:
        for row in self.rows:
            if row.name == name:
                return row.memory
        raise KeyError(
            f"the atlas has no entry {name!r}: look through `[row.name for row in atlas]`"
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in order."""
        return tuple(dict.fromkeys(row.group for row in self.rows))

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that were measured."""
        return tuple(m for m in MODES if any(m in row.memory.modes for row in self.rows))

    def filter(
        self,
        *,
        group: str | None = None,
        verdict: Verdict | str | None = None,
        mode: str | None = None,
        name: str | None = None,
    ) -> OpAtlas:
        """Pick rows.

        Parameters
        ----------
        group : str, optional
            Only this group.
        verdict : Verdict or str, optional
            Only operations with this verdict, in `mode`, or else in any mode.
        mode : str, optional
            ``"eager"``, ``"graph"`` or ``"xla"``: only operations that run there.
        name : str, optional
            Only operations whose name holds this text, in any case.

        Returns
        -------
        OpAtlas

        Raises
        ------
        ValueError
            If there is no such group, verdict or mode.
        """
        if group is not None and group not in self.groups:
            raise ValueError(f"there is no group {group!r}: choose one of {_listed(self.groups)}")
        if mode is not None and mode not in MODES:
            raise ValueError(f"there is no mode {mode!r}: choose one of {_listed(MODES)}")
        wanted = None if verdict is None else _verdict(verdict)

        def fits(row: AtlasRow) -> bool:
            costs = row.memory.modes
            seen = costs.values() if mode is None else [costs[m] for m in costs if m == mode]
            return (
                (group is None or row.group == group)
                and bool(seen)
                and (wanted is None or any(cost.verdict is wanted for cost in seen))
                and (name is None or name.casefold() in row.name.casefold())
            )

        return OpAtlas(tuple(filter(fits, self.rows)), self.notes)

    def __repr__(self) -> str:
        return f"<OpAtlas: {len(self.rows)} operations in {len(self.groups)} groups>"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _verdict(verdict: Verdict | str) -> Verdict:
    for known in Verdict:
        if verdict in (known, known.value) or str(verdict).casefold() == known.name.casefold():
            return known
    raise ValueError(f"there is no verdict {verdict!r}: choose one of {_listed(Verdict)}")


@summary_html.register
def _(result: OpAtlas) -> str:
    def cells(memory: OpMemory, mode: str) -> tuple[str, str, str]:
        cost = memory.modes.get(mode)
        if cost is None:
            return "cannot run", "", ""
        return (
            str(cost.verdict),
            format_bytes(cost.output_bytes),
            format_bytes(cost.temporary_bytes),
        )

    headers = ["operation", "group"]
    for mode in result.modes:
        headers += [mode, "output", "temporaries"]
    rows = [
        (row.name, row.group, *(cell for m in result.modes for cell in cells(row.memory, m)))
        for row in result
    ]
    return html_table(headers, rows, align="ll" + "lrr" * len(result.modes)) + notes_table(
        result.notes
    )


def op_atlas(
    groups: str | Sequence[str] = (), *, xla: bool = False, progress: bool = True
) -> OpAtlas:
    """Measure what the operations that people use do with memory.

    Parameters
    ----------
    groups : str or sequence of str
        Only these groups; by default all.
    xla : bool
        Whether to measure under XLA as well, which takes a few times longer.
    progress : bool
        Whether to show a progress bar, in a notebook or a terminal.

    Returns
    -------
    OpAtlas

    Raises
    ------
    ValueError
        If there is no such group.

    Examples
    --------
    >>> atlas = op_atlas()
    >>> atlas.filter(group="indexing", verdict="shares its input")
    """
    require_home_process()
    chosen = _chosen([*OPERATIONS, *layers()], groups)
    inputs = OperationInputs()
    rows: list[AtlasRow] = []
    notes: list[str] = []
    try:
        bar = progress_bar("measuring operations", chosen) if progress else None
        for entry in chosen if bar is None else bar:
            function, given = entry.prepare(inputs)
            try:
                memory = study(function, tuple(given), xla=xla, label=entry.name)
            except Exception as error:  # an operation may be missing in some build or version
                first = (str(error).strip().splitlines() or [""])[0]
                notes.append(f"{entry.name} was left out: {type(error).__name__}: {first}")
                continue
            rows.append(AtlasRow(entry.group, memory))
            notes.extend(memory.notes)
    finally:
        gc.collect()  # graphs are in reference cycles
    return OpAtlas(tuple(rows), tuple(notes))


def _chosen(entries: list[Entry], groups: str | Sequence[str]) -> list[Entry]:
    try:
        wanted = [groups] if isinstance(groups, str) else list(groups)
    except TypeError:
        raise TypeError(
            f"groups are names, not {groups!r}: give one such as 'indexing', or a list of them"
        ) from None
    known = list(dict.fromkeys(entry.group for entry in entries))
    for group in wanted:
        if group not in known:
            raise ValueError(f"there is no group {group!r}: choose from {_listed(known)}")
    return [entry for entry in entries if not wanted or entry.group in wanted]
