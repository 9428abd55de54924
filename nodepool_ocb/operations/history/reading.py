"""``history``: entries of the journal; and the choice of ``events``."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from nodepool_ocb.operations.history import choosing
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.journal import FindEntries, RefuseUnknownNames, VerbInJournal
from nodepool_ocb.views.history.entries import EntryFilter, EntryRow

MOST: Final = 10**9  # entries of an answer


class HistoryFound(msgspec.Struct, frozen=True):
    """The entries, the newest last. ``verb_known``: an entry has the verb; true also if no verb was asked for."""

    rows: list[EntryRow]
    verb_known: bool = True


class HistoryRead(Operation[HistoryFound], frozen=True, kw_only=True):
    """The newest entries that match each of the criteria. Raises NotFound for a name that does not exist and never did."""

    noun = "history"
    verb = ""
    right = Right.VIEWER
    reads = (*choosing.READS, FindEntries, RefuseUnknownNames, VerbInJournal)

    names: tuple[str, ...] = ()
    selector: str | None = None
    since: float | None = None  # seconds since the epoch
    since_seconds: float | None = None  # before now; not beside ``since``
    by: str | None = None  # LOGIN or LOGIN@HOST
    of_verb: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=0, le=MOST)] | None = None

    def decide(self, situation: Situation) -> Steps[HistoryFound]:
        wanted = EntryFilter(
            names=self.names or None,
            beside=(yield from choosing.beside(self.names)),
            meant=(yield from choosing.meant(self.selector)),
            since=choosing.since(situation, self.since, self.since_seconds),
            by=self.by,
            verb=self.of_verb,
        )
        yield from RefuseUnknownNames(self.names)
        rows = yield from FindEntries(wanted, self.limit)
        if self.of_verb is None or rows:
            return HistoryFound(rows)
        return HistoryFound(rows, verb_known=(yield from VerbInJournal(self.of_verb)))


class EventsChoose(Operation[EntryFilter], frozen=True, kw_only=True):
    """The choice of events to follow: a selector is resolved one time. Raises NotFound for an unknown name if ``strict``."""

    noun = "events"
    verb = ""
    right = Right.VIEWER
    reads = (*choosing.READS, RefuseUnknownNames)

    names: tuple[str, ...] = ()
    selector: str | None = None
    since: float | None = None  # seconds since the epoch
    since_seconds: float | None = None  # before now; not beside ``since``
    strict: bool = True

    def decide(self, situation: Situation) -> Steps[EntryFilter]:
        yield from RefuseUnknownNames(self.names, self.strict)
        return EntryFilter(
            names=self.names or None,
            meant=(yield from choosing.meant(self.selector)),
            since=choosing.since(situation, self.since, self.since_seconds),
        )
