"""``nodepool-ocb-annealer``: configuration, session, turns, and an orderly end."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.catalogue import code
from nodepool_ocb.daemon.command import Asked, program
from nodepool_ocb.daemon.loop import serve
from nodepool_ocb.jigs import installed
from nodepool_ocb.jigs.ssh.probe import Prober
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.model.rights import Kind
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.reloading import Reloading, end_within_seconds

log = logging.getLogger(__name__)


def run(asked: Asked, settings: config.Settings) -> None:
    """Anneal until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start, and NoCluster."""
    for loose in config.loose_keys(settings.ssh):
        log.warning("%s", loose)
    jigs = installed(settings)
    identity = name()
    daemon = Daemon(
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("nodepool-ocb"),
        started=0.0,
        jigs=tuple(sorted(jigs)),
        slots=settings.annealer.slots,
        code=code.installed(),
    )
    session = Session(settings.zookeeper, on_lost=lambda: annealer.lost(), on_connected=lambda: annealer.wake.set())
    prober = Prober(settings.ssh)
    annealer = Annealer(session, settings.annealer, jigs, prober, identity, daemon)
    metrics.SessionCounts(session)
    session.start()
    log.info("annealer %s with jigs %s, %d slots", identity, ", ".join(sorted(jigs)), settings.annealer.slots)

    try:
        annealer.daemon = replace(annealer.daemon, started=session.now())
        serve(
            annealer.turn,
            annealer.wake,
            annealer.stop,
            reload=Reloading(asked, settings, annealer, prober).plan,
            drained=lambda: annealer.drained,
            ready=annealer.not_ready,
            doing=annealer.doing,
            on_failing=annealer.failing,
            listen=asked.listen or settings.http.listen,
            end_within_seconds=end_within_seconds(settings),
        )
    finally:
        annealer.close()
        for jig in jigs.values():
            jig.close()
        session.close()


def name() -> str:
    """Who this process is: host, boot and chance, so that nothing from before a restart counts as ours."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return f"{socket.gethostname()}-{boot}-{secrets.token_hex(4)}"


main = program(
    Kind.ANNEALER,
    "Make the machines of the committed noderoles ready, together with all other annealers.",
    run,
    check=lambda _: None,  # what is wrong is found before
)

if __name__ == "__main__":
    main()
