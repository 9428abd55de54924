"""The life of a daemon's process: a session, turns until a signal ends them, and an orderly end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.loop import serve
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.reloading import Reload
from nodepool_ocb.daemon.turns import Turns
from nodepool_ocb.http.page import PrivatePages
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics


class DaemonParts(Protocol):
    """The parts of a daemon."""

    turns: Turns
    registration: Registration

    @property
    def drained(self) -> bool:
        """Whether nothing is left that it is to wait for before it ends."""

    def doing(self) -> str:
        """The present work of the daemon, in one sentence."""

    def close(self) -> None:
        """End its threads, within seconds."""


def live(
    daemon: DaemonParts,
    session: Session,
    reload: Callable[[], Reload],
    *,
    listen: str | None,
    end_within_seconds: float,
    changed: ChangedFiles | None = None,
    private: PrivatePages | None = None,
    on_listening: Callable[[str | None], None] = lambda _: None,
) -> None:
    """Start the session, take turns until a signal ends them, and close both; the arguments are those of ``serve``.

    Raises Unavailable if ZooKeeper cannot be reached at the start, and the errors that end ``serve``.
    """
    metrics.SessionCounts(session)
    session.start()
    turns, registration = daemon.turns, daemon.registration
    try:
        registration.change(started=session.now())
        serve(
            turns.turn,
            turns.wake,
            turns.stop,
            reload=reload,
            changed=changed,
            drained=lambda: daemon.drained,
            ready=registration.not_ready,
            doing=daemon.doing,
            listen=listen,
            private=private,
            on_listening=on_listening,
            on_failing=turns.failing,
            end_within_seconds=end_within_seconds,
        )
    finally:
        daemon.close()
        session.close()
