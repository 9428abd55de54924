"""An installation whose machine stops on its way: the requests at a real admin node are in ``explain``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publisher
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.records import Create, NodeRole, State
from nodepool_ocb.operations.noderoles.explaining import NoderoleExplain
from nodepool_ocb.provisioning import boot
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet
from tests.journeys.installing import INSTALL, Agent, BootServer, InstallFleet

TIME = "[27/Nov/2026:15:00:0{} +0000]"


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


class LoggingServer(BootServer):
    """The second machine of the fleet, with the log of an HTTP server."""

    def __init__(self, site: InstallFleet, log: Path) -> None:
        self.site, self.fqdn, self.log = site, site.fleet.nodes[1], log
        session = site.fleet.session
        role = paths.noderole(boot.DHCP, self.fqdn)
        session.commit(
            [Create(role, NodeRole(state=State.ACTIVE, since=0.0)), Create(paths.runs(boot.DHCP, self.fqdn))]
        )
        session.commit([Create(paths.publisher(self.name), Publisher(directory="d", log=str(log)))])

    def serves(self, path: str, second: int, status: int = 200) -> None:
        with self.log.open("a") as log:
            log.write(f'10.1.0.20 - - {TIME.format(second)} "GET {path} HTTP/1.1" {status} 9 "-" "iPXE"\n')


@pytest.mark.long
def test_each_request_of_a_machine_that_stops_is_in_explain(fleet: Fleet, tmp_path: Path) -> None:
    site = InstallFleet(fleet, rebooting=40.0)
    server = LoggingServer(site, tmp_path / "access.log")
    server.serves("/boot/default.ipxe", 0)
    fleet.bind(INSTALL, site.fqdn)
    first = fleet.annealer().begin()
    site.until_step(InstallStep.CHECKED)
    fleet.until(lambda: server.waiting, "it waits for the publication")
    server.publish()
    site.until_step(InstallStep.REBOOTING)
    agent = Agent(site)

    def explained(text: str) -> None:
        fleet.until(lambda: text in str(agent.perform(NoderoleExplain(noderoles=(site.name,)), "ann")), text)

    explained(f"no request for its boot script has come to {server.fqdn}")
    record = site.record
    assert record is not None
    server.serves(f"/boot/{record.nonce}.ipxe", 2)
    explained(f"{server.fqdn} at 15:00:02 gave the boot script, and no kernel was requested")
    first.kill()
    fleet.annealer().begin()
    server.serves("/images/e/1/vmlinuz", 3)
    explained(f"{server.fqdn} at 15:00:03 gave the kernel, and no root was requested")
    fleet.until(lambda: fleet.record(site.name).state is State.ERROR, "its time is up", 60.0)
    reason = site.until_failed("step identified was not reached within 40 s", "15:00:03 gave the kernel")
    assert record.nonce not in reason


@pytest.mark.long
def test_a_machine_that_starts_again_while_it_is_installed_is_in_explain(fleet: Fleet, tmp_path: Path) -> None:
    """Such as after a loss of power: it has no order any more, and says so to the admin node."""
    site = InstallFleet(fleet)
    server = LoggingServer(site, tmp_path / "access.log")
    server.log.touch()
    fleet.bind(INSTALL, site.fqdn)
    fleet.annealer().begin()
    site.until_step(InstallStep.CHECKED)
    fleet.until(lambda: server.waiting, "it waits for the publication")
    server.publish()
    site.until_step(InstallStep.REBOOTING)
    agent = Agent(site)
    server.serves(f"/agent/{site.mac}/identity", 4)  # of a boot before this one
    explain = NoderoleExplain(noderoles=(site.name,))
    fleet.until(lambda: "identity (15:00:04)" in str(agent.perform(explain, "ann")), "the word is heard")
    agent.identify()
    site.until_step(InstallStep.IDENTIFIED)
    server.serves(f"/agent/{site.mac}/identity?reason=x", 5)
    fleet.until(lambda: "started again without an order" in str(agent.perform(explain, "ann")), "explain has it")
    assert "15:00:04" not in str(agent.perform(explain, "ann"))
