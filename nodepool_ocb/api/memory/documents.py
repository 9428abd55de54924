"""Documents that were sent, as JSON, by request and version: a list of an unchanged world is not made again."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from typing import Final

import msgspec

MOST_BYTES: Final = 64 * 1024 * 1024
OVERHEAD_BYTES: Final = 500  # of a document, beside its text


class KeptDocument(msgspec.Struct, frozen=True):
    """``ends``: when its text stops to be true, by ZooKeeper's clock."""

    version: str
    content: bytes
    ends: float


class KeptDocuments:
    """The documents that were used last, up to a number of bytes; thread-safe. A request is known by its digest."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[bytes, KeptDocument] = OrderedDict()
        self._bytes = 0
        self._guard = threading.Lock()

    def get(self, request: str, version: str, now: float) -> bytes | None:
        """The document of a request, if it was kept in this version and is true still.

        >>> kept = KeptDocuments(2 * OVERHEAD_BYTES)
        >>> kept.keep("/a", "1", b"12345", 10.0)
        >>> kept.get("/a", "1", 9.0), kept.get("/a", "2", 9.0), kept.get("/a", "1", 10.0)
        (b'12345', None, None)
        >>> kept.keep("/b", "1", b"123456")
        >>> kept.get("/a", "1", 9.0), kept.get("/b", "1", 9.0)
        (None, b'123456')
        """
        key = _digest(request)
        with self._guard:
            found = self._kept.get(key)
            if found is None or found.version != version or now >= found.ends:
                return None
            self._kept.move_to_end(key)
            return found.content

    def keep(self, request: str, version: str, content: bytes, ends: float = math.inf) -> None:
        """Keep a document in place of an earlier version; those that were not used for long make room."""
        if len(content) > self._most:
            return
        key = _digest(request)
        with self._guard:
            self._drop(self._kept.pop(key, None))
            self._kept[key] = KeptDocument(version, content, ends)
            self._bytes += len(content) + OVERHEAD_BYTES
            while self._bytes > self._most:
                self._drop(self._kept.popitem(last=False)[1])

    def _drop(self, gone: KeptDocument | None) -> None:
        if gone is not None:
            self._bytes -= len(gone.content) + OVERHEAD_BYTES


def _digest(request: str) -> bytes:
    """An address may have 64 KiB, of a client's choice."""
    return hashlib.sha256(request.encode("utf-8", "surrogatepass")).digest()
