"""The judge looks at all that a claim needs: other claims, the fence, the gates; and what is refused is tried later and later."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.readiness import Code, runnable, why_not
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Node, State
from nodepool_ocb_annealer.refusals import FREE, IN_A_ROW_SECONDS, LONGEST_SECONDS, Refusals
from tests.engine.test_claim import JIGS
from tests.engine.worlds import put, world


def codes(made: World, vertex: Vertex) -> list[Code]:
    return [reason.code for reason in why_not(made, vertex, 1.0)]


def claim(annealer: str, noderole: str = "other@n") -> Claim:
    return Claim(annealer=annealer, noderole=noderole, run="r9", epoch=7, since=0.5)


@pytest.mark.parametrize(("annealer", "owner"), [("ghost", 77), ("a", 0)], ids=["nobody's", "no session's"])
def test_a_claim_that_nobody_stands_behind_is_named_with_the_way_out(annealer: str, owner: int) -> None:
    made = world()
    for state in (State.TODO, State.TRANSITION):
        vertex = put(made, "app@n", state)
        made.put_claim("n", claim(annealer, vertex.name), owner, 0)
        (reason,) = why_not(made, vertex, 1.0)
        assert reason.code is Code.NODE_CLAIMED
        assert f"record delete {paths.claim('n')}" in reason.advice
        assert not runnable(made, vertex, 1.0, JIGS)


def test_a_claim_of_an_annealer_that_runs_is_named_while_nothing_is_in_transition() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    made.put_claim("n", claim("a"), 77, 0)
    assert codes(made, vertex) == [Code.NODE_CLAIMED]
    put(made, "other@n", State.TRANSITION)
    assert codes(made, vertex) == [Code.NODE_BUSY]


@pytest.mark.parametrize(
    ("state", "fields", "code", "said"),
    [
        (State.PROPOSED, {}, Code.PROPOSED, "noderole commit app@n"),
        (State.ERROR, {"reason": "no disk"}, Code.FAILED, "its run failed: no disk"),
        (State.ACTIVE, {}, Code.DONE, "noderole refresh app@n"),
        (State.ACTIVE, {"once": "done"}, Code.DESTRUCTIVE_DONE, "noderole redeploy app@n"),
    ],
)
def test_a_state_that_keeps_it_from_starting_is_the_reason(
    state: State, fields: dict[str, str], code: Code, said: str
) -> None:
    made = world()
    vertex = put(made, "app@n", state, **fields)
    (reason,) = why_not(made, vertex, 1.0)
    assert reason.code is code
    assert said in f"{reason.text} {reason.advice}"
    assert not runnable(made, vertex, 1.0, JIGS)


def test_a_fence_that_is_not_there_is_named() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    assert runnable(made, vertex, 1.0, JIGS)
    made.put_fence("n", -1)
    (reason,) = why_not(made, vertex, 1.0)
    assert (reason.code, reason.subject) == (Code.INCOMPLETE, paths.fence("n"))
    assert '"epoch_base":0 ' in reason.advice


def test_the_advice_for_an_absent_fence_names_the_lowest_allowed_epoch() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO, epoch=40)
    put(made, "other@n", State.ACTIVE, epoch=41)
    made.put_fence("n", -1)
    (reason,) = why_not(made, vertex, 1.0)
    assert '"epoch_base":41 ' in reason.advice
    made.put_node("n", Node(alive=True, epoch_base=90), 5)
    (reason,) = why_not(made, vertex, 1.0)
    assert '"epoch_base":90 ' in reason.advice


def test_an_annealer_whose_registration_cannot_be_read_stands_behind_its_claim() -> None:
    made = world()
    made.unreadable[paths.daemon("annealer", "spoiled")] = "garbage"
    vertex = put(made, "app@n", State.TRANSITION)
    made.put_claim("n", claim("spoiled", vertex.name), 77, 0)
    assert codes(made, vertex) == [Code.RUNNING]


def test_a_gate_that_is_not_there_is_named_by_members_and_by_those_who_wait_for_them() -> None:
    made = world()
    member = put(made, "base@m", State.TODO, serves=("base",))
    made.put_gate("system", "base", 3)
    assert codes(made, member) == []
    child = put(made, "app@n", State.TODO, "base@*system")
    made.put_gate("system", "base", -1)
    assert Code.INCOMPLETE in codes(made, member)
    assert Code.INCOMPLETE in codes(made, child)


def test_claims_that_are_refused_are_tried_later_and_later_and_told_once() -> None:
    refusals, now, logged = Refusals(), 0.0, 0
    for count in range(1, 60):
        wait = refusals.refused("n", now)
        logged += refusals.news("n", "it is gone") is not None
        assert (refusals.until("n", now) is None) is (count <= FREE)
        now += wait
    assert wait == LONGEST_SECONDS
    assert logged == 1
    assert refusals.until("m", now) is None
    refusals.well("n")
    assert refusals.until("n", now) is None


def test_refusals_that_lie_far_apart_are_not_in_a_row() -> None:
    """Whoever loses a race now and then must not leave the node alone when it is wanted."""
    refusals, now = Refusals(), 0.0
    for _ in range(5 * FREE):
        now += refusals.refused("n", now) + IN_A_ROW_SECONDS
        assert refusals.news("n", "another was faster") is None
        assert refusals.until("n", now - IN_A_ROW_SECONDS - 0.1) is None


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("host key: it offers another", "node set n host_keys="),
        ("connect: nobody answers", "check the machine"),
    ],
)
def test_a_machine_that_is_not_alive_has_the_way_out_of_what_is_wrong_with_it(reason: str, advice: str) -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    node = made.nodes["n"].record
    assert node is not None
    made.put_node("n", replace(node, alive=False, reason=reason, addresses=("192.0.2.1",)), 1)
    (found,) = why_not(made, vertex, 1.0)
    assert found.code is Code.NODE_NOT_ALIVE
    assert advice in found.advice
