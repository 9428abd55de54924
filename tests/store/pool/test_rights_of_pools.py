"""A launcher and a requester do their work with their own credentials, on a real server, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.engine.enrolling import Enrolment
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Denied
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.pool import NodeRequest, PoolNodeState, RequestState
from nodepool_ocb.model.records import (
    Append,
    Create,
    Daemon,
    Delete,
    Gate,
    LockOwner,
    Node,
    Raise,
    Role,
    Set,
)
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import acls, clusters, journal
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.access import Acls
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool import enrolment
from nodepool_ocb.store.pool.journal import PoolJournal
from nodepool_ocb.store.pool.nodes import NodeWriter
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.store.pool.test_pool_cache import add_request
from tests.store.pool.test_pool_writes import Launcher

ME = LockOwner(daemon="ci", host="h", pid=1, purpose="job 7", since=1.0)
FQDN = "n1.example.com"
CLEAN = "/clean"  # a cluster without records that cannot be read


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    """A cluster with a role, an image, and parts of everything that people and daemons write."""
    with Guarded() as made:
        for chroot in ("/c", CLEAN):
            with Session(made.settings_of(ClientKind.PEOPLE, chroot)) as people:
                clusters.bootstrap(people)
                for name in ("seen", "ntp"):
                    people.commit([Create(paths.role(name), Role(barclamp="b", jig="noop", flags=("discovery",)))])
                people.ensure(*(OTHERS if chroot == "/c" else ()))
        yield made


OTHERS = (
    "/ocb/deployments/lab/clusters/web",
    "/ocb/deployments/lab/roles/web",
    "/ocb/nodes/other.example.com/noderoles/web/user",
    "/ocb/rollouts/lab/0000000001/lock",
    "/ocb/tasks/runs/lab/0000000001",
    "/ocb/tasks/releases/9.0",
    "/ocb/daemons/annealer/a1",
    "/ocb/journal/webhook/lock",
    "/nodepool/image/jammy/builds/0000000001",
    "/nodepool/daemons/paused/builder/b1",
)


@pytest.fixture
def launcher(world: Guarded) -> Iterator[Launcher]:
    with Session(world.settings_of(ClientKind.LAUNCHER, "/c")) as session:
        yield Launcher(session)


@pytest.fixture
def requester(world: Guarded) -> Iterator[Session]:
    with Session(world.settings_of(ClientKind.REQUESTER, "/c")) as session:
        yield session


def test_a_requester_gets_a_node_and_returns_it(launcher: Launcher, requester: Session) -> None:
    request = add_request(requester)
    made = launcher.nodes.create("launch", type=("a",))
    assert made is not None
    made.enter(PoolNodeState.BUILDING, hostname="n1")
    made.finish(PoolNodeState.READY)
    launcher.requests.claim(launcher.request(request))
    launcher.requests.allocate(launcher.request(request), [launcher.node(made.id)])
    launcher.requests.fulfil(launcher.request(request), [launcher.node(made.id)])

    requester.sync()
    held = HeldLocks(requester)
    mine = NodeWriter(requester, held, lambda _: ME).hold(made.id, "use")
    assert mine is not None
    mine.enter(PoolNodeState.IN_USE)
    znode = requester.get(paths.request(request))
    assert znode is not None
    requester.commit([Delete(znode.path, znode.version)])
    mine.finish(PoolNodeState.USED)
    assert requester.now() > 0
    after = launcher.node(made.id)
    assert (after.record.state, after.locked) == (PoolNodeState.USED, False)
    assert request not in launcher.look().requests
    launcher.requests.sweep(launcher.cache.strays)
    gone = launcher.nodes.hold(made.id, "delete")
    assert gone is not None
    gone.enter(PoolNodeState.DELETING)
    gone.delete()


def test_a_requester_revises_its_request(requester: Session) -> None:
    request = add_request(requester)
    record = NodeRequest(state=RequestState.REQUESTED, state_time=1.0, node_types=("a",), relative_priority=5)
    requester.commit([Set(paths.request(request), record, 0)])
    requester.commit([Delete(paths.request(request), 1)])


def _touched(session: Session, path: str) -> dict[str, Callable[[], object]]:
    """Each way to read or change a znode and the place below it."""
    return {
        "read": lambda: session.get(path),
        "list": lambda: session.children(path),
        "write": lambda: session.commit([Raise(path, Gate())]),
        "create below": lambda: session.commit([Create(f"{path}/mine")]),
        "create numbered": lambda: session.create_next(f"{path}/mine-", None),
        "delete": lambda: session.commit([Delete(path, 0)]),
        "change rights": lambda: _change_rights(session, path),
    }


def _change_rights(session: Session, path: str) -> None:
    acl = frames.access((frames.AclGrant(31, "world", "anyone"),))
    (done,) = session.ask_many([(path, frames.write_acl(session.chroot + path, acl, 0))], "change the rights of")
    if isinstance(done, Exception):
        raise done


CLOSED = (
    *OTHERS, "/ocb", paths.ROLES, paths.role("ntp"), paths.NODES, paths.STRUCTURE, paths.CLOCK, paths.JOURNAL_ENTRIES,
    paths.WEBHOOK, paths.IMAGES, paths.TASKS, paths.DEPLOYMENTS, paths.daemons("builder"),
)  # fmt: skip


@pytest.mark.parametrize("path", CLOSED)
def test_a_requester_neither_reads_nor_changes_other_subtrees(requester: Session, path: str) -> None:
    for way, act in _touched(requester, path).items():
        assert _denied(act), f"a requester may {way} {path}"


READ_ONLY = (
    "/nodepool", paths.CLUSTER, paths.REQUEST_LOCKS, paths.POOL_NODES, paths.components("pool"), paths.daemons("launcher"),
)  # fmt: skip


@pytest.mark.parametrize("path", READ_ONLY)
def test_a_requester_only_reads_the_rest_of_the_pool(requester: Session, path: str) -> None:
    refused = {way for way, act in _touched(requester, path).items() if _denied(act)}
    assert refused == {"write", "create below", "create numbered", "delete", "change rights"}


def test_a_requester_changes_a_node_of_a_pool_only_by_its_record_and_its_lock(
    launcher: Launcher, requester: Session
) -> None:
    made = launcher.nodes.create("launch", type=("a",))
    assert made is not None
    made.release()
    path, lock = paths.pool_node(made.id), paths.pool_node_lock(made.id)
    allowed = {way for way, act in _touched(requester, path).items() if not _denied(act)}
    assert allowed == {"read", "list", "write"}
    allowed = {way for way, act in _touched(requester, lock).items() if not _denied(act)}
    assert allowed == {"read", "list", "create below", "create numbered"}


def _denied(act: Callable[[], object]) -> bool:
    try:
        act()
    except Denied:
        return True
    return False


def test_a_launcher_enrols_and_dismisses_nodes_with_its_own_rights(world: Guarded) -> None:
    with Session(world.settings_of(ClientKind.LAUNCHER, CLEAN)) as session:
        cache = Cache(session, World(), lambda: None)
        cache.load()
        wanted = [Enrolment(fqdn=FQDN, launch="k1", node=Node(), roles=("ntp",))]
        plan = enrolment.enrol(session, cache.world, wanted, admin_domain=None, jigs=None)
        assert plan.created == (FQDN,)
        session.sync()
        cache.refresh()
        assert sorted(cache.world.nodes[FQDN].noderoles) == ["ntp", "seen"]
        assert enrolment.dismiss(session, cache.world, {FQDN: "k1"}).gone == (FQDN,)
        assert session.get(paths.node(FQDN)) is None


def test_a_launcher_writes_and_bounds_its_own_entries_and_leaves_those_of_people(
    world: Guarded, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POOL_ENTRIES", 2)
    monkeypatch.setattr(limits, "POOL_ENTRIES_LEFT", 1)
    entry = Entry(at=1.0, login="launcher", host="h", verb="launch node")
    noted = PoolJournal(launcher.session)
    noted.load()
    for _ in range(4):
        noted.commit([], entry)
    journal.trim(launcher.session, pool=True)
    assert len(journal.numbers(launcher.session, pool=True)) == 1
    with Session(world.settings_of(ClientKind.PEOPLE, "/c")) as people:
        journal.write(people, entry)
        (path,) = [paths.entry(number) for number in journal.numbers(people)]
    for act in (
        lambda: launcher.session.commit([Append(paths.JOURNAL_ENTRIES, entry)]),
        lambda: launcher.session.commit([Delete(path, 0)]),
        lambda: launcher.session.commit([Set(path, entry, 0)]),
    ):
        assert _denied(act)


def test_a_launcher_registers_itself(launcher: Launcher) -> None:
    record = Daemon(host="h", pid=1, version="1", started=0.0)
    launcher.session.commit([Create(paths.daemon("launcher", "l1"), record, ephemeral=True)])
    launcher.session.create_next(f"{paths.components('pool')}/h", None, ephemeral=True)
    assert launcher.session.children(paths.components("pool"))


LAUNCHER_CLOSED = (
    paths.ROLES, paths.role("ntp"), "/ocb/rollouts", "/ocb/rollouts/lab", "/ocb/tasks/runs/lab", "/ocb/tasks/releases/9.0",
    "/nodepool/image/jammy", "/nodepool/image/jammy/builds/0000000001", "/nodepool/daemons/builder", "/nodepool", "/ocb",
    "/ocb/deployments", "/ocb/nodes/other.example.com/noderoles/web/user", "/ocb/daemons/annealer",
)  # fmt: skip


@pytest.mark.parametrize("path", LAUNCHER_CLOSED)
def test_a_launcher_changes_nothing_that_belongs_to_people_builders_and_annealers(
    launcher: Launcher, path: str
) -> None:
    touched = _touched(launcher.session, path)
    for way in ("write", "create below", "create numbered", "change rights"):
        assert _denied(touched[way]), f"a launcher may {way} {path}"


def test_a_check_of_the_rights_finds_nothing_after_requesters_and_launchers(
    world: Guarded, launcher: Launcher, requester: Session
) -> None:
    add_request(requester)
    launcher.nodes.create("launch", type=("a",))
    settings = world.settings_of(ClientKind.PEOPLE, "/c")
    with Session(settings) as people:
        walk = acls.Walk(people, Acls(settings))
        assert [(each.path, each.found) for each in walk.differing()] == []
        assert not walk.denied


@pytest.mark.parametrize(
    "words", [["request", "create", "--label", "a"], ["request", "list"], ["lease", "list"], ["pool", "list"]]
)
def test_a_requester_uses_the_command_line(world: Guarded, tmp_path: Path, words: list[str]) -> None:
    made = msgspec.to_builtins(world.settings_of(ClientKind.REQUESTER, CLEAN))
    file = tmp_path / "nodepool-ocb.yaml"
    file.write_text(yaml.safe_dump({"zookeeper": {key: value for key, value in made.items() if value is not None}}))
    file.chmod(0o600)
    result = CliRunner().invoke(cli, ["--config", str(file), *words])
    assert result.exit_code == 0, result.output
    with Session(world.settings_of(ClientKind.PEOPLE, CLEAN)) as people:
        assert not people.children(paths.JOURNAL_ENTRIES)
