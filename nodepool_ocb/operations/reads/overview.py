"""The reads of ``status`` that no other verb needs: each gives unreadable records as data, and sends no note."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Denied, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, DaemonPause
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.operations.reads.pools import members
from nodepool_ocb.pool.views import PoolView

if TYPE_CHECKING:
    from nodepool_ocb.model.journal import Webhook
    from nodepool_ocb.operations.performer import Reader


class FoundWorkers(msgspec.Struct, frozen=True):
    """The daemons with readable records, by id; ``unread``: path of another record → reason."""

    builders: Mapping[str, Daemon]
    launchers: Mapping[str, Daemon]
    unread: Mapping[str, str]


class InspectWorkers(Lookup[FoundWorkers], frozen=True):
    """The builders and the launchers that have a session. A world has the other daemons."""

    records = "daemons"

    def answer(self, reader: Reader) -> FoundWorkers:
        from nodepool_ocb.store import daemons

        unread: dict[str, str] = {}

        def running(kind: ClientKind) -> Mapping[str, Daemon]:
            found = daemons.read(reader.session, kind, unread)
            return {id: record for id, record in found.items() if record is not None}

        return FoundWorkers(running(ClientKind.BUILDER), running(ClientKind.LAUNCHER), unread)


class InspectPools(Lookup[PoolView], frozen=True):
    """The readable requests, nodes of pools and registered pools, without the holders of locks. A client without the right to
    read them gets none.
    """

    records = "requests for nodes, nodes of pools, launchers"

    def answer(self, reader: Reader) -> PoolView:
        from nodepool_ocb.store.pool.tables import PoolNodeTable, RequestTable

        requests, nodes = RequestTable(), PoolNodeTable()
        with suppress(Denied):
            for table in (requests, nodes):
                table.read(reader.session, reader.session.children(table.folder) or (), locks=False)
            return PoolView(requests=requests.views, nodes=nodes.views, members=tuple(members(reader.session, {})))
        return PoolView()


class InspectRecords(Lookup[Mapping[str, str]], frozen=True):
    """The unreadable records beside those of a world and of images: path → reason."""

    records = "rollouts, runs of tasks, task lists, journal, pauses, locks, attributes and runs of noderoles"

    locks: tuple[str, ...]  # the paths of the locks to look at
    nodes: bool  # also the attributes and runs of all noderoles

    def answer(self, reader: Reader) -> Mapping[str, str]:
        from nodepool_ocb.store import quarantine

        return quarantine.at_a_glance(reader.session, self.locks, nodes=self.nodes)


class ReadDaemonPauses(Lookup[Mapping[tuple[str, str], DaemonPause]], frozen=True):
    """The readable pauses of daemons, by kind and host."""

    records = "pauses of daemons"

    def answer(self, reader: Reader) -> Mapping[tuple[str, str], DaemonPause]:
        from nodepool_ocb.store import daemons

        return daemons.pauses(reader.session)


class FoundWebhook(msgspec.Struct, frozen=True):
    """``record``: the progress of the webhook, if there is one; ``unread``: its path → the reason why it cannot be read."""

    record: Webhook | None
    unread: Mapping[str, str]


class ReadWebhook(Lookup[FoundWebhook], frozen=True):
    """The progress of the webhook."""

    records = "the webhook"

    def answer(self, reader: Reader) -> FoundWebhook:
        from nodepool_ocb.store import journal

        try:
            return FoundWebhook(journal.cursor(reader.session)[0], {})
        except Invalid as unreadable:
            return FoundWebhook(None, {paths.WEBHOOK: str(unreadable).removeprefix(f"{paths.WEBHOOK}: ")})
