"""The calls into TensorFlow that were noted in one profiler session.

`lessons_lib.recording.call_watcher` fills it while a recording runs, and
`lessons_lib.recording.attribution` reads it.  Only facts are noted, never an object of the program,
not even a code object: what the program drops must go while it is watched, as it would without.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lessons_lib.common.source import Place
from lessons_lib.recording.eager_notes import Context, EagerNotes
from lessons_lib.recording.graph_facts import GraphFacts
from lessons_lib.recording.graph_roles import Roles


class Call(NamedTuple):
    """One call into TensorFlow: where from, what for, for a gradient, of what; part of what.

    The chain is that of the user's lines, from the innermost outwards; where it was not asked for,
    the innermost one alone.
    """

    place: Place | None
    kind: str
    forward: Place | None
    context: Context = Context()
    chain: tuple[Place, ...] = ()


@dataclass(slots=True)
class CallLog:
    """The calls of one profiler session.

    Attributes
    ----------
    threads : dict of int to list of Call
        Calls in order of their start, by the number written into the thread's marker.
    doubtful : dict of int to list of int
        By the same number, places of calls that an interrupt may have kept from being made.
    graphs : dict of str to GraphFacts or None
        What is known of the functions that were called, by the function's name.
    definitions : dict of str to Place
        Where the Python function behind a function's name is defined.
    sessions : list of (GraphFacts, Roles or None)
        What is known of the graphs that a ``tf.compat.v1.Session`` ran, and of their operations.
    roles : dict of str to Roles or None
        What the operations of a function make, by the function's name.
    pipelines : dict of GraphFacts to bool
        What is known of the functions of ``tf.data``, and whether these may run.
    notes : EagerNotes
        What the calls were for.
    """

    threads: dict[int, list[Call]] = field(default_factory=dict)
    doubtful: dict[int, list[int]] = field(default_factory=dict)
    graphs: dict[str, GraphFacts | None] = field(default_factory=dict)
    definitions: dict[str, Place] = field(default_factory=dict)
    sessions: list[tuple[GraphFacts, Roles | None]] = field(default_factory=list)
    roles: dict[str, Roles | None] = field(default_factory=dict)
    pipelines: dict[GraphFacts, bool] = field(default_factory=dict)
    notes: EagerNotes = field(default_factory=EagerNotes)

    def following(self) -> CallLog:
        """Give the log of the next session, which knows the functions that can still be called."""
        graphs = dict(self.graphs)  # another thread may call a new one just now
        gone = {name for name, facts in graphs.items() if facts and facts.graph() is None}
        return CallLog(
            graphs={name: facts for name, facts in graphs.items() if name not in gone},
            definitions={n: place for n, place in dict(self.definitions).items() if n not in gone},
            sessions=[known for known in self.sessions if known[0].graph() is not None],
            roles={name: roles for name, roles in dict(self.roles).items() if name not in gone},
        )
