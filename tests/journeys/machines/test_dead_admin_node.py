"""Two admin nodes serve two machines; the one that a machine is being installed from dies, and its annealer with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.records import Claim
from nodepool_ocb.testing.processes import DaemonProcess
from nodepool_ocb.testing.virtual import preparing
from nodepool_ocb.testing.virtual.site import MetalSite
from nodepool_ocb.testing.virtual.walking import STEP_SECONDS, Walker
from tests.journeys.machines.leased import owners
from tests.journeys.machines.test_first_machine import MISSING, images_of_here

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]


def test_both_machines_are_installed_though_an_admin_node_dies(tmp_path: Path) -> None:
    with MetalSite(tmp_path, images_of_here(), admins=2, annealers=2) as site:
        preparing.prepare(site, site.ocb, boot="bios")
        preparing.await_images(site, STEP_SECONDS)
        preparing.adopt_all(site.ocb)
        with Walker(site, 1) as one, Walker(site, 2) as two:
            try:
                _both_are_installed(site, one, two)
            finally:
                print(site.said)  # pytest shows it where the test fails


def _annealer_of(site: MetalSite, walker: Walker) -> DaemonProcess:
    """The one that works on the machine now."""
    found = site.record(Claim, paths.claim(walker.fqdn))
    assert found is not None, "an installation is under a claim"
    [running] = [each for each in site.annealers if found.annealer in each.said]
    return running


def _explained(site: MetalSite, walker: Walker) -> str:
    return site.ocb("noderole", "explain", f"{preparing.INSTALL}@{walker.fqdn}")


def _both_are_installed(site: MetalSite, one: Walker, two: Walker) -> None:
    one.switch_on()
    two.switch_on()
    one.until(lambda: one.step is InstallStep.IDENTIFIED, "the first one is being installed")
    server = re.findall(r"http://(\S+):8480/boot/[0-9a-f]{32}\.ipxe", one.machine.said)[-1]
    [dead] = [number for number, host in enumerate(site.admins) if host.address == server]
    before = site.admins[dead].read("log/dnsmasq.log")
    _annealer_of(site, one).kill()
    site.admins[dead].kill_servers()
    site.admins[dead].close()  # the power of its host is gone, too
    words = f"node dead a{dead + 1}.example.com"
    one.until(lambda: words in _explained(site, one), "explain names the command that ends the wait for the dead host")
    site.ocb(*words.split())  # the annealer that is left shares its host with the killed one, so it decides no death
    for walker in (one, two):
        walker.until(walker.all_active, f"all noderoles of {walker.fqdn} are ACTIVE")
        assert walker.heard("identified as") == walker.heard("restarting from the disk") == 1, "installed once"
    given = owners(before, site.admins[1 - dead].read("log/dnsmasq.log"))
    assert {mac for macs in given.values() for mac in macs} == {one.mac, two.mac}
    assert [address for address, macs in given.items() if len(macs) > 1] == []
    assert set(one.node.networks["admin"]).isdisjoint(two.node.networks["admin"])
    print(one.times, two.times)
