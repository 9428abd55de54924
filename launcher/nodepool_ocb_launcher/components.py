"""Nodepool's registration of a launcher: one ephemeral component for itself, and one for each of its pools.

Clients and launchers of either product read these components: the rules take the running pools from them. A component that
another client deleted is made again at the next sweep.
"""

from __future__ import annotations

import uuid
from importlib.metadata import version
from typing import Final, NamedTuple

from msgspec.structs import replace

from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolComponent
from nodepool_ocb.model.records import Delete, Set
from nodepool_ocb.pool.configuration import PoolConfiguration, ProviderPool
from nodepool_ocb.store.client.session import Session

KIND: Final = "pool"
OF_LAUNCHERS: Final = "launcher"
MODEL_API: Final = 2  # of Nodepool 11
VERSION: Final = version("nodepool-ocb")

PoolKey = tuple[str, str]  # provider and pool
ITSELF: Final[PoolKey] = ("", "")  # the launcher


class _Registered(NamedTuple):
    path: str
    record: PoolComponent
    version: int


class PoolComponents:
    """``ids`` are the ids of the registered pools. Call it on the turn thread."""

    def __init__(self, session: Session, host: str) -> None:
        self.ids: dict[PoolKey, str] = {}
        self._session, self._host = session, host
        self._registered: dict[PoolKey, _Registered] = {}
        self._in = 0  # the session of these

    def write(self, configuration: PoolConfiguration, paused: bool, ending: bool) -> None:
        """See that each pool is registered with these values; no request where that was done. Raises Unavailable."""
        if self._in != self._session.id:
            self._registered, self._in = {}, self._session.id
            self._session.ensure(paths.components(KIND), paths.components(OF_LAUNCHERS))
        pools = {
            (pool.provider, pool.name): pool
            for each in configuration.providers.values()
            for pool in each.pools.values()
        }
        for key in self._registered.keys() - pools.keys() - {ITSELF}:
            self._drop(key)
        self._put(ITSELF, self._common(OF_LAUNCHERS, paused, ending))
        for key, pool in pools.items():
            self._put(key, self._record(key, pool, paused, ending))

    def check(self) -> None:
        """Find components that another client deleted or changed: the next ``write`` makes them again."""
        found = self._session.get_many([each.path for each in self._registered.values()])
        for key, znode in zip(list(self._registered), found, strict=True):
            if znode is None:
                del self._registered[key]
            elif znode.version != self._registered[key].version:
                self._drop(key)

    def _record(self, key: PoolKey, pool: ProviderPool, paused: bool, ending: bool) -> PoolComponent:
        provider, name = key
        id = self.ids.setdefault(key, f"{self._host}-PoolWorker.{provider}-{name}-{uuid.uuid4().hex}")
        return replace(
            self._common(KIND, paused, ending),
            id=id,
            name=name,
            provider_name=provider,
            supported_labels=tuple(sorted(pool.labels)),
            priority=pool.priority,
        )

    def _common(self, kind: str, paused: bool, ending: bool) -> PoolComponent:
        return PoolComponent(
            hostname=self._host,
            state="stopped" if ending else "running",
            kind=kind,
            version=VERSION,
            model_api=MODEL_API,
            paused=paused,
        )

    def _put(self, key: PoolKey, record: PoolComponent) -> None:
        known = self._registered.get(key)
        if known is not None and known.record == record:
            return
        folder = paths.components(record.kind)
        try:
            if known is None:
                path = self._session.create_next(f"{folder}/{self._host}", record, ephemeral=True)
                self._registered[key] = _Registered(path, record, 0)
            else:
                self._session.commit([Set(known.path, record, known.version)])
                self._registered[key] = known._replace(record=record, version=known.version + 1)
        except Stale:
            self.check()
            raise Unavailable(f"{folder} was changed while we wrote it") from None

    def _drop(self, key: PoolKey) -> None:
        known = self._registered.pop(key)
        self.ids.pop(key, None)
        znode = self._session.get(known.path)
        if znode is not None:
            self._session.commit([Delete(known.path, znode.version)])
