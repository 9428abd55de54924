"""A planted tree: nodes in racks with roles in a chain, most of them ACTIVE, and some in ERROR with their runs."""

from __future__ import annotations

import time
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Create, Node, NodeRole, Role, Run, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import DEPLOYMENT, Grid

RACK: Final = 40  # nodes
FAILED: Final = "step-1-0@n0001.example.com"
WORKED: Final = "step-1-0@n0007.example.com"
IMAGE: Final = "jammy"
HOSTILE: Final = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
OUTPUT: Final = f"{HOSTILE}\x1b[31mred\x1b]0;title\x07\nE: no such package\n{'x' * 3000}"


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


def plant(session: Session) -> None:
    """A failed noderole, two runs of another with the wait before them, and an image with a failed build."""
    fail(session, FAILED, f"exit code 1: {HOSTILE}", OUTPUT)
    now = time.time()
    for number, started in enumerate((now - 300.0, now - 100.0), 1):
        run = Run(
            annealer="a1", queued=started - 20.0, started=started, ended=started + 30.0, outcome="succeeded", generation=1,
            epoch=1,
        )  # fmt: skip
        role, _, node = WORKED.partition("@")
        session.commit([Create(paths.run(role, node, f"000000000{number}-bbbbbb"), run)])
    change(session, WORKED, since=now - 70.0)
    session.ensure(paths.builds(IMAGE))
    build = Build(
        builder="h1", builder_id="b1", filename=f"{IMAGE}-0000000001", state=BuildState.FAILED, state_time=now,
        reason="debootstrap: exit code 1", tail="E: Couldn't download packages: base-files\n", started=now - 60.0,
    )  # fmt: skip
    session.commit([Create(paths.build(IMAGE, "0000000001"), build)])


def change(session: Session, noderole: str, **fields: object) -> None:
    """Change a noderole, as another writer does."""
    role, _, node = noderole.partition("@")
    znode = session.get(paths.noderole(role, node))
    assert znode is not None
    record = codec.decode(NodeRole, znode).amended(**fields)
    session.commit([Set(znode.path, record, znode.version)])


__all__ = ["DEPLOYMENT", "change", "fail", "plant", "write"]
