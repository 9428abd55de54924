"""Records of every kind come and go: a cache shows it by an event, and by a sweep where no event came, and says what changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Create,
    Daemon,
    Delete,
    Deployment,
    DeploymentRole,
    Fence,
    Gate,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Set,
    State,
    TaskRunPointer,
)
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.store.world.kinds import WORLD_KINDS
from nodepool_ocb.store.world.paths import parse

LAB, ROLE, FQDN = "lab", "a", "n1.example.com"

CLAIM = Claim(annealer="a1", noderole="a@n2.example.com", run="0000000001-a1", epoch=1, since=1.0)

#: Folders that stay.
FOLDERS = (
    paths.node("n2.example.com"),
    paths.noderoles("n2.example.com"),
    paths.deployment("west"),
    paths.deployment_roles("west"),
    paths.clusters("west"),
    paths.daemons("annealer"),
)
#: Name → path, record, and the field of a change set that says so.
RECORDS: Mapping[str, tuple[str, Record | None, str]] = {
    "role": (paths.role(ROLE), Role(barclamp="b", jig="noop"), "roles"),
    "deployment": (paths.deployment(LAB), Deployment(), "deployments"),
    "deployment role": (paths.deployment_role("west", ROLE), DeploymentRole(), "deployments"),
    "gate": (paths.gate("west", ROLE), Gate(), ""),
    "daemon": (paths.daemon("annealer", "a1"), Daemon(host="h", pid=1, version="0", started=0.0), "daemons"),
    "rollouts": (paths.rollouts("west"), RolloutPointer(newest="0000000001"), "rollouts"),
    "task runs": (paths.task_runs("west"), TaskRunPointer(newest="0000000001"), "task_runs"),
    "node": (paths.node(FQDN), Node(alive=True), "nodes"),
    "noderole": (paths.noderole(ROLE, "n2.example.com"), NodeRole(state=State.TODO, since=1.0), "nodes"),
    "claim": (paths.claim("n2.example.com"), CLAIM, "nodes"),
    "fence": (paths.fence("n2.example.com"), Fence(), "nodes"),
}


def shown(world: World) -> dict[str, object]:
    """Each record by its name in ``RECORDS``, as the world shows it."""
    second = world.nodes.get("n2.example.com")
    gates = [each.gate for each in world.clusters.values() if (each.deployment, each.role) == ("west", ROLE)]
    vertex = second.noderoles.get(ROLE) if second else None
    view = world.nodes.get(FQDN)
    values: dict[str, object] = {
        "role": (found := world.roles.get(ROLE)) and found.record,
        "deployment": (there := world.deployments.get(LAB)) and there.record,
        "deployment role": (placed := world.deployment_roles.get(("west", ROLE))) and placed.record,
        "gate": Gate() if gates and gates[0] >= 0 else None,
        "daemon": world.daemons.get("annealer", {}).get("a1"),
        "rollouts": (rollouts := world.rollouts.get("west")) and rollouts.record,
        "task runs": (runs := world.task_runs.get("west")) and runs.record,
        "node": view.record if view else None,
        "noderole": vertex.record if vertex else None,
        "claim": second.claim if second else None,
        "fence": None if second is None or second.fence == -1 else Fence() if second.fence == 0 else second.fence,
    }
    return values


def versions(world: World) -> dict[str, tuple[int, int]]:
    """The version and the mzxid of each record that the world keeps with them, by its path."""
    stored: list[tuple[str, Any]] = [
        *((paths.role(name), each) for name, each in world.roles.items()),
        *((paths.deployment(name), each) for name, each in world.deployments.items()),
        *((paths.deployment_role(*names), each) for names, each in world.deployment_roles.items()),
        *((paths.rollouts(name), each) for name, each in world.rollouts.items()),
        *((paths.task_runs(name), each) for name, each in world.task_runs.items()),
        *((paths.noderole(each.role, each.node.name), each) for each in world.vertices()),
    ]
    return {path: (each.version, each.mzxid) for path, each in stored}


@pytest.fixture
def session(zk_session: Session) -> Session:
    zk_session.ensure(*FOLDERS)
    return zk_session


def create(session: Session, *names: str) -> None:
    for name in names:
        path, record, _ = RECORDS[name]
        changes: list[Change] = [Create(path, record)]
        if session.get(path) is not None:
            changes = [Set(path, record, 0)]
        session.commit(changes)


def delete(session: Session, *names: str) -> None:
    for name in names:
        znode = session.get(RECORDS[name][0])
        assert znode is not None
        session.commit([Delete(znode.path, znode.version)])


#: Kind → the field of ``RECORDS`` for it.
FIELDS: Mapping[type[Record], str] = {
    Role: "roles",
    Deployment: "deployments",
    DeploymentRole: "deployments",
    Daemon: "daemons",
    RolloutPointer: "rollouts",
    TaskRunPointer: "task_runs",
}


def changed(changes: ChangeSet) -> set[str]:
    return {FIELDS[kind] for kind in changes.kinds} | ({"nodes"} if changes.nodes else set())


def refreshed(session: Session, cache: Cache) -> ChangeSet:
    session.sync()  # the events that came before are here
    return cache.refresh()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_comes_and_goes_is_shown_by_its_events(session: Session, name: str) -> None:
    cache = Cache(session, World(), lambda: None)
    cache.load()
    nothing = dict.fromkeys(RECORDS)
    assert shown(cache.world) == nothing
    create(session, name)
    field = RECORDS[name][2]
    assert changed(refreshed(session, cache)) == ({field} if field else set())
    assert shown(cache.world) == nothing | {name: RECORDS[name][1]}
    assert not refreshed(session, cache)
    delete(session, name)
    assert changed(refreshed(session, cache)) == ({field} if field else set())
    assert shown(cache.world) == nothing
    assert not refreshed(session, cache)


def test_records_that_came_and_went_without_an_event_are_found_by_a_sweep(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "watch", lambda *_: None)
    cache = Cache(session, World(), lambda: None)
    cache.load()
    create(session, *RECORDS)
    fields = {field for _, _, field in RECORDS.values() if field}
    assert changed(cache.sweep()) == fields
    assert shown(cache.world) == {name: record for name, (_, record, _) in RECORDS.items()}
    assert not cache.sweep()
    delete(session, *RECORDS)
    assert changed(cache.sweep()) == fields
    assert shown(cache.world) == dict.fromkeys(RECORDS)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_alone_went_without_an_event_is_found_by_a_sweep(
    session: Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Session, "watch", lambda *_: None)
    create(session, *RECORDS)
    cache = Cache(session, World(), lambda: None)
    cache.load()
    delete(session, name)
    field = RECORDS[name][2]
    assert changed(cache.sweep()) == ({field} if field else set())
    assert shown(cache.world) == {each: record for each, (_, record, _) in RECORDS.items()} | {name: None}


@pytest.mark.parametrize("name", sorted(RECORDS.keys() - {"gate", "fence"}))
def test_a_record_that_cannot_be_read_concerns_those_that_see_it(session: Session, name: str) -> None:
    cache = Cache(session, World(), lambda: None)
    create(session, name)
    cache.load()
    path, record, field = RECORDS[name]
    session._client.set(path, b"garbage")
    assert changed(refreshed(session, cache)) == {field}
    assert path in cache.quarantined
    znode = session.get(path)
    assert znode is not None
    session.commit([Set(path, record, znode.version)])
    assert changed(refreshed(session, cache)) == {field}
    assert path not in cache.quarantined
    assert shown(cache.world)[name] == record


def test_a_record_is_shown_with_its_version_by_an_event_and_by_a_sweep(session: Session) -> None:
    create(session, *RECORDS)
    for name in RECORDS:
        path, record, _ = RECORDS[name]
        znode = session.get(path)
        assert znode is not None
        session.commit([Set(path, record, znode.version)])
    swept = Cache(session, World(), lambda: None)
    swept.load()
    for _ in range(2):
        shown_versions = versions(swept.world)
        znodes = [session.get(path) for path in shown_versions]
        assert shown_versions == {each.path: (each.version, each.mzxid) for each in znodes if each is not None}
        for path in shown_versions:
            znode = session.get(path)
            assert znode is not None
            session._client.set(path, znode.data)
        refreshed(session, swept)


def test_daemons_of_which_the_folder_is_gone_are_found_by_a_sweep(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "watch", lambda *_: None)
    create(session, "daemon", "role")
    cache = Cache(session, World(), lambda: None)
    cache.load()
    delete(session, "daemon")
    folder = session.get(paths.daemons("annealer"))
    assert folder is not None
    session.commit([Delete(folder.path, folder.version)])
    assert changed(cache.sweep()) == {"daemons"}
    assert shown(cache.world) == dict.fromkeys(RECORDS) | {"role": RECORDS["role"][1]}


def test_each_kind_of_record_has_its_field_in_a_change_set() -> None:
    whole = ChangeSet()
    expected: dict[str, Any] = {}
    for path, _, field in RECORDS.values():
        at = parse(path)
        assert at is not None
        one = ChangeSet()
        WORLD_KINDS[at.kind].concern(World(), one, at)
        assert changed(one) == ({field} if field and at.kind is not Fence else set()), path
        expected |= dict.fromkeys(changed(one), True)
        WORLD_KINDS[at.kind].concern(World(), whole, at)
        assert changed(whole) == set(expected)
