"""The daemons that are running."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.model.records import Daemon
from nodepool_ocb.views.view import View


class DaemonRow(View, frozen=True, kw_only=True):
    """A daemon at a glance."""

    kind: str
    id: str
    state: str
    trouble: str | None  # why it is not ready
    paused: str | None  # the author, end and reason of a pause: it begins nothing new
    host: str
    pid: int
    version: str
    slots: int
    jigs: tuple[str, ...]
    left_out: tuple[str, ...]  # extensions that are installed and not used, each with the reason
    pages: str | None
    started: float


def rows(running: Mapping[str, Mapping[str, Daemon | None]]) -> list[DaemonRow]:
    """The daemons (kind → id → record), by kind and id. A daemon with an unreadable record (None) is left out."""
    return [
        DaemonRow(
            kind=kind,
            id=identity,
            state=daemon.state,
            trouble=daemon.trouble,
            paused=daemon.paused,
            host=daemon.host,
            pid=daemon.pid,
            version=daemon.version,
            slots=daemon.slots,
            jigs=daemon.jigs,
            left_out=tuple(f"{title}: {reason}" for title, reason in sorted(daemon.left_out.items())),
            pages=daemon.pages,
            started=daemon.started,
        )
        for kind, daemons in sorted(running.items())
        for identity, daemon in sorted(daemons.items())
        if daemon is not None
    ]
