"""What hooks ask for happens: on nodes, deployments and noderoles, by a real annealer."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, DeploymentRole, Role, State
from nodepool_ocb.store.client import codec
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.stories.test_annealer import package

HOOKS = """
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_node_change(self, hooked):
        hooked.set_node["bootenv"] = "rescue"
        hooked.refresh.extend(hooked.noderoles)

    def on_deployment_create(self, hooked):
        hooked.set_system[hooked.subject] = {"made": hooked.subject, **hooked.attributes}

    def on_transition(self, hooked):
        hooked.set_system[hooked.subject] = {"told": hooked.record.state}

    def run(self, order):
        return {**order.attributes, "seen": order.attributes.get("told")}
"""


@pytest.fixture
def hooked(fleet: Fleet) -> Fleet:
    """Its annealers have the code of role "watched"."""
    fleet.add_role("watched", role("on_node_change", "on_deployment_create", "on_transition"))
    return fleet


def role(*hooks: str) -> Role:
    return Role(barclamp="fleet", jig="role-provided", hooks=hooks)


def begin(fleet: Fleet) -> None:
    folder: Path = package(fleet.folder / "site", HOOKS)
    fleet.annealer().begin(PYTHONPATH=str(folder))


def test_a_jig_sees_what_on_transition_set_and_what_it_gives_back_is_on_the_wall(hooked: Fleet) -> None:
    noderole = hooked.bind("watched", hooked.nodes[0])
    begin(hooked)
    hooked.until_state(noderole, State.ACTIVE)
    assert hooked.blob(paths.system("watched", hooked.nodes[0])) == {"told": "TRANSITION"}
    assert hooked.blob(paths.wall("watched", hooked.nodes[0])) == {"seen": "TRANSITION"}


def test_a_hook_of_a_node_changes_the_node_and_has_noderoles_run_again(hooked: Fleet) -> None:
    noderole = hooked.bind("watched", hooked.nodes[0])
    begin(hooked)
    hooked.until_state(noderole, State.ACTIVE)
    hooked.set_node(hooked.nodes[0], hooks=("on_node_change",))
    hooked.until(lambda: hooked.node(hooked.nodes[0]).hooks == (), "the hook has run")
    assert hooked.node(hooked.nodes[0]).bootenv == "rescue"
    hooked.until(lambda: len(hooked.runs(noderole)) == 2, "it runs again")


def test_a_hook_of_a_deployment_sets_its_attributes(hooked: Fleet) -> None:
    path = paths.deployment_role(DEPLOYMENT, "watched")
    record = DeploymentRole(hooks=("on_deployment_create",), system={"kept": True})
    hooked.session.commit([Create(path, record)])
    begin(hooked)

    def stored() -> DeploymentRole:
        znode = hooked.session.get(path)
        assert znode is not None
        return codec.decode(DeploymentRole, znode)

    hooked.until(lambda: stored().hooks == (), "the hook has run")
    assert stored().system == {"kept": True, "made": DEPLOYMENT}
