"""``nodepool-ocb-annealer``: configuration, session, turns, and an orderly end."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from nodepool_ocb import config, metrics
from nodepool_ocb.daemon import serve, setup_logging
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs import installed
from nodepool_ocb.jigs.probe import Prober
from nodepool_ocb.model import Daemon
from nodepool_ocb.store import tree
from nodepool_ocb.store.session import Session
from nodepool_ocb_annealer.annealer import Annealer

END_SECONDS: Final = 10.0  # after draining; then the process ends by force

log = logging.getLogger(__name__)


@click.command(context_settings={"auto_envvar_prefix": "NODEPOOL_OCB"})
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration; else /etc/nodepool-ocb/.")
@click.option("--zookeeper", help="HOST:PORT,.../CHROOT, instead of the configured one.")
@click.option("--listen", help="HOST:PORT for /metrics and /health, instead of the configured one.")
@click.version_option(version("nodepool-ocb"))
def main(file: Path | None, zookeeper: str | None, listen: str | None) -> None:
    """Make the machines of the committed noderoles ready, together with all other annealers."""
    try:
        settings = config.load(file)
        if zookeeper:
            settings = replace(settings, zookeeper=replace(settings.zookeeper, hosts=zookeeper))
        setup_logging(settings.log)
        run(settings, listen or settings.http.listen, file)
    except OcbError as error:
        click.echo(f"nodepool-ocb-annealer: {error}", err=True)
        sys.exit(error.exit_code)


def run(settings: config.Settings, listen: str | None, file: Path | None = None) -> None:
    """Anneal until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start."""
    jigs = installed(settings)
    identity = name()
    daemon = Daemon(
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("nodepool-ocb"),
        started=time.time(),
        jigs=tuple(sorted(jigs)),
        slots=settings.annealer.slots,
    )
    session = Session(settings.zookeeper, on_lost=lambda: annealer.lost(), on_connected=lambda: annealer.wake.set())
    annealer = Annealer(session, settings.annealer, jigs, Prober(settings.ssh), identity, daemon)
    metrics.SessionCounts(session)
    session.start()
    log.info("annealer %s with jigs %s, %d slots", identity, ", ".join(sorted(jigs)), settings.annealer.slots)

    def reload() -> None:
        annealer.settings = config.load(file).annealer
        annealer.working.resize(annealer.settings)

    try:
        tree.bootstrap(session, admin_domain=settings.admin_domain, now=time.time())
        serve(
            annealer.turn,
            annealer.wake,
            annealer.stop,
            reload=reload,
            drained=lambda: annealer.drained,
            ready=lambda: None if session.trusted else "ZooKeeper does not answer",
            listen=listen,
            end_within_seconds=settings.annealer.drain_seconds + END_SECONDS,
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


if __name__ == "__main__":
    main()
