"""``nodepool-ocb events``: entries of the journal and changes of states, as they happen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import click

from nodepool_ocb.cli.history.history import line, moment
from nodepool_ocb.cli.kit import output, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import distant_server, perform, performer
from nodepool_ocb.cli.kit.selecting import history_selector_option
from nodepool_ocb.operations.history.events import Event, events
from nodepool_ocb.operations.history.reading import EventsChoose
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.views.history.entries import EntryFilter
from nodepool_ocb.views.history.happenings import StateEvent
from nodepool_ocb.views.times import shown as local


@click.command(cls=Verb, operation=EventsChoose)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-f", "--follow", is_flag=True, help="Go on with new entries, until Ctrl-C.")
@click.option("--after", type=int, metavar="NUMBER", help="Begin with the entries above this number, of those kept.")
@click.option("--after-pool", type=int, metavar="NUMBER", help="The same for the entries of launchers.")
@click.option("--since", metavar="TIME|DURATION", help="Begin with the entries since then: a local time, or 2h.")
@history_selector_option
def command(
    names: Sequence[str],
    follow: bool,
    after: int | None,
    after_pool: int | None,
    since: str | None,
    selector: str | None,
) -> None:
    """Entries of the journal as they come, and with --follow also changes of states; -o json has one object a line.

    NAME and -l are as of `history`; -l is resolved once, at the start. No kept entry is left out and none comes twice, also if
    the connection breaks; after an interruption, go on with --after and the number of the last entry. Entries of launchers have
    numbers of their own, for --after-pool. A state that changes again before it is read is not shown.
    """
    numbered = after is not None or after_pool is not None
    if numbered and since is not None:
        raise click.UsageError("give --after or --since, not both")
    if not follow and not numbered and since is None:
        raise click.UsageError(
            "give --follow, or --since or --after for entries of the journal; the newest: nodepool-ocb history"
        )
    at, seconds = moment(since)
    operation = EventsChoose(names=tuple(names), selector=selector, since=at, since_seconds=seconds, strict=not follow)
    for found in _found(perform(operation).answer, after, after_pool, follow):
        for event in found:
            _print(event)


def _found(wanted: EntryFilter, after: int | None, after_pool: int | None, follow: bool) -> Iterator[Sequence[Event]]:
    used = performer()
    if isinstance(used, Performer):
        found = events(used, wanted, after, after_pool)
        return found if follow else islice(found, 1)
    from nodepool_ocb.remote import events as distant

    return distant.events(distant_server(used), wanted, after, after_pool, follow=follow)


def _print(event: Event) -> None:
    if output.chosen() == "json":
        output.line(event)
    elif isinstance(event, StateEvent):
        terminal.text(f"{local(event.at)}  {event.kind} {event.name}: {event.old or '-'} -> {event.new or '-'}")
    else:
        shown = line(event)
        reason = f" ({shown.reason})" if shown.reason else ""
        terminal.text(f"{shown.when}  {shown.who} {shown.verb}: {shown.what}{reason}")
