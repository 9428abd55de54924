"""The pause of the daemons of this kind on this host: nothing new begins, and present work ends.

The pause is a record of its own, below the name of the host, so it survives restarts, which give a daemon another id. It
is read after an event of its watch, and after each reconnect; its time ends it without a write.
"""

from __future__ import annotations

from collections.abc import Callable

from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.engine.maintenance import holds, sentence
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import DaemonPause
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session


class Pausing:
    """The pause of this daemon. Call it on the turn thread; ``registration`` has the result."""

    def __init__(
        self, session: Session, kind: ClientKind, registration: Registration, wake: Callable[[], None]
    ) -> None:
        self._session, self._registration, self._wake = session, registration, wake
        self._path = paths.daemon_pause(kind, registration.record.host)
        self._pause: Maintenance | None = None
        self._dirty = True
        self._connection = 0  # the session's count of connections when it was read

    def load(self) -> None:
        """Watch, and read it at the next look; in every new session."""
        self._session.watch(self._path, self._event, levels=0)
        self._dirty = True

    def look(self) -> bool:
        """Read the changes; whether a pause began or ended since the last look. Raises Unavailable or Denied."""
        if self._dirty or self._connection != self._session.connections:
            connection, self._dirty = self._session.connections, False
            try:
                self._pause = self._read()
            except BaseException:
                self._dirty = True
                raise
            self._connection = connection
        before, paused = self.paused, self._pause if holds(self._pause, self._session.now()) else None
        if (now := sentence(paused) if paused is not None else None) == before:
            return False
        self._registration.change(paused=now)
        return (before is None) != (now is None)

    def _read(self) -> Maintenance | None:
        znode = self._session.get(self._path)
        try:
            return codec.decode(DaemonPause, znode).pause if znode is not None else None
        except Invalid:  # the content of the pause is not known: it stays as it was
            return self._pause

    @property
    def paused(self) -> str | None:
        """Author, end and reason, as of the last look."""
        return self._registration.record.paused

    @property
    def seconds(self) -> float:
        """Until it is over by itself."""
        ends = self._pause.until if self.paused is not None and self._pause is not None else None
        return max(ends - self._session.now(), 0.0) if ends is not None else float("inf")

    def _event(self, _kind: str, _path: str) -> None:
        self._dirty = True
        self._wake()
