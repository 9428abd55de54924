"""The key of the cluster for logs: ``/ocb/keys/logs`` has the private keys, the record of the cluster their public halves.

Readers of logs take the newest private key, and the one before it if a daemon does not know that yet. Daemons take both. So a new
key leaves no moment in which logs cannot be read.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid, Stale, Unavailable
from nodepool_ocb.http import proofs
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Cluster, Create, LogKey, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session

KEPT: Final = 2  # keys: the newest, and the one before it
LOOK_SECONDS: Final = 1.0


def read(session: Session) -> tuple[str, ...]:
    """The private keys, the newest first; empty before the first one. Raises Unavailable, Denied and Invalid."""
    znode = session.get(paths.LOG_KEY)
    return () if znode is None else codec.decode(LogKey, znode).keys


def renewal(session: Session, *, new: bool) -> list[Change]:
    """The transaction that completes the keys, with ``new`` after a new one was put first; empty if nothing is missing.

    Raises Unavailable, Denied, and Invalid for a record that cannot be read; with ``new`` such keys are replaced.
    """
    session.sync()
    of_cluster, of_keys = session.get_many([paths.CLUSTER, paths.LOG_KEY])
    if of_cluster is None:
        return []
    cluster, known = codec.decode(Cluster, of_cluster), _known(of_keys, new)
    keys = known if known and not new else (proofs.new_key(), *known)[:KEPT]
    readers = tuple(map(proofs.public, keys))
    changes: list[Change] = []
    if of_keys is None:
        changes.append(Create(paths.LOG_KEY, LogKey(keys=keys)))
    elif keys != known:
        changes.append(Set(paths.LOG_KEY, LogKey(keys=keys), of_keys.version))
    if readers != cluster.readers:
        changes.append(Set(paths.CLUSTER, replace(cluster, readers=readers), of_cluster.version))
    return changes


def ensure(session: Session) -> None:
    """Make the key of a cluster that is older than such keys. Raises Unavailable and Denied."""
    session.ensure(paths.KEYS)
    changes = renewal(session, new=False)
    if changes:
        with suppress(Stale):  # another server has made it
            session.commit(changes)


def _known(znode: Znode | None, new: bool) -> tuple[str, ...]:
    if znode is None:
        return ()
    try:
        return codec.decode(LogKey, znode).keys
    except Invalid as invalid:
        if new:
            return ()
        raise Invalid(f"{invalid}; replace it: nodepool-ocb init --new-key") from invalid


class Readers:
    """The public keys of the readers of logs, some moments old; called on any thread.

    While ZooKeeper is away they are those of the last read.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._known: tuple[str, ...] | None = None
        self._not_before = 0.0  # the next read (monotonic)

    def __call__(self) -> tuple[str, ...]:
        """Raises Unavailable before the first read, Denied and Invalid."""
        with self._lock:
            if self._known is None or time.monotonic() >= self._not_before:
                self._look()
            assert self._known is not None
            return self._known

    def _look(self) -> None:
        try:
            znode = self._session.get(paths.CLUSTER)
        except Unavailable:
            if self._known is None:
                raise
        else:
            self._known = () if znode is None else codec.decode(Cluster, znode).readers
        self._not_before = time.monotonic() + LOOK_SECONDS
