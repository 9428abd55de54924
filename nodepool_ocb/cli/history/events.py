"""``nodepool-ocb events``: what happens: entries of the journal, and the states of nodes and noderoles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.history import known
from nodepool_ocb.cli.history.history import line, meant, moment
from nodepool_ocb.cli.kit import output, terminal
from nodepool_ocb.cli.kit.follow import Following
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.views.history import entries, happenings
from nodepool_ocb.views.history.entries import EntryRow, Wanted
from nodepool_ocb.views.history.happenings import StateEvent, States
from nodepool_ocb.views.times import shown as local

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

Event = EntryRow | StateEvent


@click.command(cls=Verb)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until somebody ends it.")
@click.option("--after", type=int, metavar="NUMBER", help="Begin with the entries above this number, of those kept.")
@click.option("--since", metavar="TIME|DURATION", help="Begin with the entries since then: a local time, or 2h.")
@selector_option
def command(names: Sequence[str], follow: bool, after: int | None, since: str | None, selector: str | None) -> None:
    """Entries of the journal as they come, and with --follow also changes of states; -o json has one object a line.

    NAME and -l are as of `history`; what -l means is found out once. No entry is left out and none comes twice, also where the
    connection breaks; who was cut off goes on with --after and the number of the last. Of states only those are seen that last
    until they are read.
    """
    if after is not None and since is not None:
        raise click.UsageError("give --after or --since, not both")
    if not follow and after is None and since is None:
        raise click.UsageError(
            "give --follow, or --since or --after for what is in the journal; history has the newest"
        )

    def make(opened: Session, wake: Callable[[], None]) -> _Source:
        known.names(opened, names, strict=not follow)
        wanted = Wanted(names=names or None, meant=meant(opened, selector), since=moment(opened, since))
        return _Source(opened, wake, wanted, after)

    for events in Following(None).changes(make):
        for event in events:
            _print(event)
        if not follow:
            return


def _print(event: Event) -> None:
    if output.chosen() == "json":
        output.line(event)
    elif isinstance(event, StateEvent):
        terminal.text(f"{local(event.at)}  {event.kind} {event.name}: {event.old or '-'} -> {event.new or '-'}")
    else:
        shown = line(event)
        reason = f" ({shown.reason})" if shown.reason else ""
        terminal.text(f"{shown.when}  {shown.who} {shown.verb}: {shown.what}{reason}")


class _Source:
    """What is new since the last look, and wanted; the first look has entries alone.

    Where a look raises, nothing counts as seen.
    """

    def __init__(self, opened: Session, wake: Callable[[], None], wanted: Wanted, after: int | None) -> None:
        from nodepool_ocb.store.world.cache import Cache

        self._opened = opened
        self._cache = Cache(opened, World(), wake)  # its watch is on the journal too
        self._wanted = wanted
        self._states: States = {}
        self._moved = False
        self._last = after

    def load(self) -> list[Event]:
        self._cache.load()
        self._states = happenings.states(self._cache.world)
        return list(self._entries())

    def refresh(self) -> list[Event]:
        return self._look(bool(self._cache.refresh()))

    def sweep(self) -> list[Event]:
        return self._look(bool(self._cache.sweep()))

    def _look(self, touched: bool) -> list[Event]:
        self._moved = self._moved or touched
        states = happenings.states(self._cache.world) if self._moved else self._states
        changed = happenings.changed(self._states, states, self._opened.now())
        found: list[Event] = list(self._entries())
        found += [event for event in changed if self._wanted.about(event.name)]
        self._states, self._moved = states, False
        return found

    def _entries(self) -> list[EntryRow]:
        from nodepool_ocb.store import journal

        numbers = journal.numbers(self._opened)
        last = self._begin(numbers) if self._last is None else self._last
        fresh = [number for number in numbers if number > last]
        if self._last is not None and fresh and fresh[0] > last + 1:
            output.say(f"warning: {fresh[0] - last - 1} entries after number {last} are not kept any more")
        found, secret = [], partial(concealing.covers, concealing.of_world(self._cache.world))
        for read in journal.read(self._opened, fresh):
            if read.entry is None:
                output.say(f"warning: this entry cannot be read: {read.problem}")
                continue
            row = EntryRow(number=read.number, record=entries.concealed(read.entry, secret))
            if (chosen := entries.chosen(row, self._wanted)) is not None:
                found.append(chosen)
        self._last = max([last, *fresh])
        return found

    def _begin(self, numbers: Sequence[int]) -> int:
        return -1 if self._wanted.since is not None else max(numbers, default=-1)
