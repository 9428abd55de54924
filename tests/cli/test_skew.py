"""Two people at once: what one decides from something not being there, the other does not undo in the same moment."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from nodepool_ocb.catalogue import barclamp, importing
from nodepool_ocb.cli.kit.performing import performer as performer_of_command
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import binding, deployments, liveness, nodes, structure
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Deployment, Json, Node, Role, Set
from nodepool_ocb.operations import performer
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal_as_judged
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.deletions import deletion_of_deployment, deletion_of_node

Ask = Callable[..., Json]
Ocb = Callable[..., Result]
Transactions = Iterable[Sequence[Change]]
Decide = Callable[[Session, World], Transactions]

N1, N2, N3 = "n1.example.com", "n2.example.com", "n3.example.com"

ROLES: Sequence[dict[str, Any]] = (
    {"name": "left"},
    {"name": "right", "conflicts": ["left"]},
    {"name": "member", "flags": ["cluster"]},
    {"name": "child", "requires": ["member"]},
    {"name": "top"},
    {"name": "chrony", "provides": ["ntp"]},
    {"name": "ntpd", "provides": ["ntp"]},
)


@pytest.fixture
def lab(zk_session: Session) -> Session:
    """Deployments lab and spare; nodes n1, n2 and n3 in lab, with member@n3 and top@n1."""
    for decide in (
        *(import_role(**role) for role in ROLES),
        create_deployment("lab", "system"),
        create_deployment("spare", "system"),
        *(create_node(fqdn, "lab") for fqdn in (N1, N2, N3)),
        bind("member", N3),
        bind("top", N1),
    ):
        for transaction in decide(zk_session, load_world(zk_session)):
            zk_session.commit(transaction)
    return zk_session


# -- decisions, as the commands make them --


def bind(role: str, fqdn: str, deployment: str | None = None) -> Decide:
    return lambda _, world: [binding.plan(world, role, fqdn, now=1.0, deployment=deployment).changes]


def unbind(name: str) -> Decide:
    def decide(session: Session, world: World) -> Transactions:
        going = binding.removable(_vertex(world, name))
        places = [paths.noderole(vertex.role, vertex.node.name) for vertex in going]
        return structure.in_parts(world, (removal_as_judged(session, world, place) for place in places))

    return decide


def create_node(fqdn: str, deployment: str) -> Decide:
    return lambda _, world: [
        nodes.create(world, fqdn, Node(deployment=deployment), admin_domain=None, now=1.0).changes
    ]  # fmt: skip


def delete_node(fqdn: str) -> Decide:
    return lambda session, world: deletion_of_node(session, world, fqdn)


def move_node(fqdn: str, deployment: str) -> Decide:
    return lambda _, world: [liveness.changed(world, world.nodes[fqdn], 1.0, deployment=deployment)]


def create_deployment(name: str, parent: str) -> Decide:
    return lambda _, world: [deployments.create(world, name, parent, 1.0)]


def delete_deployment(name: str) -> Decide:
    return lambda session, world: deletion_of_deployment(session, world, name)


def import_role(name: str, **fields: Any) -> Decide:
    def decide(_: Session, world: World) -> Transactions:
        known = {each: stored.record for each, stored in world.roles.items()}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(
                {"barclamp": {"name": name, "version": 1}, "roles": [{"name": name, "jig": "noop", **fields}]}, file
            )
            file.flush()
            found = barclamp.load([file.name], known)
        if found.problems:
            raise Invalid(found.problems)
        return structure.in_parts(world, [importing.changes(world, found.roles)])

    return decide


PAIRS = {
    "two roles that conflict are bound": (bind("left", N2), bind("right", N2)),
    "two roles that stand in for a third are bound": (bind("chrony", N2), bind("ntpd", N2)),
    "a cluster gets a member and a child": (bind("member", N2), bind("child", N1)),
    "a parent is unbound and a child bound": (unbind(f"member@{N3}"), bind("child", N2)),
    "a deployment goes and a role is bound in it": (delete_deployment("spare"), bind("left", N2, "spare")),
    "a deployment goes and a node comes": (delete_deployment("spare"), create_node("n9.example.com", "spare")),
    "a deployment goes and a node moves there": (delete_deployment("spare"), move_node(N2, "spare")),
    "a deployment goes and gets one below it": (delete_deployment("spare"), create_deployment("below", "spare")),
    "a node goes and a child of its noderole comes": (delete_node(N3), bind("child", N2)),
    "a node goes and a role is bound to it": (delete_node(N3), bind("left", N3)),
    "two imports close a circle": (import_role("xx", requires=["yy"]), import_role("yy", requires=["xx"])),
    "an import forbids what a bind makes": (import_role("xx", conflicts=["left"]), bind("left", N2)),
}


@pytest.mark.parametrize("order", [1, -1], ids=["this way", "the other way"])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_of_two_that_were_decided_from_one_view_the_second_is_refused_and_decides_again(
    lab: Session, pair: tuple[Decide, Decide], order: int
) -> None:
    first, second = pair[::order]
    old, tries = load_world(lab), []
    for transaction in first(lab, load_world(lab)):
        lab.commit(transaction)

    def decide() -> Transactions:
        tries.append(old if not tries else load_world(lab))
        return second(lab, tries[-1])

    with contextlib.suppress(Conflict, Invalid, NotFound):  # what it may not do after the other
        performer_of_command().decided(lab, decide)
    assert len(tries) == 2
    _sound(load_world(lab))


def _sound(world: World) -> None:
    """Nothing hangs in the air, nothing conflicts, nothing goes round."""
    for vertex in world.vertices():
        assert len(vertex.above) == len(vertex.record.parents), f"{vertex.name} has a parent that is gone"
        assert vertex.record.deployment in world.deployments, vertex.name
        for other in vertex.node.noderoles:
            assert other not in world.role_of(vertex).conflicts, f"{vertex.name} beside {other}"
            alike = set(world.role_of(vertex).provides).intersection(world.roles[other].record.provides)
            assert other == vertex.role or not alike, f"{vertex.name} beside {other}"
        if vertex.role == "child":
            members = {each.name for each in world.vertices() if each.role == "member"}
            assert {parent.name for parent in vertex.parents} == members, vertex.name
    for view in world.nodes.values():
        assert view.record is not None, f"{view.name} has no record"
        assert view.record.deployment in world.deployments, view.name
    for name, stored in world.deployments.items():
        assert stored.record.parent is None or stored.record.parent in world.deployments, name
    assert not barclamp.roles.check({name: stored.record for name, stored in world.roles.items()})


# -- who raises it --


def test_every_verb_that_changes_the_structure_raises_it_and_no_other_does(
    lab: Session, ocb: Ocb, tmp_path: Path
) -> None:
    (tmp_path / "new.yml").write_text("barclamp: {name: new, version: 1}\nroles: [{name: new, jig: noop}]\n")
    (tmp_path / "newer.yml").write_text("barclamp: {name: new, version: 1}\nroles: [{name: new, jig: test}]\n")
    for line, raises in (
        (f"barclamp import {tmp_path / 'new.yml'}", 1),
        (f"barclamp import {tmp_path / 'newer.yml'}", 1),
        (f"barclamp import {tmp_path / 'newer.yml'}", 0),
        ("deployment create below --parent spare", 1),
        ("deployment set spare new a/b=1", 1),
        ("deployment set spare new a/b=2", 0),
        ("node create n8.example.com --deployment spare", 1),
        ("node bind n8.example.com left", 1),
        ("node bind n8.example.com left", 0),
        ("node bind n8.example.com left --dry-run", 0),
        ("noderole set left@n8.example.com a/b=1", 0),
        ("noderole commit left@n8.example.com", 0),
        ("noderole propose left@n8.example.com", 0),
        ("node set n8.example.com tags=a", 0),
        ("deployment commit spare", 0),
        ("deployment propose spare", 0),
        ("noderole unbind left@n8.example.com --yes", 1),
        ("node delete n8.example.com --yes", 1),
        ("deployment delete below --yes", 1),
        ("deployment delete spare --yes", 1),
    ):
        before = _version(lab)
        result = ocb(*line.split())
        assert result.exit_code in (0, 10), (line, result.output)
        assert _version(lab) - before == raises, line


def test_a_transaction_that_forgets_to_raise_the_structure_is_not_sent(lab: Session) -> None:
    with pytest.raises(AssertionError, match="raises the structure"):
        performer_of_command().decided(lab, lambda: [[Create(paths.deployment("hidden"), Deployment())]])
    assert lab.get(paths.deployment("hidden")) is None


def test_nothing_comes_or_goes_while_the_structure_cannot_be_read(
    lab: Session, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performer, "LONGEST_PAUSE_SECONDS", 0.02)  # it tries forty times
    lab.commit([Set(paths.STRUCTURE, {"schema": 9}, _version(lab))])
    result = ocb("node", "bind", N2, "left")
    assert result.exit_code == 4, result.output
    assert paths.STRUCTURE in result.stderr
    assert not load_world(lab).nodes[N2].noderoles


@pytest.mark.long
def test_many_people_who_create_nodes_at_once_all_get_theirs(lab: Session, zk_settings: ZooKeeperSettings) -> None:
    environment = {**os.environ, "NODEPOOL_OCB_ZOOKEEPER": zk_settings.hosts}
    wanted = [f"m{number}.example.com" for number in range(8)]
    command = [str(Path(sys.executable).with_name("nodepool-ocb")), "node", "create"]
    running = [
        subprocess.Popen([*command, fqdn], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for fqdn in wanted
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * len(wanted), said
    assert set(wanted) <= load_world(lab).nodes.keys()


# -- a catalogue in several transactions --


def test_an_import_that_stops_between_two_transactions_leaves_a_catalogue_without_a_circle(lab: Session) -> None:
    def chain(order: Sequence[str]) -> dict[str, Role]:
        follows = {name: (order[at - 1],) if at else () for at, name in enumerate(order)}
        return {name: Role(barclamp="long", jig="noop", requires=follows[name]) for name in order}

    names = [f"r{number:03d}" for number in range(600)]

    def write(roles: dict[str, Role], most: int | None = None) -> int:
        world = load_world(lab)
        parts = structure.in_parts(world, ([each] for each in importing.changes(world, roles)))
        written = 0
        for part in parts:
            lab.commit(part)
            written += 1
            if written == most:
                break
        return written

    assert write(chain(names)) == 3
    assert write(chain(names[::-1]), most=1) == 1
    left = {name: stored.record for name, stored in load_world(lab).roles.items()}
    assert left != {**left, **chain(names[::-1])}
    assert barclamp.roles.check(left) == []


def test_a_role_that_is_left_out_of_an_import_stays_as_it_was_and_closes_no_circle(
    lab: Session, ocb: Ocb, tmp_path: Path
) -> None:
    head = "barclamp: {name: two, version: 1}\nroles:\n"
    document = tmp_path / "two.yml"
    document.write_text(head + "  - {name: aa, jig: noop, requires: [bb]}\n  - {name: bb, jig: noop}\n")
    assert ocb("barclamp", "import", str(document)).exit_code == 0
    document.write_text(head + "  - {name: aa, jig: noop, provides: [aa]}\n  - {name: bb, jig: noop, requires: [aa]}\n")
    assert ocb("barclamp", "import", str(document)).exit_code == 1
    assert barclamp.roles.check({name: stored.record for name, stored in load_world(lab).roles.items()}) == []


# -- what is written is what was judged --


def test_of_two_who_set_attributes_of_one_noderole_at_once_neither_is_lost(
    lab: Session, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nodepool_ocb.operations import attributes

    name, once = f"top@{N1}", [True]
    real = attributes.assigned

    def slowly(*arguments: Any) -> Any:
        if once:
            once.clear()
            lab.commit([Create(paths.user("top", N1), {"theirs": {"b": 2}})])
        return real(*arguments)

    monkeypatch.setattr(attributes, "assigned", slowly)
    ask("noderole", "set", name, "mine/a=1")
    assert ask("noderole", "show", name)["attributes"]["user"] == {"mine": {"a": 1}, "theirs": {"b": 2}}


def _vertex(world: World, name: str) -> Vertex:
    vertex = world.vertex(name)
    assert vertex is not None, name
    return vertex


def _version(session: Session) -> int:
    znode = session.get(paths.STRUCTURE)
    assert znode is not None
    return znode.version
