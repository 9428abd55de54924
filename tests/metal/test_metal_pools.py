"""A pool of machines of the fleet, with real launchers. The test plays the annealers."""

from __future__ import annotations

from typing import Final

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.power import MachinePower, PowerAction
from nodepool_ocb.model.records import Create, Json, Node, Role, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.processes import DaemonProcess
from tests.launcher.launcher_fleet import LauncherFleet
from tests.metal.metal_site import IMAGE, KEY, OS, MetalSite, provider

ROLES: Final[dict[str, Json]] = {"name": "small", "roles": ["dns"], "roles-timeout": 600}


def serve(
    fleet: LauncherFleet, *providers: dict[str, Json], labels: tuple[dict[str, Json], ...] = ({"name": "small"},)
) -> DaemonProcess:
    """A running launcher with these providers, and the image."""
    launcher = fleet.launcher(*(providers or (provider(),)), labels=labels)
    file = launcher.config.parent / "nodepool.yaml"
    file.write_text(f"{file.read_text()}diskimages: [{{name: {IMAGE}}}]\n")
    launcher.start()
    return launcher


@pytest.fixture
def site(launchers: LauncherFleet) -> MetalSite:
    """One machine, and a build of its image."""
    site = MetalSite(launchers.session, 1)
    site.publish()
    launchers.session.commit([Create(paths.role("dns"), Role(barclamp="dns", jig="script"))])
    return site


def test_a_machine_is_installed_for_each_use_and_nothing_of_a_use_is_left(
    launchers: LauncherFleet, site: MetalSite
) -> None:
    serve(launchers, labels=(ROLES,))
    (fqdn,) = site.names
    keys = set()
    for _ in range(2):
        request = launchers.request("small")
        launchers.until(site.waiting, "it is to be installed")
        (id,) = launchers.nodes(PoolNodeState.BUILDING)
        assert site.used() == {fqdn: id}
        site.installs(fqdn)
        launchers.until(lambda: "dns" in site.world.nodes[fqdn].noderoles, "its roles are bound after that")
        assert not launchers.nodes(PoolNodeState.READY)
        site.all_active()
        (node,) = launchers.fulfilled(request)
        assert (node.hostname, node.interface_ip, node.connection_port) == (fqdn, "127.0.9.1", 2222)
        assert node.username == "root", "the login of the machine, not the one of its image"
        assert node.host_keys == site.node(fqdn).host_keys
        assert node.image_id == paths.build(IMAGE, "0000000001")
        keys.update(node.host_keys or ())
        launchers.give_back(request, launchers.take(request))
        launchers.until(lambda: not launchers.nodes(), "the node is deleted")
        assert [*site.world.nodes[fqdn].noderoles] == [OS]
        assert site.used() == {}
        znode = launchers.session.get(paths.power(fqdn))
        assert znode is not None
        asked = codec.decode(MachinePower, znode).request
        assert asked is not None
        assert (asked.action, asked.by) == (PowerAction.OFF, "launcher")
        site.set(paths.power(fqdn), MachinePower, request=None, off_since=None)
        site.set(paths.node(fqdn), Node, alive=False)
    assert len(keys) == 2
    assert all(key.startswith(KEY) for key in keys)


def test_a_machine_whose_installation_failed_is_out_and_another_one_serves(
    launchers: LauncherFleet, site: MetalSite
) -> None:
    site.more(1)
    serve(launchers)
    request = launchers.request("small")
    launchers.until(site.waiting, "one is to be installed")
    (first,) = site.waiting()
    site.installs(first, reason="step written: the installer reports: sda has bad blocks")
    launchers.until(lambda: site.waiting() not in ([], [first]), "the other one is to be installed", 60.0)
    (second,) = site.waiting()
    site.installs(second)
    (node,) = launchers.fulfilled(request)
    assert node.hostname == second
    assert site.used().keys() == {second}
    assert site.world.nodes[first].noderoles[OS].record.state is State.ERROR


@pytest.mark.long
def test_a_request_beyond_the_fitting_machines_is_declined_and_one_for_a_held_machine_waits(
    launchers: LauncherFleet, site: MetalSite
) -> None:
    site.set(paths.node(site.names[0]), Node, hold=Maintenance(by="ann", reason="new disk", since=0.0))
    serve(launchers)
    many = launchers.request("small", "small")
    launchers.until_state(many, RequestState.FAILED)
    one = launchers.request("small")
    launchers.until(lambda: launchers.read(one) is not None, "it is there")
    site.set(paths.node(site.names[0]), Node, hold=None)
    launchers.until(site.waiting, "the machine is taken when the hold has ended", 60.0)
    site.installs(site.names[0])
    launchers.fulfilled(one)


@pytest.mark.long
def test_two_launchers_never_give_one_machine_to_two_requests(launchers: LauncherFleet, site: MetalSite) -> None:
    site.more(2)
    for _ in range(2):
        serve(launchers)
    open_requests = {launchers.request("small") for _ in range(8)}

    def all_served() -> bool:
        for fqdn in site.waiting():
            site.installs(fqdn)
        for request in sorted(open_requests):
            record = launchers.read(request)
            assert record is not None
            if record.state is not RequestState.FULFILLED:
                continue
            names = [each.hostname for each in launchers.nodes(PoolNodeState.READY, PoolNodeState.IN_USE).values()]
            assert len(names) == len({*names})
            launchers.give_back(request, launchers.take(request))
            open_requests.discard(request)
        site.switches_all()
        return not open_requests

    launchers.until(all_served, "all are served", 120.0)
    launchers.until(lambda: not site.used(), "all machines are returned")
    assert site.generations() == 8, "each use is one installation"


@pytest.mark.long
@pytest.mark.parametrize("moment", ["taken", "installed", "testing", "returned", "cancelled"])
def test_a_machine_is_installed_once_when_its_launcher_is_killed(
    launchers: LauncherFleet, site: MetalSite, moment: str
) -> None:
    (fqdn,) = site.names
    rack = provider() | {"launch-timeout": 3 if moment == "cancelled" else 600}
    first = serve(launchers, rack, labels=(ROLES,))
    request = launchers.request("small")

    def killed(at: str) -> None:
        nonlocal first
        if at == moment:
            first.kill()
            first = serve(launchers, rack, labels=(ROLES,))

    launchers.until(site.waiting, "it is to be installed")
    killed("taken")
    if moment == "cancelled":
        site.claims(fqdn)  # and no end comes within its launch-timeout
        launchers.until(lambda: site.world.nodes[fqdn].noderoles[OS].record.cancel_reason, "its run is to be ended")
        killed("cancelled")
        site.ends_cancelled(fqdn)
        launchers.until(site.waiting_off, "the machine is not out: it is installed for the next attempt", 60.0)
    before = site.generations()
    site.installs(fqdn)
    killed("installed")
    launchers.until(lambda: "dns" in site.world.nodes[fqdn].noderoles, "its roles are bound")
    killed("testing")
    site.all_active()
    launchers.fulfilled(request)
    assert site.generations() == before
    launchers.give_back(request, launchers.take(request))
    killed("returned")
    launchers.until(lambda: not launchers.nodes(), "the node is deleted")
    assert (site.used(), site.generations(), site.waiting()) == ({}, before, [])


@pytest.mark.long
def test_a_machine_without_a_record_of_its_launch_is_given_back_as_a_leak(
    launchers: LauncherFleet, site: MetalSite
) -> None:
    (fqdn,) = site.names
    launcher = serve(launchers)
    launchers.request("small")
    launchers.until(site.waiting, "it is to be installed")
    launcher.kill()
    for name in launchers.nodes():
        launchers.session.commit(removal(launchers.session, paths.pool_node(name)))
    for name in launchers.session.children(paths.REQUESTS) or ():
        launchers.delete(name)
    serve(launchers)
    launchers.until(lambda: not site.used(), "it is returned", 120.0)
    assert site.waiting() == [], "the installation that had not begun does not begin"
    launchers.request("small")
    launchers.until(lambda: site.waiting_off() and site.used().keys() == {fqdn}, "it serves again")


@pytest.mark.long
def test_an_idle_machine_is_installed_anew_with_a_newer_image(launchers: LauncherFleet, site: MetalSite) -> None:
    (fqdn,) = site.names
    serve(launchers, labels=({"name": "small", "min-ready": 1},))
    launchers.until(site.waiting, "it is to be installed")
    wished = site.node(fqdn).install
    assert wished is not None
    assert (wished.image, wished.build, str(wished.wipe)) == (IMAGE, "0000000001", "overwrite")
    site.installs(fqdn)
    launchers.until(lambda: launchers.nodes(PoolNodeState.READY), "it is ready")
    newer = site.publish(2)
    launchers.until(site.waiting_off, "it is to be installed once more", 60.0)
    site.installs(fqdn)
    launchers.until(
        lambda: [each.image_id for each in launchers.nodes(PoolNodeState.READY).values()] == [newer], "it is ready"
    )
    wished = site.node(fqdn).install
    assert wished is not None
    assert wished.build == "0000000002"


@pytest.mark.long
def test_an_idle_machine_that_died_is_not_handed_out_and_is_installed_anew(
    launchers: LauncherFleet, site: MetalSite
) -> None:
    (fqdn,) = site.names
    serve(launchers, labels=({"name": "small", "min-ready": 1},))
    launchers.until(site.waiting, "it is to be installed")
    site.installs(fqdn)
    launchers.until(lambda: launchers.nodes(PoolNodeState.READY), "it is ready")
    before = site.generations()
    site.set(paths.node(fqdn), Node, alive=False, reason="connect: timed out")
    request = launchers.request("small")
    launchers.until(site.waiting_off, "it is to be installed once more", 60.0)
    assert launchers.read(request) is not None
    assert not launchers.nodes(PoolNodeState.READY)
    site.installs(fqdn)
    launchers.fulfilled(request)
    assert site.generations() == before + 1


@pytest.mark.long
def test_a_launcher_ends_in_time_while_the_return_of_a_machine_waits_for_an_annealer(
    launchers: LauncherFleet, site: MetalSite
) -> None:
    (fqdn,) = site.names
    launcher = serve(launchers, provider() | {"launch-timeout": 2})
    launchers.request("small")
    launchers.until(site.waiting, "it is to be installed")
    site.claims(fqdn)
    launchers.until(lambda: site.world.nodes[fqdn].noderoles[OS].record.cancel_reason, "its run is to be ended")
    launcher.terminate()
    assert launcher.wait(8.0) == 0, "drain_seconds is 2; a call may wait for 50"
    assert site.used().keys() == {fqdn}, "another launcher continues"
