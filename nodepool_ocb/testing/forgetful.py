"""A server that says to every client of ZooKeeper that its session is over, as a leader does that was frozen for long."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Final, Self

_OVER: Final = struct.pack("!iiqi16sb", 0, 0, 0, 16, bytes(16), 0)  # a time-out of 0: there is no such session


class Forgetful:
    """Listens on 127.0.0.1 until closed; ``told`` counts the clients that it has told so."""

    def __init__(self) -> None:
        self.told = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="forgetful", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, contextlib.suppress(OSError):
                    client.settimeout(2.0)
                    if client.recv(4096):
                        self.told += 1
                        client.sendall(struct.pack("!i", len(_OVER)) + _OVER)

    def close(self) -> None:
        """Listen no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
