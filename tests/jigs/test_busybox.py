"""Jig script on a machine of busybox and dropbear, with flock beside them: no bash, no coreutils, no Python, no sshd.

The machine is a container of a real engine; its files are Debian's packages, unpacked by mmdebstrap from apt's mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs import Failed, Fenced, Succeeded
from nodepool_ocb.jigs.tasks.upload import UploadJig
from nodepool_ocb.testing.engine import Engine
from tests.jigs.containers import Machine, engine_with, new_key, started
from tests.jigs.workshop import Annealer, until

IMAGE = "busybox-machine"
PACKAGES = "busybox-static,dropbear-bin,util-linux"
WITH_FLOCK = "/bin/busybox --install -s /bin"
WITHOUT_FLOCK = f"/bin/busybox rm /usr/bin/flock\n{WITH_FLOCK}"  # all that is used of util-linux


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engine_with({IMAGE: PACKAGES}) as engine:
        yield engine


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def machine(request: pytest.FixtureRequest, engine: Engine, key: Path, tmp_path: Path) -> Iterator[Machine]:
    with started(engine, IMAGE, key, tmp_path / "run.log", getattr(request, "param", WITH_FLOCK)) as machine:
        yield machine


@pytest.fixture
def annealers(key: Path) -> Iterator[Callable[[], Annealer]]:
    """Makes one annealer after another."""
    made: list[Annealer] = []

    def make() -> Annealer:
        made.append(Annealer(SshSettings(key_files=(str(key),), connect_timeout_seconds=5.0)))
        return made[-1]

    yield make
    for annealer in made:
        annealer.jig.close()


def test_a_script_runs_and_attributes_go_in_and_out(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    script = (
        "read_attribute a/b/1; write_attribute a/c cafe; write_attribute --json d '[1, 2.5]'; busybox | head -n 1 >&2\n"
        '. "$OCB_LIBRARY"; items a/b | put /root/items; items a/b | put /root/items\n'
        "chmod 4666 /root/items; items a/b | put /root/items; ln -s /tmp /root/link; items a/b | put /root/link 600"
    )
    outcome = annealers().run(machine.order(script, attributes={"a": {"b": ["x", "OK"]}}))
    assert isinstance(outcome, Succeeded)
    assert outcome.attributes == {"a": {"b": ["x", "OK"], "c": "cafe"}, "d": [1, 2.5]}
    assert "BusyBox" in outcome.tail
    assert outcome.tail.count("wrote /root/items\n") == 2
    assert machine.sh("stat -c '%a %F' /root/items /root/link") == "644 regular file\n600 regular file\n"
    assert machine.sh("cat /root/items") == "x\nOK\n"


def test_a_task_puts_files_where_they_are_to_be(machine: Machine, key: Path) -> None:
    annealer = Annealer(SshSettings(key_files=(str(key),), connect_timeout_seconds=5.0), UploadJig)
    # more than goes by lines
    parameters = {"path": "/srv/new/f", "data": "caf\u00e9\n" * 1000, "permissions": "0640", "user": "0", "group": "0"}
    outcome = annealer.run(machine.task(parameters))
    annealer.jig.close()
    assert isinstance(outcome, Succeeded), outcome
    assert machine.sh("stat -c '%a %u %s' /srv/new/f; ls -A /srv/new") == "640 0 6000\nf\n"


def test_a_lower_epoch_is_refused_and_a_finished_run_is_adopted(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    first, second = annealers(), annealers()
    assert isinstance(first.run(machine.order("echo once >>/root/runs", epoch=5)), Succeeded)
    assert second.run(machine.order("echo late >>/root/runs", epoch=4)) == Fenced(5)
    assert isinstance(second.run(machine.order("echo once >>/root/runs", epoch=6, previous_epoch=5)), Succeeded)
    assert machine.sh("cat /root/runs") == "once\n"


def test_a_take_over_attaches_to_the_run_that_goes_on(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    script = "echo begun >>/root/runs; sleep 3; echo done"
    first = annealers().begin(machine.order(script))
    until(lambda: machine.sh("cat /root/runs 2>/dev/null || true"))
    second = annealers().run(machine.order(script, epoch=2, previous_epoch=1))
    assert isinstance(second, Succeeded)
    assert first() == second
    assert machine.sh("cat /root/runs") == "begun\n"
    until(lambda: machine.processes("tail -c") == 0)


def test_a_run_that_takes_too_long_is_ended_with_all_its_processes(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    script = 'trap "" TERM; sleep 4321 & sleep 4321'
    outcome = annealers().run(machine.order(script, timeout_seconds=1.0))
    assert isinstance(outcome, Failed)
    assert "1 s" in outcome.reason
    until(lambda: machine.processes("sleep 4321") == 0)


@pytest.mark.long
def test_a_run_that_prints_without_end_and_ignores_signals_is_killed(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    outcome = annealers().run(machine.order('trap "" TERM; yes'))
    assert isinstance(outcome, Failed)
    assert "it prints more than" in outcome.reason
    until(lambda: machine.processes("yes") == 0)


def test_another_order_ends_what_ran_before(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    first = annealers().begin(machine.order('trap "" TERM; sleep 1234'))
    until(lambda: machine.processes("sleep 1234"))
    assert isinstance(annealers().run(machine.order("true", role="dns", epoch=2)), Succeeded)
    assert machine.processes("sleep 1234") == 0
    assert first() == Fenced(2)


@pytest.mark.parametrize("machine", [WITHOUT_FLOCK], indirect=True, ids=["without flock"])
def test_a_machine_without_flock_is_told_from_one_whose_lock_is_taken(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    outcome = annealers().run(machine.order("true >/root/ran"))
    assert isinstance(outcome, Failed)
    assert "install util-linux" in outcome.reason
    assert machine.sh("[ -e /root/ran ] && echo ran || true") == ""
