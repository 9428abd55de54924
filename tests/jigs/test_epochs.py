"""The epoch files of a machine are on disk before an order acts, and the proof of that costs no program but once a boot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Fenced
from tests.jigs.workshop import Annealer


class Programs:
    """The machine's chattr and sync, which note that they were called."""

    def __init__(self, machine: Any, folder: Path, supported: bool, **more: str) -> None:
        """``more``: programs, and what they do beside that."""
        self._noted = folder / "called"
        programs = folder / "programs"
        does_of = {"chattr": "" if supported else "exit 1", "sync": "", **more}
        machine.leave_out(programs, *does_of)
        for name, does in does_of.items():
            (programs / name).write_text(f'#!/bin/sh\necho {name} "${{1##*/}}" "${{2##*/}}" >>{self._noted}\n{does}\n')
            (programs / name).chmod(0o755)

    def called(self, name: str = "chattr") -> list[str]:
        """The arguments of each call since the last question."""
        lines = self._noted.read_text().splitlines() if self._noted.exists() else []
        self._noted.write_text("")
        return [line.partition(" ")[2].strip() for line in lines if line.startswith(f"{name} ")]


def orders(machine: Any, epochs: range) -> None:
    """So many orders, over a connection of their own."""
    annealer = Annealer(machine.settings())
    for epoch in epochs:
        assert annealer.run(machine.order("true", epoch=epoch, generation=epoch, log=None)).exit_code == 0
    annealer.jig.close()


def test_each_epoch_file_is_asked_for_once_a_boot_and_never_synced_then(machine: Any, tmp_path: Path) -> None:
    programs = Programs(machine, tmp_path, supported=True)
    orders(machine, range(1, 3))
    assert programs.called() == ["+S epoch.0", "+S epoch.1"]
    orders(machine, range(3, 7))
    assert (machine.state / "epoch.1").read_text() == "6 ntp@6 6\n"
    assert programs.called("chattr") == []
    for link in machine.state.glob("through.*"):
        link.rename(f"{link}-before")  # as after a boot
    orders(machine, range(7, 10))
    assert sorted(programs.called()) == ["+S epoch.0", "+S epoch.1"]
    orders(machine, range(10, 13))
    assert programs.called("sync") == []
    assert len(list(machine.state.glob("through.*"))) == 2, "the links of earlier boots went"


def test_a_new_epoch_file_is_on_disk_with_its_name_before_its_order_acts(machine: Any, tmp_path: Path) -> None:
    programs = Programs(machine, tmp_path, supported=True)
    orders(machine, range(1, 3))
    assert programs.called("sync")[-2:] == [f"epoch.{number} {machine.state.name}" for number in (0, 1)]


@pytest.mark.long
def test_a_file_that_was_put_in_the_place_of_an_epoch_file_is_asked_for_anew(machine: Any, tmp_path: Path) -> None:
    programs = Programs(machine, tmp_path, supported=True)
    orders(machine, range(1, 3))
    programs.called()
    for number in (0, 1):
        file = machine.state / f"epoch.{number}"
        copy = file.with_name("copy")
        copy.write_bytes(file.read_bytes())
        copy.rename(file)
    orders(machine, range(3, 5))
    assert programs.called() == ["+S epoch.0", "+S epoch.1"]
    assert all(os.stat(machine.state / f"epoch.{number}").st_nlink == 2 for number in (0, 1))


def test_a_file_system_that_delays_writes_is_synced_for_each_epoch_and_asked_once_a_connection(
    machine: Any, tmp_path: Path
) -> None:
    programs = Programs(machine, tmp_path, supported=False)
    orders(machine, range(1, 3))
    programs.called()
    orders(machine, range(3, 7))
    assert programs.called("sync") == ["-d epoch.0", "-d epoch.1"] * 2
    orders(machine, range(7, 10))
    assert len(programs.called("chattr")) == 1
    assert not list(machine.state.glob("through.*"))


@pytest.mark.long
def test_the_higher_of_two_epochs_counts_wherever_it_stands(machine: Any, annealer: Any) -> None:
    orders(machine, range(1, 3))
    for last in (3, 4):
        orders(machine, range(last, last + 1))
        assert annealer.run(machine.order("true", epoch=last - 1, log=None)) == Fenced(last)


@pytest.mark.long
@pytest.mark.parametrize("supported", [True, False])
def test_a_sync_that_takes_no_files_is_called_without_any(machine: Any, tmp_path: Path, supported: bool) -> None:
    programs = Programs(machine, tmp_path, supported=supported, sync="[ $# = 0 ] || exit 1")
    orders(machine, range(1, 3))
    programs.called()
    (machine.state / "epoch.0").unlink()
    orders(machine, range(3, 5))
    state = machine.state.name
    assert programs.called("sync") == [f"epoch.0 {state}", "", *([] if supported else ["-d epoch.1", ""])]


@pytest.mark.long
def test_a_file_system_without_links_costs_no_sync(machine: Any, tmp_path: Path) -> None:
    programs = Programs(machine, tmp_path, supported=True, ln="exit 1")
    orders(machine, range(1, 3))
    programs.called()
    orders(machine, range(3, 5))
    assert programs.called("sync") == []


def test_an_order_is_written_down_once_and_a_torn_epoch_does_not_count(machine: Any, annealer: Any) -> None:
    order = machine.order("true", epoch=5, log=None)
    assert annealer.run(order) == annealer.run(order)
    first, second = machine.state / "epoch.0", machine.state / "epoch.1"
    assert not second.exists(), "it is the same order"
    assert annealer.run(machine.order("true", epoch=5, role="dns", log=None)).exit_code == 0
    assert second.read_text() == "5 dns@1 5\n", "it is another order"
    first.write_text("900 ntp@1 9\n")
    assert annealer.run(machine.order("true", epoch=6, generation=2, log=None)).exit_code == 0
    assert first.read_text().startswith("6 ntp@2 6\n"), "it was the one to be written over"


def test_the_history_has_the_annealers_time(machine: Any, annealer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodepool_ocb.jigs.ssh.runner.time.time", lambda: 1_000_000_000.0)
    assert annealer.run(machine.order("env | grep -Ec 'OCB_(NOW|TOKEN)'")).tail == "0\n"
    assert all(1_000_000_000 <= event.time < 1_000_000_100 for event in machine.history)
    assert annealer.run(machine.order("true", epoch=0)) == Fenced(1)
