"""What the machine's runner says, in which words, and which programs it starts for that."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Failed, Order, Succeeded
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.protocol import Frame
from nodepool_ocb.jigs.ssh.runner import Runner
from tests.jigs.workshop import until

long = pytest.mark.long


@contextmanager
def talk(machine: Any, annealer: Any, data: bytes | Callable[[str], bytes]) -> Iterator[Runner]:
    """A runner of its own that was sent these bytes, which may depend on its token."""
    link = annealer.jig._pool.take(machine.fqdn, machine.node)
    runner = Runner(link, machine.settings().state_dir, 5.0)
    runner.send(data if isinstance(data, bytes) else data(runner.token))
    try:
        yield runner
    finally:
        runner.close()
        annealer.jig._pool.give_back(link)


def answers(runner: Runner, last: str) -> tuple[list[str], bytes]:
    """The words of the runner up to the ``last`` one, and all data among them."""
    words: list[str] = []
    data: list[bytes] = []

    def whole() -> bool:
        for each in runner.hear(0.1):
            if isinstance(each, Frame):
                words.append(each.word)
            else:
                data.append(each.data)
        return last in words

    until(whole)
    assert runner._noise_bytes == 0, "it says nothing but words"
    return words, b"".join(data)


def first(order: Order) -> Callable[[str], bytes]:
    return lambda token: protocol.run(order, token, None, None)


def again(order: Order, offset: int) -> Callable[[str], bytes]:
    """As the same order is given again where so many bytes of its output are known."""
    return lambda token: protocol.run(order, token, order.epoch, offset)


def noting(machine: Any, folder: Path, *programs: str) -> Path:
    """The machine's programs note their names in the file that is given, and do their work."""
    noted = folder / "called"
    noted.touch()
    machine.leave_out(folder / "programs", *programs)
    for name in programs:
        program = folder / "programs" / name
        program.write_text(f'#!/bin/sh\necho {name} >>{noted}\nexec /usr/bin/{name} "$@"\n')
        program.chmod(0o755)
    return noted


def test_an_exit_code_that_the_runner_itself_gives_a_meaning_to_is_that_of_the_script(
    machine: Any, annealer: Any
) -> None:
    for epoch, code in enumerate((71, 124, 137, 143), start=1):
        outcome = annealer.run(machine.order(f"exit {code}", epoch=epoch, generation=epoch, log=None))
        assert isinstance(outcome, Failed)
        assert (outcome.reason, outcome.exit_code) == (f"exit code {code}", code)


@long
@pytest.mark.parametrize("said", ["", "dance 1 2"])
def test_an_order_that_the_runner_does_not_know_is_refused_in_a_word(machine: Any, annealer: Any, said: str) -> None:
    with talk(machine, annealer, f"{said}\n".encode()) as runner:
        assert answers(runner, "BROKEN") == (["BROKEN"], b"")


@long
def test_that_a_first_order_was_started_is_no_news(machine: Any, annealer: Any) -> None:
    with talk(machine, annealer, first(machine.order("true"))) as runner:
        assert answers(runner, "DONE") == (["DONE"], b"")


@long
def test_the_output_of_a_followed_run_is_sent_once(machine: Any, annealer: Any) -> None:
    order = machine.order('echo said; until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done')
    follow = protocol.follow(order, order.run, 0)
    with talk(machine, annealer, first(order)) as runner, talk(machine, annealer, follow) as follower:
        assert answers(follower, "FOLLOWING")[0] == ["FOLLOWING"]
        machine.run_file("go").touch()
        assert answers(runner, "DONE") == (["DONE"], b"")


@long
@pytest.mark.parametrize(("offset", "rest"), [(0, b"said\n"), (3, b"d\n"), (100, b"")])
def test_the_rest_of_an_output_is_sent_from_the_known_byte_on(
    machine: Any, annealer: Any, offset: int, rest: bytes
) -> None:
    order = machine.order("echo said", log=None)
    annealer.run(order)
    with talk(machine, annealer, again(order, offset)) as runner:
        assert answers(runner, "DONE") == (["OUTPUT", "DONE"], rest)


@long
def test_of_an_output_that_is_too_long_so_many_bytes_are_sent_as_may_be(
    machine: Any, annealer: Any, another: Any
) -> None:
    annealer.run(machine.order("true", log=None))
    os.truncate(machine.run_file("output"), protocol.OUTPUT_BYTES + 1)
    assert isinstance(another.run(machine.order("true", epoch=2, previous_epoch=1, log=None)), Succeeded)


@long
def test_an_output_that_is_not_long_stays_whole(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("head -c 100000 /dev/zero; sleep 1", log=None))
    assert machine.run_file("followed").exists()
    annealer.run(machine.order("true", epoch=2, generation=2, log=None))
    assert machine.run_file("output").stat().st_size == 100_000


@long
def test_of_a_second_order_whose_end_did_not_come_nothing_is_run(machine: Any, annealer: Any) -> None:
    with talk(machine, annealer, first(machine.order("true"))) as runner:
        answers(runner, "DONE")
        order = first(machine.order("true", epoch=2, generation=2))(runner.token)
        runner._channel.sendall(order[:-1])
        runner._channel.shutdown_write()
        keeper = int((machine.state / "current").read_text().split()[5])
        until(lambda: not Path(f"/proc/{keeper}").exists())
    assert machine.events("start") == ["start"]


@long
def test_a_script_holds_no_file_of_its_runner(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(machine.order('for fd in /proc/$$/fd/*; do readlink "$fd"; done', log=None))
    assert "/runs/ntp@1.output\n" in outcome.tail
    assert "/runner." not in outcome.tail


@long
def test_the_files_of_dead_runners_go_with_the_next_connection(machine: Any, annealer: Any, another: Any) -> None:
    annealer.run(machine.order("true", log=None))
    (dead,) = machine.state.glob("runner.*")
    os.kill(int((machine.state / "current").read_text().split()[5]), signal.SIGKILL)
    another.run(machine.order("true", epoch=2, role="dns", log=None))
    assert not dead.exists()
    assert len(list(machine.state.glob("runner.*"))) == 1


@long
def test_nothing_stays_of_an_order_but_the_files_of_its_run(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("true", attributes={"a": "x" * 9000}, log=None))
    until(lambda: not list(machine.state.glob("incoming.*")))


@long
def test_a_history_that_cannot_be_written_is_no_output_of_a_script(machine: Any, annealer: Any) -> None:
    (machine.state / "history").mkdir(parents=True)
    assert annealer.run(machine.order("echo out", log=None)).tail == "out\n"


@long
def test_a_disk_of_which_no_size_is_known_is_called_so(machine: Any, annealer: Any, tmp_path: Path) -> None:
    machine.leave_out(tmp_path / "programs", "df")
    (machine.state / "current").mkdir(parents=True)
    outcome = annealer.run(machine.order("true", log=None))
    assert isinstance(outcome, Failed)
    assert outcome.reason.endswith("/current: its disk is ? full")


@long
def test_a_machine_with_a_flock_that_fails_is_told_of(machine: Any, annealer: Any, tmp_path: Path) -> None:
    machine.leave_out(tmp_path / "programs", "flock")
    (tmp_path / "programs" / "flock").symlink_to("/usr/bin/false")
    outcome = annealer.run(machine.order("true", log=None))
    assert isinstance(outcome, Failed)
    assert f"cannot lock {machine.state}/runner." in outcome.reason


@long
def test_room_for_the_result_is_made_once(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("true", log=None))
    reserve = machine.state / "reserve"
    before = reserve.read_bytes()
    assert isinstance(annealer.run(machine.order("true", epoch=2, generation=2, log=None)), Succeeded)
    assert reserve.read_bytes() == before


@long
def test_runs_that_nothing_knows_of_are_looked_for_by_the_first_order_alone(
    machine: Any, annealer: Any, tmp_path: Path
) -> None:
    noted = noting(machine, tmp_path, "grep")
    for epoch in range(1, 4):
        assert isinstance(annealer.run(machine.order("true", epoch=epoch, generation=epoch, log=None)), Succeeded)
        assert noted.read_text().splitlines().count("grep") == 1 + INSTALLING, f"order {epoch}"


INSTALLING = 1  # grep -q GNU


@long
def test_a_machine_has_another_boot_where_its_first_process_began_at_another_time(machine: Any, annealer: Any) -> None:
    """A container keeps the boot of its kernel, and numbers its processes anew."""
    annealer.run(machine.order("true", log=None))
    boot = (machine.state / "current").read_text().split()[7]
    began = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    assert boot == f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}.{began}"


@long
def test_a_run_that_was_followed_is_adopted_with_its_output(machine: Any, annealer: Any, another: Any) -> None:
    script = 'until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done; echo said'
    first = annealer.begin(machine.order(script, log=None))
    until(lambda: machine.run_file("followed").exists())
    machine.run_file("go").touch()
    assert first().tail == "said\n"
    began = time.monotonic()
    assert another.run(machine.order(script, epoch=2, previous_epoch=1, log=None)).tail == "said\n"
    assert time.monotonic() - began < 20.0, "it is not waited for"


@long
def test_a_run_is_watched_once_however_often_it_is_followed(machine: Any, annealer: Any, another: Any) -> None:
    script = 'until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done'
    annealer.begin(machine.order(script, log=None))
    until(lambda: machine.run_file("followed").exists())
    outcome = another.begin(machine.order(script, epoch=2, previous_epoch=1, log=None))
    until(lambda: len(tails(machine)) == 2)
    seen: set[int] = set()
    ends = time.monotonic() + 2.0  # in which each that watches looks more than once
    until(lambda: seen.update(watchers(machine)) or time.monotonic() > ends)
    (watcher,) = seen
    machine.run_file("go").touch()
    assert isinstance(outcome(), Succeeded)
    until(lambda: not tails(machine))
    until(lambda: not Path(f"/proc/{watcher}").exists())


def tails(machine: Any) -> list[int]:
    """The processes that follow an output."""
    return [pid for pid in machine.farm.processes(0) if command_of(pid).startswith(b"tail\0-c\0")]


def watchers(machine: Any) -> list[int]:
    """The processes that watch over an output, and sleep now: their children do."""
    sleeping = (pid for pid in machine.farm.processes(0) if command_of(pid) == b"sleep\x000.5\0")
    return [parent for pid in sleeping if (parent := parent_of(pid))]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
