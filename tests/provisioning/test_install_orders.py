"""The wish of a role, the image and the disk that are chosen, and the order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.model.joining import Inventory, MachineDisk, MachineFacts
from nodepool_ocb.model.records import InstallRequest, WipeMethod
from nodepool_ocb.provisioning import orders
from nodepool_ocb.provisioning.disks import Disk, DiskHints, chosen, of_inventory
from tests.journeys.installing import BUILD, IMAGE, SUM, build

TWO = [
    Disk(path="/dev/sda", size=64 << 30, serial="S1", rotational=True),
    Disk(path="/dev/nvme0n1", size=8 << 30, wwn="eui.1", rotational=False),
]


@pytest.mark.parametrize(
    ("hints", "path"),
    [
        ({"serial": "S1"}, "/dev/sda"),
        ({"wwn": "eui.1"}, "/dev/nvme0n1"),
        ({"rotational": False}, "/dev/nvme0n1"),
        ({"min_size": "32G"}, "/dev/sda"),
        ({"max_size": "32G"}, "/dev/nvme0n1"),
        ({"path": "/dev/sda"}, "/dev/sda"),
    ],
)
def test_one_disk_that_matches_all_hints_is_chosen(hints: dict[str, Any], path: str) -> None:
    assert [disk.path for disk in chosen(DiskHints(**hints), TWO, 1 << 30)] == [path]


@pytest.mark.parametrize(
    ("hints", "needed", "words"),
    [
        ({"serial": "S9"}, 1, r"no disk of the machine matches serial=S9; it has /dev/sda \(serial S1, 64.0 GiB\)"),
        ({"serial": "S1"}, 65 << 30, "the disk is too small: /dev/sda"),
        ({}, 1, "2 disks match its only disk"),
        ({"min_size": "large"}, 1, "no size of a disk"),
    ],
)
def test_a_wrong_disk_is_refused_by_name(hints: dict[str, Any], needed: int, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        chosen(DiskHints(**hints), TWO, needed)


def test_the_disks_of_an_inventory_are_read_and_one_without_a_list_says_nothing() -> None:
    facts = MachineFacts(disks=(MachineDisk(name="vda", size=1024, serial="S1", rotational=True),))
    assert of_inventory(facts) == (Disk(path="/dev/vda", size=1024, serial="S1", rotational=True),)
    assert of_inventory(MachineFacts(cpus=4)) is None


STICK = Disk(path="/dev/sdb", size=64 << 30, serial="U1", removable=True)


def test_a_removable_disk_is_chosen_by_its_name_alone() -> None:
    assert chosen(DiskHints(), [TWO[0], STICK], 1) == (TWO[0],)
    assert chosen(DiskHints(serial="U1"), [TWO[0], STICK], 1) == (STICK,)


def test_a_mirror_takes_two_disks_that_match() -> None:
    assert chosen(DiskHints(), TWO, 1, 2) == tuple(TWO)
    with pytest.raises(Invalid, match="a mirror needs 2 disks, and 1 matches serial=S1"):
        chosen(DiskHints(serial="S1"), TWO, 1, 2)
    with pytest.raises(Invalid, match="the disk is too small: /dev/nvme0n1"):
        chosen(DiskHints(), TWO, 32 << 30, 2)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"image": IMAGE, "disk": {"path": "/dev/disk/by-id/ata-1"}}, "path=/dev/disk/by-id/ata-1"),
        ({"image": IMAGE, "disk": {"rotational": False}}, "/dev/nvme0n1 (8.0 GiB)"),
        ({"image": IMAGE, "layout": {"raid1": True}}, "/dev/sda (serial S1, 64.0 GiB), /dev/nvme0n1 (8.0 GiB)"),
    ],
)
def test_an_inventory_names_the_disks_that_lose_their_data(wish: dict[str, Any], words: str) -> None:
    disks = tuple(
        MachineDisk(name=disk.path[5:], size=disk.size, serial=disk.serial, rotational=disk.rotational is True)
        for disk in TWO
    )
    image = orders.newest(IMAGE, {BUILD: build()})
    made = orders.wish({"provisioner": wish})
    assert orders.disk_of(made, image, Inventory(facts=MachineFacts(disks=disks))) == words
    assert orders.disk_of(made, image, Inventory()) == orders.disk_of(made, image, None) == made.disk.words


def test_the_newest_ready_build_with_a_disk_format_is_chosen() -> None:
    builds = {
        "0000000001": build(),
        "0000000002": build(state=BuildState.FAILED),
        "0000000003": build(checksums={"pxe": {"sha256": SUM, "size": 1}}),
    }
    found = orders.newest(IMAGE, builds)
    assert (found.build, found.format, found.path) == (BUILD, "raw", f"images/{IMAGE}/{BUILD}/disk.raw")
    with pytest.raises(Invalid, match="has no READY build of format raw or tar"):
        orders.newest(IMAGE, {"0000000002": builds["0000000002"]})


def test_the_order_has_the_image_the_disk_and_the_state_directory() -> None:
    wish = orders.wish({"provisioner": {"image": IMAGE, "disk": {"serial": "S1"}, "user-data": "#cloud-config\n"}})
    made = orders.order(wish, orders.newest(IMAGE, {BUILD: build()}), "n1.example.com", "i1", "/var/lib/nodepool-ocb")
    assert made["image"] == [f"images/{IMAGE}/{BUILD}/disk.raw"]
    assert (made["checksum"], made["size"], made["format"]) == (f"sha256:{SUM}", 1 << 20, "raw")
    assert (made["disk"], made["state_dir"]) == ({"serial": "S1"}, "/var/lib/nodepool-ocb")
    assert made["nocloud"] == {
        "meta-data": "instance-id: i1\nlocal-hostname: n1.example.com\n",
        "user-data": "#cloud-config\n",
        "network-config": "",
    }


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "provisioner/image is not set"),
        ({"provisioner": {"disk": {}}}, "provisioner/image is not set"),
        ({"provisioner": {"image": IMAGE, "disk": {"serail": "S1"}}}, "serail"),
        ({"provisioner": {"image": IMAGE, "step-seconds": {"booted": 3}}}, "the steps are checked"),
        ({"provisioner": {"image": IMAGE, "step-seconds": {"checked": 0}}}, "checked=0"),
        ({"provisioner": {"image": IMAGE, "step-seconds": {"checked": 1e12}}}, "checked=1e"),
        ({"provisioner": IMAGE}, "attribute provisioner must be a mapping"),
        ({"provisioner": {"image": IMAGE, "decommission": {"methd": "discard"}}}, "methd"),
    ],
)
def test_a_wrong_attribute_is_refused_by_name(attributes: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        orders.requested(orders.wish(attributes), None)


def test_an_order_that_is_too_large_is_refused() -> None:
    wish = replace(orders.wish({"provisioner": {"image": IMAGE}}), user_data="x" * orders.ORDER_BYTES)
    with pytest.raises(Invalid, match="shorten user-data"):
        orders.order(wish, orders.newest(IMAGE, {BUILD: build()}), "n1.example.com", "i1", "/s")


def test_the_wish_of_a_command_stands_over_that_of_the_role() -> None:
    role = orders.wish({"provisioner": {"image": IMAGE, "authorized-keys": ["k1"], "wipe": [{"serial": "S2"}]}})
    asked = InstallRequest(image="fedora", build="b2", authorized_keys=("k2",), wipe=WipeMethod.NONE)
    found = orders.requested(role, asked)
    assert (found.image, found.build, found.authorized_keys, found.wipe) == ("fedora", "b2", ("k1", "k2"), ())
    kept = orders.retiring(role, asked)
    assert kept.wipe == (), "the disks keep their data"
    assert orders.retiring(role, None).wipe == (orders.EVERY_DISK,)


def test_the_wanted_build_is_chosen_and_one_without_whole_sums_never_is() -> None:
    builds = {"0000000001": build(), "0000000002": build()}
    assert orders.newest(IMAGE, builds).build == "0000000002"
    assert orders.newest(IMAGE, builds, "0000000001").build == "0000000001"
    for sums in ({"sha256": SUM}, {"sha256": 7, "size": 1}):
        spoiled = builds | {"0000000003": build(checksums={"raw": sums})}
        assert orders.newest(IMAGE, spoiled).build == "0000000002"


def test_a_link_to_a_disk_is_judged_by_the_installer_for_no_inventory_has_it() -> None:
    link = orders.wish({"provisioner": {"image": IMAGE, "disk": {"path": "/dev/disk/by-id/ata-S9"}}})
    facts = MachineFacts(disks=(MachineDisk(name="sda", size=64 << 30),))
    found = orders.disk_of(link, orders.newest(IMAGE, {BUILD: build()}), Inventory(facts=facts))
    assert found == link.disk.words
