"""The tokens that were read, kept until ZooKeeper announces a change: a request with a known token reads nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import OcbError, Unavailable
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.store import tokens as stored_tokens
from nodepool_ocb.store.client.session import Session

NOTED_SECONDS: Final = 300.0  # between two writes of the last use of a token
REMEMBERED_SECONDS: Final = 600.0  # that a token which was read still opens reads while ZooKeeper is away
MOST_TOKENS: Final = 10_000  # that are remembered


class KeptToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it was read. ``current``: no event and no write of this server came since; ``announced``: an event came."""

    found: Stored[Token]
    at: float  # monotonic
    connection: int  # of the session: a watch reports no change between two connections
    current: bool
    announced: bool = False


class KeptTokens:
    """Every method may be called on any thread. ``changed`` gets the id of a token, on the connection's thread."""

    def __init__(self, session: Session, changed: Callable[[str], None]) -> None:
        self._session = session
        self._changed = changed
        self._kept: dict[str, KeptToken] = {}
        self._events = 0
        self._guard = threading.Lock()
        self._noting: set[str] = set()

    def watch(self) -> None:
        """In a new session. Raises Unavailable."""
        self._session.watch(paths.TOKENS, self._on_event)
        self.doubt(())  # of those that were read before the watch

    def doubt(self, written: Iterable[str]) -> None:
        """Read each token again before it opens anything. Those at the ``written`` paths are other ones now, or gone."""
        ids = {_id(path) for path in written}
        with self._guard:
            self._events += 1
            self._kept = {id: replace(each, current=False) for id, each in self._kept.items() if id not in ids}

    def _on_event(self, _kind: str, path: str) -> None:
        id = _id(path)
        with self._guard:
            self._events += 1
            if (kept := self._kept.get(id)) is not None:
                self._kept[id] = replace(kept, current=False, announced=True)
        self._changed(id)

    def known(self, id: str, secret: str) -> Token | None:
        """The valid token without a request to ZooKeeper; None if ``valid`` must decide. Never waits."""
        kept = self._kept.get(id)
        if kept is None or not kept.current or kept.connection != self._session.connections:
            return None
        if not self._session.trusted:
            return None
        token = kept.found.record
        return token if token.valid(secret, self._session.now()) else None

    def valid(self, id: str, secret: str) -> Token | None:
        """As ``ServedRecords.valid_token`` states."""
        token = self.read(id) if tokens.is_id(id) else None
        return token if token is not None and token.valid(secret, self._session.now()) else None

    def read(self, id: str) -> Token | None:
        """The token of this id as ZooKeeper has it; while it is away, as it was a short time ago. Raises Unavailable."""
        events, connection = self._events, self._session.connections
        try:
            found = stored_tokens.one(self._session, id)
        except Unavailable:
            kept = self._kept.get(id)
            if kept is None or kept.announced or time.monotonic() - kept.at > REMEMBERED_SECONDS:
                raise
            return kept.found.record
        with self._guard:
            if found is None:
                self._kept.pop(id, None)
                return None
            if len(self._kept) >= MOST_TOKENS:
                self._kept.clear()
            unchanged = events == self._events  # an event during the read may be of a later write
            self._kept[id] = KeptToken(found=found, at=time.monotonic(), connection=connection, current=unchanged)
        return found.record

    def remembers(self, id: str) -> bool:
        """Whether there was such a token when it was last read."""
        return id in self._kept

    def use_due(self, id: str) -> bool:
        """Whether the written last use of a token is some minutes old. Never waits."""
        kept = self._kept.get(id)
        if kept is None or id in self._noting or not self._session.trusted:
            return False
        used = kept.found.record.used
        return used is None or self._session.now() - used > NOTED_SECONDS

    def note_use(self, id: str) -> None:
        """Write the last use of a token, if the written one is some minutes old. A failure is left to a later use."""
        if not self.use_due(id):
            return
        self._noting.add(id)
        try:
            kept = self._kept.get(id)
            if kept is not None:
                with suppress(OcbError):
                    stored_tokens.note_use(self._session, id, kept.found, self._session.now())
        finally:
            self._noting.discard(id)


def _id(path: str) -> str:
    """The id of a token by the path of its record; a text that is no id for another path."""
    return path.removeprefix(f"{paths.TOKENS}/").partition("/")[0]
