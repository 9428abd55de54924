"""A machine with power and an empty disk becomes a node whose roles are ACTIVE: all parts are real, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb.testing.virtual import metalimages, preparing, walking
from nodepool_ocb.testing.virtual.machine import Firmware
from nodepool_ocb.testing.virtual.network import why_not
from nodepool_ocb.testing.virtual.site import MetalSite
from nodepool_ocb.testing.virtual.walking import Walker

MISSING = why_not("dnsmasq", "nginx", "cpio", "mmdebstrap") or (
    None if mirror("debian") else "no mirror of Debian here"
)
pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
ROLES = 10


@contextmanager
def site_with(folder: Path, images: Sequence[Mapping[str, Any]], boot: str = "both") -> Iterator[MetalSite]:
    """A site with one admin node, and disks for this firmware; the logs of its daemons are printed."""
    with MetalSite(folder, images) as site:
        try:
            preparing.prepare(site, site.ocb, boot)
            preparing.await_images(site, walking.STEP_SECONDS)
            yield site
        finally:
            print(site.said)  # pytest shows it where the test fails


def images_of_here() -> list[dict[str, Any]]:
    """Images that an earlier test of this host had built, where they are as the sections and files say now."""
    return metalimages.at_hand(metalimages.fresh())


def is_unknown_then_adopted(walker: Walker) -> None:
    """From power to a node with facts: no rule fits at first."""
    walker.switch_on()
    walker.until(lambda: walker.registration and walker.registration.reason, "registered, and refused by name")
    row = walker.registration
    assert row is not None
    assert (row.node, row.reason) == (None, "there is no rule of adoption")
    preparing.adopt_all(walker.site.ocb)
    walker.until(lambda: walker.registration and walker.registration.node == walker.fqdn, "adopted")
    facts = walker.site.ask("node", "machine", walker.fqdn)["facts"]
    assert [disk["serial"] for disk in facts["disks"]] == [f"disk{walker.number}"]
    assert [nic["mac"] for nic in facts["nics"]] == [walker.mac]


def is_installed(walker: Walker, times: int) -> Mapping[str, Any]:
    """All roles are ACTIVE on the system of the disk, which was written so often; gives the installation."""
    walker.until(lambda: walker.step is InstallStep.IDENTIFIED, "installer identified")
    walker.until(lambda: walker.step is InstallStep.PUBLISHED_LOCAL, "written, verified and published")
    walker.until(lambda: walker.step is InstallStep.ALIVE, "alive from the disk")
    walker.until(walker.all_active, "ACTIVE")
    found, node = walker.site.ask("installation", "show", walker.fqdn), walker.node
    assert (found["image"], found["reason"], found["under_way"]) == (metalimages.SYSTEM, None, False)
    assert node.alive
    assert node.host_keys == (found["host_key"],)
    assert len(walker.site.states(walker.fqdn)) == ROLES
    assert walker.heard("identified as") == walker.heard("restarting from the disk") == times
    assert walker.runs()[preparing.INSTALL] == times
    said = walker.asks("hostname; cat /etc/motd; findmnt -no SOURCE /", found["host_key"])
    assert said.splitlines()[0] == walker.fqdn.partition(".")[0]
    assert "managed by nodepool-ocb" in said
    assert "/dev/sda3" in said
    return found


def goes_the_whole_way(site: MetalSite, firmware: Firmware) -> None:
    """From power to ACTIVE; then ``node reinstall`` does all again, exactly once."""
    with Walker(site, firmware=firmware) as walker:
        is_unknown_then_adopted(walker)
        first = is_installed(walker, 1)
        before = walker.runs()
        site.ocb("power", "set", walker.fqdn, "driver=qemu", f"address=unix:{walker.bmc}")
        site.ocb("node", "reinstall", walker.fqdn, "--yes")
        second = is_installed(walker, 2)
        after = walker.runs()
        print(firmware, walker.times, walker.agent_said, sep="\n")
        assert second["host_key"] != first["host_key"]
        scripts = {role for role in before if site.ask("role", "show", role)["jig"] == "script"}
        assert {role: after[role] - before[role] for role in scripts} == dict.fromkeys(scripts, 1)
        assert {role: before[role] for role in scripts} == dict.fromkeys(scripts, 1)


def test_a_machine_is_installed_by_kept_images(tmp_path: Path) -> None:
    """The short form: one machine, once, with the images that a longer form has built."""
    try:
        images = metalimages.kept(metalimages.fresh())
    except LookupError as lacking:
        pytest.skip(str(lacking))
    with site_with(tmp_path, images, boot="bios") as site, Walker(site) as walker:
        is_unknown_then_adopted(walker)
        is_installed(walker, 1)
        print(walker.times, walker.agent_said, sep="\n")


def test_a_machine_is_installed_by_bios_with_images_of_this_test(tmp_path: Path) -> None:
    sections = metalimages.fresh()
    with site_with(tmp_path, sections) as site:
        for section in sections:
            metalimages.keep(section, walking.build_of(site, section["name"]))
        goes_the_whole_way(site, Firmware.BIOS)


def test_a_machine_is_installed_by_uefi(tmp_path: Path) -> None:
    with site_with(tmp_path, images_of_here(), boot="uefi") as site:
        goes_the_whole_way(site, Firmware.UEFI)
