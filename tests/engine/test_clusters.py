"""Clusters: N members and M children cost N + M, and mean what N x M edges would."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.engine import advancing, binding, claim, commands, structure
from nodepool_ocb.engine.noderole import AFTER, Event, after, apply, satisfied, settle
from nodepool_ocb.engine.readiness import Code, blockers
from nodepool_ocb.engine.world import Stored, Vertex, World, ancestors
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import (
    Attrib,
    Change,
    Check,
    Create,
    Delete,
    Deployment,
    DeploymentState,
    Gate,
    Node,
    NodeRole,
    Raise,
    Role,
    Run,
    Set,
    State,
)
from tests.engine import worlds
from tests.engine.advancing import advance
from tests.fixtures.examples import examples

GATE = paths.gate("system", "osd")
CLUSTER = "osd@*system"


def world(**roles: Role) -> World:
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 3), "system")
    for name, role in {"osd": Role(barclamp="b", jig="noop", flags=("cluster",)), **roles}.items():
        made.put(Stored(role, 0), name)
    return made


def put(made: World, name: str, state: State, *parents: str, **fields: object) -> Vertex:
    """A noderole, and where it is one of osd, a member of its cluster."""
    if name.startswith("osd@"):
        fields.setdefault("serves", ("osd",))
    return worlds.put(made, name, state, *parents, **fields)


def members(made: World, count: int, state: State = State.ACTIVE, **fields: object) -> list[Vertex]:
    made.put_gate("system", "osd", 4)
    return [put(made, f"osd@n{number:04}.example.com", state, **fields) for number in range(count)]


def children(made: World, count: int, state: State = State.TODO) -> list[Vertex]:
    return [put(made, f"client@n{number:04}.example.com", state, CLUSTER) for number in range(count)]


# -- claims --


def test_a_claim_below_a_cluster_checks_one_gate_however_many_members_there_are() -> None:
    made = world()
    members(made, 1000)
    (child,) = children(made, 1)
    changes = claim.claiming(made, claim.take(made, child, "a", "r1", 1.0))
    assert Check(GATE, 4) in changes
    assert len(changes) < 10


def test_nothing_starts_below_a_cluster_one_member_of_which_is_not_satisfied() -> None:
    made = world()
    *_, last = members(made, 3)
    (child,) = children(made, 1)
    put(made, last.name, State.ERROR)
    with pytest.raises(Conflict, match="not every member"):
        claim.claiming(made, claim.take(made, child, "a", "r1", 1.0))
    assert [r.subject for r in blockers(made, child, 1.0, {"noop"}) if r.code is Code.PARENT_ERROR] == [last.name]


def test_nothing_starts_below_a_cluster_that_has_no_member_or_whose_gate_nobody_has_seen() -> None:
    made = world()
    (child,) = children(made, 1)
    assert child.waiting == 1
    reasons = list(blockers(made, child, 1.0, {"noop"}))
    assert "every osd of deployment system, and there is none" in reasons[0].text
    with pytest.raises(Conflict):
        claim.claiming(made, claim.take(made, child, "a", "r1", 1.0))
    put(made, "osd@n0000.example.com", State.ACTIVE)
    assert not child.waiting
    with pytest.raises(Conflict):
        claim.claiming(made, claim.take(made, child, "a", "r1", 1.0))


def test_the_last_member_s_end_claims_a_child_on_its_node_with_the_gate_that_it_knows() -> None:
    made = world()
    first, *_ = members(made, 3)
    put(made, first.name, State.TRANSITION, run="r1", epoch=6)
    child, _, other = children(made, 3, State.BLOCKED)
    grant = claim.Grant(first, first.record, "a", "r1", 6, 6, 0.0)
    moved = apply({first: Event.SUCCEED}, 1.0)
    assert moved[child].state is moved[other].state is State.TODO
    following = claim.take_next(made, grant, child, moved[child], "r2", 1.0)
    changes = claim.passing_on(made, grant, moved, ran(), following)
    assert Check(GATE, 4) in changes
    put(made, "osd@n0001.example.com", State.ERROR)
    with pytest.raises(Conflict):
        claim.passing_on(made, grant, moved, ran(), following)


def ran() -> Run:
    return Run(annealer="a", started=0.0, ended=1.0, outcome="succeeded", generation=1, epoch=7)


# -- the gate --


@pytest.mark.parametrize(("state", "event"), sorted(AFTER))
def test_a_member_s_record_raises_the_gate_exactly_when_it_ceases_to_be_satisfied(state: State, event: Event) -> None:
    for refresh, fields in itertools.product((False, True), ({}, {"serves": ()})):
        made = world()
        vertex = put(made, "osd@n0.example.com", state, refresh=refresh, **fields)
        if event in (Event.CLAIM, Event.WITHDRAW) and state is State.ACTIVE and not refresh:
            continue
        if event is Event.CHECK and refresh:
            continue
        if event is Event.CHECKED or (event is Event.REFRESH and state is State.TRANSITION):
            vertex.record = vertex.record.amended(refresh=True, check=PendingCheck())
        if event is Event.WITHDRAW:
            vertex.record = vertex.record.amended(redeploy=True)
        record = after(vertex.record, event, 1.0)
        ceased = satisfied(vertex.record) and not satisfied(record) and bool(vertex.record.serves)
        raised = [change for change in claim.writes(vertex, record) if isinstance(change, Raise)]
        assert raised == ([Raise(GATE, Gate(by=vertex.name))] if ceased else [])


def test_a_transaction_that_takes_members_back_raises_their_gate_once() -> None:
    made = world()
    all_ = members(made, 600)
    for changes in commands.apply_to(made, all_, Event.PROPOSE, 1.0):
        assert sum(change.path == GATE for change in changes) == 1
        assert limits.fits(changes)
        advancing.advance(made, changes)
    assert {vertex.record.state for vertex in all_} == {State.PROPOSED}


def test_a_member_that_is_deleted_raises_its_gate_in_the_same_transaction() -> None:
    made = world()
    first, second = members(made, 2)
    other = put(made, "net@n0.example.com", State.ACTIVE)
    gone = Delete(paths.noderole(first.role, first.node.name), 7)
    assert Raise(GATE, Gate(by=first.name)) in structure.raised(made, [gone])
    groups = [[Delete(paths.noderole(v.role, v.node.name), 7)] for v in (first, second)]
    (changes,) = structure.in_parts(made, groups)
    assert [change.path for change in changes].count(GATE) == 1
    changes = structure.raised(made, [Delete(paths.noderole(other.role, other.node.name), 7)])
    assert not any(isinstance(change, Raise) for change in changes)


# -- the graph --


@st.composite
def clustered(draw: st.DrawFn) -> tuple[list[State], list[bool], list[State], list[tuple[int, int]]]:
    """States of members, whether each is being refreshed, states of children, and which child names which member besides."""
    of_members = draw(st.lists(st.sampled_from(State), min_size=1, max_size=4))
    refresh = draw(st.lists(st.booleans(), min_size=len(of_members), max_size=len(of_members)))
    below = draw(st.lists(st.sampled_from(State), min_size=1, max_size=4))
    pairs = list(itertools.product(range(len(below)), range(len(of_members))))
    return of_members, refresh, below, draw(st.lists(st.sampled_from(pairs), unique=True))


@examples(100, long=250)
@given(clustered(), st.data())
def test_a_cluster_moves_what_an_edge_from_every_member_to_every_child_would_move(
    drawn: tuple[list[State], list[bool], list[State], list[tuple[int, int]]], data: st.DataObject
) -> None:
    of_members, refresh, below, named = drawn
    worlds = world(), world()
    for made, by_cluster in zip(worlds, (True, False), strict=True):
        names = [f"osd@m{number}.example.com" for number in range(len(of_members))]
        for name, state, again in zip(names, of_members, refresh, strict=True):
            put(made, name, state, refresh=again)
        for number, state in enumerate(below):
            beside = [names[member] for child, member in named if child == number]
            parents = [CLUSTER, *beside] if by_cluster else names
            put(made, f"client@c{number}.example.com", state, *sorted(parents))
            put(made, f"leaf@c{number}.example.com", state, f"client@c{number}.example.com")
    for _ in range(3):
        moved = [settle({}, 1.0, also=made.vertices()) for made in worlds]
        assert {v.name: r.state for v, r in moved[0].items()} == {v.name: r.state for v, r in moved[1].items()}
        for made, records in zip(worlds, moved, strict=True):
            advance(made, records)
        possible = sorted(
            (v.name, event) for v in worlds[0].vertices() for event in Event if (v.record.state, event) in AFTER
        )
        name, event = data.draw(st.sampled_from(possible))
        try:
            after(worlds[0].vertex(name).record, event, 2.0)  # type: ignore[union-attr]
        except Conflict:
            continue
        changed = [apply({made.vertex(name): event}, 2.0) for made in worlds]  # type: ignore[dict-item]
        assert {v.name: r.state for v, r in changed[0].items()} == {v.name: r.state for v, r in changed[1].items()}
        for made, records in zip(worlds, changed, strict=True):
            advance(made, records)
    for one, other in zip(worlds[0].vertices(), worlds[1].vertices(), strict=True):
        assert {v.name for v in one.parents} == {v.name for v in other.parents}
        assert {v.name for v in one.children} == {v.name for v in other.children}
        assert worlds[0].depth(one) == worlds[1].depth(other)
        assert [[v.name for v in row] for row in ancestors(one)] == [[v.name for v in row] for row in ancestors(other)]


@examples(100, long=300)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*State, None])), max_size=12), st.integers(0, 12))
def test_the_counters_of_a_cluster_stay_what_counting_would_give(
    moves: list[tuple[int, State | None]], when: int
) -> None:
    made = world()
    for number, (member, state) in enumerate(moves):
        if number == when:
            children(made, 2)
        if state is None:
            made.drop_noderole(f"n{member:04}.example.com", "osd")
        else:
            put(made, f"osd@n{member:04}.example.com", state)
    below = children(made, 2)
    there = [v for v in made.vertices() if v.role == "osd"]
    waits = not there or any(not satisfied(v.record) for v in there)
    assert [child.waiting for child in below] == [int(waits)] * 2
    assert {v.name for v in below[0].parents} == {v.name for v in there}


def test_a_member_that_succeeds_while_others_have_not_moves_nobody_and_the_last_moves_all() -> None:
    made = world()
    first, second = members(made, 2, State.TRANSITION)
    below = children(made, 40, State.BLOCKED)
    made.edges.turned.clear()
    moved = apply({first: Event.SUCCEED}, 1.0)
    assert set(moved) == {first}
    advance(made, moved)
    assert not made.edges.turned
    moved = apply({second: Event.SUCCEED}, 2.0)
    assert set(moved) == {second, *below}
    advance(made, moved)
    assert made.edges.turned == set(below)


# -- binding --


def role(*requires: str, flags: tuple[str, ...] = (), **more: object) -> Role:
    return Role(barclamp="b", jig="noop", requires=requires, flags=flags, **more)  # type: ignore[arg-type]


def bind(made: World, name: str, fqdn: str, **options: object) -> list[Change]:
    """Plan, and put what was planned into the world, as its transaction would."""
    made.put_node(fqdn, made.node(fqdn).record or Node(alive=True), 0)
    plan = binding.plan(made, name, fqdn, now=1.0, **options)  # type: ignore[arg-type]
    for change in plan.changes:
        match change.path.split("/")[2:], change:
            case ["nodes", at, "noderoles", bound], Create(data=NodeRole() as record):
                made.put_noderole(at, bound, record, 0)
            case ["deployments", deployment, "clusters", cluster], Create(data=Gate()) | Raise():
                before = made.cluster_view(cluster, deployment).gate
                assert (before < 0) is isinstance(change, Create)
                made.put_gate(deployment, cluster, before + 1)
    return list(plan.changes)


def test_the_first_member_makes_the_gate_and_every_later_one_raises_it() -> None:
    made = world(client=role("osd"))
    first = bind(made, "osd", "n1.example.com")
    assert [c for c in first if "/clusters" in c.path] == [
        Create(paths.clusters("system")), Create(GATE, Gate(by="osd@n1.example.com"))
    ]  # fmt: skip
    assert Raise(GATE, Gate(by="osd@n2.example.com")) in bind(made, "osd", "n2.example.com")
    child = bind(made, "client", "n3.example.com")
    assert Check(GATE, 1) in child, "the members stand while the child is written"


def test_a_child_s_record_and_its_bind_do_not_grow_with_the_members() -> None:
    made = world(client=role("osd"))
    members(made, 300)
    changes = bind(made, "client", "n1.example.com")
    record = next(c.data for c in changes if isinstance(c, Create) and isinstance(c.data, NodeRole))
    assert record.parents == (CLUSTER,)
    assert len(msgspec.json.encode(record)) < 200
    assert len(changes) < 10


def test_a_role_that_provides_the_cluster_role_is_a_member_wherever_it_is_bound() -> None:
    made = world(client=role("osd"), bluestore=role(provides=("osd",)))
    bind(made, "bluestore", "n1.example.com")
    bind(made, "client", "n2.example.com")
    bind(made, "osd", "n3.example.com")
    child = made.vertex("client@n2.example.com")
    assert child is not None
    assert child.record.parents == (CLUSTER,)
    assert [v.name for v in child.parents] == ["bluestore@n1.example.com", "osd@n3.example.com"]


def test_what_was_bound_before_its_role_was_a_cluster_s_is_named_by_itself() -> None:
    made = world(client=role("osd"))
    put(made, "osd@n1.example.com", State.ACTIVE, serves=())
    bind(made, "osd", "n2.example.com")
    bind(made, "client", "n3.example.com")
    child = made.vertex("client@n3.example.com")
    assert child is not None
    assert child.record.parents == (CLUSTER, "osd@n1.example.com")


def test_a_circle_through_a_cluster_is_refused_at_the_bind() -> None:
    made = world(
        osd=role("disk", flags=("cluster",), attribs=(Attrib(name="fsid", map="ceph/fsid"),)),
        disk=role(flags=("implicit",), wants_attribs=("fsid",)),
    )
    put(made, "osd@n1.example.com", State.ACTIVE)
    made.put_gate("system", "osd", 0)
    bind(made, "disk", "n2.example.com")
    assert made.vertex("disk@n2.example.com").record.parents == (CLUSTER,)  # type: ignore[union-attr]
    with pytest.raises(Conflict, match=r"circle: .*osd@\*system"):
        bind(made, "osd", "n2.example.com")


def test_a_circle_by_a_parent_that_is_given_is_refused_at_the_bind() -> None:
    made = world(osd=role("net", flags=("cluster",)), client=role("osd"), net=role())
    put(made, "net@n0.example.com", State.ACTIVE)
    bind(made, "osd", "n1.example.com")
    bind(made, "client", "n2.example.com")
    made.put(Stored(role("osd", provides=("net",)), 1), "client")
    with pytest.raises(Conflict):
        bind(made, "osd", "n3.example.com", parents=["client@n2.example.com"])


def test_a_member_is_not_unbound_while_others_wait_for_its_cluster() -> None:
    made = world()
    first, _ = members(made, 2)
    children(made, 2)
    with pytest.raises(Conflict, match=r"client@n0001\.example\.com depends on osd@n0000\.example\.com"):
        binding.removable(first)


def test_ends_of_a_large_cluster_stay_within_what_a_transaction_aims_at() -> None:
    made = world()
    first, *_ = members(made, 300)
    children(made, 300, State.ACTIVE)
    put(made, first.name, State.TRANSITION, refresh=True, run="r1", epoch=6)
    moved = apply({first: Event.FAIL}, 1.0, reason="exit 1")
    assert len(moved) == 301
    grant = claim.Grant(first, first.record, "a", "r1", 6, 6, 0.0)
    changes = claim.finishing(grant, moved, ran())
    assert limits.fits(changes)
    assert len(changes) == limits.MOST_CHANGES
    assert Set(paths.noderole("osd", first.node.name), moved[first], 7) in changes
    assert Raise(GATE, Gate(by=first.name)) in changes
    assert moved[first].amended(reason=None).state is State.ERROR


# -- what a transaction had no room for --


def test_a_member_waits_until_all_below_it_wait_for_it() -> None:
    """Else it would be ACTIVE again before the last of them was BLOCKED, and that one would never run after it."""
    made = world()
    first, *_ = members(made, 3)
    below = children(made, 3, State.ACTIVE)
    put(made, first.name, State.TODO)
    put(made, below[0].name, State.BLOCKED, CLUSTER)
    codes = [
        (reason.code, reason.subject)
        for reason in blockers(made, first, 1.0, {"noop"})
        if reason.code is Code.CHILD_UNSETTLED
    ]
    assert codes == [(Code.CHILD_UNSETTLED, below[1].name)]
    for child in below:
        put(made, child.name, State.BLOCKED, CLUSTER)
    assert Code.CHILD_UNSETTLED not in [reason.code for reason in blockers(made, first, 1.0, {"noop"})]
    put(made, below[2].name, State.PROPOSED, CLUSTER)
    assert Code.CHILD_UNSETTLED not in [reason.code for reason in blockers(made, first, 1.0, {"noop"})]
