"""When hooks run: how many at once, again after what, and what is written where their wish cannot be."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb.engine.hooks.deployment import CREATE
from nodepool_ocb.errors import Denied, Invalid, OcbError, Spoiled, Stale, Unavailable
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Deployment, DeploymentRole, State
from nodepool_ocb.model.records import Role as RoleRecord
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.hooks import hooking
from nodepool_ocb_annealer.hooks.job import Done, Job
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.hooks.hook_desk import LAB, ROLE, SECONDS, Desk

NAME = f"{ROLE}@n1"
TIMER = Timer(TimerKind.NODEROLE_HOOK, NAME)


def one(desk: Desk, *hooks: str) -> None:
    desk.catalogue("on_todo")
    desk.brings(on_todo=lambda _, hooked: hooked.set_system.update({NAME: {"done": True}}))
    desk.node()
    desk.noderole(hooks=hooks or ("on_todo",))


def state(desk: Desk) -> tuple[State, str | None, tuple[str, ...]]:
    vertex = desk.world.vertex(NAME)
    assert vertex is not None
    return vertex.record.state, vertex.record.reason, vertex.record.hooks


def test_timers_are_set_for_all_that_changed_and_has_a_hook(desk: Desk) -> None:
    one(desk)
    desk.noderole(role="idle")
    desk.node("n2", hooks=("on_node_change",))
    desk.node("n3", deleting=True)
    desk.node("n4")
    desk.write(paths.deployment_role(LAB, "a"), DeploymentRole(hooks=(CREATE,)))
    desk.write(paths.deployment_role(LAB, "b"), DeploymentRole(deleting=True))
    desk.write(paths.deployment_role(LAB, "c"), DeploymentRole())
    noderoles, nodes = {TIMER}, {Timer(TimerKind.NODE_HOOK, "n2"), Timer(TimerKind.NODE_HOOK, "n3")}
    deployments = {Timer(TimerKind.DEPLOYMENT_HOOK, f"{LAB}/{role}") for role in ("a", "b")}
    desk.hooking.look_at_all()
    assert set(desk.take()) == noderoles | nodes | deployments
    for touched, timers in (
        (ChangeSet(vertices=set(desk.world.vertices())), noderoles),
        (ChangeSet(nodes={"n1", "n2", "n3", "n4", "gone"}), nodes),
        (ChangeSet(kinds={Deployment}), deployments),
        (ChangeSet(), set()),
    ):
        desk.hooking.look(touched)
        assert set(desk.take()) == timers


def test_an_annealer_of_a_lower_rank_waits_longer(desk: Desk) -> None:
    one(desk)
    desk.ranking.of = lambda fqdn: {"n1": 2}.get(fqdn, 0)  # type: ignore[method-assign]
    desk.hooking.look_at_all()
    wait = 2 * desk.settings.steal_delay_seconds
    assert wait - 1.0 < desk.waits()[TIMER] <= wait


@pytest.mark.parametrize(
    ("hooks", "fields", "code", "has"),
    [
        (("on_transition",), {}, True, True),
        (("on_transition",), {}, False, False),
        (("on_transition",), {"cancel_reason": "enough"}, False, True),
        (("on_todo",), {}, False, True),
    ],
)
def test_a_noderole_is_claimed_where_the_hook_before_its_jig_can_run(
    desk: Desk, hooks: tuple[str, ...], fields: dict[str, Any], code: bool, has: bool
) -> None:
    desk.catalogue(*hooks)
    if code:
        desk.brings()
    desk.node()
    desk.noderole(**fields)
    vertex = desk.world.vertex(NAME)
    assert vertex is not None
    assert desk.hooking.has_code(vertex) is has
    desk.world.drop(RoleRecord, ROLE)
    assert desk.hooking.has_code(vertex)


@pytest.mark.parametrize("error", [Stale("it moved on"), Unavailable("no connection"), Denied("no right")])
def test_a_hook_that_zookeeper_kept_from_its_work_is_tried_again_and_has_not_failed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: OcbError
) -> None:
    one(desk)

    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr("nodepool_ocb_annealer.hooks.noderoles.system", refused)
    desk.run()
    assert (state(desk), desk.sent) == ((State.TODO, None, ("on_todo",)), [])
    assert 1.5 < desk.waits()[TIMER] <= 2.0


def test_a_fault_in_the_work_of_a_hook_fails_its_noderole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    one(desk)

    def broken(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr("nodepool_ocb_annealer.hooks.noderoles.system", broken)
    desk.run()
    assert state(desk) == (State.ERROR, "on_todo: KeyError: 'a fault of ours'", ())


def test_a_wish_that_cannot_be_put_together_fails_the_noderole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    one(desk)
    whole = "nodepool_ocb_annealer.hooks.noderoles.wanted"
    monkeypatch.setattr(whole, lambda *_: {}["a fault of ours"])
    desk.run()
    assert state(desk) == (State.ERROR, "on_todo: KeyError: 'a fault of ours'", ())


def test_a_failure_that_cannot_be_written_either_is_left_until_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(desk)
    monkeypatch.setattr("nodepool_ocb_annealer.hooks.noderoles._changes", lambda *_: {}["a fault of ours"])
    desk.run()
    assert (state(desk), desk.sent) == ((State.TODO, None, ("on_todo",)), [])
    assert 1.5 < desk.waits()[TIMER] <= 2.0


def test_a_wish_that_no_record_can_hold_fails_the_noderole_with_that_reason(desk: Desk) -> None:
    one(desk)
    desk.refusals[1] = Invalid("it is larger than a record may be")
    desk.run()
    assert desk.sent == [str(TIMER)] * 2
    assert state(desk) == (State.ERROR, "on_todo: it is larger than a record may be", ())
    assert not codec.attributes(desk.session.get(paths.system(ROLE, "n1")))


def test_a_failure_that_no_record_can_hold_is_left_until_later(desk: Desk) -> None:
    one(desk)
    desk.refusals |= {1: Invalid("too large"), 2: Invalid("too large")}
    desk.run()
    assert (desk.sent, state(desk)[2]) == ([str(TIMER)] * 2, ("on_todo",))
    assert 1.5 < desk.waits()[TIMER] <= 2.0


@pytest.mark.parametrize("refused", [None, 1, 2])
def test_a_wish_of_several_transactions_is_written_in_order_up_to_the_first_refusal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, refused: int | None
) -> None:
    one(desk)
    monkeypatch.setattr(limits, "apart", lambda changes: [[each] for each in changes])
    if refused:
        desk.refusals[refused] = Stale("it moved on")
    desk.run()
    assert len(desk.sent) == (refused or 2)
    assert bool(codec.attributes(desk.session.get(paths.system(ROLE, "n1")))) is (refused != 1)
    assert (state(desk)[2] == ()) is (refused is None)
    waits = desk.waits()
    assert (waits[TIMER] > 1.5) is (refused is not None)
    assert len(desk.hooking._under_way) == 0


def test_a_hook_that_runs_is_not_begun_again_meanwhile(desk: Desk) -> None:
    go, calls = threading.Event(), []

    def waits(_: Role, hooked: Hooked) -> None:
        calls.append(hooked.subject)
        go.wait(SECONDS)

    one(desk)
    desk.brings(on_todo=waits)
    for _ in range(2):
        desk.hooking.due(TIMER.kind, TIMER.about)
    go.set()
    desk.turn()
    assert (calls, state(desk)[2]) == ([NAME], ())


def test_no_more_hooks_than_may_be_are_under_way_and_the_others_follow_in_order(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooking, "MOST_AT_ONCE", 2)
    desk.catalogue("on_todo")
    order: list[str] = []
    desk.brings(on_todo=lambda _, hooked: order.append(hooked.subject))
    names = [f"{ROLE}@n{number}" for number in range(5)]
    for number in range(5):
        desk.node(f"n{number}")
        desk.noderole(f"n{number}", hooks=("on_todo",))
    for name in names:
        desk.hooking.due(TimerKind.NODEROLE_HOOK, name)
    assert (len(desk.hooking._under_way), len(desk.hooking._queue)) == (2, 3)
    for left in (3, 2, 1, 0, 0):
        desk.turn()
        waiting = [timer.about for timer in desk.hooking._queue]
        assert waiting == (names[1 - left :] if left > 1 else [])
    assert sorted(order) == names
    assert all(vertex.record.hooks == () for vertex in desk.world.vertices())


def test_a_hook_for_which_there_is_no_thread_is_tried_again(desk: Desk) -> None:
    one(desk)
    workers: Any = desk.hooking._workers
    ask, workers.ask = workers.ask, lambda *_: False
    desk.hooking.due(TIMER.kind, TIMER.about)
    assert (len(desk.hooking._under_way), desk.sent) == (0, [])
    assert 1.5 < desk.waits()[TIMER] <= 2.0
    workers.ask = ask
    desk.run()
    assert state(desk)[2] == ()


@pytest.mark.parametrize(
    ("raised", "again_seconds"),
    [(Stale("x"), 2.0), (Unavailable("x"), 2.0), (Denied("x"), 2.0), (Spoiled("x", "/p"), 60.0)],
)
def test_work_that_could_not_be_done_is_done_later(raised: OcbError, again_seconds: float) -> None:
    def work() -> Done | None:
        raise raised

    ran = hooking._run(TIMER, Job(work, lambda _: [], DeploymentRole()))
    assert (ran.done, ran.again_seconds) == (None, again_seconds)
    assert (ran.spoiled is raised) is isinstance(raised, Spoiled)
    assert hooking.Ran(None).again_seconds == 2.0
