"""Daemons that have a session, and the pauses of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, DaemonPause
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class RunningDaemons(msgspec.Struct, frozen=True):
    """``by_kind``: kind → id → record, None for a record that cannot be read; ``unread``: path → reason."""

    by_kind: Mapping[str, Mapping[str, Daemon | None]]
    unread: Mapping[str, str]


class ReadDaemons(Lookup[RunningDaemons], frozen=True):
    """The daemons of each kind, no older than this call."""

    records = "daemons"

    def answer(self, reader: Reader) -> RunningDaemons:
        from nodepool_ocb.store import daemons

        reader.session.sync()
        unread: dict[str, str] = {}
        return RunningDaemons({kind: daemons.read(reader.session, kind, unread) for kind in paths.DAEMON_KINDS}, unread)


class ReadDaemonPause(Lookup["Stored[DaemonPause] | None"], frozen=True):
    """The pause of the daemons of one kind on one host, if there is one. Raises Invalid for a broken record."""

    records = "pauses of daemons"

    kind: str
    host: str

    def answer(self, reader: Reader) -> Stored[DaemonPause] | None:
        from nodepool_ocb.store import daemons

        return daemons.pause(reader.session, self.kind, self.host)


class EnsureDaemonPauses(Lookup[None], frozen=True):
    """Make the empty folder of the pauses of a kind, if it does not exist. A dry run makes none."""

    records = "pauses of daemons"

    kind: str

    def answer(self, reader: Reader) -> None:
        if not reader.performer.call.dry_run:
            reader.session.ensure(paths.daemon_pauses(self.kind))
