"""The reads of ``status`` that no other verb needs: each gives unreadable records as data, and sends no note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, DaemonPause
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.model.journal import Webhook
    from nodepool_ocb.operations.performer import Reader


class FoundBuilders(msgspec.Struct, frozen=True):
    """``running``: the builders with readable records, by id; ``unread``: path of another record → reason."""

    running: Mapping[str, Daemon]
    unread: Mapping[str, str]


class InspectBuilders(Lookup[FoundBuilders], frozen=True):
    """The builders that have a session."""

    records = "daemons"

    def answer(self, reader: Reader) -> FoundBuilders:
        from nodepool_ocb.store import daemons

        unread: dict[str, str] = {}
        found = daemons.read(reader.session, ClientKind.BUILDER, unread)
        return FoundBuilders({id: record for id, record in found.items() if record is not None}, unread)


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
