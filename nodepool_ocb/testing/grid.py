"""A world of any size, written straight to ZooKeeper: the start of measurements and of tests with many noderoles.

The noderoles of a node stand in ``lanes`` columns, ``depth`` deep. Each has two parents one level up: the one above it,
and the one above in the next lane of the next node. So no node can go ahead alone (unless ``across`` is false). All are
committed, in a deployment that is PROPOSED: nothing moves before ``start``. With ``active`` all are ACTIVE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Create,
    Deployment,
    DeploymentState,
    Fence,
    Node,
    NodeRole,
    Role,
    Set,
    State,
)
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session

DEPLOYMENT: Final = "bench"
BATCH: Final = 400  # changes in one transaction
REWINDS: Final = 5  # tries
SINCE: Final = 1_700_000_000.0


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The shape, and the role of the noderoles. ``record_bytes`` pads the records; 0 leaves them as they are."""

    nodes: int
    lanes: int = 1
    depth: int = 10
    across: bool = True
    active: bool = False
    record_bytes: int = 0
    role: Role = Role(barclamp="bench", jig="noop")
    machines: Sequence[tuple[str, Node]] = ()  # instead of virtual nodes

    @property
    def size(self) -> int:
        """The number of noderoles.

        >>> Grid(nodes=200, lanes=5, depth=10).size
        10000
        """
        return self.nodes * self.lanes * self.depth

    def of(self, nodes: int) -> Grid:
        """The same with another number of nodes."""
        return replace(self, nodes=nodes)

    # -- names --

    def fqdn(self, node: int) -> str:
        return self.machines[node][0] if self.machines else f"n{node:05}.bench.example.com"

    def paths(self) -> Iterator[str]:
        """The path of every noderole, node by node."""
        for node in range(self.nodes):
            yield from (paths.noderole(_role(level, lane), self.fqdn(node)) for level, lane in self._places())

    def sinks(self) -> list[str]:
        """The paths of the deepest noderoles: when they are ACTIVE all are."""
        last = self.depth - 1
        return [
            paths.noderole(_role(last, lane), self.fqdn(node))
            for node in range(self.nodes)
            for lane in range(self.lanes)
        ]

    # -- writing --

    def write(self, session: Session) -> None:
        """Create it all, in an empty chroot."""
        clusters.bootstrap(session)
        session.ensure(paths.daemons("annealer"))
        self._commit(session, self._frame())
        self._commit(session, (change for node in range(self.nodes) for change in self._node(node)))

    def extend(self, session: Session, first: int) -> None:
        """Create the nodes from ``first`` on, beside those of a smaller grid without edges between nodes."""
        assert not self.across, "the last node of the smaller grid has a parent on its first"
        self._commit(session, (change for node in range(first, self.nodes) for change in self._node(node)))

    def start(self, session: Session) -> None:
        """Commit the deployment: from now on annealers work."""
        path = paths.deployment(DEPLOYMENT)
        session.commit(
            [Set(path, Deployment(state=DeploymentState.COMMITTED, since=SINCE), self._version(session, path))]
        )

    def rewind(self, session: Session) -> None:
        """Put every noderole back to where ``write`` left it, a later generation, and the deployment to PROPOSED.

        An annealer may still write a noderole that is ACTIVE, so a refused transaction is decided again.
        """
        for left in reversed(range(REWINDS)):
            try:
                self._rewind(session)
                break
            except Stale:
                if not left:
                    raise

    def _rewind(self, session: Session) -> None:
        path = paths.deployment(DEPLOYMENT)
        session.commit([Set(path, Deployment(since=SINCE), self._version(session, path))])
        places = [(node, level, lane) for node in range(self.nodes) for level, lane in self._places()]
        changes: list[Change] = []
        for (node, level, lane), znode in zip(places, session.get_many(list(self.paths())), strict=True):
            assert znode is not None, "noderoles of a grid are never deleted"
            generation = codec.decode(NodeRole, znode).generation
            record = replace(self.record(node, level, lane), generation=generation + (level == 0))
            changes.append(Set(znode.path, record, znode.version))
        self._commit(session, changes)

    def finished(self, session: Session) -> Callable[[], bool]:
        """A question to ask until it is answered yes: is all of it ACTIVE? It reads a hundred at a time, and once."""
        left = deque(self.sinks())

        def ask() -> bool:
            while left:
                head = [left.popleft() for _ in range(min(100, len(left)))]
                states = [codec.decode(NodeRole, znode).state for znode in session.get_many(head) if znode is not None]
                waiting = [path for path, state in zip(head, states, strict=True) if state is not State.ACTIVE]
                left.extendleft(waiting)
                if waiting:
                    return False
            return True

        return ask

    def record(self, node: int, level: int, lane: int) -> NodeRole:
        """A noderole as ``write`` creates it."""
        record = NodeRole(
            state=State.TODO if level == 0 else State.BLOCKED,
            since=SINCE,
            deployment=DEPLOYMENT,
            parents=self._parents(node, level, lane),
            generation=1 if level == 0 else 0,
        )
        if self.active:
            run = f"{level * self.lanes + lane + 1:010d}-5eed{lane:02x}"
            record = replace(record, state=State.ACTIVE, generation=1, run=run, epoch=level + 1, by=f"bench-{node % 3}")
        lacking = self.record_bytes - len(codec.encode(record)) - len(',"reason":""')
        return record.amended(reason="x" * lacking) if lacking > 0 else record

    def _parents(self, node: int, level: int, lane: int) -> tuple[str, ...]:
        if level == 0:
            return ()
        above = {paths.noderole_name(_role(level - 1, lane), self.fqdn(node))}
        if self.across:
            neighbour, beside = (node + 1) % self.nodes, (lane + 1) % self.lanes
            above.add(paths.noderole_name(_role(level - 1, beside), self.fqdn(neighbour)))
        return tuple(sorted(above))

    def _places(self) -> Iterator[tuple[int, int]]:
        return ((level, lane) for level in range(self.depth) for lane in range(self.lanes))

    def _frame(self) -> Iterator[Change]:
        for level, lane in self._places():
            yield Create(paths.role(_role(level, lane)), self.role)
        yield Create(paths.deployment(DEPLOYMENT), Deployment(since=SINCE))
        yield Create(paths.deployment_roles(DEPLOYMENT))

    def _node(self, node: int) -> Iterator[Change]:
        fqdn = self.fqdn(node)
        machine = self.machines[node][1] if self.machines else Node(virtual=True)
        yield Create(paths.node(fqdn), replace(machine, deployment=DEPLOYMENT, alive=True))
        yield Create(paths.fence(fqdn), Fence())
        yield Create(paths.noderoles(fqdn))
        for level, lane in self._places():
            path = paths.noderole(_role(level, lane), fqdn)
            yield Create(path, self.record(node, level, lane))
            yield Create(f"{path}/runs")

    @staticmethod
    def _commit(session: Session, changes: Iterable[Change]) -> None:
        batch: list[Change] = []
        for change in changes:
            batch.append(change)
            if len(batch) == BATCH:
                session.commit(batch)
                batch = []
        session.commit(batch)

    @staticmethod
    def _version(session: Session, path: str) -> int:
        znode = session.get(path)
        return znode.version if znode else 0


def _role(level: int, lane: int) -> str:
    return f"step-{level}-{lane}"
