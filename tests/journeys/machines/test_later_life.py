"""The later life of a machine: it is tested before its disk is written, installed, rescued, and erased when it leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.power import Powered
from nodepool_ocb.model.records import State
from nodepool_ocb.testing.virtual import metalimages, preparing
from nodepool_ocb.testing.virtual.site import DEPLOYMENT, MetalSite
from nodepool_ocb.testing.virtual.walking import DISK_MB, Walker
from tests.journeys.machines.test_first_machine import MISSING, images_of_here, site_with

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
MEMORY_MIB: Final = 16  # that memtester tests on the emulated CPU
TESTS: Final = ("commission-disks", "commission-memory")
MARK: Final = "/root/mark"


def test_a_machine_is_commissioned_installed_rescued_and_erased(tmp_path: Path) -> None:
    with site_with(tmp_path, images_of_here(), boot="bios") as site, Walker(site) as walker:
        site.ocb("deployment", "propose", DEPLOYMENT)
        site.ocb("deployment", "set", DEPLOYMENT, "commission-disks", "disks_least=2")
        site.ocb("deployment", "set", DEPLOYMENT, "commission-memory", f"memory_test_mib={MEMORY_MIB}")
        site.ocb("deployment", "commit", DEPLOYMENT)
        site.ocb("bootenv", "set", "rescue", f"arguments={metalimages.ARGUMENTS}", f"image={metalimages.ENVIRONMENT}")
        preparing.adopt_all(site.ocb, f"commission={','.join(TESTS)}")
        _is_tested(site, walker)
        _is_rescued(site, walker)
        _is_erased(site, walker)
        print(walker.times, walker.agent_said, sep="\n")


def _is_tested(site: MetalSite, walker: Walker) -> None:
    """The installation waits for the tests; one fails until its bound is changed."""
    walker.switch_on()
    walker.until(lambda: walker.failure(TESTS[0]), "a test has failed")
    walker.until(lambda: site.states(walker.fqdn)[TESTS[1]] is State.ACTIVE, "the other test has passed")
    assert walker.installation is None, "no disk is written before the tests pass"
    waiting = f"{preparing.INSTALL}@{walker.fqdn}"
    assert f"{TESTS[0]}@{walker.fqdn}" in site.ocb("noderole", "explain", waiting)
    failed = f"{TESTS[0]}@{walker.fqdn}"
    site.ocb("noderole", "propose", failed)
    site.ocb("noderole", "set", failed, "disks_least=1")
    site.ocb("noderole", "commit", failed)
    walker.until(walker.all_active, "tested, installed and ACTIVE")
    assert walker.heard("identified as") == walker.runs()[preparing.INSTALL] == 1


def _is_rescued(site: MetalSite, walker: Walker) -> None:
    """A person works in the environment, the disk keeps its data, and the system comes back with its own host key."""
    (key,) = walker.node.host_keys
    walker.asks(f"echo here >{MARK} && sync", key)
    runs = walker.runs()
    site.ocb("node", "rescue", walker.fqdn)
    walker.until(lambda: walker.step is InstallStep.IDENTIFIED, "in the rescue environment")
    found = walker.installation
    assert found is not None
    assert walker.asks("findmnt -no FSTYPE /; grep -c ' /dev/sd' /proc/mounts || :", found.host_key).split() == [
        "overlay",
        "0",
    ]
    site.ocb("node", "rescue", walker.fqdn, "--end")
    walker.until(walker.all_active, "back from the rescue")
    assert walker.node.host_keys == (key,)
    assert walker.asks(f"cat {MARK}", key) == "here\n"
    assert walker.runs() == runs | {"provisioner-rescue": 1}


def _is_erased(site: MetalSite, walker: Walker) -> None:
    """Each byte of the disk is gone, the power is off, and the node is out of service."""
    site.ocb("node", "decommission", walker.fqdn, "--wipe", "overwrite", "--yes")
    walker.until(lambda: walker.node.decommissioned is not None, "out of service")
    walker.until(lambda: walker.power.status() is Powered.OFF, "switched off")
    found = walker.installation
    assert found is not None
    assert [(each.done, each.method) for each in found.wiped] == [(True, "overwrite")], found.wiped
    walker.machine.off()
    empty, (disk,) = walker.machine.folder / "empty.qcow2", walker.machine.disks
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(empty), f"{DISK_MB}M"], check=True)
    compared = subprocess.run(
        ["qemu-img", "compare", str(disk), str(empty)], capture_output=True, text=True, check=False
    )
    assert compared.returncode == 0, compared.stdout
