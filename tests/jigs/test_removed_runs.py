"""What stays in a machine's state directory: the newest runs, a megabyte of history, and nothing that was left half done."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

MOST = 40  # runs
LEAST = 20
SIZE = 1 << 20  # of an output, or the history, that stays whole


def runs(machine: Any) -> list[Path]:
    return list((machine.state / "runs").iterdir())


def old_runs(machine: Any, count: int) -> None:
    """The files of so many runs, the oldest first."""
    for number in range(count):
        for name in ("script", "attributes.json", "output", "result"):
            file = machine.run_file(name, f"role-2.5@{number}")
            file.touch()
            os.utime(file, (number, number))


def kept(machine: Any, role: str) -> set[int]:
    """The generations of a role's runs that have a file."""
    names = [file.name for file in runs(machine) if file.name.startswith(f"{role}@")]
    return {int(name.partition("@")[2].partition(".")[0]) for name in names}


def test_only_the_newest_runs_stay_and_all_others_go_at_once(machine: Any, annealer: Any) -> None:
    counts = []
    for n in range(1, MOST + 12):
        assert annealer.run(machine.order("true", epoch=n, generation=n, log=None)).exit_code == 0
        counts.append(len(kept(machine, "ntp")))
    assert max(counts) <= MOST
    assert [after - before for before, after in pairwise(counts) if after < before] == [LEAST + 1 - max(counts)]
    last = MOST + 11
    assert kept(machine, "ntp") == {*range(last - counts[-1] + 1, last + 1)}


def test_old_runs_go_whatever_the_epochs_are_and_so_does_what_was_left_half_done(machine: Any, annealer: Any) -> None:
    """Between two runs of a script the epoch may rise by any number: other noderoles of the node are claimed, too."""
    annealer.run(machine.order("true", epoch=1, log=None))
    old_runs(machine, MOST)
    machine.run_file("followed", "gone@3").touch()
    (machine.state / "incoming.4194304").mkdir()
    (machine.state / "install.4194304").touch()
    (machine.state / "new-0123456789abcdef.4194304").mkdir()
    (machine.state / f"incoming.{os.getpid()}").mkdir()
    assert annealer.run(machine.order("true", epoch=3, generation=2, log=None)).exit_code == 0
    assert kept(machine, "role-2.5") == {*range(MOST - LEAST + 1, MOST)}
    assert len(runs(machine)) >= 4 * (LEAST - 1)
    assert kept(machine, "ntp") == {1, 2}
    assert not machine.run_file("followed", "gone@3").exists()
    assert not list(machine.state.glob("*.4194304"))
    assert (machine.state / f"incoming.{os.getpid()}").exists(), "its process lives"


def test_forty_runs_are_few_enough(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("true", epoch=1, log=None))
    old_runs(machine, MOST - 2)
    assert annealer.run(machine.order("true", epoch=2, generation=2, log=None)).exit_code == 0
    assert len(kept(machine, "role-2.5")) == MOST - 2


def test_the_files_of_the_order_itself_stay_though_they_are_the_oldest(machine: Any, annealer: Any) -> None:
    """The clock of a machine may be set back; the run that is ended then still has its files."""
    annealer.run(machine.order("true", epoch=1, log=None))
    os.utime(machine.run_file("script"), (1, 1))
    machine.run_file("result").write_text("ended 1\n")
    old_runs(machine, MOST)
    assert annealer.run(machine.order("echo again", epoch=2, log=None)).tail == "again\n"
    assert machine.run_file("result").read_text() == "finished 0\n"


@pytest.mark.long
def test_the_files_of_the_newest_run_stay_though_the_clock_was_set_back(machine: Any, annealer: Any) -> None:
    """Without its result its runner, which waits for orders, would count as its keeper."""
    annealer.run(machine.order("true", role="dns", epoch=1, log=None))
    for name in ("script", "result"):
        os.utime(machine.run_file(name, "dns@1"), (1, 1))
    old_runs(machine, MOST)
    assert annealer.run(machine.order("true", epoch=2, log=None)).exit_code == 0
    assert machine.run_file("result", "dns@1").read_text() == "finished 0\n"


@pytest.mark.parametrize("size", [pytest.param(SIZE, marks=pytest.mark.long, id="as long as allowed"), SIZE + 4096])
def test_a_long_output_keeps_its_end_and_a_long_history_goes_to_a_second_file(
    machine: Any, annealer: Any, size: int
) -> None:
    annealer.run(machine.order("true", epoch=1, log=None))
    old_runs(machine, MOST)
    output = machine.run_file("output", f"role-2.5@{MOST - 1}")
    output.write_bytes(b"x" * (size - 4) + b"end\n")
    with (machine.state / "history").open("a") as history:
        history.write("-" * (size - history.tell() - 1) + "\n")
    assert annealer.run(machine.order("true", epoch=2, generation=2, log=None)).exit_code == 0
    assert output.stat().st_size == (size if size == SIZE else 65536)
    assert output.read_bytes().endswith(b"xend\n")
    assert (machine.state / "history.1").exists()
    assert machine.events() == ["start", "end"]
