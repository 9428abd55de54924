"""Hooks of a role in a deployment: what each comes to in the record, at one annealer."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb.engine.hooks.deployment import CREATE, DELETE
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import DeploymentRole
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.hooks.hook_desk import BARCLAMP, LAB, ROLE, Desk

PATH = paths.deployment_role(LAB, ROLE)
TIMER = Timer(TimerKind.DEPLOYMENT_HOOK, f"{LAB}/{ROLE}")


def agrees(_: Role, hooked: Hooked) -> None:
    assert (hooked.subject, hooked.role) == (LAB, ROLE)
    hooked.set_system[LAB] = {"zone": f"{hooked.user['server']}.zone", "old": hooked.attributes.get("old")}
    hooked.set_system["elsewhere"] = {"zone": "nowhere"}


def refuses(_: Role, hooked: Hooked) -> None:
    hooked.set_system[LAB] = {"zone": "half done"}
    raise ValueError(f"no server is set in {hooked.subject}")


def added(desk: Desk, **fields: Any) -> None:
    desk.write(PATH, DeploymentRole(**{"user": {"server": "s1"}, "system": {"old": 1, "kept": 2}, **fields}))


def recorded(desk: Desk) -> DeploymentRole | None:
    stored = desk.world.deployment_roles.get((LAB, ROLE))
    return stored.record if stored else None


def structure(desk: Desk) -> int:
    znode = desk.session.get(paths.STRUCTURE)
    assert znode is not None
    return znode.version


def test_a_hook_that_agrees_sets_attributes_and_runs_once(desk: Desk) -> None:
    desk.catalogue(CREATE, DELETE)
    desk.brings(on_deployment_create=agrees)
    added(desk, hooks=(CREATE,), refused={CREATE: "before", DELETE: "kept"})
    desk.run()
    assert recorded(desk) == DeploymentRole(
        user={"server": "s1"}, system={"zone": "s1.zone", "old": 1, "kept": 2}, refused={DELETE: "kept"}
    )
    assert desk.asked == [(ROLE, BARCLAMP)] * 2
    assert desk.sent == [str(TIMER)]
    desk.take()
    desk.run()
    assert desk.sent == [str(TIMER)]


def test_the_reason_of_a_hook_that_raises_is_recorded_and_nothing_that_it_set(desk: Desk) -> None:
    desk.catalogue(CREATE)
    desk.brings(on_deployment_create=refuses)
    added(desk, hooks=(CREATE,))
    desk.run()
    assert recorded(desk) == DeploymentRole(
        user={"server": "s1"},
        system={"old": 1, "kept": 2},
        refused={CREATE: f"ValueError: no server is set in {LAB}"},
    )


def test_the_first_hook_runs_first_and_the_second_has_a_timer(desk: Desk) -> None:
    desk.catalogue(CREATE, DELETE)
    desk.brings(on_deployment_create=agrees)
    added(desk, hooks=(CREATE, DELETE), deleting=True)
    desk.run()
    found = recorded(desk)
    assert found is not None
    assert (found.hooks, found.deleting) == ((DELETE,), True)
    assert desk.take() == [TIMER]


def test_a_role_leaves_when_its_hook_agreed(desk: Desk) -> None:
    desk.catalogue(DELETE)
    added(desk, deleting=True)
    before = structure(desk)
    desk.run()
    assert recorded(desk) is None
    assert (desk.sent, structure(desk)) == ([f"deleting {ROLE} in {LAB}"], before + 1)


def test_a_role_that_was_bound_meanwhile_stays_with_the_reason(desk: Desk) -> None:
    desk.catalogue(DELETE)
    desk.node()
    desk.noderole()
    added(desk, deleting=True)
    desk.run()
    found = recorded(desk)
    assert found is not None
    assert (found.deleting, found.hooks) == (False, ())
    assert found.refused[DELETE].startswith(f"role {ROLE} is bound in deployment {LAB}: {ROLE}@n1; first: ")


def test_a_hook_that_the_role_has_no_more_is_passed_over_without_a_call(desk: Desk) -> None:
    desk.catalogue(DELETE)
    desk.brings(on_deployment_create=agrees)
    added(desk, hooks=(CREATE, DELETE))
    desk.run()
    found = recorded(desk)
    assert found is not None
    assert found.hooks == (DELETE,)
    assert desk.sent == [f"{CREATE} of {ROLE} in {LAB}"]
    assert desk.asked == []


@pytest.mark.parametrize("case", ["no code", "no role", "no record", "no hook"])
def test_a_hook_that_cannot_run_here_is_left_as_it_is(desk: Desk, case: str) -> None:
    if case != "no role":
        desk.catalogue(CREATE)
    if case != "no code":
        desk.brings(on_deployment_create=agrees)
    if case != "no record":
        added(desk, hooks=() if case == "no hook" else (CREATE,))
    before = recorded(desk)
    desk.hooking.due(TIMER.kind, TIMER.about)
    assert (recorded(desk), desk.sent, len(desk.hooking._under_way)) == (before, [], 0)
    assert desk.take() == []


def test_a_record_that_was_written_meanwhile_is_asked_about_again(desk: Desk) -> None:
    desk.catalogue(CREATE)
    desk.brings(on_deployment_create=agrees)
    added(desk, hooks=(CREATE,))
    desk.refusals[1] = Stale("it moved on", PATH)
    desk.run()
    found = recorded(desk)
    assert found is not None
    assert found.hooks == (CREATE,)
    waits = desk.waits()
    assert 1.5 < waits[TIMER] <= 2.0
    desk.run()
    found = recorded(desk)
    assert found is not None
    assert found.hooks == ()
