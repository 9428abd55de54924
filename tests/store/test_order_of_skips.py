"""What a transaction makes satisfied carries the versions of its other parents: no child starts before one that runs again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim, commands
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Create, Fence, Gate, Node, NodeRole, Role, Run, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world

A, B = "a.example.com", "b.example.com"
RUN = Run(annealer="ann", started=1.0, ended=2.0, outcome="succeeded", generation=2, epoch=1)


def build(session: Session, *, cluster: bool = False, destructive: bool = True) -> None:
    """c waits for p1 (by its cluster, if any) and p2, and d for c; all are ACTIVE. Then p2 runs again, and is claimed."""
    first = "p1@*system" if cluster else f"p1@{B}"
    flags = ("destructive",) if destructive else ()
    session.commit([Create(paths.role(name), Role(barclamp="t", jig="test")) for name in ("p1", "p2", "d")])
    session.commit([Create(paths.role("c"), Role(barclamp="t", jig="test", flags=flags))])
    for node in (A, B):
        made = Node(alive=True, virtual=True)
        session.commit(
            [Create(paths.node(node), made), Create(paths.fence(node), Fence()), Create(paths.noderoles(node))]
        )
    if cluster:
        session.ensure(paths.clusters("system"))
        session.commit([Create(paths.gate("system", "p1"), Gate())])
    for role, node, parents, more in (
        ("p1", B, (), {"serves": ("p1",) if cluster else ()}),
        ("p2", A, (), {}),
        ("c", A, (first, f"p2@{A}"), {"once": "done" if destructive else None}),
        ("d", A, (f"c@{A}",), {}),
    ):
        record = NodeRole.of(state=State.ACTIVE, since=1.0, generation=1, parents=tuple(sorted(parents)), **more)  # type: ignore[arg-type]
        session.commit([Create(paths.noderole(role, node), record), Create(paths.runs(role, node))])


def redeploy(session: Session, name: str) -> None:
    world = load_world(session)
    vertex = world.vertex(name)
    assert vertex is not None
    session.commit(commands.redeploy(vertex, 9.0))


def claimed(session: Session, name: str) -> tuple[World, claim.Grant]:
    """The world after a claim."""
    world = load_world(session)
    vertex = world.vertex(name)
    assert vertex is not None
    grant = claim.take(world, vertex, "ann", "run-1", 9.0)
    session.commit(claim.claiming(world, grant))
    world = load_world(session)
    here = world.vertex(name)
    assert here is not None
    return world, replace(grant, vertex=here)


def states(session: Session) -> dict[str, State]:
    return {vertex.role: vertex.record.state for vertex in load_world(session).vertices()}


@pytest.mark.parametrize("cluster", [False, True])
def test_a_skip_is_refused_where_another_parent_was_redeployed_meanwhile(zk_session: Session, cluster: bool) -> None:
    build(zk_session, cluster=cluster)
    redeploy(zk_session, f"p2@{A}")
    world, grant = claimed(zk_session, f"p2@{A}")
    redeploy(zk_session, f"p1@{B}")
    moved = apply({grant.vertex: Event.SUCCEED}, 9.0, by="ann")
    child = world.vertex(f"d@{A}")
    assert child is not None
    following = claim.take_next(world, grant, child, moved[child], "run-2", 9.0)
    with pytest.raises(Stale) as refused:
        zk_session.commit(claim.passing_on(world, grant, moved, RUN, following))
    assert refused.value.path == (paths.gate("system", "p1") if cluster else paths.noderole("p1", B))
    assert states(zk_session)["d"] is State.BLOCKED


def test_a_run_that_ends_is_refused_where_a_parent_was_redeployed_meanwhile(zk_session: Session) -> None:
    build(zk_session, destructive=False)
    redeploy(zk_session, f"c@{A}")
    _, grant = claimed(zk_session, f"c@{A}")
    redeploy(zk_session, f"p1@{B}")
    with pytest.raises(Stale) as refused:
        zk_session.commit(claim.finishing(grant, apply({grant.vertex: Event.SUCCEED}, 9.0, by="ann"), RUN))
    assert refused.value.path == paths.noderole("p1", B)
    world = load_world(zk_session)
    here = world.vertex(f"c@{A}")
    assert here is not None
    again = replace(grant, vertex=here)
    zk_session.commit(claim.finishing(again, apply({here: Event.SUCCEED}, 9.0, by="ann"), RUN))
    assert states(zk_session)["c"] is State.BLOCKED


def checked(changes: Iterable[Change]) -> set[str]:
    return {change.path for change in changes if isinstance(change, Check)}


def test_a_skip_without_room_for_its_checks_is_left_to_those_who_watch_it(zk_session: Session) -> None:
    build(zk_session)
    redeploy(zk_session, f"p2@{A}")
    _, grant = claimed(zk_session, f"p2@{A}")
    moved = apply({grant.vertex: Event.SUCCEED}, 9.0, by="ann")
    full = [Check(f"/ocb/{number}", 0) for number in range(248)]
    own = claim.settling(moved, (grant.vertex,), full)
    skipped = paths.noderole("c", A)
    assert skipped not in {change.path for change in own if isinstance(change, Set)}
    (later,) = claim.settlings({vertex: record for vertex, record in moved.items() if vertex.role != "p2"})
    assert skipped not in {change.path for change in later}  # it rests on p2, which is not written here
    assert paths.noderole("p1", B) in checked(claim.settling(moved, (grant.vertex,)))
