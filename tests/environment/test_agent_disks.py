"""The disk that the agent writes: exactly one that matches all hints, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.environment.agents import SHELLS, FileMachine

GIB = 1 << 30
DISKS = (
    {"path": "/dev/sda", "size": 4 * GIB, "serial": "one ", "wwn": "0x5000", "model": "SSD 1"},
    {"path": "/dev/sdb", "size": 8 * GIB, "serial": "two", "rota": True},
    {"path": "/dev/sdc", "size": 2 * GIB, "serial": "stick", "rm": True},
    {"path": "/dev/sr0", "size": GIB, "type": "rom"},
    {"path": "/dev/sdd", "size": GIB, "ro": True},
)


def chosen(machine: FileMachine, hints: dict[str, Any], count: int = 1, needed: int = GIB) -> str:
    machine.disks(*DISKS)
    script = f"choose '{json.dumps(hints)}' {count} {needed}; echo \"chosen:\" $chosen"
    done = machine.does(f"report_failure() {{ :; }}; {script}")
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_disk_is_chosen_by_its_hints_together(tmp_path: Path, shell: tuple[str, ...]) -> None:
    assert chosen(FileMachine(tmp_path, shell), {"serial": "one", "max-size": "4G"}) == "chosen: /dev/sda"


def test_each_hint_leads_to_its_disk(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"wwn": "0x5000"}, "/dev/sda"),
        ({"rotational": True}, "/dev/sdb"),
        ({"rotational": False}, "/dev/sda"),
        ({"min-size": "5G"}, "/dev/sdb"),
        ({"max-size": 4 * GIB}, "/dev/sda"),
        ({"serial": "stick"}, "/dev/sdc"),
        ({"path": "/dev/sdb", "serial": "", "wwn": None}, "/dev/sdb"),
    ]
    machine = FileMachine(tmp_path)
    machine.disks(*DISKS)
    done = machine.does("".join(f"matching '{json.dumps(hints)}'; " for hints, _ in cases))
    assert done.stdout.split() == [disk for _, disk in cases]


def test_two_disks_that_match_are_refused_by_name(tmp_path: Path) -> None:
    assert chosen(FileMachine(tmp_path), {}) == (
        "ocb: FAILED: 2 disks match the hints {}, and 1 must: /dev/sda (4096 MiB, serial one), /dev/sdb (8192 MiB, serial two); "
        "disks of this machine: /dev/sda (4096 MiB, serial one), /dev/sdb (8192 MiB, serial two), "
        "/dev/sdc (2048 MiB, serial stick)"
    )


def test_a_disk_of_a_storage_network_is_written_and_wiped_only_if_it_is_named(tmp_path: Path) -> None:
    machine = FileMachine(tmp_path)
    others = ("usb", "fc", "fcoe", "iscsi")
    machine.disks(
        {"path": "/dev/sda", "size": GIB, "tran": "sata"},
        *({"path": f"/dev/sd{name}", "size": GIB, "serial": name, "tran": name} for name in others),
    )
    done = machine.does("matching '{}'; matching '{\"serial\": \"fc\"}'")
    assert done.stdout.split() == ["/dev/sda", "/dev/sdfc"]


def test_two_disks_serve_a_mirror(tmp_path: Path) -> None:
    assert chosen(FileMachine(tmp_path), {}, count=2) == "chosen: /dev/sda /dev/sdb"


def test_no_other_disk_takes_the_place_of_a_missing_one(tmp_path: Path) -> None:
    assert "0 disks match the hints" in chosen(FileMachine(tmp_path), {"serial": "three"})
    hints = ({"serial": "ONE"}, {"path": "/dev/sdd"}, {"path": "/dev/sr0"})
    machine = FileMachine(tmp_path / "other")
    machine.disks(*DISKS)
    assert machine.does("".join(f"matching '{json.dumps(each)}'; " for each in hints)).stdout == ""


def test_a_small_disk_is_refused_with_its_size(tmp_path: Path) -> None:
    assert chosen(FileMachine(tmp_path), {"serial": "one"}, needed=5 * GIB) == (
        "ocb: FAILED: the disk is too small: /dev/sda (4096 MiB, serial one); the image needs 5120 MiB"
    )


@pytest.mark.parametrize("active", [False, True], ids=["none is active", "active"])
def test_all_that_uses_a_disk_is_ended_before_its_partitions_lose_their_signatures(
    tmp_path: Path, active: bool
) -> None:
    """Without a device of the mapper no volume group is active, and the slow pvs is left out."""
    machine = FileMachine(tmp_path)
    if active:
        (tmp_path / "sys/block/dm-0").mkdir(parents=True)
    machine.program(
        "lsblk", "printf '%s\\n' '/dev/sda disk' '/dev/sda1 part' '/dev/md0 raid1' '/dev/sda2 part' '/dev/md0 raid1'"
    )
    for name in ("swapoff", "vgchange", "mdadm", "wipefs"):
        machine.program(name, f'cat; echo {name} "$@" >>{tmp_path}/did')
    machine.program("pvs", 'cat; case $* in *sda2) echo "  system" ;; esac')
    done = machine.does("let_go /dev/sda")
    assert done.stdout == "", "no program takes the list as its input"
    did = (tmp_path / "did").read_text().splitlines()
    assert [line for line in did if "swapoff" not in line] == [
        *(["vgchange --activate n system"] if active else []),
        "mdadm --stop /dev/md0",
        "wipefs --all --force /dev/sda1",
        "wipefs --all --force /dev/sda2",
    ]
    assert "swapoff /dev/sda2" in did


def test_an_unknown_hint_chooses_no_disk(tmp_path: Path) -> None:
    assert chosen(FileMachine(tmp_path), {"seriel": "one"}) == (
        "ocb: FAILED: the order has unknown hints for the disk: seriel"
    )
