"""The journal of one call (promise 14): the entry of each transaction is written in that transaction.

A ``Journal`` keeps the values that the changes of its call replaced, so that entries and rows show them as before → after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Change, Delete, Json, Set
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.views import changes as shown
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.history import noting, placing
from nodepool_ocb.views.history.placing import NotedDeployment

if TYPE_CHECKING:
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session


class Journal:
    """The entries of one call."""

    def __init__(self, call: Call) -> None:
        self.verb = call.verb
        self.writes: Collection[str] | None = None  # the kinds of changes that the verb declares, if it does
        self.plan: str | None = None  # a remark on the plan that the call carries out
        self.cause: str | None = None  # of the transactions that follow, beside the reason of the call
        self._call = call
        self._before: dict[tuple[str, int], Json] = {}
        self._secret: set[str] = set()
        self._named: dict[str, ChangeRow] = {}
        self._written = 0

    def rows(self, changes: Iterable[Change]) -> tuple[ChangeRow, ...]:
        """The changes as people name them, with the values that they replaced, as far as these were read.

        ``entry`` calls it before a transaction is written, so a kind that is not declared is never written.
        """
        from nodepool_ocb.store.world.paths import parse

        found = shown.rows(changes, parse, self._before)
        undeclared = {row.kind for row in found}.difference(self.writes) if self.writes is not None else ()
        assert not undeclared, f"`writes` of {self.verb} lacks {undeclared}"
        if not self._secret:
            return found
        covered = partial(concealing.covers, self._secret)
        return tuple(shown.concealed(row, covered) for row in found)

    def declare(self, world: World) -> None:
        """Note the places that roles declare as secret: rows and entries conceal their values."""
        self._secret.update(concealing.of_world(world))

    def remember(self, opened: Session, changes: Sequence[Change]) -> dict[str, Znode]:
        """Read the records that a transaction of a dry run would replace or delete; by path."""
        found = opened.get_many([each.path for each in changes if isinstance(each, Set | Delete)])
        there = [znode for znode in found if znode is not None]
        self._remember(changes, there)
        return {znode.path: znode for znode in there}

    def named(self, change: str, kind: str, names: Iterable[str]) -> tuple[ChangeRow, ...]:
        """Rows for transactions with changes that have no name of their own."""
        found = _rows(change, kind, names)
        self._named.update({row.name: row for row in found})
        return found

    def entry(self, opened: Session, changes: Sequence[Change], replaced: Sequence[Znode]) -> Entry | None:
        """The entry of a transaction; None if it changes nothing that people name."""
        if any(isinstance(change, Append) for change in changes):
            return None
        changes = [change for change in changes if not change.path.startswith(f"{paths.CALLS}/")]  # marks of calls
        if not changes:
            return None
        self._remember(changes, replaced)
        found = self.rows(noting.worth(changes)) or tuple(self._named.values())
        return self._entry(opened, found, self._places(opened, changes, found)) if found else None

    def written(self) -> None:
        """Count an entry that was committed: the next one is the next part of this call."""
        self._written += 1

    def done(self, opened: Session, change: str, kind: str, names: Iterable[str]) -> None:
        """Write the entry of an action outside ZooKeeper; raises the errors of ``session.commit``.

        Nothing is written by a user without the right to add entries. Later transactions of the call do not repeat the entry.
        """
        from nodepool_ocb.store.journal import Journaled

        if isinstance(opened, Journaled) and not opened.noting:
            return
        opened.ensure(paths.JOURNAL_ENTRIES)
        opened.commit([Append(paths.JOURNAL_ENTRIES, self._entry(opened, _rows(change, kind, names)))])
        self.written()

    def _places(
        self, opened: Session, changes: Sequence[Change], found: Iterable[ChangeRow]
    ) -> dict[str, NotedDeployment | None]:
        """The deployments of the changed nodes and noderoles; those that the changes do not have are read."""
        from nodepool_ocb.store.client import codec

        places = placing.of_changes(changes, self._before)
        owners = dict.fromkeys(owner for row in found if (owner := placing.owner(row.kind, row.name)) is not None)
        for znode in opened.get_many([path for path in owners if path not in places]):
            if znode is not None:
                with suppress(Invalid):
                    document = codec.document(znode)
                    places[znode.path] = NotedDeployment(str(document.get("deployment", placing.DEFAULT)))
        return places

    def _entry(
        self, opened: Session, found: Iterable[ChangeRow], places: Mapping[str, NotedDeployment | None] = {}
    ) -> Entry:
        bare = Entry(
            at=opened.now(),
            login=self._call.login,
            host=self._call.host,
            verb=self.verb,
            reason="; ".join(filter(None, (self._call.reason, self.plan, self.cause))) or None,
            part=self._written + 1,
        )
        return noting.entry(bare, found, places)

    def _remember(self, changes: Sequence[Change], there: Iterable[Znode]) -> None:
        """Values at the versions that were decided from; unreadable ones are left out."""
        from nodepool_ocb.store.client import codec

        meant = {(each.path, each.version) for each in changes if isinstance(each, Set)}
        for znode in there:
            if (znode.path, znode.version) in meant:
                try:
                    self._before[znode.path, znode.version] = codec.document(znode)
                except Invalid:
                    continue


def _rows(change: str, kind: str, names: Iterable[str]) -> tuple[ChangeRow, ...]:
    return tuple(ChangeRow(change=change, kind=kind, name=name, state=None) for name in names)
