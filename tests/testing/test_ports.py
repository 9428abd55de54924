"""Ports of tests: no two processes have the same ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from nodepool_ocb.testing.ports import BLOCK, free_port

#: Addresses at which nothing listens: servers of other tests have ports of this process on 127.0.0.1.
HERE, THERE = "127.0.77.1", "127.0.77.2"
ASK = f"""
from nodepool_ocb.testing.ports import free_port
print(*(free_port({HERE!r}) for _ in range(400)), flush=True)
input()
"""


def test_processes_that_live_at_one_time_are_given_different_ports() -> None:
    command = [sys.executable, "-c", ASK]
    asking = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        given = [{int(port) for port in each.stdout.readline().split()} for each in asking if each.stdout]
        given.append({free_port(HERE) for _ in range(400)})
    finally:
        for each in asking:
            each.communicate("\n", timeout=60.0)
    assert [len(ports) for ports in given] == [BLOCK] * 4
    assert len(set().union(*given)) == 4 * BLOCK


def test_a_block_is_given_one_time_while_its_process_lives() -> None:
    """By forty draws of eighty blocks, in a process of its own: two would be equal."""
    draw = "from nodepool_ocb.testing import ports; print(*(ports._taken() for _ in range(40)))"
    drawn = subprocess.run([sys.executable, "-c", draw], capture_output=True, text=True, check=True, timeout=60.0)
    assert len(set(drawn.stdout.split())) == 40


def test_a_fork_is_given_other_ports_than_its_parent() -> None:
    ours, (reading, writing) = {free_port(HERE) for _ in range(BLOCK)}, os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, str(free_port()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        assert int(said.read()) not in ours
    assert os.waitpid(child, 0)[1] == 0


def test_a_port_is_not_given_again_before_all_others_and_never_while_it_has_a_listener() -> None:
    first = free_port(HERE)
    with socket.create_server((HERE, first)):
        given = [free_port(HERE) for _ in range(2 * (BLOCK - 1))]
    assert first not in given
    assert len(set(given[: BLOCK - 1])) == BLOCK - 1


def test_each_address_has_all_ports_of_the_process() -> None:
    here = {free_port(HERE) for _ in range(BLOCK)}
    assert {free_port(THERE) for _ in range(BLOCK)} == here
