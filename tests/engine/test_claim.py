"""Claims: one transaction is the whole check, also where it carries much."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.readiness import Code, blockers, runnable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import (
    Check,
    Claim,
    Create,
    Delete,
    Fence,
    Role,
    Run,
    Set,
    State,
)
from tests.engine.worlds import put, world

JIGS = {"noop"}


def run() -> Run:
    return Run(annealer="a", started=0.0, ended=1.0, outcome="succeeded", generation=1, epoch=7)


def test_a_claim_checks_everything_that_it_was_decided_from() -> None:
    made = world()
    put(made, "net@m", State.ACTIVE)
    vertex = put(made, "app@n", State.TODO, "net@m")
    grant = claim.take(made, vertex, "a", "r1", 1.0)
    changes = claim.claiming(made, grant)
    assert changes[:3] == [
        Check(paths.node("n"), 5),
        Check(paths.deployment("system"), 3),
        Check(paths.noderole("net", "m"), 7),
    ]
    assert changes[3] == Set(paths.fence("n"), Fence(run="r1", annealer="a", jig="noop"), 6)
    assert isinstance(changes[4], Create)
    assert changes[4].ephemeral
    assert isinstance(changes[4].data, Claim)
    assert grant.epoch == changes[4].data.epoch == 7
    assert isinstance(changes[5], Set)
    assert changes[5].version == 7


@pytest.mark.parametrize("state", [State.TODO, State.ACTIVE, State.TRANSITION])
def test_nothing_starts_above_which_a_parent_is_not_well_whatever_its_own_record_says(state: State) -> None:
    made = world()
    parent = put(made, "net@m", State.ERROR)
    vertex = put(made, "app@n", state, "net@m", refresh=state is State.ACTIVE)
    assert not runnable(made, vertex, 1.0, JIGS)
    assert Code.PARENT_ERROR in [reason.code for reason in blockers(made, vertex, 1.0, JIGS)]
    with pytest.raises(Conflict, match="net@m is ERROR"):
        claim.claiming(made, claim.take(made, vertex, "a", "r1", 1.0))
    made.put_noderole("m", "net", replace(parent.record, state=State.ACTIVE), 8)
    assert runnable(made, vertex, 1.0, JIGS)


def test_the_next_noderole_is_judged_by_what_the_same_transaction_makes_of_its_parents() -> None:
    made = world()
    done = put(made, "a@n", State.TRANSITION)
    other = put(made, "b@m", State.TODO)
    child = put(made, "c@n", State.BLOCKED, "a@n")
    both = put(made, "d@n", State.BLOCKED, "a@n", "b@m")
    moved = apply({done: Event.SUCCEED}, 1.0)
    assert runnable(made, child, 1.0, JIGS, moved)
    assert not runnable(made, both, 1.0, JIGS, moved)
    assert other.record.state is State.TODO


def test_a_claim_that_is_passed_on_writes_its_noderole_however_many_others_move() -> None:
    made = world()
    done = put(made, "a@n", State.TRANSITION, run="r1", epoch=6)
    for number in range(350):
        put(made, f"c{number:04d}@m", State.BLOCKED, "a@n")
    last = put(made, "z@n", State.BLOCKED, "a@n")
    grant = claim.Grant(done, done.record, "a", "r1", 6, 6, 0.0)
    moved = apply({done: Event.SUCCEED}, 1.0)
    assert last in moved
    following = claim.take_next(made, grant, last, moved[last], "r2", 1.0)
    changes = claim.passing_on(made, grant, moved, run(), following)
    written = {change.path: change.data for change in changes if isinstance(change, Set)}
    assert written[paths.noderole("z", "n")] == following.record
    assert written[paths.noderole("a", "n")] == moved[done]
    assert len(changes) == limits.MOST_CHANGES
    assert following.epoch == 7
    assert Set(paths.fence("n"), Fence(run="r2", annealer="a", jig="noop"), 6) in changes


def test_an_end_carries_the_epoch_of_its_claim_and_gives_the_node_back() -> None:
    made = world()
    vertex = put(made, "a@n", State.TRANSITION, run="r1", epoch=6)
    grant = claim.Grant(vertex, vertex.record, "a", "r1", 46, 6, 0.0, claim_version=2)
    changes = claim.finishing(grant, apply({vertex: Event.SUCCEED}, 1.0), run())
    assert changes[0] == Check(paths.fence("n"), 6)
    assert Delete(paths.claim("n"), 2) in changes


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda made: put(made, "a@n", State.TODO, run="r1", epoch=6),
        lambda made: put(made, "a@n", State.TRANSITION, run="r2", epoch=6),
        lambda made: made.put_fence("n", 7),
        lambda made: made.drop_noderole("n", "a"),
    ],
    ids=["its state is another", "its run is another", "its node was claimed", "it is gone"],
)
def test_a_run_is_superseded_once_its_noderole_or_its_node_goes_on_without_it(
    meanwhile: Callable[[World], object],
) -> None:
    made = world()
    vertex = put(made, "a@n", State.TRANSITION, run="r1", epoch=6)
    grant = claim.Grant(vertex, vertex.record, "a", "r1", 6, 6, 0.0)
    assert not claim.superseded(made, grant)
    meanwhile(made)
    assert claim.superseded(made, grant)


def test_a_take_over_accounts_for_the_attempt_before_it() -> None:
    made = world()
    vertex = put(made, "a@n", State.TRANSITION, run="r1", epoch=6, by="dead")
    grant = claim.take(made, vertex, "b", "r2", 9.0)
    assert grant.previous_epoch == 6
    assert grant.record.generation == vertex.record.generation
    record = next(c for c in claim.claiming(made, grant) if isinstance(c, Create) and "/runs/" in c.path)
    assert record.path == paths.run("a", "n", "r1")
    assert record.data.outcome == "abandoned"


def test_a_take_over_keeps_the_jig_that_the_run_was_ordered_with() -> None:
    made = world()
    vertex = put(made, "a@n", State.TRANSITION, run="r1", epoch=6)
    made.put_fence("n", 6, Fence(run="r1", annealer="dead", jig="script"))
    grant = claim.take(made, vertex, "b", "r2", 9.0)
    assert grant.jig == "script"
    assert Set(paths.fence("n"), Fence(run="r2", annealer="b", jig="script"), 6) in claim.claiming(made, grant)
    assert runnable(made, vertex, 9.0, {"noop", "script"})
    assert [reason.subject for reason in blockers(made, vertex, 9.0, {"noop"})] == ["script"]
    made.put_fence("n", 6, Fence(run="r0", annealer="dead", jig="script"))  # of another run
    assert claim.take(made, vertex, "b", "r2", 9.0).jig == "noop"


def test_a_destructive_claim_says_that_it_was_started() -> None:
    made = world()
    vertex = put(made, "wipe@n", State.TODO)
    made.put(Stored(Role(barclamp="b", jig="noop", flags=("destructive",)), 0), "wipe")
    assert claim.take(made, vertex, "a", "r1", 1.0).record.once == "started"


def test_a_circle_that_somebody_wrote_by_hand_is_never_claimed_and_hangs_nothing() -> None:
    made = world()
    vertices = [put(made, f"{a}@n", State.TODO, f"{b}@n") for a, b in ("ab", "bc", "ca")]
    assert len({made.depth(vertex) for vertex in vertices}) == 3
    assert not any(runnable(made, vertex, 1.0, JIGS) for vertex in vertices)


def test_a_node_is_given_back_under_the_fence_and_the_claim_of_its_run() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    grant = replace(claim.take(made, vertex, "a", "r1", 1.0), fence=9, claim_version=2)
    assert claim.releasing(grant) == [Check(paths.fence("n"), 9), Delete(paths.claim("n"), 2)]
    made.put_claim("n", Claim(annealer="gone", noderole="app@n", run="r1", epoch=7, since=1.0), 1, 3)
    assert claim.giving_back(made.nodes["n"]) == [Check(paths.fence("n"), 6), Delete(paths.claim("n"), 3)]
