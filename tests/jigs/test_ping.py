"""Pings, in a network of their own where this process decides who answers."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from nodepool_ocb.jigs.ssh import ping
from nodepool_ocb.jigs.ssh.probe import Alive, Prober, Unreachable

#: A network with nothing but the loopback device; ``{}`` is what is done in it.
NETWORK = """
set -e
mount -t proc proc /proc
cd /proc/sys/net
echo '0 2147483647' > ipv4/ping_group_range
"$PYTHON" -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))'
say() { "$PYTHON" -c '
import sys
from nodepool_ocb.jigs.ssh import ping
try: print(ping.answers(sys.argv[1:], 0.5))
except ping.NotAsked as why: print("not asked:", why)' "$@"; }
"""


def inside(*lines: str) -> list[str]:
    """What the lines print, run as root of a network of their own."""
    script = NETWORK + "\n".join(lines)
    command = ["unshare", "--net", "--mount", "sh", "-c", script]
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60.0, env=environment
    ).stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and a network of its own")
def test_a_host_that_answers_an_echo_is_present_and_only_silence_counts_against_it() -> None:
    assert inside(
        "say 127.0.0.5",
        "say ::1",
        "echo 1 > ipv4/icmp_echo_ignore_all",
        "say 127.0.0.5 127.0.0.6",
        "say 127.0.0.5 ::1",
        "say 192.0.2.1",  # there is no way to it, which a connection says better
        "echo '1 0' > ipv4/ping_group_range",
        "say 127.0.0.5",
    ) == [
        "True",
        "True",
        "False",
        "True",
        "not asked: 192.0.2.1: Network is unreachable",
        "not asked: Permission denied: see net.ipv4.ping_group_range",
    ]


def prober(machine: Any, monkeypatch: pytest.MonkeyPatch, answer: bool | Exception) -> tuple[Prober, list[list[str]]]:
    """One whose pings have this answer, and whom it pinged."""
    asked: list[list[str]] = []

    def answers(hosts: list[str]) -> bool:
        asked.append(hosts)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ping, "answers", answers)
    return Prober(machine.settings(ping=True)), asked


def test_a_machine_that_answers_no_ping_is_not_connected_to(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = prober(machine, monkeypatch, answer=False)
    answer = made.probe(machine.fqdn, machine.node)
    assert isinstance(answer, Unreachable)
    assert answer.why == "ping: no answer within 2 s"
    assert asked == [[machine.node.addresses[0].rpartition(":")[0]]]


def test_a_host_that_cannot_ping_goes_by_the_connection_and_says_so_once(
    machine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made, _ = prober(machine, monkeypatch, ping.NotAllowed("Permission denied"))
    with caplog.at_level(logging.WARNING):
        assert [made.probe(machine.fqdn, machine.node) for _ in range(2)] == [Alive(), Alive(fresh=False)]
    assert [record.message for record in caplog.records if "not pinged" in record.message] == [
        "machines are not pinged, the connection alone tells whether they are there: Permission denied"
    ]


def test_machines_are_not_pinged_unless_that_is_asked_for(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = prober(machine, monkeypatch, answer=False)
    assert Prober(machine.settings()).probe(machine.fqdn, machine.node) == Alive()
    assert asked == []
