"""What node hooks cost an annealer when thousands wait at once, and all of them complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Fence, Node, NodeRole, Role, State
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper.server import Server
from tests.stories.test_annealer import package

#: Keeps every view that it is given, so that each has a name of its own, and notes how many there were.
KEEPS = """
from pathlib import Path
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    views = {{}}
    def on_node_create(self, hooked):
        self.views[id(hooked.noderoles)] = hooked.noderoles
        Path({noted!r}).write_text(str(len(self.views)))
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """One that nobody else writes to."""
    with Server(fsync=False) as alone:
        yield alone


@pytest.mark.long
@pytest.mark.parametrize(
    ("nodes", "megabytes", "cpu_seconds"),
    [(500, 120, 10.0), pytest.param(10_000, 300, 30.0, marks=pytest.mark.long)],
)
def test_a_hook_for_each_of_many_nodes_costs_in_proportion(
    server: Server, tmp_path: Path, nodes: int, megabytes: int, cpu_seconds: float
) -> None:
    noted = tmp_path / "views"
    installed = package(tmp_path / "site", KEEPS.format(noted=str(noted)))
    settings = ZooKeeperSettings(hosts=f"{server.hosts}/hooks", session_timeout_seconds=20.0)
    names = [f"n{number:05}.example.com" for number in range(nodes)]
    with Session(settings) as session:
        clusters.bootstrap(session)
        session.commit([Create(paths.role("watched"), Role(barclamp="b", jig="noop", hooks=("on_node_create",)))])
        for start in range(0, nodes, 50):
            session.commit([change for fqdn in names[start : start + 50] for change in waiting(fqdn)])
        annealer = DaemonProcess(settings, tmp_path / "annealer")
        annealer.begin(PYTHONPATH=str(installed))
        try:
            await_that(
                lambda: not any(view.record and view.record.hooks for view in load_world(session).nodes.values()),
                240.0,
                "all hooks have run",
                alive=annealer.running,
            )
            peak, cpu = peak_megabytes(annealer.pid), annealer.cpu_seconds
            failed = annealer.metric('nodepool_ocb_hook_failures_total{hook="on_node_create"}')
        finally:
            annealer.close()
    print(f"{nodes} nodes: {peak:.0f} MB, {cpu:.1f} s of CPU")
    assert failed == 0
    assert int(noted.read_text()) == 1, "all look at one view: none of its noderoles changed"
    assert peak < megabytes
    assert cpu < cpu_seconds


def waiting(fqdn: str) -> list[Change]:
    """A node whose hook has not run, and a noderole of the role that has it."""
    return [
        Create(paths.node(fqdn), Node(virtual=True, alive=True, hooks=("on_node_create",))),
        Create(paths.fence(fqdn), Fence()),
        Create(paths.noderoles(fqdn)),
        Create(paths.noderole("watched", fqdn), NodeRole(state=State.ACTIVE, since=1.0, generation=1)),
        Create(paths.runs("watched", fqdn)),
    ]


def peak_megabytes(pid: int) -> float:
    """The most memory that a process has had at once."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) / 1000
