"""A machine whose disk is full, by a run or by somebody else: the result is written, the cause is named, the next order runs."""

from __future__ import annotations

import array
import fcntl
import subprocess
import termios
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Detached, Failed, Succeeded, Unreachable
from nodepool_ocb.jigs.ssh.protocol import OUTPUT_BYTES, command, installer
from nodepool_ocb.testing.disks import SmallDisk, mountable
from tests.jigs.test_runner import command_of, tails
from tests.jigs.workshop import Annealer, until

pytestmark = pytest.mark.skipif(not mountable(), reason="no tmpfs can be mounted here")


@pytest.fixture
def disk(machine: Any) -> Iterator[SmallDisk]:
    """The machine's state directory has a mebibyte."""
    with SmallDisk(machine.state, 1 << 20) as disk:
        yield disk


FLOOD = "head -c 5000000 /dev/zero | tr '\\0' x; exit 3"


@pytest.mark.usefixtures("disk")
def test_a_run_that_fills_the_disk_has_its_result_and_the_next_order_its_room(machine: Any, annealer: Any) -> None:
    for generation in (1, 2, 3):
        outcome = annealer.run(machine.order(FLOOD, epoch=generation, generation=generation))
        assert isinstance(outcome, Failed)
        assert (outcome.reason, outcome.exit_code) == (f"exit code 3: {'x' * 200}...", 3)
    assert annealer.run(machine.order("echo next", role="dns", epoch=4)) == Succeeded(
        {}, 0, "next\n", machine.log, written={}
    )
    assert machine.events() == ["start", "end"] * 4


def test_a_disk_that_somebody_else_fills_meanwhile_loses_no_result_and_is_named(
    machine: Any, annealer: Any, disk: SmallDisk
) -> None:
    go = machine.farm.directory / "go"
    order = machine.order(f"until [ -e {go} ]; do sleep 0.1; done; exit 3", flags=("destructive",))
    outcome = annealer.begin(order)
    until(lambda: machine.events("start"))
    disk.fill()
    go.touch()
    assert outcome().exit_code == 3
    refused = annealer.run(machine.order("true", role="dns", epoch=2))
    assert "100% full" in refused.reason
    disk.free()
    assert annealer.run(machine.order("echo room", role="dns", epoch=3, generation=2)).tail == "room\n"
    assert machine.events() == ["start", "end"] * 2


@pytest.mark.parametrize("size", [10, 9000, 300_000])
def test_an_order_that_a_full_disk_has_no_room_for_fails_with_that_reason_whoever_gives_it(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk, size: int
) -> None:
    """The machine answers: it is not dead, and what is ACTIVE there stays so."""
    assert annealer.run(machine.order("true")).exit_code == 0
    disk.fill()
    for epoch, one in enumerate((annealer, another), start=2):
        outcome = one.run(machine.order("true", epoch=epoch, generation=2, attributes={"a": "x" * size}))
        assert isinstance(outcome, Failed), outcome
        assert "100% full" in outcome.reason
    disk.free()
    outcome = another.run(machine.order("echo room", epoch=4, generation=2, attributes={"a": "x" * size}))
    assert outcome.tail == "room\n"


def test_a_run_that_goes_on_is_attached_to_or_waited_for_where_the_disk_is_full(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk
) -> None:
    go, attributes = machine.farm.directory / "go", {"a": "x" * 9000}
    order = machine.order(f"until [ -e {go} ]; do sleep 0.1; done; exit 3", attributes=attributes)
    annealer.begin(order)
    until(lambda: machine.events("start"))
    disk.fill()
    taken = another.begin(machine.order("exit 4", epoch=2, previous_epoch=1, attributes=attributes, log=None))
    time.sleep(1.0)
    go.touch()
    disk.free()
    assert taken().exit_code == 3
    assert machine.events("start") == ["start"]


def test_a_run_that_prints_without_end_is_ended_with_that_reason_and_its_output_goes(
    machine: Any, annealer: Any
) -> None:
    outcome = annealer.run(machine.order("yes; echo the end"))
    assert isinstance(outcome, Failed)
    assert outcome.reason == f"it prints more than {OUTPUT_BYTES} bytes, and was cut off"
    assert outcome.tail.endswith("y\ny\n")
    assert machine.history[-1].detail.startswith("flooded ")
    assert annealer.run(machine.order("echo next", epoch=2, generation=2)).tail == "next\n"
    assert machine.run_file("output").stat().st_size <= 65536


@pytest.mark.parametrize("followed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_output_that_went_for_room_is_told_of_and_not_taken_for_silence(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk, followed: bool
) -> None:
    script = "echo first; until [ -e $OCB_RUN.go ]; do sleep 0.05; done" if followed else "echo first"
    other = machine.order("true", role="dns", epoch=2, attributes={"a": "x" * 9000})
    first = annealer.begin(machine.order(script, timeout_seconds=60.0))
    until(lambda: machine.run_file("followed").exists() if followed else machine.events("end"))
    until(lambda: machine.log.exists())
    disk.fill()
    third = Annealer(machine.settings())
    assert "100% full" in third.run(other).reason
    third.jig.close()
    assert machine.run_file("output").read_text() == ""
    disk.free()
    log = machine.log.with_name("taken.log")
    taken = another.begin(machine.order(script, epoch=3, previous_epoch=1, log=log, timeout_seconds=60.0))
    if followed:
        until(log.exists)
        machine.run_file("go").touch()
    assert taken().tail == "-- output was removed here: the disk was full --\n"
    assert first().exit_code == 0
    assert machine.log.read_text() == "first\n"


@pytest.mark.long
def test_a_run_that_printed_nothing_has_lost_no_output(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk
) -> None:
    annealer.run(machine.order("true", log=None))
    disk.fill()
    other = machine.order("true", role="dns", epoch=2, attributes={"a": "x" * 9000}, log=None)
    assert "100% full" in annealer.run(other).reason
    disk.free()
    assert another.run(machine.order("true", epoch=3, previous_epoch=1)).tail == ""


@pytest.mark.long
@pytest.mark.usefixtures("disk")
def test_only_a_reader_from_the_first_byte_on_is_told_of_removed_output(machine: Any, annealer: Any) -> None:
    outcome = annealer.begin(machine.order(f"echo first; {GOES_ON}", timeout_seconds=60.0))
    until(lambda: machine.log.exists() and machine.log.read_text() == "first\n")
    machine.run_file("output").write_text("")
    machine.run_file("shed").touch()
    machine.farm.cut(0)
    until(lambda: any(b"\0+7\0" in command_of(pid) for pid in tails(machine)))
    machine.run_file("go").touch()
    assert outcome().exit_code == 0
    assert machine.log.read_text() == "first\n"


GOES_ON = "until [ -e $OCB_RUN.go ]; do sleep 0.05; done"


@pytest.mark.long
def test_a_run_that_finishes_where_no_room_is_left_has_its_result(machine: Any, annealer: Any, disk: SmallDisk) -> None:
    go = machine.farm.directory / "go"
    script = f"yes | head -c 20000; until [ -e {go} ]; do sleep 0.1; done; exit 3"
    outcome = annealer.begin(machine.order(script, log=None))
    until(lambda: machine.run_file("output").exists() and machine.run_file("output").stat().st_size == 20_000)
    (machine.state / "reserve").unlink()
    disk.fill()
    go.touch()
    assert outcome().exit_code == 3


@pytest.mark.long
@pytest.mark.parametrize(("size", "file"), [(10, "runs/ntp@3.script"), (9000, "incoming.")])
def test_an_order_with_files_that_have_no_room_is_refused_and_the_next_one_is_heard(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk, size: int, file: str
) -> None:
    for epoch in (1, 2):
        annealer.run(machine.order("true", epoch=epoch, generation=epoch, log=None))
    disk.fill()
    more = {"attributes": {"a": "x" * size}, "log": None}
    refused = annealer.run(machine.order("true", epoch=3, generation=3, **more))
    assert f"cannot write to {machine.state}/{file}" in refused.reason
    unheard = another.run(machine.order("true", epoch=4, generation=4, log=None))
    assert f"cannot write to {machine.state}/runner." in unheard.reason
    disk.free()
    assert annealer.run(machine.order("echo room", epoch=5, generation=5, log=None)).tail == "room\n"


@pytest.mark.long
def test_a_run_that_is_ended_where_no_room_is_left_has_its_result(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk
) -> None:
    for epoch in (1, 2):
        another.run(machine.order("true", role="dns", epoch=epoch, generation=epoch, log=None))
    begun = annealer.begin(machine.order("yes | head -c 20000; sleep 300", epoch=3, log=None))
    until(lambda: machine.run_file("output").exists() and machine.run_file("output").stat().st_size == 20_000)
    annealer.stop.set()
    assert begun() == Detached()
    machine.farm.kill_keeper(0)
    (machine.state / "reserve").unlink()
    disk.fill()
    assert another.jig.cancel(machine.order("", epoch=4)) is None
    assert machine.run_file("result").read_text().endswith(" 4\n")


@pytest.mark.long
def test_an_order_with_an_epoch_that_cannot_be_recorded_is_refused(
    machine: Any, annealer: Any, disk: SmallDisk
) -> None:
    annealer.run(machine.order("true", log=None))
    disk.fill()
    refused = annealer.run(machine.order("true", role="dns", epoch=2, log=None))
    assert f"cannot write to {machine.state}/epoch.1: " in refused.reason


@pytest.mark.long
def test_the_end_of_a_run_is_in_the_history_where_the_disk_is_full(
    machine: Any, annealer: Any, disk: SmallDisk
) -> None:
    go, history = machine.farm.directory / "go", machine.state / "history"
    outcome = annealer.begin(machine.order(f"until [ -e {go} ]; do sleep 0.1; done; exit 3", log=None))
    until(lambda: machine.events("start"))
    with history.open("a") as file:
        words = "0 0.0 filling 0 none@1 none 0 "
        file.write(f"{words}{'x' * (4096 - file.tell() - len(words) - 1)}\n")  # the next line needs another page
    disk.fill()
    go.touch()
    assert outcome().exit_code == 3
    assert machine.events() == ["start", "filling", "end"]


@pytest.mark.long
def test_an_order_of_a_new_connection_has_room_where_the_disk_is_full(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk
) -> None:
    for epoch in (1, 2):
        annealer.run(machine.order("yes | head -c 20000", epoch=epoch, generation=epoch, log=None))
    disk.fill()
    order = machine.order("yes | head -c 20000", epoch=3, previous_epoch=2, generation=2, log=None)
    assert isinstance(another.run(order), Succeeded)


@pytest.mark.long
def test_an_order_that_there_was_no_room_for_finds_it_when_it_is_asked_again(
    machine: Any, annealer: Any, disk: SmallDisk
) -> None:
    annealer.run(machine.order("yes | head -c 600000", log=None))
    disk.fill()
    outcome = annealer.run(machine.order("echo room", epoch=2, generation=2, attributes={"a": "x" * 100_000}, log=None))
    assert outcome.tail == "room\n"


@pytest.mark.long
def test_room_is_made_of_the_output_of_the_newest_run_first(machine: Any, annealer: Any) -> None:
    with SmallDisk(machine.state, 2 << 20):
        annealer.run(machine.order("echo small", role="dns", log=None))
        annealer.run(machine.order(f"sleep 1; {FLOOD}", epoch=2, log=None))
        assert machine.run_file("followed").exists()
        assert annealer.run(machine.order("echo next", epoch=3, generation=2, log=None)).tail == "next\n"
        assert machine.run_file("output", "dns@1").read_text() == "small\n"


def test_the_machine_and_we_agree_on_how_much_a_run_may_print() -> None:
    assert f"\nmost={OUTPUT_BYTES} " in files("nodepool_ocb.jigs.ssh").joinpath("runner.sh").read_text()


@pytest.mark.parametrize("room", [0, 4096, 16384, 24576, 40960, 49152])
def test_a_runner_comes_whole_or_not_at_all_and_is_there_when_there_is_room_again(
    machine: Any, annealer: Any, another: Any, disk: SmallDisk, room: int
) -> None:
    disk.fill(but=room)
    refused = annealer.run(machine.order("true"))
    assert isinstance(refused, Unreachable), refused
    assert f"cannot install the runner in {machine.state}: {machine.state} is " in refused.reason
    assert sorted(each.name for each in machine.state.iterdir()) == ["ballast", "runs"], "nothing half done stays"
    disk.free()
    assert another.run(machine.order("echo room", epoch=2)).tail == "room\n"


def test_an_installer_with_a_hole_is_not_run(tmp_path: Path) -> None:
    text, digest = installer()
    with (
        SmallDisk(tmp_path / "state", 1 << 20) as disk,
        subprocess.Popen(
            ["sh", "-c", command(str(disk.folder), 0.0)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as shell,
    ):
        assert shell.stdin is not None
        assert shell.stderr is not None
        disk.fill(but=8192)
        shell.stdin.write(text[:12000].encode())
        shell.stdin.flush()
        unread = array.array("i", [1])
        until(lambda: fcntl.ioctl(shell.stdin, termios.FIONREAD, unread) == 0 and unread[0] == 0)
        disk.free()
        shell.stdin.write(f"{text[12000:]}{digest}\n".encode())
        shell.stdin.close()
        assert b"cannot install the runner" in shell.stderr.read()
        assert shell.wait() == 74
        assert [each.name for each in disk.folder.iterdir()] == ["runs"]
