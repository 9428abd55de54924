"""Machines that leave service and machines that are rescued, with real annealers; sshd and an agent play the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.records import Role, State, WipeMethod
from nodepool_ocb.operations.installations.decommissioning import NodeDecommission, NodeRecommission
from nodepool_ocb.operations.installations.progress import ReportKind
from nodepool_ocb.operations.installations.reinstalling import NodeReinstall
from nodepool_ocb.operations.installations.rescuing import NodeRescue
from nodepool_ocb.operations.nodes.deleting import NodeDelete
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet
from tests.journeys.installing import Agent, BootServer, InstallFleet, performed

DECOMMISSION, RESCUE = "provisioner-decommission", "provisioner-rescue"


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        yield fleet


def site_of(fleet: Fleet) -> InstallFleet:
    """A machine that was installed, and the roles that decommission and rescue it."""
    site = InstallFleet(fleet)
    site.was_installed()
    for name, jig in ((DECOMMISSION, "decommission"), (RESCUE, "rescue")):
        fleet.add_role(name, Role(barclamp="provisioner", jig=jig, flags=("destructive",), template=site.attributes))
    return site


def erases(site: InstallFleet, *disks: str) -> Agent:
    """The agent erases these disks."""
    site.until_told()
    agent = Agent(site)
    order = agent.identify().order
    assert (order["action"], order["wipe"], order["wipe_method"]) == ("wipe", [{}], "overwrite")
    for disk in disks:
        agent.report(ReportKind.WIPED, disk=disk)
    return agent


def test_a_machine_is_erased_once_leaves_service_and_comes_back_by_an_installation(fleet: Fleet) -> None:
    site = site_of(fleet)
    fleet.add_role("ntp", fleet.work(0.0))
    ntp = fleet.bind("ntp", site.fqdn)
    fleet.annealer(dead_probe_seconds=0.2).begin()
    fleet.until_all_active()
    performed(fleet, NodeDecommission(nodes=(site.fqdn,)))
    agent = erases(site, "/dev/sda")
    agent.report(ReportKind.ERASED)
    fleet.until(lambda: fleet.node(site.fqdn).decommissioned is not None, "it is decommissioned")
    assert agent.shown().reboot, "it may switch itself off"
    node, record = fleet.node(site.fqdn), site.record
    assert record is not None
    assert (node.alive, node.bootenv, node.host_keys, record.step) == (False, "local", (), InstallStep.RETIRED)
    assert [(each.disk, each.done) for each in record.wiped] == [("/dev/sda", True)]
    assert (fleet.state(ntp), site.reboots(), fleet.starts()[ntp]) == (State.TODO, 1, 1), "nothing runs there"
    performed(fleet, NodeRecommission(nodes=(site.fqdn,)))
    performed(fleet, NodeReinstall(nodes=(site.fqdn,)))
    fleet.until(lambda: site.token, "the next boot is awaited")
    Agent(site).installs()
    fleet.until_all_active()
    assert fleet.starts()[ntp] == 2


@pytest.mark.long
def test_a_disk_that_is_not_erased_is_named_and_a_retry_erases_again_and_the_node_can_be_deleted(fleet: Fleet) -> None:
    site = site_of(fleet)
    fleet.annealer().begin()
    performed(fleet, NodeDecommission(nodes=(site.fqdn,)))
    agent = erases(site, "/dev/sda")
    agent.report(ReportKind.WIPED, disk="/dev/sdb", reason="blkdiscard failed: Input/output error")
    agent.report(ReportKind.FAILED, reason="not all disks were erased: /dev/sdb (blkdiscard failed)")
    name = paths.noderole_name(DECOMMISSION, site.fqdn)
    fleet.until_state(name, State.ERROR)
    assert "/dev/sdb (blkdiscard failed)" in (fleet.record(name).reason or "")
    assert fleet.node(site.fqdn).decommissioned is None
    assert site.record is not None
    assert [each.done for each in site.record.wiped] == [True, False]
    performed(fleet, NodeDecommission(nodes=(site.fqdn,)))
    fleet.until(lambda: site.token, "the next boot is awaited")
    again = Agent(site)
    again.identify()
    for disk in ("/dev/sda", "/dev/sdb"):
        again.report(ReportKind.WIPED, disk=disk)
    again.report(ReportKind.ERASED)
    fleet.until(lambda: fleet.node(site.fqdn).decommissioned is not None, "it is decommissioned")
    performed(fleet, NodeDelete(nodes=(site.fqdn,)))
    assert fleet.session.get(paths.node(site.fqdn)) is None


@pytest.mark.long
def test_a_machine_is_erased_once_when_its_annealer_is_killed_at_each_step(fleet: Fleet) -> None:
    site = site_of(fleet)
    server = BootServer(site)
    pair = [fleet.annealer().begin(), fleet.annealer().begin()]
    fleet.until(lambda: fleet.living() == 2, "both are there")
    performed(fleet, NodeDecommission(nodes=(site.fqdn,)))

    def killed(step: InstallStep) -> None:
        site.until_step(step)
        fleet.until(lambda: fleet.held_by() in pair, "it is held")
        holder = fleet.held_by()
        assert holder is not None
        holder.kill()
        pair.remove(holder)
        pair.append(fleet.annealer().begin())
        fleet.until(lambda: fleet.held_by() in pair, "another one continues")

    killed(InstallStep.CHECKED)
    server.publish()
    agent = erases(site)
    killed(InstallStep.IDENTIFIED)
    agent.report(ReportKind.WIPED, disk="/dev/sda")
    agent.report(ReportKind.ERASED)
    killed(InstallStep.WIPED)
    server.publish()
    fleet.until(lambda: fleet.node(site.fqdn).decommissioned is not None, "it is decommissioned")
    assert site.reboots() == 1
    assert site.record is not None
    assert [each.disk for each in site.record.wiped] == ["/dev/sda"]


@pytest.mark.long
def test_a_machine_keeps_its_data_and_its_key_where_nothing_is_to_be_erased(fleet: Fleet) -> None:
    site = site_of(fleet)
    fleet.set_node(site.fqdn, allow_install=False)
    keys = fleet.node(site.fqdn).host_keys
    fleet.annealer().begin()
    performed(fleet, NodeDecommission(nodes=(site.fqdn,), wipe=WipeMethod.NONE))
    fleet.until(lambda: fleet.node(site.fqdn).decommissioned is not None, "it is decommissioned")
    assert (site.reboots(), site.token, fleet.node(site.fqdn).host_keys) == (0, "", keys)
    performed(fleet, NodeRecommission(nodes=(site.fqdn,)))
    fleet.until(lambda: fleet.node(site.fqdn).alive, "it answers, and is alive")


@pytest.mark.long
def test_a_machine_is_rescued_returns_with_its_own_key_and_nothing_runs_meanwhile(fleet: Fleet) -> None:
    site = site_of(fleet)
    fleet.add_role("ntp", fleet.work(0.0))
    keys = fleet.node(site.fqdn).host_keys
    fleet.annealer().begin()
    fleet.until_all_active()
    performed(fleet, NodeRescue(nodes=(site.fqdn,)))
    site.until_told()
    agent = Agent(site)
    assert agent.identify().order["action"] == "rescue"
    site.until_step(InstallStep.IDENTIFIED)
    assert (fleet.node(site.fqdn).bootenv, fleet.node(site.fqdn).alive) == ("rescue", True)
    ntp = fleet.bind("ntp", site.fqdn)
    fleet.until(lambda: "--end" in ((site.record and site.record.waits) or ""), "it waits for a person")
    assert fleet.starts()[ntp] == 0
    performed(fleet, NodeRescue(nodes=(site.fqdn,), end=True))
    agent.until_reboot()
    (site.home / "boot_id").write_text("boot-of-after\n")
    fleet.farm.start(0)
    fleet.until_all_active()
    assert (fleet.node(site.fqdn).host_keys, site.reboots(), fleet.starts()[ntp]) == (keys, 1, 1)
