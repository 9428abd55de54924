"""``record show`` and ``record delete``, and what ``status`` says of records that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from nodepool_ocb.engine.noderole import State
from nodepool_ocb.engine.structure import stored
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Create,
    Daemon,
    Delete,
    Json,
    LockOwner,
    NodeRole,
    Role,
    Run,
    Set,
    Structure,
)
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import WHOLE
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.telemetry.terminal_escape import line

Ocb = Callable[..., Json]

N1 = "n1.example.com"
TOP = paths.noderole("top", N1)
NASTY = b"\x1b[2J\x1b]0;owned\x07\xe2\x80\xae{oops"


def spoil(session: Session, path: str, data: bytes = NASTY) -> None:
    session._client.set(path, data)


def structure(session: Session) -> Structure:
    znode = session.get(paths.STRUCTURE)
    assert znode is not None
    return codec.decode(Structure, znode)


def test_status_names_every_kind_of_record_that_cannot_be_read(world: Session, ask: Ocb) -> None:
    made = begin(WHOLE, inventory(load_world(world), "lab"), 1.0, by="a test")
    identity = rollouts.begin(world, "lab", made)
    lock = paths.rollout_lock("lab", identity)
    world.ensure(paths.daemons("builder"), paths.builds("jammy"), lock)
    build = Build(builder="b", builder_id="b", filename="f", state=BuildState.READY, state_time=1.0)
    world.commit([Create(paths.build("jammy", "0000000001"), build)])
    world.commit([Create(f"{lock}/5f__lock__0000000002"), Create(paths.daemon("builder", "b"))])
    places = [
        paths.role("base"),
        paths.deployment("lab"),
        paths.node(N1),
        TOP,
        paths.rollouts("lab"),
        paths.rollout("lab", identity),
        paths.rollout("lab", identity, "groups/all"),
        paths.rollout("lab", identity, "nodes/0000"),
        paths.build("jammy", "0000000001"),
        paths.daemon("builder", "b"),
        f"{lock}/5f__lock__0000000002",
    ]
    for path in places:
        spoil(world, path)
    assert {each["path"] for each in ask("status")["quarantined"]} == set(places)


def test_status_of_a_large_cluster_says_that_it_leaves_attributes_and_runs_out(
    world: Session, ocb: Ocb, ask: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = paths.user("top", N1)
    world.commit([Create(path, {"a": 1})])
    spoil(world, path)
    assert [each["path"] for each in ask("status")["quarantined"]] == [path]
    monkeypatch.setattr("nodepool_ocb.operations.cluster.status.INSPECTED", 1)
    seen = ask("status")
    assert (seen["quarantined"], seen["unlooked"] > 1) == ([], True)
    assert "record list" in ocb("status").output
    assert [each["path"] for each in ask("record", "list")] == [path]


def test_a_record_is_shown_without_anything_that_a_terminal_obeys(world: Session, ocb: Ocb, ask: Ocb) -> None:
    spoil(world, TOP)
    for result in (ocb("record", "show", TOP), ocb("record", "show", TOP, "-o", "json")):
        assert result.exit_code == 0
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.stdout)
    document = ask("record", "show", TOP)
    assert document["data"] == line(NASTY.decode())
    assert document["kind"] == "NodeRole"
    assert document["cannot_be_read"]
    assert ask("record", "show", paths.role("base"))["cannot_be_read"] is None
    assert ocb("record", "show", "/ocb/roles/nowhere").exit_code == 3
    assert ocb("record", "show", "/zookeeper/quota").exit_code == 2
    assert ocb("record", "show", "/ocb/../zookeeper").exit_code != 0


def test_a_spoiled_noderole_is_deleted_and_bound_again_above_all_generations_that_it_can_have_had(
    world: Session, ocb: Ocb
) -> None:
    run = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=700, epoch=40)
    world.commit([Create(paths.run("top", N1, "0000000040-a"), run)])
    before = structure(world)
    spoil(world, TOP)
    assert ocb("record", "delete", TOP).exit_code == 2  # nobody to ask
    assert world.get(TOP) is not None
    assert ocb("record", "delete", TOP, "--yes").exit_code == 0
    assert world.get(TOP) is None
    after = structure(world)
    assert after.generation > max(700, before.generation)
    assert after.epoch > 40
    assert ocb("node", "bind", N1, "top").exit_code == 0
    vertex = load_world(world).vertex(f"top@{N1}")
    assert vertex is not None
    assert vertex.record.generation >= after.generation


def test_the_version_of_a_noderole_bounds_the_generations_that_nobody_recorded(world: Session, ocb: Ocb) -> None:
    for _ in range(10):
        spoil(world, TOP)
    assert ocb("record", "delete", TOP, "--yes").exit_code == 0
    assert structure(world).generation >= 10


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (TOP, "can be read"),
        (paths.noderole("base", N1), "would be left without it"),
        (paths.deployment("lab"), "would be left without it"),
        (paths.deployment("system"), "never deleted"),
        (paths.STRUCTURE, "never deleted"),
        (paths.CLUSTER, "never deleted"),
        (paths.fence(N1), "never deleted"),
        (paths.NODES, "is no record"),
        (paths.noderoles(N1), "is no record"),
        (paths.runs("top", N1), "is no record"),
        (paths.deployment_roles("system"), "is no record"),
        (paths.daemons("annealer"), "is no record"),
        (paths.daemons("builder"), "is no record"),
        (paths.image("jammy"), "is no record"),
        (paths.builds("jammy"), "is no record"),
        (paths.uploads("jammy", "0000000001", "west"), "is no record"),
        (paths.upload_lock("jammy", "0000000001", "west"), "is no record"),
    ],
)
def test_readable_or_needed_records_are_not_deleted(world: Session, ocb: Ocb, path: str, said: str) -> None:
    if said == "would be left without it":
        spoil(world, path)
    world.ensure(paths.daemons("annealer"), paths.daemons("builder"), paths.upload_lock("jammy", "0000000001", "west"))
    force = () if said == "can be read" else ("--force",)
    result = ocb("record", "delete", path, "--yes", *force)
    assert result.exit_code == 4, result.output
    assert said in result.stderr
    assert world.get(path) is not None


@pytest.mark.parametrize("spoiled", [False, True], ids=["read", "unreadable"])
def test_nothing_of_a_node_goes_while_an_annealer_works_on_it(world: Session, ocb: Ocb, spoiled: bool) -> None:
    daemon = Daemon(host="h", pid=1, version="1", started=1.0)
    claim = Claim(annealer="a1", noderole=f"top@{N1}", run="0000000001-a", epoch=1, since=1.0)
    world.ensure(paths.daemons("annealer"))
    world.commit(
        [
            Create(paths.daemon("annealer", "a1"), daemon, ephemeral=True),
            Create(paths.claim(N1), claim, ephemeral=True),
        ]
    )
    spoil(world, TOP)
    if spoiled:
        spoil(world, paths.daemon("annealer", "a1"))
    for path in (TOP, paths.claim(N1), paths.node(N1)):
        assert ocb("record", "delete", path, "--yes", "--force").exit_code == 4, path
    assert world.get(paths.claim(N1)) is not None


@pytest.mark.parametrize(
    ("path", "lock"),
    [
        (paths.build("jammy", "0000000002"), paths.build_lock("jammy")),
        (
            paths.upload("jammy", "0000000001", "west", "0000000001"),
            paths.upload_lock("jammy", "0000000001", "west"),
        ),
        (paths.rollout("lab", "0000000001", "groups/all"), paths.rollout_lock("lab", "0000000001")),
    ],
    ids=["build", "upload", "group"],
)
def test_what_somebody_holds_by_a_lock_beside_it_is_not_deleted(world: Session, ocb: Ocb, path: str, lock: str) -> None:
    old = paths.build("jammy", "0000000001")
    world.ensure(old, lock, path)
    holder = LockOwner(daemon="b", host="h", pid=1, purpose="p", since=1.0)
    world.commit([Create(f"{lock}/5f__lock__0000000002", holder, ephemeral=True)])
    spoil(world, path)
    result = ocb("record", "delete", path, "--yes", "--force")
    assert result.exit_code == 4, result.output
    assert f"a daemon or command holds {lock}" in result.stderr
    if lock == paths.build_lock("jammy"):
        assert ocb("record", "delete", old, "--yes").exit_code == 0  # the newest is the one that is built
    world.commit([Delete(f"{lock}/5f__lock__0000000002", 0)])
    assert ocb("record", "delete", path, "--yes", "--force").exit_code == 0


def test_a_claim_that_nobody_stands_behind_is_explained_and_deleted_though_it_can_be_read(
    world: Session, ocb: Ocb, ask: Ocb, becomes: Callable[..., None]
) -> None:
    becomes(f"base@{N1}", State.TODO)
    claim = Claim(annealer="gone", noderole=f"base@{N1}", run="0000000001-a", epoch=1, since=1.0)
    world.commit([Create(paths.claim(N1), claim)])
    explained = ask("noderole", "explain", f"base@{N1}")
    assert f"record delete {paths.claim(N1)}" in str(explained)
    assert ocb("record", "delete", paths.claim(N1), "--yes").exit_code == 0
    assert world.get(paths.claim(N1)) is None


def test_a_spoiled_role_is_deleted_and_imported_again(world: Session, ocb: Ocb, tmp_path: object) -> None:
    spoil(world, paths.role("other"))
    imported = ("barclamp", "import", f"{tmp_path}/chain.yml")
    assert ocb(*imported).exit_code == 4
    assert ocb("record", "delete", paths.role("other"), "--yes").exit_code == 0
    assert ocb(*imported).exit_code == 0
    assert "other" in load_world(world).roles


def test_a_role_that_is_bound_is_deleted_only_where_it_cannot_be_read(world: Session, ocb: Ocb) -> None:
    refused = ocb("record", "delete", paths.role("top"), "--yes", "--force")
    assert refused.exit_code == 4
    assert f"top@{N1} would be left without it" in refused.stderr
    spoil(world, paths.role("top"))
    assert ocb("record", "delete", paths.role("top"), "--yes").exit_code == 0


def test_what_was_changed_since_it_was_shown_is_not_deleted(
    world: Session, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = paths.role("other")
    spoil(world, path)

    def mended_meanwhile(_what: str, _yes: bool) -> None:
        znode = world.get(path)
        assert znode is not None
        world.commit([Set(path, Role(barclamp="chain", jig="noop"), znode.version)])

    monkeypatch.setattr("nodepool_ocb.cli.kit.performing.confirm", mended_meanwhile)
    assert ocb("record", "delete", path).exit_code == 4
    assert "other" in load_world(world).roles


def test_what_was_decided_with_a_record_that_goes_is_refused(
    world: Session, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child is bound below it when all was judged, just before it goes."""
    assert ocb("node", "create", "n2.example.com", "--deployment", "lab").exit_code == 0
    commit = Session.commit
    between: list[Change] = []

    def bound_first(session: Session, changes: Iterable[Change]) -> None:
        changes = list(changes)
        if any(isinstance(change, Delete) for change in changes) and not between:
            between.extend(changes)
            before = structure_of(load_world(world))  # whoever binds now
            child = NodeRole(state=State.PROPOSED, since=1.0, deployment="lab", parents=(f"top@{N1}",))
            commit(world, [Create(paths.noderole("other", "n2.example.com"), child), before])
        commit(session, changes)

    monkeypatch.setattr(Session, "commit", bound_first)
    assert ocb("record", "delete", TOP, "--yes", "--force").exit_code == 4
    assert world.get(TOP) is not None


def structure_of(view: World) -> Set:
    """What a transaction that changes the structure carries."""
    known = stored(view)
    return Set(paths.STRUCTURE, known.record, known.version)


def test_deployments_in_a_circle_are_shown(world: Session, ocb: Ocb) -> None:
    for name, parent in (("lab", "ring"), ("ring", "lab"), ("own", "own")):
        data = b'{"schema":1,"parent":"%s"}' % parent.encode()
        world.ensure(paths.deployment_roles(name))
        spoil(world, paths.deployment(name), data)
    for words in (("deployment", "show", "lab"), ("deployment", "show", "own"), ("deployment", "list"), ("status",)):
        assert ocb(*words).exit_code == 0


def test_node_delete_names_what_goes_on_other_nodes(world: Session, ocb: Ocb) -> None:
    assert load_world(world).vertex(f"top@{N1}") is not None
    assert ocb("node", "create", "n2.example.com", "--deployment", "lab").exit_code == 0
    assert ocb("node", "bind", "n2.example.com", "top", "--parent", f"middle@{N1}").exit_code == 0
    result = ocb("node", "delete", N1)
    assert result.exit_code == 2
    assert "top@n2.example.com" in result.stderr


def test_an_address_that_another_node_has_is_refused_by_its_name(world: Session, ocb: Ocb) -> None:
    assert ocb("node", "create", "n2.example.com", "--address", "10.0.0.2").exit_code == 0
    create = ocb("node", "create", "n3.example.com", "--address", "[::ffff:10.0.0.2]:22")
    change = ocb("node", "set", N1, "addresses=10.0.0.2:22")
    for result in (create, change):
        assert result.exit_code == 4
        assert "node n2.example.com is at 10.0.0.2" in result.stderr
    assert ocb("node", "create", "n3.example.com", "--address", "no address").exit_code == 1
    assert ocb("node", "set", N1, "addresses=010.0.0.1").exit_code == 1
    assert world.get(paths.node("n3.example.com")) is None


def test_a_host_key_is_type_and_key_and_what_is_none_is_refused(world: Session, ocb: Ocb) -> None:
    for words in (("create", "n2.example.com", "--host-key", "x"), ("set", N1, "host_keys=SHA256:k0sw1XT5")):
        result = ocb("node", *words)
        assert result.exit_code in (1, 2)
        assert "is no host key; write 'TYPE KEY', as in 'ssh-ed25519 AAAA" in result.stderr
    assert world.get(paths.node("n2.example.com")) is None
    assert ocb("node", "set", N1, "host_keys=ssh-ed25519 AAAAC3Nz").exit_code == 0
    assert ocb("node", "set", N1, "host_keys=").exit_code == 0
