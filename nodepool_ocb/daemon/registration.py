"""A daemon's own znode ``daemons/<kind>/<identity>``: ephemeral, it shows that the daemon lives, and its state.

``change`` is free; ``write`` writes the changes. Each turn calls it, so a later turn repeats a failed write.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.errors import NameTaken, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Daemon, Delete, Set
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session

#: Time-outs that a daemon which died may stay registered: one is the rule, and its own may be longer.
SESSIONS: Final = 3


class Registration:
    """``record`` is the record to write. Call it on the turn thread, except ``not_ready``.

    ``taken`` is for an identity that outlives the process. A registration of another session is never touched: its
    daemon lives, or it goes with that session; ``taken`` returns the message about it. Without ``taken`` the identity
    is this process's alone, and an existing registration is replaced.
    """

    def __init__(
        self,
        session: Session,
        kind: ClientKind,
        identity: str,
        record: Daemon,
        taken: Callable[[Znode], str] | None = None,
    ) -> None:
        self.record = record
        self._session, self._kind, self._taken = session, kind, taken
        self._path = paths.daemon(kind, identity)
        self._written: Daemon | None = None  # None where it may be something else
        self._written_in = 0  # the session of that

    @property
    def stands(self) -> bool:
        """Whether it was written in the session of now."""
        return self._written_in == self._session.id

    def change(self, **fields: Any) -> None:
        """Set fields of the record; ``write`` writes them."""
        self.record = replace(self.record, **fields)

    def compare(self, found: Daemon | None) -> None:
        """Compare a record that was read there: if it differs, the next ``write`` reads it too."""
        if found != self.record:
            self._written = None

    def write(self) -> None:
        """See that the znode is there and says this; no request where that was done. Raises NameTaken and Unavailable."""
        session, record = self._session.id, self.record
        if self._written is record and self._written_in == session:
            return
        self._session.ensure(paths.daemons(self._kind))
        try:
            self._replace(self._session.get(self._path), session, record)
        except Stale:
            raise Unavailable(f"{self._path} was changed while we wrote it; the daemon writes it again") from None
        self._written, self._written_in = record, session

    def _replace(self, there: Znode | None, session: int, record: Daemon) -> None:
        create = Create(self._path, record, ephemeral=True)
        if there is None:
            self._session.commit([create])
        elif self._taken is not None and not self._session.had(there.ephemeral_owner):
            raise NameTaken(self._taken(there), SESSIONS * self._session.timeout_seconds)
        elif there.ephemeral_owner != session:
            self._session.commit([Delete(self._path, there.version), create])
        elif codec.unsigned(there.data) != codec.encode(record):
            self._session.commit([Set(self._path, record, there.version)])

    def not_ready(self) -> str | None:
        """Why this daemon is of no use now, or that ZooKeeper does not answer; from any thread."""
        return self.record.trouble if self._session.trusted else "ZooKeeper does not answer"


def of_this_process(**fields: Any) -> Daemon:
    """The record of a daemon that is this process; when it started is filled in when ZooKeeper's time is known."""
    return Daemon(host=socket.gethostname(), pid=os.getpid(), version=version("nodepool-ocb"), started=0.0, **fields)
