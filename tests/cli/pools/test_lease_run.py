"""``lease run`` as a process of its own, with a real ZooKeeper and a real sshd; a test plays the launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNodeState, RequestState
from nodepool_ocb.store import journal
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.locks import contenders
from nodepool_ocb.testing.machines import Farm
from tests.cli.background_command import COMMAND
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.fixtures.commands import Ocb

Until = Callable[..., None]
SESSION_SECONDS = 6.0


class Leases:
    """Two machines, a launcher that lends them, and the command."""

    def __init__(self, farm: Farm, launcher: PlayedLauncher, settings: ZooKeeperSettings, folder: Path) -> None:
        self.farm, self.launcher, self.folder = farm, launcher, folder
        self.config = folder / "nodepool-ocb.yaml"
        zookeeper = {"hosts": settings.hosts, "session_timeout_seconds": SESSION_SECONDS}
        self.config.write_text(json.dumps({"zookeeper": zookeeper, "ssh": farm.settings()}))
        self.started: list[subprocess.Popen[str]] = []
        self._over = threading.Event()
        self._server = threading.Thread(target=self._serve)
        self.server_faults: list[BaseException] = []
        self._server.start()

    def ready(self, machine: int = 0) -> str:
        """A node that a machine of the farm is; gives its id."""
        record = self.farm.records()[machine][1]
        host, port = self.farm.address(machine)
        return self.launcher.makes(
            interface_ip=host,
            connection_port=port,
            username=record.user,
            host_keys=record.host_keys,
            hostname=f"m{machine}",
        )

    def begin(self, *command: str, options: str = "--label small", **variables: str) -> subprocess.Popen[str]:
        words = [*COMMAND, "--config", str(self.config), "lease", "run", *options.split(), "--", *command]
        self.started.append(
            subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": "", **variables},
            )
        )
        return self.started[-1]

    def run(self, *command: str, options: str = "--label small") -> subprocess.CompletedProcess[str]:
        process = self.begin(*command, options=options)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def authorized(self, machine: int = 0) -> str:
        """The keys that the machine's user got."""
        file = self.farm.state_dir(f"m{machine}.farm.example.com").parent / ".ssh" / "authorized_keys"
        return file.read_text() if file.exists() else ""

    def directories(self) -> list[Path]:
        return list(self.folder.glob("nodepool-ocb-lease-*"))

    def locked(self, node: str) -> bool:
        return bool(contenders(self.launcher.session.children(paths.pool_node_lock(node)) or ()))

    def close(self) -> None:
        self._over.set()
        self._server.join(10)
        for process in self.started:
            process.kill()
            process.communicate()
        assert not self.server_faults

    def _serve(self) -> None:
        """Fulfil requests with nodes that are ready."""
        try:
            while not self._over.wait(0.05):
                for id in self.launcher.requests():
                    self._serve_one(id)
        except BaseException as fault:
            if not self._over.is_set():
                self.server_faults.append(fault)

    def _serve_one(self, id: str) -> None:
        znode = self.launcher.session.get(paths.request(id))
        if znode is None or (record := codec.decode(NodeRequest, znode)).state is not RequestState.REQUESTED:
            return
        wanted = len(record.node_types)
        nodes = sorted(self.launcher.session.children(paths.POOL_NODES) or ())
        free = [name for name in nodes if self.launcher.node(name).state is PoolNodeState.READY]
        free = [name for name in free if self.launcher.node(name).allocated_to is None]
        if len(free) >= wanted:
            with suppress(Stale, AssertionError):  # it was withdrawn meanwhile
                self.launcher.fulfils(id, *free[:wanted])


@pytest.fixture
def leases(launcher: PlayedLauncher, zk_settings: ZooKeeperSettings, tmp_path: Path) -> Iterator[Leases]:
    launcher.registers("small")
    with Farm(2, tmp_path / "farm") as farm:
        made = Leases(farm, launcher, zk_settings, tmp_path)
        try:
            yield made
        finally:
            made.close()


def test_a_command_gets_its_nodes_and_they_are_returned(leases: Leases) -> None:
    one, two = leases.ready(0), leases.ready(1)
    script = f"""
        set -e
        test "$LEASE_NODES" = "{one} {two}"
        test "$(stat -c %a "$LEASE_IDENTITY")" = 600
        test "$(stat -c %a "$(dirname "$LEASE_IDENTITY")")" = 700
        grep -q ansible_host "$ANSIBLE_INVENTORY"
        for name in $LEASE_NAMES; do ssh -n -F "$LEASE_SSH_CONFIG" "$name" 'echo "$HOME"'; done
        ssh -n -i "$LEASE_IDENTITY" -o UserKnownHostsFile="$LEASE_KNOWN_HOSTS" -o StrictHostKeyChecking=yes \
            -o BatchMode=yes -p "$LEASE_PORT" "$LEASE_USER@$LEASE_ADDRESS" true
        cat "$LEASE_INVENTORY"
        exit 42
    """
    result = leases.run("sh", "-c", script, options="--label small --count 2")
    assert result.returncode == 42, result.stderr
    assert [line.rpartition("/")[2] for line in result.stdout.splitlines()[:2]] == ["m0", "m1"]
    assert "lease_label: small" in result.stdout
    for node in (one, two):
        assert leases.launcher.node(node).state is PoolNodeState.USED
        assert not leases.locked(node)
    assert leases.launcher.requests() == []
    assert leases.authorized(0) == leases.authorized(1) == ""
    assert leases.directories() == []
    session = leases.launcher.session
    entries = [each.entry for each in journal.read(session, journal.numbers(session))]
    created = [entry for entry in entries if entry is not None and entry.changes[0].change == "create"]
    assert [entry.verb for entry in created] == ["lease run"]  # no lock that is made afterwards repeats it


def test_the_nodes_are_in_use_and_locked_while_the_command_runs(leases: Leases) -> None:
    node = leases.ready()
    process = leases.begin("sh", "-c", "echo begun; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    assert leases.launcher.node(node).state is PoolNodeState.IN_USE
    assert leases.locked(node)
    assert leases.launcher.requests() == []
    assert 'expiry-time="2' in leases.authorized()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert leases.launcher.node(node).state is PoolNodeState.USED
    assert not leases.locked(node)
    assert leases.authorized() == ""


def test_other_keys_of_the_user_stay(leases: Leases) -> None:
    leases.ready()
    place = leases.farm.state_dir("m0.farm.example.com").parent / ".ssh"
    place.mkdir()
    (place / "authorized_keys").write_text("# the only key\nssh-ed25519 AAAAC3Nz other@host")  # without a line end
    assert leases.run("true").returncode == 0
    assert leases.authorized() == "# the only key\nssh-ed25519 AAAAC3Nz other@host\n"


def _pid(line: str) -> int:
    return int(line)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_after_kill_9_the_command_is_dead_before_the_lock_ends(leases: Leases, until: Until) -> None:
    node = leases.ready()
    process = leases.begin(
        "sh", "-c", "echo $$; trap '' TERM; (trap '' TERM; setsid sleep 600) & while :; do sleep 1; done"
    )
    assert process.stdout is not None
    pid = _pid(process.stdout.readline())
    process.kill()
    until(lambda: not _alive(pid) or not leases.locked(node), 30)
    assert not _alive(pid)
    assert leases.locked(node)  # nobody else can have the node yet
    assert leases.launcher.node(node).state is PoolNodeState.IN_USE
    until(lambda: not leases.locked(node), 30)  # launchers delete it now: it is in-use without a lock
    until(lambda: leases.directories() == [], 10)


def test_a_frozen_lease_run_loses_its_command_before_its_lock(leases: Leases, until: Until) -> None:
    node = leases.ready()
    process = leases.begin("sh", "-c", "echo $$; exec sleep 600")
    assert process.stdout is not None
    pid = _pid(process.stdout.readline())
    process.send_signal(signal.SIGSTOP)
    until(lambda: not _alive(pid) or not leases.locked(node), 30)
    assert not _alive(pid)
    assert leases.locked(node)
    until(lambda: not leases.locked(node), 30)
    process.send_signal(signal.SIGCONT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 196, stderr
    assert leases.launcher.node(node).state is PoolNodeState.IN_USE


def test_a_lock_that_another_client_breaks_ends_the_command(leases: Leases) -> None:
    node = leases.ready()
    process = leases.begin("sh", "-c", "echo $$; exec sleep 600")
    assert process.stdout is not None
    pid = _pid(process.stdout.readline())
    folder = paths.pool_node_lock(node)
    (contender,) = contenders(leases.launcher.session.children(folder) or ())
    leases.launcher.unlocks(f"{folder}/{contender}")
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 196
    assert "the lock of a node was lost" in stderr
    assert not _alive(pid)


def test_the_time_of_the_lease_ends_the_command_after_a_warning(leases: Leases) -> None:
    node = leases.ready()
    result = leases.run("sleep", "600", options="--label small --timeout 3s")
    assert result.returncode == 195
    assert "the lease ends in" in result.stderr
    assert "the lease ended after 3s" in result.stderr
    assert leases.launcher.node(node).state is PoolNodeState.USED


@pytest.mark.long
def test_a_program_that_does_not_exist_has_127_and_the_nodes_are_returned(leases: Leases) -> None:
    node = leases.ready()
    result = leases.run("/no/such/program")
    assert result.returncode == 127
    assert leases.launcher.node(node).state is PoolNodeState.USED
    assert leases.run("/etc/passwd", options="--label small --wait-timeout 2s").returncode == 194
    leases.ready()
    assert leases.run("/etc/passwd").returncode == 126


def test_a_request_that_is_not_served_in_time_is_withdrawn(leases: Leases) -> None:
    result = leases.run("true", options="--label small --wait-timeout 4s")
    assert result.returncode == 194
    assert (
        "waits: west/main has its labels; its limits are in the nodepool.yaml of the launcher on host1" in result.stderr
    )
    assert "was not served in time" in result.stderr
    assert leases.launcher.requests() == []


def test_a_signal_while_it_waits_withdraws_the_request(leases: Leases, until: Until) -> None:
    process = leases.begin("true")
    until(lambda: leases.launcher.requests())
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert leases.launcher.requests() == []


def test_a_request_that_fails_has_193(leases: Leases, until: Until) -> None:
    process = leases.begin("true")
    until(lambda: leases.launcher.requests())
    leases.launcher.fails(leases.launcher.requests()[0], "each pool declined it")
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 193
    assert "each pool declined it" in stderr


def test_a_machine_that_does_not_know_our_key_ends_the_lease_with_125(leases: Leases) -> None:
    node = leases.ready()
    other = leases.folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    config = json.loads(leases.config.read_text())
    config["ssh"]["key_files"] = [str(other)]
    leases.config.write_text(json.dumps(config))
    result = leases.run("true")
    assert result.returncode == 125
    assert "authenticate" in result.stderr
    assert leases.launcher.node(node).state is PoolNodeState.USED
    leases.ready()
    result = leases.run("sh", "-c", 'echo "$LEASE_IDENTITY"', options=f"--label small --identity {other}")
    assert (result.returncode, result.stdout) == (0, f"{other}\n")


def test_a_changed_host_key_ends_the_lease_with_125(leases: Leases) -> None:
    leases.ready(0)
    leases.farm.unplug(0)
    leases.farm.start_another(0)
    result = leases.run("true")
    assert result.returncode == 125
    assert "which is not the pinned key" in result.stderr


def test_records_cannot_write_into_the_files_of_ssh(leases: Leases) -> None:
    evil = "a\nProxyCommand touch /tmp/owned"
    for field in ({"username": evil}, {"interface_ip": "-oProxyCommand=x"}, {"host_keys": (evil,)}):
        node = leases.ready()
        leases.launcher.changes(node, **field)
        result = leases.run("true")
        assert result.returncode == 125, field
        assert leases.launcher.node(node).state is PoolNodeState.USED
    node = leases.ready()
    leases.launcher.changes(node, hostname=evil)
    result = leases.run("sh", "-c", 'cat "$LEASE_SSH_CONFIG" "$LEASE_INVENTORY"; echo "$LEASE_NAME"')
    assert result.returncode == 0
    assert "ProxyCommand" not in result.stdout
    assert result.stdout.endswith(f"node-{node}\n")


def test_a_dry_run_prints_the_request_and_neither_makes_it_nor_runs_the_command(
    launcher: PlayedLauncher, ocb: Ocb, tmp_path: Path
) -> None:
    launcher.registers("small")
    launcher.makes()
    made = tmp_path / "made"
    words = [
        "lease",
        "run",
        "--label",
        "small",
        "--label",
        "large",
        "--dry-run",
        "-o",
        "json",
        "--",
        "touch",
        str(made),
    ]
    answer = ocb(*words)
    assert answer.exit_code == 10, answer.output
    document = json.loads(answer.stdout)
    assert document["dry_run"] is True
    (row,) = document["changes"]
    assert (row["change"], row["kind"], row["name"]) == ("create", "request for nodes", "small, large")
    assert row["state"] == "requested"
    assert "no running pool has label large" in answer.stderr
    assert launcher.requests() == []
    assert not made.exists()


@pytest.mark.parametrize("words", [["lease", "run", "--label", "small"], ["lease", "run", "--", "true"]])
def test_a_wrong_call_has_125(words: list[str]) -> None:
    result = subprocess.run([*COMMAND, *words], capture_output=True, timeout=30)
    assert result.returncode == 125


def test_without_zookeeper_it_has_125() -> None:
    words = ["--zookeeper", "127.0.0.1:1", "lease", "run", "--label", "small", "--", "true"]
    assert subprocess.run([*COMMAND, *words], capture_output=True, timeout=30).returncode == 125
