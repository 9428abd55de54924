"""``nodepool-ocb-api``: the process around a server of the API."""

from __future__ import annotations

import logging
from typing import Any, Final

from nodepool_ocb import config
from nodepool_ocb.api.app import application
from nodepool_ocb.api.daemon import ApiDaemon
from nodepool_ocb.api.listener import Listener, require_safe
from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.command import CommandOptions, program
from nodepool_ocb.daemon.life import live
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.daemon.reloading import Reload, Reloading
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import nodepool11
from nodepool_ocb.store.client.session import Session

log = logging.getLogger(__name__)

END_SECONDS: Final = 10.0  # after draining; then the process ends by force
#: What a running server keeps: its session, its socket, and the bounds of its HTTP layer.
FIXED: Final = (
    "zookeeper", "layout", "api.listen", "api.cert", "api.key", "api.allow_plaintext", "api.connections", "api.workers",
    "api.body_bytes",
)  # fmt: skip


def run(asked: CommandOptions, settings: config.Settings) -> None:
    """Serve until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start, and NoCluster."""
    check(settings)
    changed = ChangedFiles(_files(settings))
    session = Session(
        settings.zookeeper,
        on_connected=lambda: daemon.turns.wake.set(),
        tree=nodepool11.tree(settings.layout),
        renews=True,
    )

    def listener(records: Any) -> Listener:
        return Listener(application(records), settings.api)

    daemon = ApiDaemon(session, settings, of_this_process(), listener)

    def prepare(fresh: config.Settings) -> Reload:
        changed.taken(_files(fresh))
        check(fresh)

        def apply() -> None:
            daemon.records.settings = fresh
            daemon.records.feed.token_changed()  # a value of a claim may have another role, or none
            daemon.listener.renew_certificate()

        return Reload(apply=apply, listen=asked.listen or _pages(fresh), end_within_seconds=_end_within_seconds(fresh))

    live(
        daemon,
        session,
        Reloading(settings, asked.read, FIXED, prepare).plan,
        changed=changed,
        listen=asked.listen or _pages(settings),
        on_listening=daemon.served_at,
        end_within_seconds=_end_within_seconds(settings),
    )


def _files(settings: config.Settings) -> list[str]:
    """The files that are watched for changes."""
    return [each for each in (settings.api.cert, settings.api.key) if each is not None]


def _pages(settings: config.Settings) -> str | None:
    """HOST:PORT of a server's /metrics and /health."""
    return settings.api.pages or settings.http.listen


def _end_within_seconds(settings: config.Settings) -> float:
    return settings.api.drain_seconds + END_SECONDS


def check(settings: config.Settings) -> None:
    """For ``--check``: raises Invalid."""
    require_safe(settings.api)
    if settings.api.oidc is not None:
        try:
            from nodepool_ocb.api.oidc.people import require_usable
        except ImportError as lacking:
            raise Invalid(f"api.oidc needs the package {lacking.name}: install nodepool-ocb[oidc]") from lacking
        require_usable(settings.api.oidc)


main = program(
    ClientKind.API,
    "Serve the HTTP API: every operation of the command line, for holders of tokens.",
    run,
    check=check,
)

if __name__ == "__main__":
    main()
