"""Following of ``events``: new entries of the journal, and changes of the states of nodes and noderoles, as they happen."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.views.history import entries, happenings
from nodepool_ocb.views.history.entries import EntryFilter, EntryRow
from nodepool_ocb.views.history.happenings import StateEvent, States

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

Event: TypeAlias = EntryRow | StateEvent


def events(
    performer: Performer, wanted: EntryFilter, after: int | None, after_pool: int | None = None
) -> Iterator[Sequence[Event]]:
    """The wanted entries above the number ``after``, then new events after every change.

    Each entry comes one time, also after an outage of ZooKeeper. Without ``after`` and ``wanted.since`` older entries are
    left out. ``after_pool`` is the number for the entries of launchers. The first look has no changes of states.
    """

    def make(opened: Session, wake: Callable[[], None]) -> _EventSource:
        return _EventSource(performer, opened, wake, wanted, {False: after, True: after_pool})

    return Following(performer, None).changes(make)


class _EventSource:
    """The wanted events since the last look. A look that raises changes nothing, so its events come with the next one."""

    def __init__(
        self,
        performer: Performer,
        opened: Session,
        wake: Callable[[], None],
        wanted: EntryFilter,
        after: Mapping[bool, int | None],
    ) -> None:
        from nodepool_ocb.store.world.cache import Cache

        self._note = performer.caller.note
        self._opened = opened
        self._cache = Cache(opened, World(), wake)  # it watches the journal, too
        self._wanted = wanted
        self._states: States = {}
        self._moved = False
        self._last: dict[bool, int | None] = dict(after)  # by whether the entries are those of launchers

    def load(self) -> list[Event]:
        self._cache.load()
        self._states = happenings.states(self._cache.world)
        return list(self._entries())

    def refresh(self) -> list[Event]:
        return self._look(changed=bool(self._cache.refresh()))

    def sweep(self) -> list[Event]:
        return self._look(changed=bool(self._cache.sweep()))

    def _look(self, *, changed: bool) -> list[Event]:
        self._moved = self._moved or changed
        states = happenings.states(self._cache.world) if self._moved else self._states
        moved = happenings.changed(self._states, states, self._opened.now())
        found: list[Event] = list(self._entries())
        found += [event for event in moved if self._wanted.about(event.name)]
        self._states, self._moved = states, False
        return found

    def _entries(self) -> list[EntryRow]:
        """The new entries of both folders, by their times."""
        people, people_last = self._of_folder(pool=False)
        launchers, launchers_last = self._of_folder(pool=True)
        self._last = {False: people_last, True: launchers_last}
        return list(heapq.merge(people, launchers, key=lambda row: row.record.at))

    def _of_folder(self, *, pool: bool) -> tuple[list[EntryRow], int]:
        """The new entries of a folder, and the last number."""
        from nodepool_ocb.store import journal

        numbers, before = journal.numbers(self._opened, pool), self._last[pool]
        last = self._begin(numbers) if before is None else before
        fresh = [number for number in numbers if number > last]
        if before is not None and fresh and fresh[0] > last + 1:
            kind = "entries of launchers" if pool else "entries"
            self._note(f"warning: {fresh[0] - last - 1} {kind} after number {last} are not kept any more")
        found, secret = [], partial(concealing.covers, concealing.of_world(self._cache.world))
        for read in journal.read(self._opened, fresh, pool):
            if read.entry is None:
                self._note(f"warning: this entry cannot be read: {read.problem}")
                continue
            record = entries.concealed(read.entry, secret)
            row = EntryRow(number=read.number, record=record, pool=pool or msgspec.UNSET)
            if (chosen := entries.chosen(row, self._wanted)) is not None:
                found.append(chosen)
        return found, max([last, *fresh])

    def _begin(self, numbers: Sequence[int]) -> int:
        return -1 if self._wanted.since is not None else max(numbers, default=-1)
