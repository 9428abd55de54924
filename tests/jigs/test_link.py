"""A connection to a machine, as the pool sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import paramiko

from nodepool_ocb.jigs.ssh.link import Link
from nodepool_ocb.model.records import Node


def test_a_link_shows_the_host_key_of_its_newest_exchange_and_writes_it_out_once() -> None:
    keys = [paramiko.ECDSAKey.generate() for _ in range(2)]
    written: list[int] = []

    class Counting:
        """A key that counts how often it is written out."""

        def __init__(self, number: int) -> None:
            self.number = number

        def get_name(self) -> str:
            return str(keys[self.number].get_name())

        def get_base64(self) -> str:
            written.append(self.number)
            return str(keys[self.number].get_base64())

    shown = [Counting(0), Counting(1)]
    transport: Any = SimpleNamespace(get_remote_server_key=lambda: shown[0])
    link = Link("n1", Node(), transport, keepalive_seconds=5.0)
    assert [link.host_key for _ in range(3)] == [f"{keys[0].get_name()} {keys[0].get_base64()}"] * 3
    del shown[0]  # the two ends have exchanged keys again
    assert link.host_key == f"{keys[1].get_name()} {keys[1].get_base64()}"
    assert written == [0, 1]
