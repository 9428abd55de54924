"""The order in which a firmware of UEFI tries its entries after an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environment.agents import SHELLS, FileMachine
from tests.environment.firmware import EfiFirmware

ENTRIES = {
    "0000": "UiApp", "0001": "UEFI Misc Device", "0002": "UEFI PXEv4 (MAC:525400000001)",
    "0003": "UEFI PXEv6 (MAC:525400000001)", "0004": "nodepool-ocb-like", "0005": "nodepool-ocb",
}  # fmt: skip
ORDER = "0005 0001 0002 0003 0000"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_entry_of_this_boot_comes_first_and_the_new_disk_second(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """The entry of a former installation is gone, although the new one has its number."""
    machine = FileMachine(tmp_path, shell)
    firmware = EfiFirmware(machine, ENTRIES, ORDER, "0002")
    firmware.esp(machine, "sda2")
    done = machine.does("order_boots /dev/sda")
    assert (done.returncode, done.stdout) == (0, "ocb: boot order: 0002,0005,0001,0003,0000\n"), done.stderr
    assert firmware["order"] == ["0002", "0005", "0001", "0003", "0000"]
    assert firmware["entries"] == ENTRIES | {
        "0005": r"nodepool-ocb	HD(2,GPT)/File(\EFI\BOOT\BOOTX64.EFI) on /dev/sda".replace(r"\t", "\t")
    }


def test_each_disk_of_a_mirror_has_an_entry_and_a_disk_without_a_partition_for_uefi_has_none(tmp_path: Path) -> None:
    machine = FileMachine(tmp_path)
    firmware = EfiFirmware(machine, {"0000": "UEFI HTTPv4"}, "0000", "0000")
    firmware.esp(machine, "sda2", "sdb1")
    machine.does("order_boots /dev/sda /dev/sdb /dev/sdc")
    assert firmware["order"] == ["0000", "0001", "0002"]
    assert [name.rpartition(" ")[2] for name in firmware["entries"].values()] == ["HTTPv4", "/dev/sda", "/dev/sdb"]


@pytest.mark.parametrize(
    ("current", "fails", "words"),
    [
        ("", "", "it does not say from which entry it booted"),
        ("0005", "", "it does not say from which entry it booted"),
        ("0002", "--create-only", "No space left on device"),
        ("0002", "--bootorder", "No space left on device"),
    ],
    ids=["no current entry", "an entry of a disk", "no room for an entry", "no room for the order"],
)
def test_a_firmware_that_refuses_fails_no_installation(tmp_path: Path, current: str, fails: str, words: str) -> None:
    machine = FileMachine(tmp_path)
    firmware = EfiFirmware(machine, ENTRIES, ORDER, current, fails)
    firmware.esp(machine, "sda2")
    done = machine.does("order_boots /dev/sda; echo goes on")
    first, second = done.stdout.splitlines()
    assert (first.startswith("ocb: the boot order of the firmware stays: "), words in first, second) == (
        True,
        True,
        "goes on",
    )
    if not fails:
        assert firmware["entries"] == ENTRIES
        assert [words for words in firmware["asked"] if words] == []


def test_variables_that_cannot_be_mounted_and_bios_change_no_order(tmp_path: Path) -> None:
    machine = FileMachine(tmp_path)
    firmware = EfiFirmware(machine, ENTRIES, ORDER, "0002")
    machine.program("mountpoint", "exit 1")
    machine.program("mount", "echo unknown filesystem type >&2; exit 32")
    done = machine.does("order_boots /dev/sda; echo goes on")
    assert done.stdout == "ocb: the boot order of the firmware stays: unknown filesystem type\ngoes on\n"
    assert machine.does("firmware() { echo bios; }; order_boots /dev/sda").stdout == ""
    assert firmware["asked"] == []


@pytest.mark.parametrize(("boot", "ordered"), [("both", True), ("uefi", True), ("bios", False)])
def test_the_order_is_changed_after_a_loader_for_uefi_was_installed(tmp_path: Path, boot: str, ordered: bool) -> None:
    machine = FileMachine(tmp_path)
    stands_in = "grub_bios() { :; }; grub_uefi() { :; }; make_menu() { echo menu; }; "
    stands_in += (
        f"layout() {{ case $1 in boot) echo {boot} ;; *) echo false ;; esac; }}; order_boots() {{ echo order $*; }}; "
    )
    done = machine.does(stands_in + "install_boot_loader /dev/sda")
    assert done.stdout.splitlines() == ["menu", *(["order /dev/sda"] if ordered else [])], done


def test_the_disk_of_a_raw_image_has_an_entry_too(tmp_path: Path) -> None:
    steps = "fetch report write_head mount_raw_root settle_system settle_network sync"
    stands_in = "".join(f"{step}() {{ :; }}; " for step in steps.split())
    done = FileMachine(tmp_path).does(
        f"{stands_in} size=1 sum=2 urls= chosen=/dev/sda; order_boots() {{ echo order $*; }}; install_raw"
    )
    assert done.stdout == "order /dev/sda\n", done
