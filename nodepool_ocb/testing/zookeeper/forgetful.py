"""A server that says to every client of ZooKeeper that its session is over, as a leader does that was frozen for long."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Final

from nodepool_ocb.testing.impostors import Impostor

_OVER: Final = struct.pack("!iiqi16sb", 0, 0, 0, 16, bytes(16), 0)  # a time-out of 0: there is no such session


class Forgetful(Impostor):
    """Listens on 127.0.0.1 until closed; ``answered`` counts the clients that it has answered so."""

    def __init__(self) -> None:
        self.answered = 0
        super().__init__(("127.0.0.1", 0), self._answer)

    @property
    def hosts(self) -> str:
        """The connection string."""
        return f"127.0.0.1:{self.port}"

    def _answer(self, client: socket.socket, _: threading.Event) -> None:
        if client.recv(4096):
            self.answered += 1
            client.sendall(struct.pack("!i", len(_OVER)) + _OVER)
