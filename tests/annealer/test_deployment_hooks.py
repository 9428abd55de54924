"""Deployment hooks, by a real annealer: no run before they agree, and it sees the defaults that they set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.engine import structure
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, DeploymentRole, Role, Set, State
from nodepool_ocb.store.world.load import load_world
from tests.journeys.fleet import DEPLOYMENT, Fleet, vertex_of
from tests.stories.test_annealer import package

PATH = paths.deployment_role(DEPLOYMENT, "watched")
HOOKS = """
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_deployment_create(self, hooked):
        if not hooked.user.get("server"):
            raise ValueError("no server is set")
        hooked.set_system[hooked.subject] = {"zone": hooked.user["server"] + ".zone"}

    def on_deployment_delete(self, hooked):
        if hooked.user["server"] == "busy":
            raise ValueError("it still has records")

    def run(self, order):
        return {**order.attributes, "seen": order.attributes.get("zone")}
"""


@pytest.fixture
def hooked(fleet: Fleet) -> Fleet:
    """An annealer that has the code of role "watched"; nothing is bound to it yet."""
    hooks = ("on_deployment_create", "on_deployment_delete")
    fleet.add_role("watched", Role(barclamp="fleet", jig="role-provided", hooks=hooks))
    fleet.annealer(sweep_seconds=60.0).begin(PYTHONPATH=str(package(fleet.folder / "site", HOOKS)))
    return fleet


def added(fleet: Fleet, **user: str) -> None:
    fleet.session.commit([Create(PATH, DeploymentRole(user=user, hooks=("on_deployment_create",)))])


def changed(fleet: Fleet, change: Callable[[DeploymentRole], DeploymentRole]) -> None:
    def changes(world: World) -> list[Change]:
        stored = world.deployment_roles[DEPLOYMENT, "watched"]
        return structure.raised(world, [Set(PATH, change(stored.record), stored.version)])

    fleet.write(changes)


def recorded(fleet: Fleet) -> DeploymentRole | None:
    stored = load_world(fleet.session).deployment_roles.get((DEPLOYMENT, "watched"))
    return stored.record if stored else None


def test_a_role_that_refuses_a_deployment_keeps_it_from_starting_until_it_is_mended(hooked: Fleet) -> None:
    added(hooked)
    noderole = hooked.bind("watched", hooked.nodes[0])
    said = "role watched refuses deployment fleet: ValueError: no server is set"
    hooked.until(lambda: (known := recorded(hooked)) and known.refused, "the refusal is recorded")
    world = load_world(hooked.session)
    reasons = why_not(world, vertex_of(world, noderole), hooked.session.now())
    assert [(reason.code, reason.text) for reason in reasons] == [(Code.HOOK_REFUSED, said)]
    with pytest.raises(Conflict, match="no server is set; mend it, then: nodepool-ocb deployment set fleet watched"):
        deploymentroles.refuse_commit(world, DEPLOYMENT)
    assert hooked.state(noderole) is State.TODO
    changed(
        hooked,
        lambda record: deploymentroles.asked_again(
            DeploymentRole(user={"server": "s1"}, refused=record.refused), Role(barclamp="fleet", jig="noop")
        ),
    )
    hooked.until_state(noderole, State.ACTIVE)
    assert recorded(hooked) == DeploymentRole(user={"server": "s1"}, system={"zone": "s1.zone"})
    assert hooked.blob(paths.wall("watched", hooked.nodes[0])) == {"seen": "s1.zone"}


def test_a_role_that_refuses_to_leave_stays_and_says_why_and_leaves_when_it_agrees(hooked: Fleet) -> None:
    added(hooked, server="busy")
    hooked.until(lambda: (known := recorded(hooked)) and not known.hooks, "it has agreed to be there")
    changed(hooked, deploymentroles.marked)
    hooked.until(lambda: (known := recorded(hooked)) and known.refused, "the refusal is recorded")
    stays = recorded(hooked)
    assert stays is not None
    assert (stays.deleting, stays.refused) == (False, {"on_deployment_delete": "ValueError: it still has records"})
    deploymentroles.refuse_commit(load_world(hooked.session), DEPLOYMENT)
    changed(
        hooked, lambda record: deploymentroles.marked(DeploymentRole(user={"server": "idle"}, refused=record.refused))
    )
    hooked.until(lambda: recorded(hooked) is None, "it is gone")


def test_a_role_that_refuses_to_leave_has_run_what_waited_before() -> None:
    leaving = deploymentroles.marked(DeploymentRole(hooks=("on_deployment_create",)))
    assert leaving.hooks == ("on_deployment_create", "on_deployment_delete")
    refused = deploymentroles.refused(leaving, "on_deployment_create", "no zone")
    assert (refused.deleting, refused.hooks) == (True, ("on_deployment_delete",))
    stays = deploymentroles.refused(refused, "on_deployment_delete", "busy")
    assert stays == DeploymentRole(refused={"on_deployment_create": "no zone", "on_deployment_delete": "busy"})
