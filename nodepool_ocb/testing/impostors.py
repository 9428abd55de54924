"""Listeners in a machine's place that are no sshd; another kind is another line of IMPOSTORS."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self, TypeAlias

Says: TypeAlias = Callable[[socket.socket, threading.Event], object]  # to one caller, until the event


def nothing(_: socket.socket, over: threading.Event) -> None:
    over.wait()


def farewell(_conversation: socket.socket, _over: threading.Event) -> None:
    """It hangs up at once."""


def chatter(conversation: socket.socket, over: threading.Event) -> None:
    """Lines without end, and none of them is SSH's first."""
    while not over.is_set():
        conversation.sendall(b"welcome, and mind the step\r\n" * 100)


def noise(conversation: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        conversation.sendall(os.urandom(4096))


def stammer(conversation: socket.socket, over: threading.Event) -> None:
    """A first line that comes byte by byte, and does not end."""
    for byte in itertools.chain(b"SSH-2.0-", itertools.repeat(ord("x"))):
        if over.wait(0.1):
            return
        conversation.sendall(bytes([byte]))


def promise(conversation: socket.socket, over: threading.Event) -> None:
    """A good first line, and nothing after it."""
    conversation.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    over.wait()


IMPOSTORS: Final[Mapping[str, Says]] = {
    "nothing": nothing,
    "farewell": farewell,
    "chatter": chatter,
    "noise": noise,
    "stammer": stammer,
    "promise": promise,
}


class Impostor:
    """Accepts every connection at an address, and calls ``says`` with each; a context manager."""

    def __init__(self, address: tuple[str, int], says: Says) -> None:
        self._says = says
        self._over = threading.Event()
        self._listener = socket.create_server(address)
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, name="impostor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _listen(self) -> None:
        with self._listener:
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    conversation, _ = self._listener.accept()
                    threading.Thread(target=self._converse, args=[conversation], daemon=True).start()

    def _converse(self, conversation: socket.socket) -> None:
        with conversation, contextlib.suppress(OSError):
            conversation.settimeout(1.0)  # a peer that reads nothing gets nothing more
            self._says(conversation, self._over)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
