"""The node of a failed installation: not alive once an installer began, and its noderoles are set back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.jigs.jig import Succeeded
from nodepool_ocb.model.installation import InstallPurpose, InstallStep
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Node, NodeRole, State
from nodepool_ocb_annealer.runs import installations
from nodepool_ocb_annealer.runs.attributes import Results
from nodepool_ocb_annealer.runs.conclusions import conclude
from tests.annealer.runs.installdesk import InstallDesk, N
from tests.engine.worlds import put

USED = {"token_used": 5.0}


@pytest.fixture
def desk() -> Iterator[InstallDesk]:
    """With a noderole of the former system."""
    made = InstallDesk()
    put(made.world, f"dns@{N}", State.ACTIVE)
    yield made
    made.close()


def fails(desk: InstallDesk, step: InstallStep, **fields: Any) -> Node:
    """The node after the transaction that ends its installation, with the noderole of that in ERROR."""
    desk.holds(step, **fields)
    advance(desk.world, installations.given_up(desk.attempt.grant, "a test", time.time()))
    desk.world.put_noderole(N, "os", replace(desk.attempt.grant.record, state=State.ERROR, run=None), 9)
    found = desk.world.nodes[N].record
    assert found is not None
    return found


def noderole(desk: InstallDesk, role: str) -> NodeRole:
    return desk.world.nodes[N].noderoles[role].record


@pytest.mark.parametrize("step", [InstallStep.IDENTIFIED, InstallStep.WRITTEN, InstallStep.PUBLISHED_LOCAL])
def test_a_machine_whose_installer_began_is_not_alive_and_its_noderoles_are_set_back(
    desk: InstallDesk, step: InstallStep
) -> None:
    desk.node(bootenv="install")
    node = fails(desk, step, **USED)
    assert (node.alive, node.dying, node.bootenv) == (False, True, "local")
    assert node.reason == "an installer took the place of its system, and did not finish"
    advance(desk.world, liveness.went_on(desk.world.nodes[N], time.time()))
    assert noderole(desk, "dns").state is State.TODO
    assert noderole(desk, "os").state is State.ERROR, "it waits for a person"


@pytest.mark.parametrize(
    "fields", [{}, USED | {"purpose": InstallPurpose.RESCUE}], ids=["no installer", "a rescue keeps the system"]
)
def test_a_machine_that_has_its_system_stays_alive(desk: InstallDesk, fields: dict[str, Any]) -> None:
    desk.node(bootenv="install")
    node = fails(desk, InstallStep.REBOOTING, **fields)
    assert (node.alive, node.bootenv) == (True, "local")
    assert noderole(desk, "dns").state is State.ACTIVE


@pytest.mark.parametrize(
    "fields", [{"available": False}, {"hold": Maintenance(by="ann", since=0.0)}], ids=["not available", "held"]
)
def test_the_noderoles_of_a_machine_that_is_kept_away_wait_for_its_return(
    desk: InstallDesk, fields: dict[str, Any]
) -> None:
    desk.node(**fields)
    node = fails(desk, InstallStep.WRITTEN, **USED)
    assert (node.alive, node.dying) == (False, False)


def test_a_machine_that_was_dead_keeps_its_reason_and_the_boot_environment_of_a_person_stays(desk: InstallDesk) -> None:
    desk.node(alive=False, reason="no power", bootenv="memtest")
    node = fails(desk, InstallStep.WRITTEN, **USED)
    assert (node.alive, node.dying, node.reason, node.bootenv) == (False, False, "no power", "memtest")


def test_an_installation_that_failed_after_its_last_look_is_no_success(desk: InstallDesk) -> None:
    """Such as by a second use of its token, before the end could be written."""
    reason = "the token of the boot was used a second time"
    desk.holds(InstallStep.PUBLISHED_LOCAL, reason=reason, **USED)
    ended = conclude(desk.attempt.grant, desk.attempt.role, Succeeded({}, tail="t"), 5.0, Results(), time.time())
    assert (ended.event, ended.run.outcome, ended.run.reason, ended.run.tail) == (Event.FAIL, "failed", reason, "t")
    advance(desk.world, ended.together())
    assert noderole(desk, "os").state is State.ERROR
    assert noderole(desk, "os").reason == reason
    node = desk.world.nodes[N].record
    assert node is not None
    assert not node.alive
