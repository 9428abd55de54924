"""Jig task-reboot on machines that do boot again: containers whose first process ends, and which the engine starts anew."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs import Detached, Failed, Succeeded
from nodepool_ocb.jigs.tasks.reboot import RebootJig
from nodepool_ocb.testing.engine import Engine
from tests.jigs.containers import Machine, engine_with, new_key, started
from tests.jigs.workshop import Annealer, until

IMAGE = "machine-that-boots"
PACKAGES = "dropbear-bin,util-linux,dash,coreutils,grep,findutils,busybox-static"
#: Of busybox only what is left, by names of their own: its shell would take its own reboot, whatever is installed.
PROGRAMS = "ln -sf dash /bin/sh; ln -sf busybox /bin/ps"
REBOOT = "#!/bin/sh\necho >>/boots\nexec busybox reboot\n"
TIMES = "wc -l </boots"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_with({IMAGE: PACKAGES}) as engine:
        yield engine


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path)


@pytest.fixture
def machine(engine: Engine, key: Path, tmp_path: Path) -> Iterator[Machine]:
    """It counts how often it was told to boot."""
    log, policy = tmp_path / "run.log", {"Name": "always"}
    with started(engine, IMAGE, key, log, PROGRAMS, restart_policy=policy) as machine:
        assert "dropbear" in machine.sh("cat /proc/1/cmdline"), "what boots is the container"
        install(machine, REBOOT)
        yield machine


@pytest.fixture
def annealers(key: Path) -> Iterator[Callable[[], Annealer]]:
    """Makes one annealer after another."""
    made: list[Annealer] = []

    def make() -> Annealer:
        made.append(Annealer(SshSettings(key_files=(str(key),), connect_timeout_seconds=5.0), RebootJig))
        return made[-1]

    yield make
    for annealer in made:
        annealer.jig.close()


def install(machine: Machine, program: str) -> None:
    """Its program reboot."""
    machine.sh(f"printf %s {shlex.quote(program)} >/sbin/reboot; chmod 755 /sbin/reboot")


def boot(machine: Machine) -> str:
    """When the machine's first process began, for what a container is."""
    return machine.sh("cut -d' ' -f22 /proc/1/stat")


def test_a_machine_boots_once_whoever_asks_and_however_often(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    first, second = annealers(), annealers()
    before = boot(machine)
    outcome = first.run(machine.task({}))
    assert isinstance(outcome, Succeeded)
    assert outcome.attributes == machine.task({}).attributes
    assert boot(machine) != before
    assert isinstance(second.run(machine.task({}, epoch=2, previous_epoch=1)), Succeeded), "the run is adopted"
    again = second.run(machine.task({}, epoch=3, generation=2))
    assert isinstance(again, Succeeded), "as after the machine was dead for a while"
    assert again.tail == "this machine has booted since; it is not booted again\n"
    assert machine.sh(TIMES) == "1\n"


def test_a_successor_waits_for_the_boot_that_another_began(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    first, second = annealers(), annealers()
    outcome = first.begin(machine.task({}))
    until(lambda: machine.sh("cat /var/lib/nodepool-ocb/history 2>/dev/null || true").count(" end ") == 1)
    first.stop.set()
    assert outcome() == Detached()
    assert isinstance(second.run(machine.task({}, epoch=2, previous_epoch=1)), Succeeded)
    assert machine.sh(TIMES) == "1\n"


def test_a_machine_that_does_not_boot_again_fails_at_the_time_out(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    install(machine, "#!/bin/sh\ntrue\n")
    outcome = annealers().run(machine.task({}, timeout_seconds=4.0))
    assert outcome == Failed("it has not booted again within 4 s: it is up, and has not gone down")


def test_a_reboot_that_is_refused_fails_with_what_it_says(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    install(machine, "#!/bin/sh\necho not now; exit 3\n")
    outcome = annealers().run(machine.task({}))
    assert isinstance(outcome, Failed)
    assert outcome.reason == "this machine does not boot again: reboot: exit code 3: not now"


def test_a_machine_without_the_program_is_told_with_the_package(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    machine.sh("rm /sbin/reboot")
    outcome = annealers().run(machine.task({}))
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("there is no program reboot on this machine; install the package systemd-sysv")


def test_a_noop_run_boots_nothing(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    before = boot(machine)
    outcome = annealers().run(machine.task({}, noop=True))
    assert isinstance(outcome, Succeeded)
    assert outcome.tail == "would boot this machine again\n"
    assert boot(machine) == before


def test_what_was_numbered_as_a_run_before_the_boot_is_not_taken_for_it(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    """A container that is started anew has its kernel's boot id, and gives its processes the same numbers again."""
    annealer, state = annealers(), "/var/lib/nodepool-ocb"
    assert isinstance(annealer.run(machine.task({})), Succeeded)
    machine.sh(f"setsid sleep 4242 >/dev/null 2>&1 & echo $! >{state}/number")
    machine.sh(
        f"cd {state}; read -r e k r g gb keeper kb boot <current; n=$(cat number)\n"
        'echo "$e dns@1 $r $n 1 $n 1 $boot" >current; : >runs/dns@1.script'
    )
    assert isinstance(annealer.run(machine.task({}, epoch=4, role="other", noop=True)), Succeeded)
    assert machine.processes("sleep 4242") == 1
