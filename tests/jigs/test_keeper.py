"""The runner that starts a run is its keeper: it waits for the run though its connection is gone, and is nobody's keeper then."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Detached, Failed, Fenced, Lost, Succeeded
from nodepool_ocb.jigs.ssh.protocol import OUTPUT_BYTES
from nodepool_ocb.testing.disks import SmallDisk, mountable
from tests.jigs.workshop import Annealer, until

WAITS = 'until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done; echo done; exit 3'


def keeper(machine: Any) -> int:
    """The process that the machine names as the keeper of its newest run."""
    return int((machine.state / "current").read_text().split()[5])


def forks(pid: int) -> set[int]:
    """The children of a process."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def hung(machine: Any, program: str, tmp_path: Path) -> Path:
    """The machine's program hangs while the file that is given exists."""
    gate, programs = tmp_path / "gate", tmp_path / "programs"
    machine.leave_out(programs, program)
    (programs / program).write_text(
        f'#!/bin/sh\nwhile [ -e {gate} ]; do /usr/bin/sleep 0.05; done\nexec /usr/bin/{program} "$@"\n'
    )
    (programs / program).chmod(0o755)
    return gate


def test_the_runner_itself_waits_for_the_run_and_no_process_beside_it(machine: Any, annealer: Any) -> None:
    outcome = annealer.begin(machine.order(WAITS, log=None))
    until(lambda: machine.events("start"))
    leader = int(machine.history[0].group)
    assert forks(keeper(machine)) == {leader}
    machine.run_file("go").touch()
    assert outcome().exit_code == 3
    assert forks(keeper(machine)) == set()


def test_a_run_ends_and_is_adopted_though_all_connections_are_gone(machine: Any, annealer: Any, another: Any) -> None:
    """The keeper writes to a channel that nothing reads any more, before it writes the result down and after."""
    script = f"head -c 200000 /dev/zero | tr '\\0' x; {WAITS}"
    outcome = annealer.begin(machine.order(script, log=None))
    until(lambda: machine.events("start"))
    os.kill(keeper(machine), signal.SIGHUP)  # as where a terminal goes
    machine.farm.unplug(0)
    annealer.stop.set()
    assert outcome() == Detached()
    machine.run_file("go").touch()
    until(lambda: machine.events("end"))
    until(lambda: not machine.farm.processes(0))
    assert not list(machine.state.glob("runner.*")), "the keeper removed its own file"
    machine.farm.start(0)
    taken = another.run(machine.order(script, epoch=2, previous_epoch=1, log=None))
    assert isinstance(taken, Failed)
    assert (taken.exit_code, taken.tail[-6:]) == (3, "xdone\n")
    assert machine.events() == ["start", "end", "adopt"]


def test_a_runner_that_has_finished_a_run_is_left_alone_by_the_next_order(
    machine: Any, annealer: Any, another: Any
) -> None:
    annealer.run(machine.order("true", log=None))
    first, began = keeper(machine), time.monotonic()
    assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
    assert isinstance(annealer.run(machine.order("true", epoch=3, role="ntp", generation=2, log=None)), Succeeded)
    assert keeper(machine) == first, "it was neither killed nor waited for"
    assert time.monotonic() - began < 30.0, "nothing waits for a runner to end"
    assert machine.events() == ["start", "end"] * 3


@pytest.mark.parametrize(
    ("by", "role"),
    [
        ("same", "ntp"),
        ("another", "ntp"),
        pytest.param("same", "dns", marks=pytest.mark.long),
        pytest.param("another", "dns", marks=pytest.mark.long),
    ],
)
def test_a_runner_whose_result_was_removed_keeps_no_order_waiting(
    machine: Any, annealer: Any, another: Any, by: str, role: str
) -> None:
    """Without the result nothing tells whether it waits for the run: it is not attached to, nor does it end itself."""
    annealer.run(machine.order("true", log=None))
    first = keeper(machine)
    for file in (machine.state / "runs").iterdir():
        file.unlink()
    giver = annealer if by == "same" else another
    outcome = giver.run(machine.order("echo next", epoch=2, role=role, previous_epoch=1, log=None))
    assert (outcome.exit_code, outcome.tail) == (0, "next\n")
    assert (keeper(machine) == first) is (by == "same")


@pytest.mark.parametrize(
    ("place", "leads"),
    [(3, False), (3, True), pytest.param(5, False, marks=pytest.mark.long)],
    ids=["group", "group, and leads one", "keeper"],
)
def test_another_process_that_has_the_number_of_one_that_is_gone_is_left_alone(
    machine: Any, annealer: Any, another: Any, place: int, leads: bool
) -> None:
    annealer.run(machine.order("true", log=None))
    runner = Path(f"/proc/{keeper(machine)}")
    annealer.jig.close()
    until(lambda: not runner.exists())
    machine.run_file("result").unlink()
    current = machine.state / "current"
    with subprocess.Popen(["sleep", "300"], start_new_session=leads) as process:
        words = current.read_text().split()
        words[place] = str(process.pid)
        current.write_text(f"{' '.join(words)}\n")
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        assert process.poll() is None
        process.kill()
    assert machine.events() == ["start", "end", "lost", "start", "end"]


def test_a_group_that_has_the_number_of_one_that_is_gone_and_lost_its_leader_is_left_alone(
    machine: Any, annealer: Any, another: Any
) -> None:
    annealer.run(machine.order("true", log=None))
    with subprocess.Popen(
        ["sh", "-c", "sleep 300 >&- & echo $!"], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        member = int(leader.communicate()[0])
    try:
        current = machine.state / "current"
        words = current.read_text().split()
        words[3] = str(leader.pid)
        current.write_text(f"{' '.join(words)}\n")
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        os.kill(member, 0)
        assert Path(f"/proc/{member}/stat").read_text().split()[2] != "Z"
    finally:
        os.kill(member, signal.SIGKILL)


@pytest.mark.parametrize("place", ["current", "runs/ntp@1.output"])
def test_a_run_that_never_began_is_no_result_and_the_next_order_begins_it(
    machine: Any, annealer: Any, another: Any, place: str
) -> None:
    """Its exit code would be that of the machine's shell: of a check it would say that the machine differs."""
    (machine.state / place).mkdir(parents=True)
    outcome = annealer.run(machine.order("true", flags=("destructive",), log=None))
    assert isinstance(outcome, Failed)
    assert outcome.exit_code is None
    assert f"cannot write to {machine.state}/" in outcome.reason
    assert not machine.events()
    (machine.state / place).rmdir()
    order = machine.order("echo begun", flags=("destructive",), epoch=2, log=None)
    assert another.run(order).tail == "begun\n"
    assert machine.events() == ["start", "end"]
    next_order = machine.order("echo next", epoch=3, generation=2, log=None)
    assert annealer.run(next_order).tail == "next\n", "nothing more was said of the first one"


@pytest.mark.long
def test_an_order_that_is_attached_to_does_not_wait_for_the_next_run_of_its_name(machine: Any, annealer: Any) -> None:
    """A runner that is slow to look would take the result of that one for its own."""
    first = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    other = Annealer(machine.settings())
    attached = other.begin(machine.order("sleep 300", epoch=2, previous_epoch=1, log=None))
    until(lambda: machine.events("attach"))
    current = machine.state / "current"
    words = current.read_text().split()
    current.write_text(" ".join(["7", words[1], "0000000007-aaaaaa", *words[3:]]) + "\n")
    assert attached() == Fenced(7)
    current.write_text(" ".join(words) + "\n")
    assert other.jig.cancel(machine.order("", epoch=8)) is None
    assert first() == Fenced(8)
    other.jig.close()


@pytest.mark.long
def test_a_run_is_watched_though_the_result_of_an_earlier_one_is_there_when_it_begins(
    machine: Any, annealer: Any, tmp_path: Path
) -> None:
    gate = hung(machine, "sleep", tmp_path)
    gate.touch()
    outcome = annealer.begin(machine.order("exec sleep 300", log=None))
    until(lambda: machine.events("start"))
    result = machine.run_file("result")
    result.write_text("ended 1\n")
    until(lambda: machine.run_file("followed").exists())
    time.sleep(0.5)  # in which a watch that looks at once has looked
    result.write_text("")
    os.truncate(machine.run_file("output"), OUTPUT_BYTES + 1)
    gate.unlink()
    until(lambda: machine.run_file("flooded").exists())
    assert "prints more than" in outcome().reason


def test_a_run_that_is_ended_may_tidy_up(machine: Any, annealer: Any, another: Any) -> None:
    tidied = machine.farm.directory / "tidied"
    outcome = annealer.begin(machine.order(f"trap 'true >{tidied}; exit' TERM; while :; do sleep 0.05; done", log=None))
    until(lambda: machine.events("start"))
    assert another.jig.cancel(machine.order("", epoch=2)) is None
    assert outcome() == Fenced(2)
    assert tidied.exists()


def test_what_is_left_of_a_run_without_its_keeper_and_its_leader_is_killed(
    machine: Any, annealer: Any, another: Any
) -> None:
    begun = machine.farm.directory / "begun"
    outcome = annealer.begin(machine.order(f"trap '' TERM; true >{begun}; sleep 300; sleep 300", log=None))
    until(begun.exists)
    annealer.stop.set()
    assert outcome() == Detached()
    for pid in (keeper(machine), int(machine.history[0].group)):
        os.kill(pid, signal.SIGKILL)
    assert machine.farm.at_work(0)
    assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
    assert not machine.farm.at_work(0)


def test_a_keeper_that_writes_nothing_for_long_is_killed_before_the_next_run_begins(
    machine: Any, annealer: Any, another: Any
) -> None:
    """Else it would write the end of its own run into the files of the next one."""
    outcome = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    first = Path(f"/proc/{keeper(machine)}")
    os.kill(keeper(machine), signal.SIGSTOP)
    assert another.run(machine.order("echo next", epoch=2, generation=2, log=None)).tail == "next\n"
    until(lambda: not first.exists())
    assert outcome() == Fenced(2)
    assert machine.events("start", "ended", "end") == ["start", "ended", "start", "end"]


def test_a_run_that_was_about_to_be_repeated_has_not_begun_while_its_runner_is_killed(
    machine: Any, annealer: Any, another: Any, tmp_path: Path
) -> None:
    """The machine still names the keeper of the earlier run, which lives and has nothing to wait for: it is not attached to."""
    gate = hung(machine, "head", tmp_path)
    first = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    assert another.jig.cancel(machine.order("", epoch=2)) is None
    first_keeper = Path(f"/proc/{keeper(machine)}")
    assert first() == Fenced(2)
    gate.touch()
    (machine.state / "reserve").unlink()
    third = Annealer(machine.settings())
    waiting = third.begin(machine.order("echo again", epoch=3, previous_epoch=1, log=None))
    hanging = until(lambda: [pid for pid in machine.farm.processes(0) if f"{tmp_path}/programs/head" in command(pid)])
    runner = parent(hanging[0])
    gate.unlink()
    os.kill(runner, signal.SIGKILL)
    assert waiting().tail == "again\n", "the order is given again on a new connection"
    assert first_keeper.exists(), "and waits for no runner that is idle"
    third.jig.close()
    assert machine.events("start", "attach") == ["start", "start"]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_state_directory_that_is_removed_meanwhile_is_the_reason_of_a_lost_run(machine: Any, annealer: Any) -> None:
    go = machine.farm.directory / "go"
    outcome = annealer.begin(machine.order(f"until [ -e {go} ]; do sleep 0.05; done", log=None))
    until(lambda: machine.events("start"))
    link = annealer.jig._pool._links[machine.fqdn]
    machine.farm.lose_state(0)
    go.touch()
    assert outcome() == Lost(f"its files were removed from {machine.state} while it ran")
    assert link.idle == [], "its runner ends, and no other order may get it meanwhile"
    assert isinstance(annealer.run(machine.order("true", epoch=2, generation=2, log=None)), Succeeded)


@pytest.mark.skipif(not mountable(), reason="no tmpfs can be mounted here")
def test_a_keeper_that_cannot_write_the_result_says_so_and_ends(machine: Any, annealer: Any, another: Any) -> None:
    """Else the next order would wait for it."""
    go = machine.farm.directory / "go"
    with SmallDisk(machine.state) as disk:
        outcome = annealer.begin(machine.order(f"until [ -e {go} ]; do sleep 0.05; done", log=None))
        until(lambda: machine.events("start"))
        first = keeper(machine)
        disk.read_only()
        go.touch()
        lost = outcome()
        assert isinstance(lost, Lost)
        assert f"cannot write {machine.run_file('result')}" in lost.reason
        until(lambda: not Path(f"/proc/{first}").exists())
        disk.writable()
        assert another.run(machine.order("echo again", epoch=2, previous_epoch=1, log=None)).tail == "again\n"
        assert machine.events() == ["start", "lost", "start", "end"]


def test_a_connection_whose_runner_was_killed_while_idle_costs_no_order(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("true", log=None))
    (idle,) = annealer.jig._pool._links[machine.fqdn].idle
    os.kill(keeper(machine), signal.SIGKILL)
    until(lambda: not idle.open)
    assert isinstance(annealer.run(machine.order("true", epoch=2, generation=2, log=None)), Succeeded)
