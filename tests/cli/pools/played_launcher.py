"""A launcher that a test plays: it registers pools, makes nodes, and fulfils requests."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, Daemon, Delete, Json, Record, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session

T = TypeVar("T", bound=Record)


class PlayedLauncher:
    """Provider ``west`` with pool ``main``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.ensure(paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES, paths.components("pool"))

    def registers(self, *labels: str, pool: str = "main", **fields: Json) -> None:
        """A component, as Nodepool's and ours write it."""
        record = PoolComponent(
            hostname="host1",
            state="running",
            kind="pool",
            id=f"host1-west-{pool}",
            name=pool,
            provider_name="west",
            supported_labels=labels,
            **fields,  # type: ignore[arg-type]
        )
        self.session.create_next(f"{paths.components('pool')}/host1", record, ephemeral=True)

    def launches(self) -> None:
        """Its own registration: it is a launcher of this product."""
        self.session.ensure(paths.daemons("launcher"))
        daemon = Daemon(host="host1", pid=1, version="1", started=1.0, slots=1)
        self.session.commit([Create(paths.daemon("launcher", "host1"), daemon, ephemeral=True)])

    def makes(self, label: str = "small", state: PoolNodeState = PoolNodeState.READY, **fields: object) -> str:
        """A node; gives its id."""
        given: dict[str, object] = {"provider": "west", "pool": "main", "interface_ip": "127.0.0.1", "username": "zuul"}
        record = PoolNode(state=state, state_time=self.session.now(), type=(label,), **{**given, **fields})  # type: ignore[arg-type]
        return self.session.create_next(f"{paths.POOL_NODES}/", record).rpartition("/")[2]

    def request(self, id: str) -> NodeRequest:
        return self._read(NodeRequest, paths.request(id))[0]

    def node(self, id: str) -> PoolNode:
        return self._read(PoolNode, paths.pool_node(id))[0]

    def changes(self, id: str, **fields: object) -> None:
        """Write fields of a node."""
        record, version = self._read(PoolNode, paths.pool_node(id))
        self.session.commit([Set(paths.pool_node(id), replace(record, **fields), version)])

    def fulfils(self, request: str, *nodes: str) -> None:
        """Hand out these nodes."""
        for node in nodes:
            self.changes(node, allocated_to=request)
        record, version = self._read(NodeRequest, paths.request(request))
        self.session.commit(
            [Set(paths.request(request), replace(record, state=RequestState.FULFILLED, nodes=nodes), version)]
        )

    def fails(self, request: str, reason: str) -> None:
        record, version = self._read(NodeRequest, paths.request(request))
        self.session.commit(
            [Set(paths.request(request), replace(record, state=RequestState.FAILED, reason=reason), version)]
        )

    def locks(self, node: str) -> str:
        """Take the lock of a node as another client; gives the contender."""
        self.session.ensure(paths.pool_node_lock(node))
        return self.session.create_next(f"{paths.pool_node_lock(node)}/other__lock__", None, ephemeral=True)

    def unlocks(self, contender: str) -> None:
        self.session.commit([Delete(contender, 0)])

    def stores(self, path: str, data: Json) -> None:
        """Any data, as another software may write it."""
        self.session.commit([Create(path, data)])

    def requests(self) -> list[str]:
        return sorted(self.session.children(paths.REQUESTS) or ())

    def _read(self, kind: type[T], path: str) -> tuple[T, int]:
        znode = self.session.get(path)
        assert znode is not None, path
        return codec.decode(kind, znode), znode.version
