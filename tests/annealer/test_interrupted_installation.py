"""Installations that are interrupted: annealers are killed and frozen, machines boot the wrong system, installers fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallPurpose, InstallStep
from nodepool_ocb.model.joining import Inventory, MachineDisk, MachineFacts
from nodepool_ocb.model.power import MachinePower, PowerAction
from nodepool_ocb.model.records import Change, Create, Set
from nodepool_ocb.operations.installations.progress import ReportKind
from nodepool_ocb.provisioning.installation import PATHS
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet
from tests.journeys.installing import INSTALL, Agent, BootServer, InstallFleet

Step = InstallStep
long = pytest.mark.long


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        yield fleet


def explained(site: InstallFleet) -> str:
    """The obstacle that ``explain`` shows."""
    record = site.record
    return (record.waits or "") if record is not None else ""


def test_a_machine_waits_for_each_publication_and_the_60_seconds_of_the_seed_would_lose(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    server = BootServer(site)
    fleet.bind(INSTALL, site.fqdn)
    fleet.annealer().begin()
    record = site.until_step(Step.CHECKED)
    fleet.until(lambda: "is not published yet by admin.farm.example.com" in explained(site), "explain says so")
    path = paths.installation(site.fqdn)
    znode = fleet.session.get(path)
    assert znode is not None
    assert site.record is not None
    minutes = replace(site.record, since=record.since - 300.0, deadline=record.deadline - 300.0, waits=None)
    fleet.session.commit([Set(path, minutes, znode.version)])  # as if five minutes had passed
    fleet.until(lambda: explained(site), "it is decided again")
    assert server.waiting, "after 60 seconds, or 300, a machine that boots gets the former boot document"
    assert (site.reboots(), site.record.step) == (0, Step.CHECKED)
    server.publish()
    site.until_told()
    agent = Agent(site)
    [path, elsewhere] = agent.identify().order["image"]
    assert elsewhere == f"{server.address}/{path}", "if the server of the boot dies, the image comes from another one"
    agent.writes()
    fleet.until(lambda: "local is not published yet" in explained(site), "the machine may not boot its disk")
    assert not agent.shown().reboot
    server.publish()
    site.boots_disk(agent.until_reboot().epoch)
    fleet.until_all_active()
    assert site.reboots() == 1


def test_an_annealer_that_was_frozen_and_thawed_changes_nothing_on_the_new_disk(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    fleet.bind(INSTALL, site.fqdn)
    first = fleet.annealer().begin()
    site.until_told()
    first.freeze()
    second = fleet.annealer().begin()
    fleet.until(lambda: fleet.held_by() is second, "the other one takes it over")
    agent = Agent(site)
    agent.installs()
    fleet.until_all_active()
    second.close()
    before = state_of(site)
    first.thaw()
    fleet.until(
        lambda: "is over; its run is left to the annealer that attaches" in first.said, "it hears of its session"
    )
    fleet.until(lambda: fleet.living() == 1, "it is back")
    assert state_of(site) == before
    assert [run.outcome for run in fleet.runs(site.name).values()] == ["abandoned", "succeeded"]


def state_of(site: InstallFleet) -> list[Any]:
    """Versions of the records, and the files of the machine."""
    session, fleet = site.fleet.session, site.fleet
    places = [paths.installation(site.fqdn), paths.noderole(INSTALL, site.fqdn), paths.fence(site.fqdn)]
    versions = [znode and znode.version for znode in session.get_many(places)]
    files = {file.name: file.read_text() for file in fleet.farm.state_dir(site.fqdn).iterdir() if file.is_file()}
    return [versions, site.reboots(), files]


@long
@pytest.mark.parametrize(
    "step", [step for step in PATHS[InstallPurpose.INSTALL] if step not in (Step.PUBLISHED_INSTALL, Step.ALIVE)]
)
def test_a_machine_is_installed_once_when_its_annealer_is_killed_at_any_step(fleet: Fleet, step: Step) -> None:
    site = InstallFleet(fleet)
    server = BootServer(site)
    fleet.bind(INSTALL, site.fqdn)
    first = fleet.annealer().begin()
    second = fleet.annealer().begin()
    fleet.until(lambda: fleet.living() == 2, "both are there")
    killed: list[Step] = []

    def pause(at: Step) -> None:
        site.until_step(at)
        if at is step:
            holder = fleet.held_by()
            assert holder in (first, second)
            holder.kill()
            killed.append(at)
            fleet.until(lambda: fleet.held_by() not in (None, holder), "the other one continues")

    pause(Step.CHECKED)
    server.publish()
    fleet.until(lambda: site.reboots() == 1, "the machine is told to boot")
    pause(Step.REBOOTING)
    fleet.farm.kill(0)
    agent = Agent(site)
    agent.identify()
    pause(Step.IDENTIFIED)
    agent.report(ReportKind.WRITTEN)
    pause(Step.WRITTEN)
    agent.report(ReportKind.VERIFIED, checksum=site.checksum)
    pause(Step.VERIFIED)
    server.publish()
    pause(Step.PUBLISHED_LOCAL)
    site.boots_disk(agent.shown().epoch)
    fleet.until_all_active()
    assert killed == [step]
    assert (site.reboots(), fleet.node(site.fqdn).host_keys) == (1, (agent.host_key,))
    assert sorted(run.outcome for run in fleet.runs(site.name).values()) == ["abandoned", "succeeded"]


@long
def test_an_installation_that_is_cancelled_ends_and_its_installer_is_refused(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    fleet.bind(INSTALL, site.fqdn)
    fleet.annealer().begin()
    site.until_told()
    agent = Agent(site)
    agent.identify()
    fleet.happens(site.name, Event.CANCEL)
    site.until_failed("asked for")
    with pytest.raises(Conflict, match=r"no installation of .* is under way: the last one failed: asked for"):
        agent.report(ReportKind.WRITTEN)
    assert fleet.node(site.fqdn).bootenv == "local"


@long
def test_an_annealer_that_drains_hands_the_installation_over_and_a_held_node_is_adopted(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    fleet.bind(INSTALL, site.fqdn)
    first = fleet.annealer(drain_seconds=0.5).begin()
    site.until_told()
    fleet.write(lambda world: held(world, site.fqdn))
    first.terminate()
    first.wait()
    fleet.annealer().begin()
    Agent(site).installs()
    fleet.until_all_active()
    assert site.reboots() == 1


@long
def test_a_wrong_image_is_refused_before_the_machine_boots(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    path = paths.role(INSTALL)
    znode = fleet.session.get(path)
    assert znode is not None
    template = {"provisioner": {**site.role.template["provisioner"], "image": "absent"}}
    fleet.session.commit([Set(path, replace(site.role, template=template), znode.version)])
    fleet.bind(INSTALL, site.fqdn)
    fleet.annealer().begin()
    site.until_failed("step checked: image absent has no READY build")
    assert (site.reboots(), fleet.node(site.fqdn).bootenv) == (0, "local")


WRONG_DISKS: Final[dict[str, tuple[MachineDisk, str]]] = {
    "another": (
        MachineDisk(name="sda", size=1 << 40, serial="S9"),
        "no disk of the machine matches serial=S1; it has /dev/sda (serial S9",
    ),
    "small": (MachineDisk(name="sda", size=1024, serial="S1"), "the disk is too small: /dev/sda (serial S1"),
}


@pytest.mark.parametrize("fault", ["another", pytest.param("small", marks=long)])
def test_a_wrong_disk_in_the_inventory_is_refused_before_anything_boots_and_a_retry_installs(
    fleet: Fleet, fault: str
) -> None:
    disk, words = WRONG_DISKS[fault]
    site = InstallFleet(fleet)
    place = paths.inventory(site.fqdn)
    fleet.session.commit([Create(place, Inventory(facts=MachineFacts(disks=(disk,))))])
    fleet.bind(INSTALL, site.fqdn)
    fleet.annealer().begin()
    site.until_failed("step checked:", words, "so says its inventory", "nodepool-ocb node inventory")
    assert (site.reboots(), fleet.node(site.fqdn).bootenv, site.token, site.record) == (0, "local", "", None)
    right = MachineFacts(
        disks=(MachineDisk(name="sda", size=4096, serial="S9"), replace(disk, name="sdb", size=1 << 40, serial="S1"))
    )
    fleet.session.commit([Set(place, Inventory(facts=right), 0)])
    site.retry()
    site.until_told()
    assert site.record is not None
    assert site.record.disk == "/dev/sdb (serial S1, 1024.0 GiB)"


def held(world: World, fqdn: str) -> list[Change]:
    """The node is held by a person."""
    return next(nodes.hold(world, fqdn, "ann", "repair", 0.0, None))


@long
def test_a_machine_with_a_power_record_is_switched_once_in_the_transaction_of_its_step(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    path = paths.power(site.fqdn)
    fleet.session.commit([Create(path, MachinePower(driver="played"))])
    fleet.bind(INSTALL, site.fqdn)
    fleet.annealer().begin()
    record = site.until_step(Step.REBOOTING)

    def power() -> MachinePower:
        return codec.decode(MachinePower, fleet.session.get(path))

    fleet.until(lambda: power().result, "no driver has this name, so the request fails")
    result = power().result
    assert result is not None
    assert (result.id, result.action, result.done) == (record.nonce[:16], PowerAction.CYCLE, False)
    site.until_failed("step identified: the machine was not switched", "played")
    assert site.reboots() == 0
