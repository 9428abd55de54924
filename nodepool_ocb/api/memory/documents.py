"""Documents that were sent, as JSON, by request and version: a list of an unchanged world is not made again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

MOST_BYTES: Final = 64 * 1024 * 1024


class KeptDocuments:
    """The documents that were used last, up to a number of bytes; thread-safe."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()  # request → version and document
        self._bytes = 0
        self._guard = threading.Lock()

    def get(self, request: str, version: str) -> bytes | None:
        """The document of a request, if it was kept in this version.

        >>> kept = KeptDocuments(10)
        >>> kept.keep("/a", "1", b"12345")
        >>> kept.keep("/b", "1", b"123456")
        >>> kept.get("/a", "1"), kept.get("/b", "1"), kept.get("/b", "2")
        (None, b'123456', None)
        """
        with self._guard:
            found = self._kept.get(request)
            if found is None or found[0] != version:
                return None
            self._kept.move_to_end(request)
            return found[1]

    def keep(self, request: str, version: str, document: bytes) -> None:
        """Keep a document in place of an earlier version; those that were not used for long make room."""
        if len(document) > self._most:
            return
        with self._guard:
            _, before = self._kept.pop(request, ("", b""))
            self._kept[request] = version, document
            self._bytes += len(document) - len(before)
            while self._bytes > self._most:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= len(gone)
