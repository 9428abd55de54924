"""A planted tree: nodes in racks with roles in a chain, most of them ACTIVE, and some in ERROR with their runs."""

from __future__ import annotations

import time
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Node, NodeRole, Role, Run, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import DEPLOYMENT, Grid

RACK: Final = 40  # nodes


def write(settings: ZooKeeperSettings, nodes: int, roles: int) -> Grid:
    """Write it into an empty chroot; all is ACTIVE, and the last role is a milestone."""
    machines = [(f"n{each:04}.example.com", Node(rack=f"r{each // RACK}", virtual=True)) for each in range(nodes)]
    grid = Grid(nodes=nodes, lanes=1, depth=roles, active=True, machines=machines)
    with Session(settings) as session:
        grid.write(session)
        grid.start(session)
        path = paths.role(f"step-{roles - 1}-0")
        znode = session.get(path)
        assert znode is not None
        session.commit([Set(path, replace(codec.decode(Role, znode), flags=("milestone",)), znode.version)])
    return grid


def fail(session: Session, noderole: str, reason: str, output: str) -> None:
    """Put a noderole into ERROR, with a run that failed."""
    role, _, node = noderole.partition("@")
    now = time.time()
    run = Run(
        annealer="a1", started=now - 9.0, ended=now, outcome="failed", generation=1, epoch=1, exit_code=1, reason=reason,
        tail=output,
    )  # fmt: skip
    change(session, noderole, state=State.ERROR, reason=reason, run="0000000099-aaaaaa", since=now)
    session.commit([Create(paths.run(role, node, "0000000099-aaaaaa"), run)])


def change(session: Session, noderole: str, **fields: object) -> None:
    """Change a noderole, as another writer does."""
    role, _, node = noderole.partition("@")
    znode = session.get(paths.noderole(role, node))
    assert znode is not None
    record = replace(codec.decode(NodeRole, znode), **fields)
    session.commit([Set(znode.path, record, znode.version)])


__all__ = ["DEPLOYMENT", "change", "fail", "write"]
