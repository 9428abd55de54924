"""ZooKeeper is restored from an older copy, on a real machine that remembers the lost time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.recovery import restoring
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Claim, Create, Daemon, Delete, Fence, Node, NodeRole, Role, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import ANNEALER, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.commands import Ocb

AFTER = 10**12  # above every number of the lost time


class Ground:
    """A server of its own, one machine, and what is typed."""

    def __init__(self, server: Server, farm: Farm, folder: Path, until: Callable[..., None]) -> None:
        self.server, self.farm, self.folder, self.until = server, farm, folder, until
        ((self.fqdn, self.node),) = farm.records()
        self.hosts = server.hosts + "/site"
        self.begun = 0

    def ocb(self, line: str, expected: int = 0) -> str:
        answer = CliRunner().invoke(cli, ["--zookeeper", self.hosts, *line.split()], prog_name="nodepool-ocb")
        assert answer.exit_code == expected, (line, answer.output)
        return answer.output

    def scripts(self, word: str) -> None:
        """Import both roles; what each run writes is ``word`` and its role."""
        document = self.folder / "roles.yml"
        lines = (f"echo {word}-{role} >>{self.folder}/lives" for role in ("ntp", "wipe"))
        document.write_text(
            "barclamp: {name: b, version: 1}\nroles:\n"
            f"  - {{name: ntp, jig: script, script: '{next(lines)}'}}\n"
            f"  - {{name: wipe, jig: script, script: '{next(lines)}', flags: [destructive]}}\n"
        )
        self.ocb(f"barclamp import {document}")

    def lives(self) -> list[str]:
        return (self.folder / "lives").read_text().split()

    def annealer(self) -> DaemonProcess:
        self.begun += 1
        settings = ZooKeeperSettings(hosts=self.hosts, session_timeout_seconds=4.0)
        sections = {"annealer": {"probe_seconds": 1.0, "dead_probe_seconds": 0.3}, "ssh": self.farm.settings()}
        return DaemonProcess(settings, self.folder / f"annealer-{self.begun}", sections, ANNEALER)

    def rests(self, role: str, state: State) -> None:
        def holds() -> bool:
            record = self.record(role)
            return record.state is state and not record.refresh

        self.until(holds, 60.0)

    def record(self, role: str) -> NodeRole:
        with Session(ZooKeeperSettings(hosts=self.hosts)) as session:
            return self.vertex(session, role).record

    def vertex(self, session: Session, role: str) -> Vertex:
        vertex = load_world(session).vertex(f"{role}@{self.fqdn}")
        assert vertex is not None
        return vertex

    def copied(self, source: Path, to: Path) -> None:
        """Stop the server, replace a folder, and start it again."""
        self.server.kill()
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(source, to)
        self.server.start()


@pytest.fixture
def site(tmp_path: Path, until: Callable[..., None]) -> Iterator[Ground]:
    with Server(fsync=False) as server, Farm(1, tmp_path / "farm") as farm:
        yield Ground(server, farm, tmp_path, until)


def test_no_result_of_the_lost_time_is_taken_for_that_of_a_new_run(site: Ground) -> None:
    fqdn, node = site.fqdn, site.node
    site.ocb("init")
    site.scripts("old")
    answer = CliRunner().invoke(
        cli,
        ["--zookeeper", site.hosts, "node", "create", fqdn, "--address", node.addresses[0], "--user", node.user,
         "--host-key", node.host_keys[0]],
    )  # fmt: skip
    assert answer.exit_code == 0, answer.output
    for line in (f"node bind {fqdn} ntp", f"node bind {fqdn} wipe", f"noderole commit ntp@{fqdn}"):
        site.ocb(line)
    with site.annealer():
        site.rests("ntp", State.ACTIVE)
    site.copied(site.server.directory / "data", site.folder / "copy")
    with site.annealer():  # the lost time
        site.ocb(f"noderole refresh ntp@{fqdn}")
        site.rests("ntp", State.ACTIVE)
        site.ocb(f"noderole commit wipe@{fqdn}")
        site.rests("wipe", State.ACTIVE)
    site.copied(site.folder / "copy", site.server.directory / "data")
    assert site.lives() == ["old-ntp", "old-ntp", "old-wipe"]
    site.scripts("new")
    site.ocb("restored")
    with site.annealer():
        site.ocb(f"noderole refresh ntp@{fqdn}")
        site.ocb(f"noderole commit wipe@{fqdn}")
        site.rests("wipe", State.ERROR)  # it may have been done in the lost time
        assert "paused" in site.ocb(f"noderole explain ntp@{fqdn}")
        site.ocb("resume")
        site.rests("ntp", State.ACTIVE)
        site.ocb(f"noderole retry wipe@{fqdn}")
        site.rests("wipe", State.ACTIVE)
    assert site.lives() == ["old-ntp", "old-ntp", "old-wipe", "new-ntp", "new-wipe"]
    assert (site.record("ntp").generation > AFTER, site.record("ntp").epoch > AFTER) == (True, True)


@pytest.mark.parametrize(
    ("changes", "state", "refresh"),
    [
        ({}, State.TODO, False),
        ({"refresh": True}, State.ACTIVE, True),
        ({"refresh": True, "check": PendingCheck()}, State.ACTIVE, False),
        ({"cancel_reason": "late"}, State.ERROR, False),
        ({"once": "started"}, State.ERROR, False),
    ],
)
def test_a_run_that_the_copy_has_under_way_is_ended(
    zk_session: Session, changes: dict[str, object], state: State, refresh: bool
) -> None:
    name, fqdn = "ntp", "n1.example.com"
    running = NodeRole(state=State.TRANSITION, since=1.0, generation=3, run="r1").amended(**changes)
    _made(zk_session, fqdn)
    zk_session.commit([Create(paths.noderole(name, fqdn), running)])
    for _ in range(2):  # it may be given again
        for transaction in restoring.restored(load_world(zk_session), {}, 2e9, "ann", "an old copy"):
            zk_session.commit(transaction)
    world = load_world(zk_session)
    vertex = world.vertex(f"{name}@{fqdn}")
    assert vertex is not None
    assert (vertex.record.state, vertex.record.refresh) == (state, refresh)
    assert vertex.record.generation >= 2 * 10**12
    assert vertex.node.epoch >= 2 * 10**12
    assert world.structure is not None
    assert (world.structure.record.epoch, world.structure.record.rollout) == (2 * 10**12, 2 * 10**9)
    assert "system" in world.paused


def _made(session: Session, fqdn: str) -> None:
    session.commit(
        [
            Create(paths.role("ntp"), Role(barclamp="b", jig="script")),
            Create(paths.node(fqdn), Node(alive=True)),
            Create(paths.fence(fqdn), Fence()),
            Create(paths.noderoles(fqdn)),
        ]
    )


@pytest.mark.parametrize("standing", ["annealer", "claim", "unreadable"])
def test_it_is_refused_while_a_daemon_may_work_or_a_record_cannot_be_read(zk_session: Session, standing: str) -> None:
    _made(zk_session, "n1.example.com")
    if standing == "annealer":
        zk_session.ensure(paths.daemons("annealer"))
        daemon = Daemon(host="h1", pid=1, version="1", started=1.0)
        zk_session.commit([Create(paths.daemon("annealer", "a1"), daemon, ephemeral=True)])
    elif standing == "claim":
        claim = Claim(annealer="a1", noderole="ntp@n1.example.com", run="r1", epoch=1, since=1.0)
        zk_session.commit([Create(paths.claim("n1.example.com"), claim, ephemeral=True)])
    else:
        zk_session.commit([Set(paths.node("n1.example.com"), {"schema": 7}, 0)])
    with pytest.raises(
        Conflict, match={"annealer": "a1 is registered", "claim": "is claimed"}.get(standing, "cannot be read")
    ):
        list(restoring.restored(load_world(zk_session), {}, 2e9, "ann", None))


@pytest.mark.parametrize("readable", [True, False])
def test_the_command_is_refused_while_a_builder_is_registered(ocb: Ocb, zk_session: Session, readable: bool) -> None:
    zk_session.ensure(paths.daemons("builder"))
    daemon = Daemon(host="h1", pid=1, version="1", started=1.0) if readable else {"schema": 7}
    zk_session.commit([Create(paths.daemon("builder", "b1"), daemon, ephemeral=True)])
    refused = ocb("restored")
    assert refused.exit_code == 4, refused.output
    assert f"builder b1 is registered{', on h1' if readable else ''}: stop every daemon" in refused.stderr
    assert paused(zk_session) is None, "nothing was written"
    zk_session.commit([Delete(paths.daemon("builder", "b1"), 0)])
    assert ocb("restored").exit_code == 0
    assert paused(zk_session) is not None


def paused(session: Session) -> Maintenance | None:
    """What pauses everything."""
    return load_world(session).paused.get(SYSTEM)
