"""The cluster itself: its record, its first records, and the rights of its znodes. Two procedures write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.model.records import Change, Cluster, Create
from nodepool_ocb.operations.operation import Lookup, Procedure
from nodepool_ocb.views.cluster import RightsRow

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.acls import AclDifference, Walk


class FoundCluster(msgspec.Struct, frozen=True):
    """The record of the cluster, and its place in ZooKeeper for people."""

    record: Cluster
    place: str


class ReadCluster(Lookup[FoundCluster], frozen=True):
    """The cluster of this place. Raises NoCluster if there is none, and Invalid if its record cannot be decoded."""

    records = "the cluster"

    def answer(self, reader: Reader) -> FoundCluster:
        from nodepool_ocb.store import clusters

        return FoundCluster(clusters.current(reader.session), clusters.where(reader.session))


class FirstRecords(Lookup[list[Create]], frozen=True):
    """The transaction that makes a cluster, with a new id; empty if a cluster exists.

    Raises Conflict if there is a part of a cluster without its record.
    """

    records = "the cluster"

    admin_domain: str | None
    now: float

    def answer(self, reader: Reader) -> list[Create]:
        from nodepool_ocb.store import clusters

        return clusters.founding(reader.session, self.admin_domain, self.now)


class RenewedKey(Lookup[list[Change]], frozen=True):
    """The transaction that completes the key for logs, or puts a new one first; empty if nothing is missing."""

    records = "the cluster, the key for logs"

    new: bool

    def answer(self, reader: Reader) -> list[Change]:
        from nodepool_ocb.store import logkeys

        return logkeys.renewal(reader.session, new=self.new)


class EnsureParents(Procedure[None], frozen=True):
    """Make the znodes that daemons need and may not make, if they are absent."""

    def carry_out(self, reader: Reader) -> None:
        from nodepool_ocb.store import clusters

        clusters.parents(reader.session)


class MissingParents(Lookup[tuple[str, ...]], frozen=True):
    """The paths that ``EnsureParents`` would make."""

    records = "the cluster"

    def answer(self, reader: Reader) -> tuple[str, ...]:
        from nodepool_ocb.store import clusters

        return tuple(path for path in clusters.PARENTS if reader.session.get(path) is None)


class FoundRights(msgspec.Struct, frozen=True):
    """``rows``: the znodes with other rights than configured; ``denied``: why a znode was not seen or not set, for each."""

    rows: tuple[RightsRow, ...]
    denied: tuple[str, ...]


class CompareRights(Lookup[FoundRights], frozen=True):
    """The rights of all znodes, compared with the configuration of the performer's host. Raises Invalid."""

    records = "rights of all znodes"

    def answer(self, reader: Reader) -> FoundRights:
        walk = _walk(reader)
        return _found(walk, walk.differing())


class RightsOfPeople(Lookup[None], frozen=True):
    """Raises Denied if the user of the performer is not the user of people: that user alone sets rights."""

    records = "the user of the configuration"

    def answer(self, reader: Reader) -> None:
        from nodepool_ocb.store.client import access

        access.refuse_all_but_people(reader.performer.settings().zookeeper)


class SetRights(Procedure[FoundRights], frozen=True):
    """Set the rights of all znodes as configured; the rows are those that were set, and an entry of the journal names them.

    Raises Invalid. ``RightsOfPeople`` comes first.
    """

    records = "rights of all znodes"

    def carry_out(self, reader: Reader) -> FoundRights:
        walk = _walk(reader)
        found = _found(walk, walk.mended())
        if found.rows:
            reader.performer.journal.done(reader.session, "change", "rights", [row.path for row in found.rows])
        return found


def _walk(reader: Reader) -> Walk:
    from nodepool_ocb.store import acls
    from nodepool_ocb.store.client import access

    return acls.Walk(reader.session, access.Acls(reader.performer.settings().zookeeper, reader.session.tree))


def _found(walk: Walk, differences: Iterable[AclDifference]) -> FoundRights:
    from nodepool_ocb.store.client.access import words

    rows = tuple(
        RightsRow(path=each.path, found=tuple(words(each.found)), expected=tuple(words(each.expected)))
        for each in differences
    )
    return FoundRights(rows, tuple(map(str, walk.denied.values())))
