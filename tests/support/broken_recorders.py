"""Recorders that are wrong on purpose, each in one way, to show that the checks can fail.

Each is the real recorder with one fault put between TensorFlow's profile and the rest, or into
the matching of allocations with releases.  `FAULTS` says which checks must notice a fault; others
may, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

from lessons_lib.recording import profiler
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording
from lessons_lib.recording.segment import MemoryEvent, Segment

Events = list[MemoryEvent]
_POOL = "bfc_cpu_allocator_for_gpu"


def missed_deallocation(events: Events) -> Events:
    """Overlook every third release."""
    kept, releases = [], 0
    for event in events:
        releases += not event.allocates
        if event.allocates or releases % 3:
            kept.append(event)
    return kept


def dropped_allocation(events: Events) -> Events:
    """Overlook every third allocation."""
    kept, births = [], 0
    for event in events:
        births += event.allocates
        if not event.allocates or births % 3:
            kept.append(event)
    return kept


def last_event_dropped(events: Events) -> Events:
    """Stop one event too early."""
    return events[:-1]


def rounding_counted(events: Events) -> Events:
    """Take what the allocator set aside for what was asked for."""
    for event in events:
        event.requested = event.reserved
    return events


def address_reused_wrongly(events: Events) -> Events:
    """Take a buffer for the first one that lay at its address."""
    first: dict[int, int] = {}
    for event in events:
        event.requested = first.setdefault(event.address, event.requested)
    return events


def releases_matched_by_size(events: Events) -> Events:
    """Give a release the size of the allocation before it."""
    size = 0
    addresses: dict[int, int] = {}
    for event in events:
        if event.allocates:
            size = event.requested
        else:
            address = addresses.pop(event.address, event.address)
            event.requested = size or event.requested
            event.address = -address  # matches nothing, so the event's own size counts
    return events


def temporaries_forgotten(events: Events) -> Events:
    """Count only the outputs of operations."""
    temporary = {event.address for event in events if event.kind == "temp"}
    return [event for event in events if event.address not in temporary]


def one_thread_only(events: Events) -> Events:
    """Look only at the thread that did most."""
    threads = [event.thread for event in events]
    most = max(set(threads), key=threads.count, default=0)
    return [event for event in events if event.thread == most]


def releases_first(events: Events) -> Events:
    """Put releases before the allocation that came just before them."""
    for i in range(len(events) - 1):
        a, b = events[i], events[i + 1]
        if a.allocates and not b.allocates and a.address != b.address:
            a.time, b.time = b.time, a.time
            events[i], events[i + 1] = b, a
    return events


def small_ones_not_seen(events: Events) -> Events:
    """See nothing under 256 KiB, as without the allocator setting."""
    return [event for event in events if event.requested >= 256 * 1024]


def old_releases_ignored(events: Events) -> Events:
    """Leave out the release of what was born before the block."""
    known = set()
    kept = []
    for event in events:
        if event.allocates:
            known.add(event.address)
        if event.allocates or event.address in known:
            kept.append(event)
    return kept


@dataclass(frozen=True)
class Fault:
    """A way to be wrong, and the checks that must notice it."""

    spoil: Callable[[Events], Events]
    noticed_by: frozenset[str]

    @contextlib.contextmanager
    def record(self) -> Iterator[Recording]:
        """Record as the faulty recorder would."""
        real = profiler.read_profile

        def read(data: bytes) -> Segment:
            segment = real(data)
            segment.memory = self.spoil(segment.memory)
            # A recorder that loses events has no reason to notice that they are gone.
            for event in segment.memory:
                event.allocator = ""
            return segment

        with mock.patch.object(profiler, "read_profile", read), record() as recording:
            yield recording


def _fault(spoil: Callable[[Events], Events], *noticed_by: str) -> Fault:
    return Fault(spoil, frozenset(noticed_by))


FAULTS = {
    fault.spoil.__name__: fault
    for fault in (
        _fault(missed_deallocation, "names_rebound", "an_address_used_again", "an_eager_loop"),
        _fault(dropped_allocation, "names_kept", "a_list_that_grows", "threads"),
        _fault(last_event_dropped, "odd_sizes", "a_hundred_mebibytes", "forwarding"),
        _fault(rounding_counted, "odd_sizes", "one_element_of_each_type", "ragged"),
        _fault(address_reused_wrongly, "an_address_used_again"),
        _fault(releases_matched_by_size, "names_deleted", "born_before_and_freed_inside"),
        _fault(temporaries_forgotten, "temporaries"),
        _fault(one_thread_only, "threads"),
        _fault(releases_first, "names_rebound", "an_eager_loop", "names_deleted"),
        _fault(small_ones_not_seen, "odd_sizes", "views", "a_tape", "windows"),
        _fault(old_releases_ignored, "born_before_and_freed_inside", "views", "windows"),
    )
}
