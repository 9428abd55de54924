"""``lease run`` with a real launcher, a real sshd and one slot: the next client gets it when the former command is dead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.testing.machines import Farm
from tests.cli.background_command import COMMAND
from tests.launcher.launcher_fleet import LauncherFleet
from tests.launcher.test_handing_out_slots import rack

SESSION_SECONDS = 6.0
Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with Farm(1, tmp_path / "farm") as farm:
        yield farm


@pytest.fixture
def lease(launchers: LauncherFleet, farm: Farm, tmp_path: Path) -> Iterator[Run]:
    """``lease run`` of a shell's words, with one machine that can be lent to one client at a time."""
    launcher = launchers.launcher(rack(farm, 0))
    launcher.configure(ssh=farm.settings())
    launcher.start()
    config = tmp_path / "client.yaml"
    hosts = launchers.server.hosts + launchers.chroot
    zookeeper = {"hosts": hosts, "session_timeout_seconds": SESSION_SECONDS}
    config.write_text(json.dumps({"zookeeper": zookeeper, "ssh": farm.settings()}))
    started: list[subprocess.Popen[str]] = []

    def run(script: str) -> subprocess.Popen[str]:
        words = [*COMMAND, "--config", str(config), "lease", "run", "--label", "small", "--", "sh", "-c", script]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        started.append(
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment)
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_command_runs_on_a_slot_that_is_clean_for_the_next_client(
    lease: Run, launchers: LauncherFleet, farm: Farm
) -> None:
    keys = farm.state_dir("m0.farm.example.com").parent / ".ssh" / "authorized_keys"
    for _ in range(2):
        stdout, _ = lease('ssh -n -F "$LEASE_SSH_CONFIG" "$LEASE_NAME" echo reached').communicate(timeout=60)
        assert stdout == "reached\n"
        assert "nodepool-ocb-lease" not in keys.read_text()
    launchers.until(lambda: not launchers.nodes(PoolNodeState.IN_USE), "no node is in use")


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_the_next_client_gets_the_node_after_the_command_of_a_killed_or_frozen_one_is_dead(
    lease: Run, launchers: LauncherFleet, number: int
) -> None:
    former = lease("trap '' TERM; echo $$; (trap '' TERM; setsid sleep 600) & while :; do sleep 0.1; done")
    assert former.stdout is not None
    pid = int(former.stdout.readline())
    former.send_signal(number)
    # the next command finds the process of the former one dead, or a zombie that the kernel has not reaped
    look = f"if grep -qs '^State:.[^ZX]' /proc/{pid}/status; then echo alive; else echo dead; fi"
    stdout, _ = lease(look).communicate(timeout=90)
    assert stdout == "dead\n"
    assert len(launchers.nodes(PoolNodeState.IN_USE)) == 0


def test_the_key_of_a_killed_client_is_gone_before_the_next_one_gets_the_machine(lease: Run, farm: Farm) -> None:
    keys = farm.state_dir("m0.farm.example.com").parent / ".ssh" / "authorized_keys"
    keys.parent.mkdir(mode=0o700)
    keys.write_text("ssh-ed25519 AAAA of the site\n")
    keys.chmod(0o640)
    former = lease("echo begun; sleep 600")
    assert former.stdout is not None
    assert former.stdout.readline() == "begun\n"
    (_, left) = keys.read_text().splitlines()
    assert "expiry-time=" in left
    former.kill()
    stdout, _ = lease(f"cat {keys}").communicate(timeout=90)
    assert left not in stdout
    first, own = stdout.splitlines()
    assert first == "ssh-ed25519 AAAA of the site"
    assert own.split()[-1].startswith("nodepool-ocb-lease-")
    assert own.endswith("-slot0")
    assert keys.read_text() == "ssh-ed25519 AAAA of the site\n"
    assert keys.stat().st_mode & 0o777 == 0o640
