"""The machines of the fleet that a label may take, each obstacle, and the plans of a use. No server."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import powering
from nodepool_ocb.engine.advancing import advance, copied
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import Installation, InstallStep, MachineUse
from nodepool_ocb.model.joining import Inventory, MachineDisk, MachineFacts
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.power import MachinePower, PowerAction, Powered, PowerRequest
from nodepool_ocb.model.records import (
    Check,
    Claim,
    Deployment,
    DeploymentState,
    InstallRequest,
    Node,
    NodeRole,
    Role,
    Set,
    State,
)
from nodepool_ocb.pool.metal import choosing, taking
from nodepool_ocb.pool.metal.plans import MetalOffer, MetalPlan, MetalSight, MetalStamp, MetalUntaken
from nodepool_ocb.views import nodes

NOW: Final = 1000.0
OS: Final = "os"
M0, M1 = "m0.example.com", "m1.example.com"
REQUEST: Final = InstallRequest(image="debian")
OFFER: Final = MetalOffer(label="small", selectors=("tag:lab",), request=REQUEST)


def stamp(node: str = "1") -> MetalStamp:
    return MetalStamp(cluster="c", provider="rack", pool="main", node=node, key="k")


def world(*names: str, **node: Any) -> World:
    """Machines that were installed by a person."""
    made = World()
    made.put(Stored(Role(barclamp="os", jig="install", flags=("destructive",)), 0), OS)
    made.put(Stored(Role(barclamp="f", jig="script", flags=("discovery",)), 0), "facts")
    made.put(Stored(Role(barclamp="n", jig="script"), 0), "ntp")
    made.put(Stored(Deployment(state=DeploymentState.COMMITTED, since=0.0), 0), "system")
    for fqdn in names or (M0,):
        known: dict[str, Any] = {"allow_install": True, "macs": ("52:54:00:00:00:01",), "tags": ("lab",), "alive": True}
        made.put_node(fqdn, Node(addresses=("10.0.0.1",), host_keys=("k",), **(known | node)), 3, 0)
        made.put_fence(fqdn, 0, None)
        made.put(Stored(MachinePower(driver="manual"), 0), fqdn)
        bind(made, fqdn, OS)
        bind(made, fqdn, "facts")
    return made


def bind(made: World, fqdn: str, role: str, state: State = State.ACTIVE, **fields: Any) -> None:
    made.put_noderole(fqdn, role, NodeRole.of(state=state, since=0.0, generation=1, **fields), 0, 0)


def carried_out(before: World, plan: MetalPlan) -> World:
    """The world after a plan; each of its changes has the version that the world has."""
    after = copied(before)
    advance(after, plan.changes)
    return after


def why(made: World, fqdn: str = M0) -> str:
    return choosing.obstacle(made.nodes[fqdn], NOW) or ""


def test_a_machine_is_free_with_the_noderoles_that_each_machine_has() -> None:
    assert why(world()) == ""
    assert [view.name for view in choosing.free(world(M0, M1), OFFER, NOW)[0]] == [M0, M1]


@pytest.mark.parametrize(
    "fields",
    [
        {"allow_install": False},
        {"macs": ()},
        {"tags": ("other",)},
        {"admin": True},
        {"virtual": True},
        {"deleting": True},
        {"decommissioned": 7.0},
    ],
    ids=str,
)
def test_a_node_that_lacks_a_part_is_no_machine_of_a_pool(fields: dict[str, Any]) -> None:
    assert choosing.fitting(world(**fields), OFFER.selectors, NOW) == {}


def test_a_node_without_power_settings_does_not_fit() -> None:
    made = world()
    made.drop(MachinePower, M0)
    assert choosing.fitting(made, OFFER.selectors, NOW) == {}


def test_selectors_of_pool_and_label_are_joined_and_read_the_inventory() -> None:
    made = world(M0, M1)
    facts = MachineFacts(memory=64 << 30, disks=(MachineDisk(name="sda"), MachineDisk(name="sdb")))
    made.put(Stored(Inventory(facts=facts), 0), M1)
    assert [*choosing.fitting(made, ("tag:lab", "memory>=64G disks>=2"), NOW)] == [M1]
    assert choosing.fitting(made, ("tag:lab", "rack:none"), NOW) == {}


def test_each_machine_that_a_person_uses_has_an_obstacle_with_the_next_step() -> None:
    assert why(world(hold=Maintenance(by="ann", reason="new disk", since=0.0))) == f"{M0} is held by ann: new disk"
    assert why(world(hold=Maintenance(by="ann", since=0.0, until=NOW - 1))) == ""
    assert why(world(available=False)) == f"{M0} is not available"
    made = world()
    bind(made, M0, "ntp")
    assert why(made) == f"{M0} has role ntp, which no pool bound; unbind it first"
    made = world()
    bind(made, M0, OS, State.PROPOSED)
    assert why(made) == f"{OS}@{M0} is PROPOSED; commit it, or unbind it"
    made.put(Stored(used(returned=1.0), 0), M0)
    assert why(made) == "", "a return withdrew it"
    bind(made, M0, OS, State.PROPOSED, once="done")
    assert why(made) == f"{OS}@{M0} is PROPOSED; commit it, or unbind it"
    made = world()
    bind(made, M0, OS, State.TODO)
    assert why(made) == f"{M0} is busy: {OS}@{M0} is TODO"
    made = world()
    made.put_claim(M0, Claim(annealer="a", noderole=f"facts@{M0}", run="r", epoch=1, since=0.0), 1, 0)
    assert why(made) == f"{M0} is busy: an annealer runs facts@{M0}"


def test_a_kept_role_must_be_active_before_the_first_use_and_never_in_error() -> None:
    made = world()
    bind(made, M0, "ntp", State.TODO)
    waits = f"{M0} is not used before ntp@{M0} is ACTIVE, and it is "
    assert choosing.obstacle(made.nodes[M0], NOW, ("ntp",)) == f"{waits}TODO"
    made.put(Stored(used(returned=1.0), 0), M0)
    assert choosing.obstacle(made.nodes[M0], NOW, ("ntp",)) is None, "it runs again after each installation"
    bind(made, M0, "ntp", State.ERROR)
    assert choosing.obstacle(made.nodes[M0], NOW, ("ntp",)) == f"{waits}ERROR"


def test_a_machine_that_is_off_is_free_only_if_its_power_can_be_switched() -> None:
    made = world(alive=False, reason="connect: timed out")
    assert why(made) == f"{M0} is not alive, and its power cannot be switched: connect: timed out"
    made.put(Stored(MachinePower(driver="ipmi"), 0), M0)
    assert why(made) == ""


@pytest.mark.parametrize(
    ("step", "cancelled", "out"),
    [
        (InstallStep.IDENTIFIED, False, True),
        (InstallStep.CHECKED, False, False),  # the machine was not touched
        (InstallStep.IDENTIFIED, True, False),  # its pool ended it
    ],
)
def test_a_machine_is_out_after_a_failure_of_its_own(step: InstallStep, cancelled: bool, out: bool) -> None:
    made = world()
    bind(made, M0, OS, State.ERROR, reason="sda is broken")
    made.put(Stored(installation(step=step, reason="sda is broken"), 0), M0)
    made.put(Stored(used(cancelled=cancelled, returned=1.0), 0), M0)
    assert why(made) == (
        f"{M0} is out: sda is broken; mend it, then: nodepool-ocb noderole retry {OS}@{M0}" if out else ""
    )


def installation(**fields: Any) -> Installation:
    known: dict[str, Any] = {"generation": 1, "step": InstallStep.ALIVE, "image": "debian"}
    return Installation(
        noderole=f"{OS}@{M0}", run="r", epoch=1, since=0.0, started=0.0, deadline=0.0, nonce="0" * 32,
        token_digest="0" * 64, **(known | fields),
    )  # fmt: skip


def used(**fields: Any) -> MachineUse:
    known: dict[str, Any] = {"generation": 1}
    return MachineUse(
        cluster="c", provider="rack", pool="main", pool_node="1", key="k", label="small", image="debian", since=1.0,
        **(known | fields),
    )  # fmt: skip


def test_the_machine_that_fewest_labels_could_have_goes_first_and_then_the_one_returned_first() -> None:
    made = world(M0, M1, "m2.example.com")
    made.put(Stored(used(returned=9.0), 0), M0)
    made.put(Stored(used(returned=5.0), 0), M1)
    made.put(Stored(Inventory(facts=MachineFacts(memory=64 << 30)), 0), "m2.example.com")
    offer = replace(OFFER, rivals=(("memory>=64G",),))
    assert [view.name for view in choosing.free(made, offer, NOW)[0]] == [M1, M0, "m2.example.com"]


def test_the_counts_tell_the_fitting_machines_and_those_that_are_not_free_for_the_provider() -> None:
    made = world(M0, M1, "m2.example.com")
    made.put(Stored(used(), 0), M0)
    made.put_node(M1, replace(made.nodes[M1].record, available=False), 4, 0)  # type: ignore[type-var]
    found = choosing.counted(made, [OFFER, replace(OFFER, label="big")], "rack", NOW)
    assert found.fitting == {"small": 3, "big": 3, "": 3}
    assert found.others == {"small": 1, "big": 2, "": 1}, "the ledger counts its own use of m0 for small, and in all"


def test_a_taken_machine_is_taken_once_with_one_installation_and_runs_after_that_alone() -> None:
    before = world()
    plan = taking.take(before, OFFER, stamp(), NOW)
    assert isinstance(plan.answer, MetalSight)
    assert {paths.machine_use(M0), paths.noderole(OS, M0), paths.node(M0), paths.STRUCTURE} <= {
        change.path for change in plan.changes
    }
    made = carried_out(before, plan)
    assert made.nodes[M0].record is not None
    assert made.nodes[M0].record.install == REQUEST
    again = taking.take(made, OFFER, stamp(), NOW)
    assert (again.changes, again.answer) == ((), taking.sight(made, M0, NOW)), "a successor finds it"
    other = taking.take(made, OFFER, stamp("2"), NOW)
    assert isinstance(other.answer, MetalUntaken)
    assert other.answer.ever
    assert "m0.example.com is node 1 of rack/main" in other.answer.reason
    assert seen(made) == "building"
    half = copied(before)  # a view that shows the use, and the noderole of before
    half.put(Stored(made.of(MachineUse)[M0].record, 0), M0)
    half.put(Stored(installation(), 0), M0)
    assert seen(half) == "building"
    bind(half, M0, OS, State.ERROR)
    assert seen(half) == "building", "the failure is of before"
    generation = made.nodes[M0].noderoles[OS].record.generation
    bind(made, M0, OS, State.ACTIVE)
    made.nodes[M0].noderoles[OS].record = replace(made.nodes[M0].noderoles[OS].record, generation=generation)
    assert seen(made) == "building", "it was skipped, and not installed"
    made.put(Stored(installation(), 0), M0)
    assert seen(made) == "building", "the installation is of the use before"
    made.put(Stored(installation(generation=generation, image="other"), 0), M0)
    assert seen(made) == "failed"
    made.put(Stored(installation(generation=generation), 0), M0)
    assert seen(made) == "running"


def seen(made: World) -> str:
    found = taking.sight(made, M0, NOW)
    assert found is not None
    return found.state


def test_a_claim_checks_the_node_also_if_it_writes_nothing_there() -> None:
    checked = Check(paths.node(M0), 3)
    assert checked in taking.take(world(install=REQUEST), OFFER, stamp(), NOW).changes
    bare = world(install=REQUEST)
    bare.drop_noderole(M0, OS)
    assert checked in taking.take(bare, OFFER, stamp(), NOW).changes


def test_no_fitting_machine_is_a_refusal_for_ever() -> None:
    plan = taking.take(world(tags=()), OFFER, stamp(), NOW)
    assert isinstance(plan.answer, MetalUntaken)
    assert not plan.answer.ever


def test_a_return_ends_the_run_then_unbinds_the_roles_of_the_use_and_switches_off() -> None:
    made = world()
    made.put(Stored(MachinePower(driver="ipmi"), 0), M0)
    made.put(Stored(used(roles=("ntp",)), 0), M0)
    bind(made, M0, "ntp", State.TRANSITION)
    first = taking.give_back(made, M0, stamp(), NOW, "0" * 16)
    assert first.waits == f"the run of ntp@{M0} is being ended"
    made = carried_out(made, first)
    assert made.nodes[M0].noderoles["ntp"].record.cancel_reason
    assert taking.give_back(made, M0, stamp(), NOW, "0" * 16).changes == (), "it is cancelled once"
    bind(made, M0, "ntp", State.ERROR)
    last = taking.give_back(made, M0, stamp(), NOW, "0" * 16)
    assert (last.waits, last.unbound) == (None, (f"ntp@{M0}",))
    after = carried_out(made, last)
    assert after.of(MachineUse)[M0].record.returned == NOW
    power = after.of(MachinePower)[M0].record
    assert power.request is not None
    assert (power.request.action, power.off_since) == (PowerAction.OFF, NOW)
    assert after.nodes[M0].version == made.nodes[M0].version + 1, (
        "a report that was judged before is not written after it"
    )
    assert taking.give_back(after, M0, stamp(), NOW, "0" * 16) == MetalPlan(), "a second return does nothing"


def test_a_machine_that_could_not_be_switched_off_after_its_use_is_not_free_before_it_is_off() -> None:
    off = PowerRequest(id="1" * 16, action=PowerAction.OFF, by="ann", since=0.0, until=900.0)
    made = world()
    made.put(Stored(used(), 0), M0)
    made.put(Stored(MachinePower(driver="ipmi", address="bmc", request=off), 0), M0)
    made = carried_out(made, taking.give_back(made, M0, stamp(), NOW, "0" * 16))
    power = made.of(MachinePower)[M0].record
    assert (power.request, power.off_since) == (off, NOW), (
        "the request of a person is enough, and is repeated if it fails"
    )
    assert "is not free: it must be switched off after its use, and is not off yet; power off is under way" in why(made)
    refused = powering.failed(power, "bmc does not answer", None, NOW)
    made.put(Stored(refused, 9), M0)
    assert "power off failed: bmc does not answer; it is tried again in 60 s" in why(made)
    shown = nodes.document(made.nodes[M0], made.nodes[M0].record, NOW)  # type: ignore[arg-type]
    assert "after label small; it must be switched off" in (shown.use or "")
    made.put(Stored(powering.after(power, Powered.OFF, NOW), 9), M0)
    assert why(made) == ""
    made = world()
    made.put(Stored(used(), 0), M0)
    made = carried_out(made, taking.give_back(made, M0, stamp(), NOW, "0" * 16))
    assert why(made) == "", "a person switches it: nothing could be asked again"


def test_a_return_waits_for_a_request_of_power_so_that_the_system_of_the_user_ends() -> None:
    made = world()
    made.put(Stored(used(), 0), M0)
    cycle = PowerRequest(id="1" * 16, action=PowerAction.CYCLE, by="ann", since=0.0, until=900.0)
    made.put(Stored(MachinePower(driver="ipmi", request=cycle), 0), M0)
    plan = taking.give_back(made, M0, stamp(), NOW, "0" * 16)
    assert (plan.changes, plan.waits) == ((), f"power cycle of {M0} is under way")
    made.put(Stored(MachinePower(driver="ipmi"), 1), M0)
    after = carried_out(made, taking.give_back(made, M0, stamp(), NOW, "0" * 16))
    asked = after.of(MachinePower)[M0].record.request
    assert asked is not None
    assert asked.action is PowerAction.OFF


def test_a_machine_is_given_back_and_switched_off_while_the_record_of_its_node_cannot_be_read() -> None:
    made = world()
    made.put(Stored(MachinePower(driver="ipmi"), 0), M0)
    made.put(Stored(used(), 0), M0)
    made.unreadable[paths.node(M0)] = "it is no JSON"
    plan = taking.give_back(made, M0, stamp(), NOW, "0" * 16)
    changed = {change.path for change in plan.changes}
    assert {paths.machine_use(M0), paths.power(M0)} <= changed
    assert paths.node(M0) not in changed, "its version is not known, so the transaction would be refused each time"
    made.unreadable[paths.power(M0)] = "it is no JSON"
    plan = taking.give_back(made, M0, stamp(), NOW, "0" * 16)
    assert plan.changes == ()
    assert f"the record {paths.power(M0)} cannot be read" in str(plan.waits)


def test_another_launch_gives_no_machine_back() -> None:
    made = world()
    made.put(Stored(used(), 0), M0)
    assert taking.give_back(made, M0, stamp("2"), NOW, "0" * 16).answer == f"machine {M0} carries another stamp"


def test_an_installation_that_has_not_begun_is_withdrawn_and_begins_with_the_next_use() -> None:
    made = carried_out(world(), taking.take(world(), OFFER, stamp(), NOW))
    made = carried_out(made, taking.give_back(made, M0, stamp(), NOW, "0" * 16))
    assert made.nodes[M0].noderoles[OS].record.state is State.PROPOSED
    assert why(made) == ""
    made = carried_out(made, taking.take(made, OFFER, stamp("2"), NOW))
    assert made.nodes[M0].noderoles[OS].record.state is State.TODO


def test_a_machine_without_the_role_gets_it_with_its_first_use() -> None:
    made = world()
    made.drop_noderole(M0, OS)
    plan = taking.take(made, OFFER, stamp(), NOW)
    after = carried_out(made, plan)
    assert after.nodes[M0].noderoles[OS].record.state is State.TODO
    assert after.of(MachineUse)[M0].record.generation == after.nodes[M0].noderoles[OS].record.generation
    assert sum(isinstance(change, Set) and change.path == paths.STRUCTURE for change in plan.changes) == 1


def test_an_idle_machine_is_unfit_when_it_is_dead_or_was_installed_by_a_person() -> None:
    assert taking.unfit(world(), M0, ("k",)) is None
    assert taking.unfit(world(), M0, ("other",)) == f"{M0} has another host key than its node; it was installed again"
    assert taking.unfit(world(alive=False, reason="x"), M0, ()) == f"{M0} is not alive: x"
    assert taking.unfit(world(), M1, ()) == f"node {M1} is gone"
