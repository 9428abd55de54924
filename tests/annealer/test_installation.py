"""The installation of a machine, with real annealers and sshd as the machine: once, and each discovery role once after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.records import State
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet
from tests.journeys.installing import Agent, InstallFleet


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        yield fleet


def test_a_machine_is_installed_once_and_all_its_other_noderoles_run_once_after_it(fleet: Fleet) -> None:
    site = InstallFleet(fleet)
    fleet.add_role("ohai", fleet.work(0.0, flags=("discovery",)))
    fleet.add_role("ntp", fleet.work(0.0))
    ohai = fleet.bind("ohai", site.fqdn)
    fleet.annealer(sweep_seconds=1.0, probe_seconds=1.0).begin()
    fleet.until_all_active()
    fleet.bind("provisioner-os-install", site.fqdn, [ohai])
    ntp = fleet.bind("ntp", site.fqdn, [site.name])
    site.until_told()
    agent = Agent(site)
    before = site.until_step(InstallStep.REBOOTING)
    assert (before.boot_id, fleet.node(site.fqdn).bootenv) == ("boot-of-before", "install")
    assert (fleet.node(site.fqdn).alive, fleet.state(ohai)) == (True, State.ACTIVE), "its absence changes nothing"
    agent.installs()
    fleet.until_all_active()
    node = fleet.node(site.fqdn)
    assert (node.host_keys, node.bootenv, node.alive) == ((agent.host_key,), "local", True)
    assert (site.token, site.reboots()) == ("", 1)
    assert site.record is not None
    assert site.record.step is InstallStep.ALIVE
    assert fleet.starts() == {ohai: 2, ntp: 1}
    assert [run.outcome for run in fleet.runs(site.name).values()] == ["succeeded"]
