"""Hooks of noderoles: what each comes to in the records, at one annealer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb.engine import claim
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.store.client import codec
from nodepool_ocb_annealer.hooks import calls
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.hooks.hook_desk import BARCLAMP, ROLE, Desk

NAME = f"{ROLE}@n1"
TIMER = Timer(TimerKind.NODEROLE_HOOK, NAME)


def record(desk: Desk, name: str = NAME) -> NodeRole:
    vertex = desk.world.vertex(name)
    assert vertex is not None
    return vertex.record


def system(desk: Desk, name: str = NAME) -> Any:
    return codec.attributes(desk.session.get(paths.system(*paths.split_noderole(name))))


def sets(_: Role, hooked: Hooked) -> None:
    assert hooked.node is not None
    assert hooked.record is not None
    hooked.set_system[NAME] = {
        "seen": [hooked.subject, hooked.role, hooked.record.state, hooked.attributes.get("old"), hooked.node.alive]
    }
    hooked.set_node["rack"] = "r1"
    hooked.refresh.append(f"{ROLE}@n2")


def raises(_: Role, hooked: Hooked) -> None:
    hooked.set_node["rack"] = "r1"
    raise ValueError("no licence")


@pytest.mark.parametrize("there", [False, True])
def test_all_that_a_hook_wants_is_written_and_it_runs_once(desk: Desk, there: bool) -> None:
    desk.catalogue("on_todo", "on_active")
    desk.brings(on_todo=sets)
    desk.node()
    desk.noderole(hooks=("on_todo",))
    desk.node("n2")
    desk.noderole("n2", state=State.ACTIVE)
    if there:
        desk.write(paths.system(ROLE, "n1"), {"old": 1})
    desk.run()
    seen = [NAME, ROLE, State.TODO, 1 if there else None, True]
    assert system(desk) == {"seen": seen} | ({"old": 1} if there else {})
    node = desk.world.nodes["n1"].record
    assert node is not None
    assert node.rack == "r1"
    assert (record(desk).state, record(desk).hooks) == (State.TODO, ())
    assert (record(desk, f"{ROLE}@n2").refresh, record(desk, f"{ROLE}@n2").by) == (True, "a")
    assert desk.asked == [(ROLE, BARCLAMP)] * 2
    sent = list(desk.sent)
    assert set(sent) == {str(TIMER)}
    desk.take()
    desk.run()
    assert desk.sent == sent


def test_a_hook_that_raises_fails_its_noderole_with_the_reason(desk: Desk) -> None:
    desk.catalogue("on_todo", "on_active")
    desk.brings(on_todo=raises)
    desk.node()
    desk.noderole(hooks=("on_todo", "on_active"))
    desk.run()
    found = record(desk)
    assert (found.state, found.reason, found.by) == (State.ERROR, "on_todo: ValueError: no licence", "a")
    assert found.hooks == ("on_active",)
    node = desk.world.nodes["n1"].record
    assert node is not None
    assert node.rack is None
    assert desk.take() == [TIMER]


def test_a_hook_of_a_noderole_that_moved_on_meanwhile_writes_nothing_and_runs_again(desk: Desk) -> None:
    desk.catalogue("on_todo")
    desk.brings(on_todo=sets)
    desk.node()
    desk.noderole(hooks=("on_todo",))
    desk.hooking.look_at_all()
    for timer in desk.take():
        desk.hooking.due(timer.kind, timer.about)
    desk.write(paths.noderole(ROLE, "n1"), record(desk).amended(reason="moved"))
    desk.turn()
    assert desk.sent == []
    assert (record(desk).hooks, system(desk)) == (("on_todo",), {})
    assert desk.take() == [TIMER]


def test_a_hook_that_the_role_has_no_more_is_passed_over_without_a_call(desk: Desk) -> None:
    desk.catalogue("on_active")
    desk.brings(on_todo=sets)
    desk.node()
    desk.noderole(hooks=("on_todo", "on_active"))
    desk.hooking.due(TIMER.kind, TIMER.about)
    assert (record(desk).hooks, desk.sent, desk.asked) == (("on_active",), [f"on_todo of {NAME}"], [])


@pytest.mark.parametrize("case", ["no code", "no role", "no noderole", "no hook", "spoiled"])
def test_a_hook_that_cannot_run_here_is_left_as_it_is(desk: Desk, case: str) -> None:
    if case != "no role":
        desk.catalogue("on_todo")
    if case != "no code":
        desk.brings(on_todo=sets)
    desk.node()
    if case != "no noderole":
        desk.noderole(hooks=() if case == "no hook" else ("on_todo",))
    if case == "spoiled":
        desk.world.spoiled[paths.system(ROLE, "n1")] = "no JSON"
    desk.hooking.due(TIMER.kind, TIMER.about)
    assert (desk.sent, len(desk.hooking._under_way), desk.take()) == ([], 0, [])


def test_attributes_that_cannot_be_read_are_told_and_the_hook_waits_long(desk: Desk) -> None:
    desk.catalogue("on_todo")
    desk.brings(on_todo=sets)
    desk.node()
    desk.noderole(hooks=("on_todo",))
    path = paths.system(ROLE, "n1")
    desk.write(path, {"old": 1})
    desk.session._client.set(path, b"garbage")
    desk.run()
    assert [spoken for spoken, _ in desk.unread] == [path]
    assert path in desk.unread[0][1]
    assert 55.0 < desk.waits()[TIMER] <= 60.0
    assert (record(desk).hooks, desk.sent) == (("on_todo",), [])


@pytest.mark.parametrize("claimed", [True, False])
def test_a_hook_that_wants_a_noderole_at_work_to_run_again_waits_until_that_has_ended(
    desk: Desk, claimed: bool
) -> None:
    desk.catalogue("on_todo")
    desk.brings(on_todo=sets)
    desk.node()
    desk.noderole(hooks=("on_todo",))
    desk.node("n2")
    desk.noderole("n2", state=State.TODO)
    world = desk.world
    vertex = world.vertex(f"{ROLE}@n2")
    assert vertex is not None
    if claimed:
        grant = claim.take(world, vertex, "b", "0000000001-b1", 1.0)
        desk.session.commit(claim.claiming(world, grant))
    else:
        desk.write(paths.noderole(ROLE, "n2"), vertex.record.amended(state=State.TRANSITION, cancel_reason="enough"))
    desk.read()
    desk.run()
    assert (desk.sent == []) is claimed
    if not claimed:
        return
    assert record(desk).hooks == ("on_todo",)
    assert 1.5 < desk.waits()[TIMER] <= 2.0
    asked = len(desk.asked)
    desk.hooking.due(TIMER.kind, TIMER.about)
    assert len(desk.hooking._under_way) == 0, "it is not called while that run goes on"
    assert 1.5 < desk.waits()[TIMER] <= 2.0
    desk.write(paths.noderole(ROLE, "n2"), replace(record(desk, f"{ROLE}@n2"), state=State.ACTIVE))
    desk.hooking.due(TIMER.kind, TIMER.about)
    desk.turn()
    assert len(desk.asked) > asked
    assert record(desk).hooks == ()
    assert record(desk, f"{ROLE}@n2").refresh


# -- on_transition --


def granted(desk: Desk, **fields: Any) -> claim.Grant:
    desk.catalogue("on_transition")
    desk.node()
    desk.noderole(**fields)
    vertex = desk.world.vertex(NAME)
    assert vertex is not None
    grant = claim.take(desk.world, vertex, "a", "0000000001-a1", 1.0)
    desk.session.commit(claim.claiming(desk.world, grant))
    return grant


def at_its_claim(_: Role, hooked: Hooked) -> None:
    assert hooked.node is not None
    assert hooked.record is not None
    hooked.set_system[NAME] = {"now": [hooked.subject, hooked.role, hooked.record.state, hooked.attributes.get("old")]}
    hooked.set_system["other@n1"] = {"now": 1}


@pytest.mark.parametrize("there", [False, True])
def test_a_hook_before_a_jig_sets_the_attributes_of_its_noderole_alone(desk: Desk, there: bool) -> None:
    grant = granted(desk)
    if there:
        desk.write(paths.system(ROLE, "n1"), {"old": 1})
    desk.brings(on_transition=at_its_claim)
    assert calls.on_transition(desk.session, grant, BARCLAMP) is None
    wanted = {"now": [NAME, ROLE, State.TRANSITION, 1 if there else None]}
    assert system(desk) == wanted | ({"old": 1} if there else {})
    assert desk.session.get(paths.system("other", "n1")) is None
    assert desk.asked == [(ROLE, BARCLAMP)]


def test_a_hook_before_a_jig_writes_nothing_after_the_node_was_claimed_anew(desk: Desk) -> None:
    grant = granted(desk)
    desk.brings(on_transition=at_its_claim)
    fence = desk.session.get(paths.fence("n1"))
    assert fence is not None
    desk.write(paths.fence("n1"), None)
    with pytest.raises(Stale) as refused:
        calls.on_transition(desk.session, grant, BARCLAMP)
    assert refused.value.path == paths.fence("n1")
    assert desk.session.get(paths.system(ROLE, "n1")) is None


def test_a_hook_before_a_jig_that_raises_or_sets_nothing_writes_nothing(desk: Desk) -> None:
    grant = granted(desk)

    def fails(role: Role, hooked: Hooked) -> None:
        at_its_claim(role, hooked)
        raise ValueError("no licence")

    desk.brings(on_transition=fails)
    error = calls.on_transition(desk.session, grant, BARCLAMP)
    assert str(error) == "no licence"
    desk.brings(on_transition=lambda *_: None)
    assert calls.on_transition(desk.session, grant, BARCLAMP) is None
    assert desk.session.get(paths.system(ROLE, "n1")) is None


def test_a_hook_without_code_is_an_answer_too(desk: Desk) -> None:
    assert not desk.code
    error = calls.call(BARCLAMP, "on_todo", Hooked(NAME, role=ROLE))
    assert "the code of its role is not installed on the annealer's host" in str(error)
