"""What hooks ask for happens: on nodes, deployments and noderoles, by a real annealer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Create,
    Daemon,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Node,
    NodeRole,
    Role,
    Set,
    State,
)
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb_annealer.hooks import pending_hooks
from nodepool_ocb_annealer.hooks.hooking import AGAIN_SECONDS
from tests.journeys.fleet import DEPLOYMENT, Fleet, vertex_of
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


NOTES = """
import os, pathlib
from nodepool_ocb.catalogue.code import Role

class Noting(Role):
    def note(self, *words):
        with pathlib.Path(os.environ["NOTES"]).open("a") as file:
            print(*words, file=file)

class Dns(Noting):
    def on_node_update(self, hooked):
        self.note("dns", hooked.node.alive, *sorted(hooked.changed))
        hooked.set_node["rack"] = "r1"
        hooked.set_system["watched@" + hooked.subject] = {"dns": 1}

class Watched(Noting):
    def on_node_change(self, hooked):
        self.note("watched", hooked.node.alive, *sorted(hooked.changed))
        hooked.set_node["bootenv"] = "local" if hooked.node.alive else "rescue"
        hooked.set_system["watched@" + hooked.subject] = {"watched": hooked.node.alive}
"""


def test_a_machine_that_dies_and_is_back_calls_the_hooks_of_two_roles_and_both_are_heard(fleet: Fleet) -> None:
    (machine,) = fleet.nodes
    notes = fleet.folder / "notes"
    fleet.add_role("dns", Role(barclamp="fleet", jig="noop", hooks=("on_node_change",)))
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_node_change",), requires=("dns",)))
    noderole = fleet.bind("watched", machine)
    folder = package(fleet.folder / "site", NOTES, ("dns", "watched"))
    fleet.annealer().begin(PYTHONPATH=str(folder), NOTES=str(notes))
    fleet.until_state(noderole, State.ACTIVE)
    fleet.farm.kill(0)
    fleet.until(lambda: fleet.node(machine).bootenv == "rescue", "the hook of the one has changed it")
    assert fleet.node(machine).rack == "r1", "and so has that of the other"
    assert fleet.blob(paths.system("watched", machine)) == {"dns": 1, "watched": False}
    fleet.farm.start(0)
    fleet.until(lambda: fleet.node(machine).bootenv == "local" and not fleet.node(machine).hooks, "it is back")
    assert fleet.node(machine).changed == {}
    assert [line for line in notes.read_text().splitlines() if line.startswith("dns")] == [
        "dns False alive",
        "dns False bootenv",
        "dns True alive",
        "dns True bootenv",
    ]


ENDLESS = """
from nodepool_ocb.catalogue.code import Role

class Longer(Role):
    def on_node_change(self, hooked):
        if hooked.changed:
            hooked.set_node["bootenv"] = hooked.node.bootenv + "x"

class Dns(Longer): ...

class Watched(Longer): ...
"""


def test_a_hook_does_not_hear_of_its_own_change_and_two_that_answer_each_other_do_so_later_and_later(
    fleet: Fleet,
) -> None:
    (machine,) = fleet.nodes
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_node_change",)))
    fleet.set_node(machine, hooks=("on_node_change",), changed={"rack": ""}, bootenv="x")
    folder = package(fleet.folder / "site", ENDLESS, ("dns", "watched"))
    annealer = fleet.annealer(probe_seconds=60.0).begin(PYTHONPATH=str(folder))
    fleet.until(lambda: not fleet.node(machine).hooks, "it has run")
    assert fleet.node(machine).bootenv == "xx"
    fleet.add_role("dns", Role(barclamp="fleet", jig="noop", hooks=("on_node_change",)))
    fleet.set_node(machine, hooks=("on_node_change",), changed={"rack": ""})
    fleet.until(lambda: "change the node again and again" in annealer.said, "it is said")
    since, before = time.monotonic(), len(fleet.node(machine).bootenv)
    fleet.until(lambda: len(fleet.node(machine).bootenv) >= before + 2, "it goes on")
    assert time.monotonic() - since > 1.0, "not at once"


def test_a_noderole_that_begins_with_a_hook_is_left_to_who_has_the_code(hooked: Fleet) -> None:
    lacking = hooked.annealer().begin()
    noderole = hooked.bind("watched", hooked.nodes[0])
    hooked.until(lambda: "on_transition of role watched: its code is not installed" in lacking.said, "it looked")
    world = load_world(hooked.session)
    (reason,) = why_not(world, vertex_of(world, noderole), hooked.session.now())
    assert (reason.code, "no living annealer has the code" in reason.text) == (Code.HOOK_PENDING, True)
    begin(hooked)
    hooked.until_state(noderole, State.ACTIVE)
    assert len(hooked.runs(noderole)) == 1, "nobody has failed at it"


def test_hooks_that_a_role_has_no_longer_hold_nothing_back(hooked: Fleet) -> None:
    path = paths.deployment_role(DEPLOYMENT, "watched")
    hooked.session.commit([Create(path, DeploymentRole(hooks=("on_deployment_create",)))])
    noderole = hooked.bind("watched", hooked.nodes[0])
    lacking = hooked.annealer().begin()
    hooked.until(lambda: "on_deployment_create of role watched: its code" in lacking.said, "it looked")
    assert hooked.state(noderole) is State.TODO
    hooked.write(
        lambda world: [Set(paths.role("watched"), Role(barclamp="fleet", jig="noop"), world.roles["watched"].version)]
    )
    hooked.until_state(noderole, State.ACTIVE)


LOOKS = """
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_node_change(self, hooked):
        hooked.refresh.extend(["erase@" + hooked.subject, "nobody@nowhere"])
        hooked.set_node["rack"] = "r1"
"""


def test_a_destructive_role_is_not_run_again_for_a_hook_and_the_hook_is_done(fleet: Fleet) -> None:
    (machine,) = fleet.nodes
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_node_change",)))
    fleet.add_role("erase", fleet.work(0.0, flags=("destructive",)))
    noderole = fleet.bind("erase", machine)
    annealer = fleet.annealer().begin(PYTHONPATH=str(package(fleet.folder / "site", LOOKS)))
    fleet.until_state(noderole, State.ACTIVE)
    fleet.set_node(machine, hooks=("on_node_change",))
    fleet.until(lambda: fleet.node(machine).rack == "r1" and not fleet.node(machine).hooks, "the hook has run")
    assert f"a hook wants {noderole} to run again, and that is refused" in annealer.said
    assert len(fleet.runs(noderole)) == 1


BUSY = """
import os, pathlib
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_node_change(self, hooked):
        with pathlib.Path(os.environ["NOTES"]).open("a") as file:
            print(hooked.subject, file=file)
        hooked.refresh.append("slow@" + hooked.subject)
"""


def test_what_is_at_work_while_a_hook_wants_it_to_run_again_does_so_afterwards(fleet: Fleet) -> None:
    (machine,) = fleet.nodes
    notes, gate = fleet.folder / "notes", fleet.folder / "gate"
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_node_change",)))
    fleet.add_role("slow", fleet.work(0.0, f"until [ -e {gate} ]; do sleep 0.05; done"))
    slow = fleet.bind("slow", machine)
    fleet.annealer().begin(PYTHONPATH=str(package(fleet.folder / "site", BUSY)), NOTES=str(notes))
    fleet.until_started(slow)
    fleet.set_node(machine, hooks=("on_node_change",))
    fleet.until(notes.exists, "the hook is called")
    called = time.monotonic()
    fleet.until(lambda: time.monotonic() > called + 1.5 * AGAIN_SECONDS, "it is asked whether it may be called again")
    gate.touch()
    fleet.until(lambda: len(fleet.runs(slow)) == 2 and not fleet.node(machine).hooks, "it runs again")
    assert len(notes.read_text().splitlines()) == 2, "not once more while that was at work"


@pytest.mark.parametrize(("alive", "at_work"), [(True, True), (False, False)])
def test_a_run_that_somebody_takes_over_is_waited_for_and_one_that_nobody_can_is_not(
    alive: bool, at_work: bool
) -> None:
    world = World()
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    world.put(Stored(Role(barclamp="b", jig="test"), 0), "slow")
    world.put_node("n.x", Node(alive=alive), 0)
    world.put_fence("n.x", 0)
    world.put_noderole("n.x", "slow", NodeRole(state=State.TRANSITION, since=0.0, generation=1, run="1"), 0)
    world.put(Stored(Daemon(host="h", pid=1, version="1", started=0.0, jigs=("test",)), 0), "annealer", "a")
    assert pending_hooks.at_work(world, ["slow@n.x", "gone@n.x"], 1.0) is at_work
