"""A machine of a farm that is killed or frozen keeps no connection, also none that began just then."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing import machines
from nodepool_ocb.testing.machines import Farm

CONNECTION_SECONDS = 30.0


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with Farm(1, tmp_path) as made:
        yield made


@pytest.fixture
def late(farm: Farm, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]) -> list[socket.socket]:
    """The connection that begins after the processes of the machine were listed, before the first signal."""
    begun: list[socket.socket] = []
    send = machines._signal

    def signal_after(pids: Iterable[int], kind: signal.Signals) -> None:
        listed = list(pids)
        if not begun:
            begun.append(socket.create_connection(farm.address(0), timeout=CONNECTION_SECONDS))
            until(lambda: set(farm.processes(0)) - set(listed))
        send(listed, kind)

    monkeypatch.setattr(machines, "_signal", signal_after)
    return begun


def test_a_connection_that_begins_while_its_machine_is_killed_ends(farm: Farm, late: list[socket.socket]) -> None:
    farm.kill(0)
    with late[0] as client, contextlib.suppress(ConnectionResetError):
        while client.recv(4096):
            pass


def test_a_connection_that_begins_while_its_machine_is_frozen_stops(farm: Farm, late: list[socket.socket]) -> None:
    farm.freeze(0)
    states = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in farm.processes(0)}
    assert len(states) > 1, "the connection has a process"
    assert set(states.values()) == {"T"}
    late[0].close()


@pytest.mark.long
def test_shells_in_vfork_count_as_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "START_SECONDS", 5.0)
    busy = ["sh", "-c", "while :; do /bin/true; done"]
    shells = {(shell := subprocess.Popen(busy)).pid: shell for _ in range(8)}

    def processes() -> list[int]:
        return sorted(pid for pid, parent in machines._parents().items() if pid in shells or parent in shells)

    try:
        for _ in range(20):
            machines._stop(processes)
            machines._signal(processes(), signal.SIGCONT)
    finally:
        machines._stop(processes)
        machines._signal(processes(), signal.SIGKILL)
        for shell in shells.values():
            shell.wait(10)
