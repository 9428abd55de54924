"""The boot of a machine over ssh: its id, the epochs that it refuses, and the order to boot, which counts for one boot alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.ssh.boots import BootQuestion, look
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.provisioning.installation import BootLook
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import await_that


class Machine:
    """One machine; its boot id is in a file, and a boot writes another file."""

    def __init__(self, farm: Farm, home: Path) -> None:
        settings = msgspec.convert(farm.settings() | {"connect_timeout_seconds": 5.0}, SshSettings)
        self.pool, self.home = Pool(settings), home
        [(self.fqdn, self.node)] = farm.records()
        (home / "boot_id").write_text("one\n")

    def look(self, epoch: int, boot_id: str = "", reboot: str = "", **fields: Any) -> BootLook:
        question = BootQuestion(epoch=epoch, file=str(self.home / "boot_id"), boot_id=boot_id, reboot=reboot)
        return look(self.pool, self.fqdn, self.node, replace(question, **fields))

    @property
    def booted(self) -> Path:
        return self.home / "booted"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Farm(1, tmp_path) as farm:
        made = Machine(farm, farm.state_dir(farm.records()[0][0]).parent)
        yield made
        made.pool.close()


def test_a_machine_boots_for_its_present_boot_alone_and_refuses_an_older_epoch(machine: Machine) -> None:
    """An annealer that was frozen orders late: for a boot that is over, or under an epoch that is."""
    order = f"echo >{machine.booted}"
    assert machine.look(5) == BootLook(boot_id="one")
    assert machine.look(5, "before", order) == BootLook(boot_id="one")
    assert machine.look(4, "one", order) == BootLook(fenced=5)
    assert machine.look(4) == BootLook(fenced=5)
    assert machine.look(7, "one", f"echo >{machine.home}/other") == BootLook(boot_id="one")
    await_that(lambda: (machine.home / "other").exists(), 10.0, "it boots")
    assert not machine.booted.exists(), "the late orders were given before, and took as long"
    assert machine.look(6) == BootLook(fenced=7)
    state = machine.home / ".nodepool-ocb"
    assert sorted(file.read_text() for file in state.glob("epoch.*")) == ["5 - 5\n", "7 - 7\n"]


def test_the_system_of_before_is_told_from_a_stranger_by_its_host_key(machine: Machine) -> None:
    own, stranger = (
        machine.node.host_keys,
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVyPYZgzPMuQ4nXlnXYOPcsCj4AOoDn2bv0E7nF0q0x",),
    )
    machine.node = replace(machine.node, host_keys=stranger)
    for former, known in ((own, True), (stranger, False), ((), False)):
        found = machine.look(5, former=former)
        assert (found.another, found.former) == (True, known)


def test_a_machine_that_cannot_say_its_boot_and_one_with_another_key_are_told_apart(machine: Machine) -> None:
    assert "does not say which boot it has" in machine.look(5, file="/does/not/exist").why
    machine.node = replace(
        machine.node, host_keys=("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVyPYZgzPMuQ4nXlnXYOPcsCj4AOoDn2bv0E7nF0q0x",)
    )
    found = machine.look(5)
    assert (found.another, found.boot_id) == (True, "")
    assert found.why.startswith("host key: ")
