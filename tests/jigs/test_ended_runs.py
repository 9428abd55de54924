"""Which processes the machine's runner ends, and which it leaves alone; and orders that wait until a run is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.jigs import Detached, Fenced, Lost, Succeeded, Unreachable
from tests.jigs.test_keeper import hung, keeper
from tests.jigs.workshop import Annealer, other_runner, until

pytestmark = pytest.mark.long


#: Changes of the runner: its signals have no effect, and it waits less for one.
WITHOUT_SIGNALS: Final = {"\nsay() {": "\nkill() { :; }\nsay() {", "    sleep 0.05\n": "    sleep 0.001\n"}


def name_group(machine: Any, group: int) -> None:
    """From here on the machine takes this for the group of its newest run."""
    name(machine, {3: str(group)})


def name(machine: Any, places: dict[int, str]) -> None:
    """From here on the machine has these words in these places of its newest run."""
    current = machine.state / "current"
    words = current.read_text().split()
    for place, word in places.items():
        words[place] = word
    current.write_text(f"{' '.join(words)}\n")


@contextmanager
def detached(machine: Any, annealer: Any, script: str, **fields: Any) -> Iterator[int]:
    """A run that goes on while no annealer waits for it; gives the leader of its group, which is killed at the end."""
    before = len(machine.events("start"))
    outcome = annealer.begin(machine.order(script, log=None, **fields))
    until(lambda: len(machine.events("start")) > before)
    annealer.stop.set()
    assert outcome() == Detached()
    annealer.stop.clear()
    group = int(machine.history[-1].group)
    until(lambda: os.getpgid(group) == group)  # it is recorded before it leads a group
    try:
        yield group
    finally:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


@contextmanager
def process(*words: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Killed at the end."""
    with subprocess.Popen(words, text=True, **more) as one:
        try:
            yield one
        finally:
            one.kill()


def test_a_stranger_with_the_number_of_a_run_is_left_alone_though_the_keeper_of_the_run_lives(
    machine: Any, annealer: Any, another: Any
) -> None:
    with detached(machine, annealer, "sleep 300"), process("sleep", "300", start_new_session=True) as stranger:
        name_group(machine, stranger.pid)
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        assert stranger.poll() is None


def test_a_member_of_a_group_with_a_dead_leader_of_another_time_is_left_alone(
    machine: Any, annealer: Any, another: Any
) -> None:
    annealer.run(machine.order("true", log=None))
    runner = Path(f"/proc/{keeper(machine)}")
    annealer.jig.close()
    until(lambda: not runner.exists())
    machine.run_file("result").unlink()
    script = "sleep 300 >&- & echo $!"
    with process("sh", "-c", script, stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        member = int(leader.stdout.readline())
        until(lambda: " Z " in Path(f"/proc/{leader.pid}/stat").read_text())
        name_group(machine, leader.pid)
        try:
            assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
            assert alive(member)
        finally:
            os.kill(member, signal.SIGKILL)


def test_a_dead_member_that_is_not_collected_keeps_no_order_waiting(machine: Any, annealer: Any, another: Any) -> None:
    annealer.run(machine.order("true", log=None))
    runner = Path(f"/proc/{keeper(machine)}")
    annealer.jig.close()
    until(lambda: not runner.exists())
    machine.run_file("result").unlink()
    with (
        process("sleep", "300", process_group=0) as leader,
        process("true", process_group=leader.pid) as member,
    ):
        leader.kill()
        leader.wait()
        until(lambda: " Z " in Path(f"/proc/{member.pid}/stat").read_text())
        name_group(machine, leader.pid)
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)


def test_what_is_left_of_a_run_is_ended_though_its_leader_was_collected(
    machine: Any, annealer: Any, another: Any
) -> None:
    annealer.run(machine.order("true", log=None))
    runner = Path(f"/proc/{keeper(machine)}")
    annealer.jig.close()
    until(lambda: not runner.exists())
    machine.run_file("result").unlink()
    with (
        process("sleep", "300", process_group=0) as leader,
        process("sleep", "300", process_group=leader.pid) as member,
    ):
        leader.kill()
        leader.wait()
        name_group(machine, leader.pid)
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        assert member.poll() == -signal.SIGTERM


def test_a_keeper_that_writes_nothing_is_killed_though_its_script_is_dead(
    machine: Any, annealer: Any, another: Any
) -> None:
    with detached(machine, annealer, "sleep 300") as group:
        first = Path(f"/proc/{keeper(machine)}")
        os.kill(keeper(machine), signal.SIGSTOP)
        os.killpg(group, signal.SIGKILL)
        until(lambda: not alive(group))
        assert isinstance(another.run(machine.order("true", epoch=2, generation=2, log=None)), Succeeded)
        until(lambda: not first.exists())


def test_a_dead_keeper_that_is_not_collected_keeps_no_order_waiting(machine: Any, annealer: Any, another: Any) -> None:
    annealer.run(machine.order("true", log=None))
    machine.run_file("result").unlink()
    with process("true") as dead:
        stat = Path(f"/proc/{dead.pid}/stat")
        until(lambda: " Z " in stat.read_text())
        name(machine, {5: str(dead.pid), 6: stat.read_text().rpartition(")")[2].split()[19]})
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)


def test_the_keeper_of_a_forgotten_run_is_killed_before_the_next_run_has_files(
    machine: Any, annealer: Any, another: Any
) -> None:
    with detached(machine, annealer, "sleep 300"):
        first = Path(f"/proc/{keeper(machine)}")
        os.kill(keeper(machine), signal.SIGSTOP)
        machine.farm.lose_state(0)
        assert isinstance(another.run(machine.order("true", epoch=2, log=None)), Succeeded)
        until(lambda: not first.exists())


def test_a_run_is_attached_to_though_an_earlier_one_of_its_name_had_a_result(
    machine: Any, annealer: Any, another: Any
) -> None:
    earlier = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    assert another.jig.cancel(machine.order("", epoch=2)) is None
    assert earlier() == Fenced(2)
    with detached(machine, annealer, "sleep 300", epoch=3, previous_epoch=1) as group:
        attached = another.begin(machine.order("sleep 300", epoch=4, previous_epoch=3, log=None))
        until(lambda: machine.events("attach"))
        assert alive(group)
        another.stop.set()
        assert attached() == Detached()


def test_processes_with_the_numbers_of_a_run_from_before_a_boot_are_left_alone(
    machine: Any, annealer: Any, another: Any
) -> None:
    with detached(machine, annealer, "sleep 300") as group:
        machine.forget_boot()
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        assert alive(group)


def test_an_order_to_end_a_run_leaves_that_of_another_role_alone(machine: Any, annealer: Any, another: Any) -> None:
    with detached(machine, annealer, "sleep 300") as group:
        assert another.jig.cancel(machine.order("", role="dns", epoch=2)) is None
        assert alive(group)


def test_an_order_for_files_of_an_earlier_run_ends_the_run_of_another_role(
    machine: Any, annealer: Any, another: Any
) -> None:
    earlier = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    assert another.jig.cancel(machine.order("", epoch=2)) is None
    assert earlier() == Fenced(2)
    with detached(machine, annealer, "sleep 300", role="dns", epoch=3) as group:
        again = another.run(machine.order("echo again", epoch=4, previous_epoch=1, log=None))
        assert again.tail == "again\n"
        assert not alive(group)


def test_the_end_of_a_run_costs_no_output_where_there_is_room(machine: Any, annealer: Any, another: Any) -> None:
    annealer.run(machine.order("echo said", role="dns", log=None))
    with detached(machine, annealer, "sleep 300", epoch=2) as group:
        machine.farm.kill_keeper(0)
        os.killpg(group, signal.SIGKILL)
        assert isinstance(another.run(machine.order("true", epoch=3, generation=2, log=None)), Succeeded)
    assert machine.run_file("output", "dns@1").read_text() == "said\n"
    assert machine.run_file("result").read_text() == "lost 3\n"


@pytest.mark.parametrize(("seen", "role", "before"), [(2, "dns", 1), (2, "ntp", 3)], ids=["later order", "same name"])
def test_a_destructive_run_of_which_the_files_are_gone_is_not_repeated(
    machine: Any, annealer: Any, another: Any, seen: int, role: str, before: int
) -> None:
    annealer.run(machine.order("true", role=role, epoch=seen, log=None))
    for file in (machine.state / "runs").iterdir():
        file.unlink()
    order = machine.order("true", flags=("destructive",), epoch=4, previous_epoch=before, log=None)
    assert isinstance(another.run(order), Lost)
    assert machine.events("start") == ["start"]


def test_a_runner_with_a_run_that_goes_on_keeps_no_lock_beside_another(
    machine: Any, annealer: Any, another: Any
) -> None:
    assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
    with detached(machine, annealer, "sleep 300", epoch=3):
        assert another.run(machine.order("true", epoch=2, role="dns", log=None)) == Fenced(3)


def test_no_order_is_decided_until_the_run_before_it_is_recorded(
    machine: Any, annealer: Any, another: Any, tmp_path: Path
) -> None:
    with other_runner(tmp_path / "runner", {"act() { # becomes": "act() {\n  sleep 2 # becomes"}):
        outcome = annealer.begin(machine.order("sleep 300", log=None))
        until(lambda: machine.run_file("output").exists())
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        assert outcome() == Fenced(2)
        assert machine.events() == ["start", "ended", "start", "end"]


def test_a_run_that_has_no_group_yet_is_ended(machine: Any, annealer: Any, another: Any, tmp_path: Path) -> None:
    gate = hung(machine, "timeout", tmp_path)
    annealer.run(machine.order("true", log=None))
    gate.touch()
    outcome = annealer.begin(machine.order("true", epoch=2, generation=2, log=None))
    until(lambda: len(machine.events("start")) == 2)
    leader = Path(f"/proc/{machine.history[-1].group}")
    until(lambda: "timeout" in (leader / "cmdline").read_text())
    assert another.jig.cancel(machine.order("", epoch=3, generation=2)) is None
    assert not leader.exists()
    assert outcome() == Fenced(3)


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "forgotten"])
def test_a_run_that_does_not_die_keeps_its_machine_busy(
    machine: Any, annealer: Any, tmp_path: Path, forgotten: bool
) -> None:
    hasty = Annealer(machine.settings(connect_timeout_seconds=1.0))
    with other_runner(tmp_path / "runner", WITHOUT_SIGNALS), detached(machine, annealer, "sleep 300") as group:
        if forgotten:
            machine.farm.lose_state(0)
        refused = hasty.run(machine.order("true", epoch=2, role="dns", log=None))
        ended = hasty.jig.cancel(machine.order("", epoch=3))
        hasty.jig.close()
        assert isinstance(refused, Unreachable)
        assert isinstance(ended, Unreachable) is not forgotten
        known = f"the run of ntp@1, process group {group}, does not die"
        assert refused.reason == ("a run that this machine has no record of does not die" if forgotten else known)
        assert "start" not in machine.events()[1 - forgotten :]


def test_a_run_without_its_keeper_that_does_not_die_keeps_its_machine_busy(
    machine: Any, annealer: Any, tmp_path: Path
) -> None:
    hasty = Annealer(machine.settings(connect_timeout_seconds=1.0))
    with other_runner(tmp_path / "runner", WITHOUT_SIGNALS), detached(machine, annealer, "sleep 300") as group:
        os.kill(keeper(machine), signal.SIGKILL)
        refused = hasty.run(machine.order("true", epoch=2, role="dns", log=None))
        hasty.jig.close()
        assert isinstance(refused, Unreachable)
        assert refused.reason == f"the run of ntp@1, process group {group}, does not die"
        assert machine.events("start") == ["start"]


def test_a_keeper_that_does_not_die_keeps_its_machine_busy(machine: Any, annealer: Any, tmp_path: Path) -> None:
    hasty = Annealer(machine.settings(connect_timeout_seconds=1.0))
    spared = {
        "\nsay() {": '\nkill() { [ "${3-}" = "${c_keeper:-none}" ] || command kill "$@"; }\nsay() {',
        "    sleep 0.05\n": "    sleep 0.001\n",
    }
    with other_runner(tmp_path / "runner", spared), detached(machine, annealer, "sleep 300"):
        frozen = keeper(machine)
        os.kill(frozen, signal.SIGSTOP)
        assert isinstance(hasty.run(machine.order("true", epoch=2, role="dns", log=None)), Unreachable)
        hasty.jig.close()
        assert machine.events("start") == ["start"]
        os.kill(frozen, signal.SIGKILL)


def test_a_run_that_the_machine_has_no_record_of_may_tidy_up(machine: Any, annealer: Any, another: Any) -> None:
    tidied = machine.farm.directory / "tidied"
    with detached(machine, annealer, f"trap 'true >{tidied}; exit' TERM; while :; do sleep 0.05; done"):
        machine.farm.lose_state(0)
        assert isinstance(another.run(machine.order("true", epoch=2, role="dns", log=None)), Succeeded)
        assert tidied.exists()


#: A process with the marks of a run of this state directory; its root is another one, as in a container.
CONTAINED = "import os, sys, time; os.chroot(sys.argv[2]); print(flush=True); time.sleep(300)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_a_process_of_a_container_is_no_run_of_its_machine(machine: Any, annealer: Any, tmp_path: Path) -> None:
    mark = f"{machine.state}/runs/ntp@1"
    (tmp_path / "root").mkdir()
    words = sys.executable, "-c", CONTAINED, mark, str(tmp_path / "root")
    more = {"stdout": subprocess.PIPE, "start_new_session": True, "env": {**os.environ, "OCB_RUN": mark}}
    with process(*words, **more) as contained:
        assert contained.stdout is not None
        contained.stdout.readline()
        assert isinstance(annealer.run(machine.order("true", log=None)), Succeeded)
        assert contained.poll() is None


def test_the_parent_of_a_forgotten_run_is_left_alone_if_it_is_no_runner(machine: Any, annealer: Any) -> None:
    mark = f"{machine.state}/runs/ntp@1"
    leads = f"trap '' TERM; while :; do sleep 0.1; done # {mark}"
    script = 'OCB_RUN=$1 setsid sh -c "$2" >&- & echo $!; wait; exec sleep 300'
    words = "sh", "-c", script, "sh", mark, leads
    with process(*words, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        forgotten = Path(f"/proc/{parent.stdout.readline().strip()}")
        until(lambda: mark in (forgotten / "cmdline").read_text())
        assert isinstance(annealer.run(machine.order("true", log=None)), Succeeded)
        until(lambda: not forgotten.exists())
        assert parent.poll() is None


def test_an_attached_order_waits_for_the_word_of_the_process_that_ends_its_run(
    machine: Any, annealer: Any, another: Any
) -> None:
    with detached(machine, annealer, "sleep 300"):
        attached = another.begin(machine.order("sleep 300", epoch=2, previous_epoch=1, log=None))
        until(lambda: machine.events("attach"))
        machine.run_file("ending").write_text("9\n")
        first = Path(f"/proc/{keeper(machine)}")
        os.kill(keeper(machine), signal.SIGKILL)
        until(lambda: not first.exists())
        time.sleep(1.0)  # in which an order that does not wait is answered
        began = time.monotonic()
        machine.run_file("result").write_text("ended 9\n")
        assert attached() == Fenced(9)
        assert time.monotonic() - began < 6.0, "no longer than it takes"


def test_an_attached_order_does_not_wait_for_ever_for_a_process_that_was_to_end_its_run(
    machine: Any, annealer: Any, another: Any
) -> None:
    with detached(machine, annealer, "sleep 300"):
        attached = another.begin(machine.order("sleep 300", epoch=2, previous_epoch=1, log=None))
        until(lambda: machine.events("attach"))
        machine.run_file("ending").write_text("9\n")
        machine.farm.kill_keeper(0)
        assert isinstance(attached(), Lost)


@pytest.mark.parametrize("gone", ["files", "state directory"])
def test_an_attached_order_is_lost_at_once_with_the_files_of_its_run(
    machine: Any, annealer: Any, another: Any, gone: str
) -> None:
    with detached(machine, annealer, "sleep 300") as group:
        attached = another.begin(machine.order("sleep 300", epoch=2, previous_epoch=1, log=None))
        until(lambda: machine.events("attach"))
        began = time.monotonic()
        if gone == "files":
            machine.run_file("script").unlink()
        else:
            machine.farm.lose_state(0)
        assert isinstance(attached(), Lost)
        assert time.monotonic() - began < 6.0
        assert alive(group)


def test_a_finished_run_is_told_of_when_the_rest_of_its_group_is_gone(machine: Any, annealer: Any) -> None:
    """A process with much memory needs a while to die."""
    begun = machine.farm.directory / "begun"
    rest = f"import time; held = bytearray(b'x') * (200 << 20); open('{begun}', 'w').close(); time.sleep(300)"
    script = f'"{sys.executable}" -c "{rest}" & until [ -e {begun} ]; do sleep 0.05; done; echo $!'
    outcome = annealer.run(machine.order(script, log=None))
    assert not alive(int(outcome.tail)), "it holds nothing any more: no port, no lock, no memory"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_runner_whose_file_was_taken_for_that_of_a_dead_one_makes_and_locks_another(
    machine: Any, tmp_path: Path
) -> None:
    gate = hung(machine, "flock", tmp_path)
    gate.touch()
    annealer = Annealer(machine.settings())
    outcome = annealer.begin(machine.order("true", log=None))
    (file,) = until(lambda: list(machine.state.glob("runner.*")))
    file.unlink()
    gate.unlink()
    assert isinstance(outcome(), Succeeded)
    assert subprocess.run(["flock", "-n", str(file), "true"], check=False).returncode == 1, "it is locked"
    annealer.jig.close()
