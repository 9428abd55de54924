"""``nodepool-ocb history``: who did what, from the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.history import known
from nodepool_ocb.cli.kit import output, session, times
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.selecting import noderoles_meant, nodes_meant, selector_option
from nodepool_ocb.views.history import entries
from nodepool_ocb.views.history.entries import EntryLine, EntryRow, Wanted
from nodepool_ocb.views.times import shown as local

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

LINES: Final = 50  # of a table, unless --limit says otherwise
COLUMNS: Final = ("when", "who", "verb", "what", "reason")


@click.command(cls=Verb)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--since",
    metavar="TIME|DURATION",
    help="Not before this: 2026-01-31T18:00 of local time, or 2h for the last two hours.",
)
@selector_option
@click.option("--by", metavar="LOGIN", help="Of this person: LOGIN or LOGIN@HOST.")
@click.option("--verb", metavar="VERB", help='Of this command: "node", or "node set".')
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"The newest N; a table has {LINES} at most.")
def command(
    names: Sequence[str], since: str | None, selector: str | None, by: str | None, verb: str | None, limit: int | None
) -> None:
    """Who changed what, when and why; the newest last.

    NAME is a node, ROLE@FQDN, a role, a deployment or an image. For ROLE@FQDN the changes of its deployments are listed
    too: their states, their rollouts, and the attributes of the role in them. -l asks for the nodes and noderoles that it
    means now. The newest 5000 entries are kept, each with the changes of one transaction, as far as there is room.
    `-o json` has all of what they say.
    """
    shown = limit or (LINES if output.chosen() == "table" else None)
    with session.session() as opened:
        opened.sync()
        wanted = Wanted(
            names=names or None,
            beside=beside(opened, names),
            meant=meant(opened, selector),
            since=moment(opened, since),
            by=by,
            verb=verb,
        )
        known.names(opened, names)
        found = entries.newest(known.newest_first(opened), wanted, shown)
        if verb is not None and not found:
            known.verb(opened, verb)
    output.things(found, COLUMNS, key="number", shown=map(line, found))
    if shown is not None and len(found) == shown:
        output.say(f"these are the newest {shown}; --limit N shows more")
    elif not found:
        output.say("the journal has no such entry")
    if any(row.perhaps is True for row in found):
        output.say(f"{entries.PERHAPS}: it changed more than it has room to name, so this may be among it")


def beside(opened: Session, names: Sequence[str]) -> frozenset[str]:
    """The subjects through which a deployment changes a noderole of these names: the deployment, and the role in it."""
    wanted = [name for name in names if "@" in name]
    if not wanted:
        return frozenset()
    world = session.load(opened)
    found = [(name.partition("@")[0], vertex) for name in wanted if (vertex := world.vertex(name)) is not None]
    pairs = [(role, deployment) for role, vertex in found for deployment in world.line(vertex.record.deployment)]
    return frozenset(subject for role, deployment in pairs for subject in (deployment, f"{role} in {deployment}"))


def meant(opened: Session, selector: str | None) -> frozenset[str] | None:
    """The names of the nodes and noderoles that a selector means now; None without one."""
    if selector is None:
        return None
    world = session.load(opened)
    nodes, noderoles = nodes_meant(opened, world, selector), noderoles_meant(opened, world, selector)
    return frozenset((nodes or set()) | (noderoles or set()))


def line(row: EntryRow) -> EntryLine:
    """A row of the table; times are local."""
    return entries.line(row, local(row.record.at))


def moment(opened: Session, text: str | None) -> float | None:
    """Of --since; raises BadParameter for what is neither a time nor a duration."""
    if text is None:
        return None
    if text[-1:] in "dhms" and text[:1].isdigit():
        return opened.now() - times.duration(text)
    try:
        return times.moment(text)
    except click.BadParameter as wrong:
        raise click.BadParameter(f"{wrong.message}; or as a duration: 2h for the last two hours") from None
