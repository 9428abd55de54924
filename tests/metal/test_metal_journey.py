"""A pool of machines of the fleet with real annealers, real launchers, and sshd as the machine, which an agent installs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Upload, UploadState
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Create, Json, State
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.installing import SUM, Agent, InstallFleet
from tests.launcher.launcher_fleet import LauncherFleet
from tests.metal.metal_site import SELECTOR, provider
from tests.metal.test_metal_pools import serve

LABEL: dict[str, Json] = {"name": "small", "roles": ["ntp"], "deployment": DEPLOYMENT}


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """A machine, and a host that switches its power."""
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def offered(fleet: Fleet, site: InstallFleet, power: MachinePower) -> None:
    """The machine is one of a pool, and its image has a copy at a server."""
    fleet.add_role("ntp", fleet.work(0.0))
    fleet.set_node(site.fqdn, tags=(SELECTOR.partition(":")[2],))
    fleet.session.commit([Create(paths.power(site.fqdn), power)])
    upload = paths.upload("debian", "0000000001", "admin1", "0000000001")
    fleet.session.ensure(upload.rpartition("/")[0])
    record = Upload(state=UploadState.READY, state_time=1.0, format="raw", external_id="x")
    fleet.session.commit([Create(upload, record)])


@pytest.mark.long
def test_two_users_of_a_machine_have_nothing_in_common(
    fleet: Fleet, zookeeper: Server, chroot: str, tmp_path: Path
) -> None:
    site = InstallFleet(fleet)
    offered(fleet, site, MachinePower(driver="manual"))
    fleet.annealer(sweep_seconds=1.0, probe_seconds=1.0).begin()
    with LauncherFleet(zookeeper, chroot, tmp_path / "launchers") as launchers:
        serve(launchers, provider(**{"authorized-keys": ["ssh-ed25519 AAAAUSER"]}), labels=(LABEL,))
        keys, orders = [], []
        for use in (1, 2):
            request = launchers.request("small")
            site.until_told(use)
            assert launchers.nodes(PoolNodeState.BUILDING)
            agent = Agent(site)
            orders.append(agent.identify().order)
            agent.writes()
            site.boots_disk(agent.until_reboot().epoch)
            (node,) = launchers.fulfilled(request, 60.0)
            assert fleet.state(paths.noderole_name("ntp", site.fqdn)) is State.ACTIVE
            assert node.host_keys == (agent.host_key,)
            keys.append(agent.host_key)
            assert machine_tokens(fleet) == 1
            launchers.give_back(request, launchers.take(request))
            launchers.until(lambda: not launchers.nodes(), "the machine is returned")
            assert "ntp" not in (fleet.session.children(paths.noderoles(site.fqdn)) or ())
        assert all((order["wipe"], order["wipe_method"]) == ([{}], "overwrite") for order in orders)
        assert all(order["checksum"] == f"sha256:{SUM}" for order in orders)
        assert all("ssh-ed25519 AAAAUSER" in order["authorized_keys"] for order in orders)
        assert keys[0] != keys[1]
        assert site.reboots() == 2, "it is installed once for each use"
        assert site.record is not None
        assert site.record.step is InstallStep.ALIVE


@pytest.mark.long
def test_a_machine_is_switched_off_after_a_use_and_installed_from_there_for_the_next(
    fleet: Fleet, zookeeper: Server, chroot: str, tmp_path: Path
) -> None:
    site, switch = InstallFleet(fleet), tmp_path / "switch"
    switch.write_text("on\n")
    _, host = fleet.farm.records()[1]
    options = {"host_key": host.host_keys[0], "status": f"tail -n 1 {switch}", "network_once": "true"}
    options |= {word: f"echo {word} >>{switch}" for word in ("on", "off")}
    offered(fleet, site, MachinePower(driver="ssh", address=f"{host.user}@{host.addresses[0]}", options=options))
    fleet.annealer(sweep_seconds=1.0, probe_seconds=1.0).begin()

    def switched(*words: str) -> None:
        """The power was switched in this order, since the beginning."""
        fleet.until(lambda: switch.read_text().split() == [*words], f"it is switched {words}")
        fleet.farm.kill(0)

    with LauncherFleet(zookeeper, chroot, tmp_path / "launchers") as launchers:
        serve(launchers, provider(), labels=(LABEL,))
        words = ["on"]
        for _ in range(2):
            request = launchers.request("small")
            words += ["on"] if words[-1] == "off" else ["off", "on"]
            switched(*words)
            agent = Agent(site)
            agent.identify()
            agent.writes()
            site.boots_disk(agent.until_reboot().epoch)
            (node,) = launchers.fulfilled(request, 60.0)
            assert node.host_keys == (agent.host_key,)
            launchers.give_back(request, launchers.take(request))
            launchers.until(lambda: not launchers.nodes(), "the machine is returned")
            words.append("off")
            switched(*words)
            fleet.until(lambda: not fleet.node(site.fqdn).alive, "it is dead, as each machine that is off")
        assert site.reboots() == 0, "no system was asked to boot"


def machine_tokens(fleet: Fleet) -> int:
    """The tokens of machines."""
    names = fleet.session.children(paths.TOKENS) or []
    found = fleet.session.get_many([paths.token(name) for name in names])
    return sum(b'"machine:' in znode.data for znode in found if znode is not None)
