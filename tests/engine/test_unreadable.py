"""Records that cannot be read: they settle nobody, hold back what they may forbid, and people are told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.engine import binding, commands, deployments, nodes, roles, unreadable
from nodepool_ocb.engine.liveness import died
from nodepool_ocb.engine.noderole import Event, apply, placed, settle
from nodepool_ocb.engine.readiness import Code, runnable, why_not
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Daemon,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Node,
    NodeRole,
    Role,
    RolloutPointer,
    Set,
    State,
)

M, N = "m.example.com", "n.example.com"
BASE = f"base@{M}"
JIGS = {"noop"}


def world() -> World:
    made = World()
    for name, above in (("system", None), ("lab", "system")):
        made.put(Stored(Deployment(parent=above, state=DeploymentState.COMMITTED), 0), name)
    made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0, jigs=("noop",)), 0), "annealer", "a")
    for role in ("base", "other", "app", "top"):
        made.put(Stored(Role(barclamp="b", jig="noop"), 0), role)
    for fqdn in (M, N):
        made.put_node(fqdn, Node(alive=True, deployment="lab"), 0)
        made.put_fence(fqdn, 0)
    return made


def put(made: World, name: str, state: State, *parents: str, **fields: object) -> Vertex:
    role, fqdn = paths.split_noderole(name)
    record = NodeRole.of(state=state, since=0.0, generation=1, parents=parents, deployment="lab", **fields)  # type: ignore[arg-type]
    return made.put_noderole(fqdn, role, record, 0)


def spoil(made: World, path: str) -> None:
    made.unreadable[path] = f"{path}: not one of ours"


def spoil_noderole(made: World, name: str, seen: bool) -> None:
    """A noderole that cannot be read, and was ``seen`` whole before or not."""
    role, fqdn = paths.split_noderole(name)
    spoil(made, paths.noderole(role, fqdn))
    if not seen:
        made.drop_noderole(fqdn, role)


seen_or_not = pytest.mark.parametrize("seen", [True, False])


@seen_or_not
@pytest.mark.parametrize("was", list(State))
@pytest.mark.parametrize("state", list(State))
def test_children_stay_as_they_are_whatever_their_parent_was(seen: bool, was: State, state: State) -> None:
    made = world()
    put(made, BASE, was)
    child = put(made, f"app@{N}", state, BASE)
    spoil_noderole(made, BASE, seen)
    assert placed(child, child.record, 0, 9.0) is child.record
    assert settle({}, 9.0, also=[child]) == {}


@seen_or_not
def test_a_parent_that_is_known_to_have_failed_blocks_all_the_same(seen: bool) -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    other = put(made, f"other@{M}", State.ACTIVE)
    child = put(made, f"app@{N}", State.ACTIVE, BASE, other.name)
    spoil_noderole(made, BASE, seen)
    moved = apply({other: Event.PROPOSE}, 9.0)
    assert moved[child].state is State.BLOCKED


@seen_or_not
def test_nothing_is_unblocked_while_a_parent_is_unknown(seen: bool) -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    other = put(made, f"other@{M}", State.TRANSITION)
    child = put(made, f"app@{N}", State.BLOCKED, BASE, other.name)
    spoil_noderole(made, BASE, seen)
    moved = apply({other: Event.SUCCEED}, 9.0)
    assert set(moved) == {other}
    other.record, child.waiting = moved[other], child.waiting - 1
    made.unreadable.clear()
    base = put(made, BASE, State.ACTIVE)
    assert settle({}, 9.0, also=[child])[child].state is State.TODO
    assert base.unreadable is False


def test_nothing_is_written_over_a_record_that_cannot_be_read() -> None:
    made = world()
    base = put(made, BASE, State.ACTIVE)
    child = put(made, f"app@{N}", State.ACTIVE, BASE)
    top = put(made, f"top@{N}", State.ACTIVE, child.name)
    spoil_noderole(made, child.name, seen=True)
    assert set(apply({base: Event.PROPOSE}, 9.0)) == {base}
    assert top.record.state is State.ACTIVE
    with pytest.raises(Conflict, match="cannot be read"):
        apply({child: Event.PROPOSE}, 9.0)
    assert list(commands.apply_to(made, [child], Event.PROPOSE, 9.0)) == []


def test_a_machine_dies_though_one_of_its_noderoles_cannot_be_read() -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    other = put(made, f"other@{M}", State.ACTIVE)
    spoil_noderole(made, BASE, seen=True)
    written = {change.path for change in died(made.nodes[M], 9.0, "connect: no answer") if isinstance(change, Set)}
    assert written == {paths.node(M), paths.noderole("other", M)}
    assert other.node.name == M


def test_a_node_that_cannot_be_read_is_neither_dead_nor_alive() -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    spoil(made, paths.node(M))
    with pytest.raises(Conflict, match=f"{paths.node(M)} cannot be read"):
        died(made.nodes[M], 9.0, "connect: no answer")


HOLDING = {
    "itself": paths.noderole("app", N),
    "a parent": paths.noderole("base", M),
    "another of its node, which may be at work": paths.noderole("other", N),
    "its node": paths.node(N),
    "its node's claim": paths.claim(N),
    "its deployment": paths.deployment("lab"),
    "its role": paths.role("app"),
    "attributes that it would see": paths.deployment_role("lab", "app"),
    "attributes of a parent": paths.deployment_role("lab", "base"),
    "the template of a parent": paths.role("base"),
}
OTHERS = [
    paths.noderole("other", M),
    paths.node(M),
    paths.claim(M),
    paths.deployment("else"),
    paths.role("top"),
    paths.deployment_role("else", "app"),
    paths.rollouts("lab"),
    paths.daemon("annealer", "b"),
]


@pytest.mark.parametrize("what", HOLDING)
def test_a_claim_waits_for(what: str) -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    vertex = put(made, f"app@{N}", State.TODO, BASE)
    assert runnable(made, vertex, 1.0, JIGS)
    spoil(made, HOLDING[what])
    assert not runnable(made, vertex, 1.0, JIGS)
    assert [reason.subject for reason in why_not(made, vertex, 1.0)] == [HOLDING[what]]
    assert [reason.code for reason in why_not(made, vertex, 1.0)] == [Code.UNREADABLE]


@pytest.mark.parametrize("path", OTHERS)
def test_a_claim_does_not_wait_for_the_records_of_others(path: str) -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    vertex = put(made, f"app@{N}", State.TODO, BASE)
    spoil(made, path)
    assert runnable(made, vertex, 1.0, JIGS)


@pytest.mark.parametrize("path", [paths.node(N), paths.deployment("lab"), paths.role("app"), paths.noderole("base", M)])
def test_what_was_never_seen_whole_is_told_as_unreadable_and_not_as_absent(path: str) -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    vertex = put(made, f"app@{N}", State.BLOCKED, BASE)
    made.drop(Deployment, "lab")
    made.drop(Role, "app")
    vertex.node.record = None
    made.drop_noderole(M, "base")
    for each in (paths.node(N), paths.deployment("lab"), paths.role("app"), paths.noderole("base", M)):
        spoil(made, each)
    assert {reason.code for reason in why_not(made, vertex, 1.0)} == {Code.UNREADABLE}
    assert path in {reason.subject for reason in why_not(made, vertex, 1.0)}


SPOILED = {
    "its own attributes": f"app@{N}",
    "a parent's": BASE,
    "those of another that is ACTIVE on its node": f"other@{N}",
}


@pytest.mark.parametrize("layer", [paths.user, paths.system, paths.wall])
@pytest.mark.parametrize("what", SPOILED)
def test_a_claim_waits_for_attributes_that_its_jig_would_see(what: str, layer: Callable[[str, str], str]) -> None:
    made = world()
    put(made, BASE, State.ACTIVE)
    put(made, f"other@{N}", State.ACTIVE)
    vertex = put(made, f"app@{N}", State.TODO, BASE)
    path = layer(*paths.split_noderole(SPOILED[what]))
    made.spoiled[path] = f"{path}: these are no attributes"
    assert not runnable(made, vertex, 1.0, JIGS)
    assert [(each.code, each.subject) for each in why_not(made, vertex, 1.0)] == [(Code.UNREADABLE, path)]


@pytest.mark.parametrize("name", [f"top@{N}", f"other@{M}"])
def test_a_claim_does_not_wait_for_attributes_that_its_jig_would_not_see(name: str) -> None:
    """Of one that is not ACTIVE on its node, and of one on a parent's node."""
    made = world()
    put(made, BASE, State.ACTIVE)
    put(made, f"other@{M}", State.ACTIVE)
    put(made, f"top@{N}", State.PROPOSED)
    vertex = put(made, f"app@{N}", State.TODO, BASE)
    made.spoiled[paths.user(*paths.split_noderole(name))] = "these are no attributes"
    assert runnable(made, vertex, 1.0, JIGS)


# -- clusters --

CLUSTER = paths.cluster_name("base", "lab")


def members(made: World, *states: State) -> list[Vertex]:
    """Of cluster ``base@*lab``: one on each node."""
    return [put(made, f"base@{fqdn}", state, serves=("base",)) for fqdn, state in zip((M, N), states, strict=True)]


@seen_or_not
@pytest.mark.parametrize("was", [State.ACTIVE, State.ERROR])
@pytest.mark.parametrize("before", [State.ACTIVE, State.BLOCKED, State.TODO])
def test_an_unreadable_member_of_a_cluster_moves_none_of_those_that_wait_for_it(
    before: State, was: State, seen: bool
) -> None:
    made = world()
    members(made, was, State.ACTIVE)
    child = put(made, f"app@{N}", before, CLUSTER)
    spoil_noderole(made, BASE, seen)
    assert placed(child, child.record, 0, 9.0) is child.record
    assert settle({}, 9.0, also=[child]) == {}
    assert child.unknown == [BASE]
    assert child.lacking == 0


@seen_or_not
def test_a_member_that_is_known_not_to_be_well_blocks_though_another_cannot_be_read(seen: bool) -> None:
    made = world()
    _, other = members(made, State.ACTIVE, State.ACTIVE)
    child = put(made, f"app@{M}", State.ACTIVE, CLUSTER)
    spoil_noderole(made, BASE, seen)
    moved = apply({other: Event.PROPOSE}, 9.0)
    assert moved[child].state is State.BLOCKED


@seen_or_not
def test_a_member_that_is_well_again_unblocks_nobody_while_another_cannot_be_read(seen: bool) -> None:
    made = world()
    _, other = members(made, State.ACTIVE, State.TRANSITION)
    child = put(made, f"app@{M}", State.BLOCKED, CLUSTER)
    spoil_noderole(made, BASE, seen)
    assert child not in apply({other: Event.SUCCEED}, 9.0)


@seen_or_not
def test_a_claim_of_a_child_of_a_cluster_waits_for_a_member_that_cannot_be_read(seen: bool) -> None:
    made = world()
    members(made, State.ACTIVE, State.ACTIVE)
    for cluster in made.clusters.values():
        made.put_gate(cluster.deployment, cluster.role, 0)
    child = put(made, f"app@{N}", State.TODO, CLUSTER)
    assert runnable(made, child, 1.0, JIGS)
    spoil_noderole(made, BASE, seen)
    assert not runnable(made, child, 1.0, JIGS)
    assert (Code.UNREADABLE, paths.noderole("base", M)) in {(r.code, r.subject) for r in why_not(made, child, 1.0)}
    assert {reason.code for reason in why_not(made, child, 1.0)} == {Code.UNREADABLE}


@seen_or_not
def test_what_waits_for_a_cluster_with_a_member_that_cannot_be_read_is_not_committed(seen: bool) -> None:
    made = world()
    members(made, State.ACTIVE, State.ACTIVE)
    child = put(made, f"app@{N}", State.PROPOSED, CLUSTER)
    spoil_noderole(made, BASE, seen)
    with pytest.raises(Conflict, match="cannot be read"):
        unreadable.refuse_commit(made, [child])


ROLE, NODE, CLAIM, NODEROLE = paths.role("top"), paths.node(M), paths.claim(M), paths.noderole("top", N)
LAB, ATTRIBUTES, POINTER = paths.deployment("lab"), paths.deployment_role("lab", "app"), paths.rollouts("lab")


def bind(made: World) -> None:
    binding.plan(made, "app", M, now=1.0)


def make(made: World) -> None:
    nodes.create(made, "new.example.com", Node(deployment="lab"), admin_domain=None, now=1.0)


def unbind(made: World) -> None:
    vertex = made.vertex(BASE)
    assert vertex is not None
    binding.removable(vertex)


def commit(made: World) -> None:
    unreadable.refuse_commit(made, list(made.nodes[M].noderoles.values()), [M])


def delete(made: World) -> None:
    nodes.delete(made, M)


def end(made: World) -> None:
    deployments.deletable(made, "lab")


def drop(made: World) -> None:
    roles.deletion(made, ["app"])


def choose(made: World) -> None:
    unreadable.refuse_inventory(made)


def turn(made: World) -> None:
    deployments.turn(made, "lab", DeploymentState.PROPOSED, 1.0)


REFUSED: list[tuple[Callable[[World], None], str]] = [
    *((bind, path) for path in (ROLE, NODE, NODEROLE, LAB, ATTRIBUTES)),
    *((make, path) for path in (ROLE, LAB, NODEROLE, paths.node("new.example.com"))),
    *((unbind, path) for path in (NODE, CLAIM, NODEROLE, paths.noderole("base", M))),
    *((delete, path) for path in (ROLE, NODE, CLAIM, NODEROLE)),
    *((commit, path) for path in (NODE, LAB, paths.noderole("base", M), paths.noderole("top", M))),
    *((end, path) for path in (ROLE, NODE, NODEROLE, LAB, ATTRIBUTES, POINTER, paths.deployment("below"))),
    *((drop, path) for path in (ROLE, paths.noderole("app", N), ATTRIBUTES)),
    *((choose, path) for path in (LAB, NODE, NODEROLE, ATTRIBUTES)),
    (turn, LAB),
]


@pytest.mark.parametrize(("act", "path"), REFUSED, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_what_people_ask_for_near_an_unreadable_record_is_refused_naming_it(
    act: Callable[[World], None], path: str
) -> None:
    made = world()
    put(made, BASE, State.PROPOSED)
    made.put(Stored(DeploymentRole(), 0), "lab", "app")
    made.put(Stored(RolloutPointer(), 0), "lab")
    if act not in (end, drop):
        act(made)  # else it is refused for what the deployment holds, or the role
    spoil(made, path)
    with pytest.raises(Conflict, match=f"the record {path} cannot be read"):
        act(made)
