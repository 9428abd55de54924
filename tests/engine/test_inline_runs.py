"""Inline runs: the noderoles that one transaction completes, and the records that it checks."""

from __future__ import annotations

from collections.abc import Sequence

from nodepool_ocb.engine.claim import take
from nodepool_ocb.engine.inline_runs import EndedRun, InlineBatch, InlineRunner, complete_inline
from nodepool_ocb.engine.noderole import Event, after
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import (
    Change,
    Check,
    Create,
    Daemon,
    Delete,
    Deployment,
    DeploymentState,
    Node,
    NodeRole,
    Role,
    Run,
    Set,
    State,
)

NOW = 50.0
RUN = Run(annealer="a1", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=4)


ANNEALER = InlineRunner("a1", {"noop", "script"}, {"noop"}, "f00", 0)
FIRST, SECOND = "0000000007-f000", "0000000007-f001"


def world_of(*lines: str, **roles: Role) -> World:
    """A line names a noderole, its state, and its parents: "b@n1 TODO a@n1"."""
    world = World()
    world.put(Stored(Daemon(host="h", pid=1, version="1", started=0.0, jigs=("noop", "script")), 0), "annealer", "a1")
    world.put(Stored(Deployment(state=DeploymentState.COMMITTED), 0), "system")
    for line in lines:
        name, state, *parents = line.split()
        role, fqdn = paths.split_noderole(name)
        if fqdn not in world.nodes:
            world.put_node(fqdn, Node(virtual=True, deployment="system"), version=3)
            world.put_fence(fqdn, 6)
        world.put(Stored(roles.get(role, Role(barclamp="b", jig="noop")), 0), role)
        record = NodeRole(state=State(state), since=1.0, parents=tuple(parents), generation=1)
        world.put_noderole(fqdn, role, record, version=9)
    return world


def completed(world: World, fqdn: str = "n1", ended: EndedRun | None = None) -> InlineBatch | None:
    return complete_inline(world.nodes[fqdn], ANNEALER, NOW, ended)


def wrote(changes: Sequence[Change]) -> dict[str, str]:
    """The noderoles that a transaction writes, and the states that they have then."""
    return {
        paths.noderole_name(change.path.split("/")[5], change.path.split("/")[3]): record.state
        for change in changes
        if (record := noderole(change))
    }


def test_a_chain_on_one_node_is_done_in_one_transaction_that_claims_the_node_and_gives_it_back() -> None:
    world = world_of("a@n1 TODO", "b@n1 BLOCKED a@n1", "c@n1 BLOCKED b@n1", "d@n2 BLOCKED c@n1")
    result = completed(world)
    assert result is not None
    assert [grant.vertex.name for grant in result.done] == ["a@n1", "b@n1", "c@n1"]
    fence, held, given = result.changes[:3]
    assert isinstance(fence, Set)
    assert (fence.path, fence.version) == (paths.fence("n1"), 6)
    assert isinstance(held, Create)
    assert held.ephemeral
    assert (held.path, given) == (paths.claim("n1"), Delete(paths.claim("n1"), 0))
    assert wrote(result.changes) == {"a@n1": "ACTIVE", "b@n1": "ACTIVE", "c@n1": "ACTIVE", "d@n2": "TODO"}
    checks = [change for change in result.changes if isinstance(change, Check)]
    assert checks == [Check(paths.node("n1"), 3), Check(paths.deployment("system"), 0)], "each once"


def test_each_has_a_run_of_its_own_and_all_are_of_one_epoch() -> None:
    world = world_of("a@n1 TODO", "b@n1 BLOCKED a@n1")
    result = completed(world)
    assert result is not None
    runs = [change for change in result.changes if isinstance(change, Create) and isinstance(change.data, Run)]
    assert [change.path for change in runs] == [paths.run("a", "n1", FIRST), paths.run("b", "n1", SECOND)]
    assert [change.data.outcome for change in runs if isinstance(change.data, Run)] == ["succeeded", "succeeded"]
    records = [record for change in result.changes if (record := noderole(change))]
    assert [(record.run, record.epoch, record.generation, record.attempt) for record in records] == [
        (FIRST, 7, 1, 0),
        (SECOND, 7, 2, 0),
    ]


def test_what_has_something_to_run_or_waits_for_another_node_is_left_and_told_what_changed() -> None:
    script = Role(barclamp="b", jig="script")
    lines = ("a@n1 TODO", "s@n1 BLOCKED a@n1", "z@n1 BLOCKED s@n1", "w@n1 BLOCKED a@n1 x@n2", "x@n2 TODO")
    result = completed(world_of(*lines, s=script))
    assert result is not None
    assert wrote(result.changes) == {"a@n1": "ACTIVE", "s@n1": "TODO"}


def test_a_parent_on_another_node_is_checked_at_the_version_that_was_seen() -> None:
    result = completed(world_of("x@n2 ACTIVE", "a@n1 TODO x@n2"))
    assert result is not None
    assert Check(paths.noderole("x", "n2"), 9) in result.changes


def test_a_hook_of_a_state_on_the_way_is_not_jumped_over() -> None:
    hooked = Role(barclamp="b", jig="noop", hooks=("on_todo", "on_active"))
    result = completed(world_of("a@n1 TODO", "b@n1 BLOCKED a@n1", "c@n1 BLOCKED b@n1", b=hooked))
    assert result is not None
    assert wrote(result.changes) == {"a@n1": "ACTIVE", "b@n1": "TODO"}
    hooks = {change.path: record.hooks for change in result.changes if (record := noderole(change))}
    assert hooks[paths.noderole("b", "n1")] == ("on_todo",)


def test_behind_a_run_that_has_ended_the_claim_that_stands_is_given_back() -> None:
    script = Role(barclamp="b", jig="script")
    world = world_of("s@n1 TODO", "a@n1 BLOCKED s@n1", "b@n1 BLOCKED a@n1", s=script)
    vertex = world.nodes["n1"].noderoles["s"]
    grant = take(world, vertex, "a1", "run-s", 40.0)
    world.put_noderole("n1", "s", grant.record, version=10)
    world.put_fence("n1", grant.fence)
    result = completed(world, ended=EndedRun(grant, after(grant.record, Event.SUCCEED, NOW, by="a1"), RUN))
    assert result is not None
    assert [each.vertex.name for each in result.done] == ["a@n1", "b@n1"]
    assert {each.epoch for each in result.done} == {grant.epoch + 1}
    fence = result.changes[0]
    assert isinstance(fence, Set)
    assert (fence.path, fence.version) == (paths.fence("n1"), grant.fence)
    assert Delete(paths.claim("n1"), grant.claim_version) in result.changes
    assert Create(paths.run("s", "n1", "run-s"), RUN) in result.changes
    assert wrote(result.changes) == {"s@n1": "ACTIVE", "a@n1": "ACTIVE", "b@n1": "ACTIVE"}


def test_inline_runs_beyond_a_transaction_wait_for_the_next_one() -> None:
    lines = ["r000@n1 TODO", *(f"r{n:03}@n1 BLOCKED r{n - 1:03}@n1" for n in range(1, 400))]
    world = world_of(*lines)
    result = completed(world)
    assert result is not None
    assert limits.fits(result.changes)
    assert 100 < len(result.done) < 200
    states = wrote(result.changes)
    assert all(states[f"r{n:03}@n1"] == "ACTIVE" for n in range(len(result.done)))
    assert set(states) <= {f"r{n:03}@n1" for n in range(len(result.done) + 1)}
    assert states.get(f"r{len(result.done):03}@n1", "TODO") == "TODO"


def test_a_refresh_of_one_with_nothing_to_run_is_done_at_once_and_disturbs_no_child() -> None:
    hooked = Role(barclamp="b", jig="noop", hooks=("on_active",))
    world = world_of("a@n1 ACTIVE", "b@n1 ACTIVE a@n1", a=hooked)
    vertex = world.nodes["n1"].noderoles["a"]
    world.put_noderole("n1", "a", after(vertex.record, Event.REFRESH, 40.0), version=10)
    result = completed(world)
    assert result is not None
    assert wrote(result.changes) == {"a@n1": "ACTIVE"}
    records = [record for change in result.changes if (record := noderole(change))]
    assert [(record.refresh, record.hooks) for record in records] == [(False, ("on_active",))], "it has been run again"


def test_where_nothing_can_be_done_at_once_there_is_no_transaction() -> None:
    assert completed(world_of("a@n1 BLOCKED x@n2", "x@n2 TODO")) is None


def noderole(change: Change) -> NodeRole | None:
    """What a change writes into a noderole; None where it writes something else."""
    return change.data if isinstance(change, Set) and isinstance(change.data, NodeRole) else None
