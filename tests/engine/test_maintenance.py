"""What is set aside: nothing new begins there, what runs goes on, and its time ends it without anybody's write."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim, liveness, maintenance, nodes
from nodepool_ocb.engine.readiness import Code, runnable, why_not
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Check, Deployment, DeploymentState, Node, Set, State
from nodepool_ocb_annealer.machines.judging import probed
from tests.engine.test_deaths import N1, node, records, state
from tests.engine.test_deaths import world as of_one_node
from tests.engine.worlds import put, world

NOW = 1000.0
HOLD = Maintenance(by="ann", reason="new disk", since=900.0, until=NOW + 60)
COMMITTED = DeploymentState.COMMITTED


def codes(made: World, vertex: Vertex, now: float = NOW) -> list[Code]:
    return [reason.code for reason in why_not(made, vertex, now)]


def tree(made: World, paused: str | None = None, pause: Maintenance = HOLD) -> None:
    """system ← web ← shop; one of them paused."""
    for name, parent in (("system", None), ("web", "system"), ("shop", "web")):
        record = Deployment(parent=parent, state=COMMITTED, pause=pause if name == paused else None)
        made.put(Stored(record, 3), name)


def in_shop(paused: str | None = None) -> tuple[World, Vertex]:
    made = world()
    tree(made, paused)
    return made, put(made, "app@n", State.TODO, deployment="shop")


def test_a_pause_holds_a_deployment_that_came_below_it_later() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO, deployment="shop")
    assert made.line("shop") == ("shop",)
    tree(made, "web")
    assert made.line("shop") == ("shop", "web", "system")
    assert Code.PAUSED in codes(made, vertex)
    made.drop(Deployment, "web")
    assert made.line("shop") == ("shop", "web")
    assert Code.PAUSED not in codes(made, vertex)


# -- what begins --


def test_nothing_is_claimed_on_a_held_node_until_its_time_is_up_and_nobody_writes_anything_for_that() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    made.put_node("n", Node(alive=True, hold=HOLD), 5)
    assert not runnable(made, vertex, NOW, {"noop"})
    assert maintenance.ends(made, vertex, NOW) == HOLD.until
    assert runnable(made, vertex, NOW + 60, {"noop"})
    assert (codes(made, vertex, NOW + 60), maintenance.ends(made, vertex, NOW + 60)) == ([], None)


@pytest.mark.parametrize("paused", ["shop", "web", "system"])
def test_a_pause_holds_for_its_deployment_and_all_below_it(paused: str) -> None:
    made, vertex = in_shop(paused)
    other = put(made, "other@m", State.TODO, deployment="system")
    assert codes(made, vertex) == [Code.PAUSED]
    assert runnable(made, other, NOW, {"noop"}) is (paused != "system")
    assert runnable(made, vertex, NOW + 60, {"noop"}), "it ends by itself"
    assert NOW < (maintenance.ends(made, vertex, NOW) or 0.0) <= NOW + 60, "and whoever waits for it knows when"


def test_that_it_is_set_aside_is_the_first_reason_with_who_why_until_when_and_the_command_that_lifts_it() -> None:
    made, _ = in_shop("system")
    made.put_node("n", Node(alive=False, available=False, hold=HOLD), 5)
    parent = put(made, "base@n", State.ERROR)
    vertex = put(made, "app@n", State.BLOCKED, parent.name, deployment="shop")
    held, paused, *rest = why_not(made, vertex, NOW)
    assert (held.code, held.subject, held.since) == (Code.NODE_HELD, "n", 900.0)
    assert held.text == "node n is held by ann until 1970-01-01T00:17:40Z: new disk"
    assert held.advice == "nodepool-ocb node release n"
    assert (paused.code, paused.advice) == (Code.PAUSED, "nodepool-ocb resume")
    assert [reason.code for reason in rest] == [Code.PARENT_ERROR, Code.NODE_NOT_ALIVE, Code.NODE_NOT_AVAILABLE]


def test_what_is_done_says_so_first_for_nothing_of_it_is_held_back() -> None:
    made, _ = in_shop("web")
    vertex = put(made, "app@n", State.ACTIVE, deployment="shop")
    assert codes(made, vertex) == [Code.DONE, Code.PAUSED]


def test_a_run_that_is_to_be_ended_is_ended_though_its_node_is_held_and_everything_is_paused() -> None:
    made, _ = in_shop("system")
    made.put_node("n", Node(alive=True, hold=HOLD), 5)
    vertex = put(made, "app@n", State.TRANSITION, deployment="shop")
    assert not runnable(made, vertex, NOW, {"noop"}), "what runs is not taken over meanwhile"
    vertex = put(made, "app@n", State.TRANSITION, deployment="shop", cancel_reason="new disk (ann)")
    assert runnable(made, vertex, NOW, {"noop"})


def test_a_claim_checks_its_deployment_and_all_above_it_so_that_a_pause_made_meanwhile_refuses_it() -> None:
    made, vertex = in_shop()
    changes = claim.claiming(made, claim.take(made, vertex, "a", "r1", NOW))
    checked = {change.path for change in changes if isinstance(change, Check)}
    assert checked >= {paths.deployment(name) for name in ("shop", "web", "system")}


def test_a_deployment_above_that_cannot_be_read_may_be_paused_and_holds_back_what_is_below() -> None:
    made, vertex = in_shop()
    made.unreadable[paths.deployment("web")] = "garbage"
    assert codes(made, vertex) == [Code.UNREADABLE]


def test_deployments_in_a_circle_which_only_a_hand_makes_are_walked_once() -> None:
    made, vertex = in_shop()
    made.put(Stored(Deployment(parent="shop", state=COMMITTED, pause=HOLD), 3), "web")
    assert codes(made, vertex) == [Code.PAUSED]


# -- what people write --


def test_another_persons_hold_is_shown_and_not_replaced_and_ones_own_is() -> None:
    made = of_one_node()
    made.put_node(N1, Node(alive=True, hold=HOLD), 5)
    with pytest.raises(Conflict, match=r"is held by ann until .*: new disk; to end it: nodepool-ocb node release"):
        list(nodes.hold(made, N1, "bob", "cables", NOW, None))
    assert list(nodes.hold(made, N1, "ann", "new disk", NOW, HOLD.until)) == [], "the same again"
    ((own,),) = nodes.hold(made, N1, "ann", "two disks", NOW, None)
    assert isinstance(own, Set)
    assert own.data.hold == Maintenance(by="ann", reason="two disks", since=NOW)
    ((later,),) = nodes.hold(made, N1, "bob", "cables", NOW + 60, None)
    assert isinstance(later, Set)
    assert later.data.hold.by == "bob", "what is over is nobody's"


def test_another_persons_pause_is_shown_and_not_replaced_and_a_time_that_is_over_is_refused() -> None:
    made, _ = in_shop("web")
    with pytest.raises(Conflict, match=r"deployment web is paused by ann .* nodepool-ocb deployment resume web"):
        maintenance.pause(made, "web", "bob", "upgrade", NOW, None)
    with pytest.raises(Invalid, match="give a time in the future"):
        maintenance.pause(made, "shop", "bob", "upgrade", NOW, NOW)
    (change,) = maintenance.resume(made, "web")
    assert isinstance(change, Set)
    assert (change.data.pause, maintenance.resume(made, "shop")) == (None, [])


def test_a_hold_by_force_cancels_what_runs_in_the_same_transaction_and_else_leaves_it() -> None:
    made = of_one_node(one=State.TRANSITION, two=State.TODO)
    ((alone,),) = nodes.hold(made, N1, "ann", "new disk", NOW, None)
    assert alone.path == paths.node(N1)
    (both,) = nodes.hold(made, N1, "ann", "new disk", NOW, None, end=True)
    written = records(both)
    assert written.keys() == {paths.node(N1), paths.noderole("one", N1)}
    assert written[paths.noderole("one", N1)].cancel_reason == "new disk (ann)"  # type: ignore[attr-defined]


# -- machines that are away meanwhile --


def held(made: World, hold: Maintenance | None = HOLD, **fields: bool) -> World:
    made.put_node(N1, Node(alive=True, hold=hold) if not fields else Node(hold=hold, **fields), 5)
    return made


def test_a_death_while_it_is_held_leaves_its_noderoles_and_the_release_sets_them_back() -> None:
    made = held(of_one_node(one=State.ACTIVE))
    assert records(liveness.died(made.nodes[N1], NOW, "connect: no")).keys() == {paths.node(N1)}
    assert records(liveness.changed(made, made.nodes[N1], NOW, alive=False)).keys() == {paths.node(N1)}
    made = held(of_one_node(one=State.ACTIVE), alive=False)
    released = nodes.release(made, N1, NOW, "ann")
    assert (node(released).hold, state(released, "one")) == (None, State.TODO)


def test_a_machine_that_is_alive_when_it_is_released_keeps_all_that_was_done_on_it() -> None:
    made = held(of_one_node(one=State.ACTIVE))
    released = nodes.release(made, N1, NOW, "ann")
    assert records(released).keys() == {paths.node(N1)}
    assert node(released).hold is None


def test_of_a_machine_that_is_still_dead_when_its_time_is_up_the_noderoles_are_set_back() -> None:
    made = held(of_one_node(one=State.ACTIVE), alive=False)
    view = made.nodes[N1]
    assert liveness.went_on(view, NOW) == []
    late = liveness.went_on(view, NOW + 60)
    assert (node(late).hold, state(late, "one")) == (None, State.TODO)
    made.put_node(N1, replace(node(late), alive=True, hold=HOLD), 6)
    assert not liveness.unfinished(made.nodes[N1].record or Node(), NOW + 60), "one that is alive is left as it is"


def test_a_held_machine_is_not_probed_until_its_time_is_up() -> None:
    made = of_one_node()
    made.put_node(N1, Node(alive=True, addresses=("192.0.2.1",), hold=HOLD), 5)
    assert not probed(made.nodes[N1], NOW)
    assert probed(made.nodes[N1], NOW + 60)
