"""``nodepool-ocb history``: changes by user, time and command, from the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import output, times, walking
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import history_selector_option
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.model.journal import DAEMON_VERBS
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.views.history import entries
from nodepool_ocb.views.history.entries import EntryLine, EntryRow
from nodepool_ocb.views.times import shown as local

LINES: Final = 50  # of a table, unless --limit says otherwise
COLUMNS: Final = ("when", "who", "verb", "what", "reason")


@click.command(cls=Verb, operation=HistoryRead)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--since",
    metavar="TIME|DURATION",
    help="Not before this: 2026-01-31T18:00 of local time, or 2h for the last two hours.",
)
@history_selector_option
@click.option("--by", metavar="LOGIN", help="Of this person: LOGIN or LOGIN@HOST.")
@click.option("--verb", metavar="VERB", help='Of this command: "node", or "node set".')
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"The newest N; a table has {LINES} at most.")
def command(
    names: Sequence[str], since: str | None, selector: str | None, by: str | None, verb: str | None, limit: int | None
) -> None:
    """The changes of the cluster, with user, time, command and reason; the newest last.

    NAME is a node, ROLE@FQDN, a role, a deployment or an image. For ROLE@FQDN the changes of its deployments are listed
    too: their states, their rollouts, and the attributes of the role in them. -l stands for the nodes and noderoles that it
    matches now. The newest 5000 entries are kept, each with the changes of one transaction, as far as there is room.
    `-o json` has the whole entries.
    """
    shown = limit or (LINES if output.chosen() == "table" else None)
    at, seconds = moment(since)
    operation = HistoryRead(
        names=tuple(names), selector=selector, since=at, since_seconds=seconds, by=by, of_verb=verb, limit=shown
    )
    answer = perform(operation).answer
    if verb is not None and not answer.verb_known:
        _refuse_unknown(verb)
    found = answer.rows
    output.things(found, COLUMNS, key="number", shown=map(line, found))
    if shown is not None and len(found) == shown:
        output.say(f"these are the newest {shown}; --limit N shows more")
    elif not found:
        output.say("the journal has no such entry")
    if any(row.perhaps is True for row in found):
        wanted = " or ".join(names) or "a wanted name"
        output.say(f"{entries.PERHAPS}: the entry names only some of its changes, and {wanted} may be among the others")


def line(row: EntryRow) -> EntryLine:
    """A row of the table; times are local."""
    return entries.line(row, local(row.record.at))


def moment(text: str | None) -> tuple[float | None, float | None]:
    """The meaning of --since: a time in seconds since the epoch, or a number of seconds before now.

    Raises BadParameter for a text that is neither a time nor a duration.
    """
    if text is None:
        return None, None
    if text[-1:] in "dhms" and text[:1].isdigit():
        return None, times.duration(text)
    try:
        return times.moment(text), None
    except click.BadParameter as wrong:
        raise click.BadParameter(f"{wrong.message}; or as a duration: 2h for the last two hours") from None


def _refuse_unknown(verb: str) -> None:
    """Raises BadParameter for a word that is no command, no noun and no verb of a daemon."""
    root = click.get_current_context().find_root()
    known = {*(title for title, _ in walking.verbs(root)), *DAEMON_VERBS}
    nouns = {each.partition(" ")[0] for each in known}
    if verb not in known | nouns:
        near = did_you_mean(verb, known | nouns)
        raise click.BadParameter(f"there is no command {verb!r}{near}", param_hint="--verb")
