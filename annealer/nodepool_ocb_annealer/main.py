"""``nodepool-ocb-annealer``: configuration, session, turns, and an orderly end."""

from __future__ import annotations

import logging
import secrets
import socket
from pathlib import Path

from nodepool_ocb import config
from nodepool_ocb.catalogue import code
from nodepool_ocb.daemon import preflight
from nodepool_ocb.daemon.command import CommandOptions, program
from nodepool_ocb.daemon.life import live
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.extensions import titled
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.http.logs import LogPage
from nodepool_ocb.http.page import PrivatePages
from nodepool_ocb.jigs import installed
from nodepool_ocb.jigs.ssh.probe import Prober
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.secrecy import references
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store import logkeys
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.reloading import end_within_seconds, reloading

log = logging.getLogger(__name__)


def run(asked: CommandOptions, settings: config.Settings) -> None:
    """Anneal until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start, and NoCluster."""
    for loose in (*config.loose_keys(settings.ssh), *preflight.webhook_faults(settings)):
        log.warning("%s", loose)
    jigs, left_out = installed(settings)
    left_out += code.left_out()
    for each in left_out:
        log.warning("%s", each.sentence)
    identity, certificate = name(), OwnCertificate()
    record = of_this_process(
        jigs=tuple(sorted(jigs)),
        slots=settings.annealer.slots,
        code=code.installed(),
        left_out=titled(left_out),
        log_dir=settings.annealer.log_dir,
        references=references.kinds(settings.secrets),
        certificate=certificate.digest,
    )
    session = Session(
        settings.zookeeper, on_lost=lambda: annealer.lost(), on_connected=lambda: annealer.context.turns.wake.set()
    )
    prober = Prober(settings.ssh)
    secrets_here = Secrets(settings.secrets)
    annealer = Annealer(session, settings.annealer, jigs, prober, identity, record, secrets_here, settings.ssh)
    log.info("annealer %s with jigs %s, %d slots", identity, ", ".join(sorted(jigs)), settings.annealer.slots)
    live(
        annealer,
        session,
        reloading(asked, settings, annealer, prober).plan,
        listen=asked.listen or settings.http.listen,
        private=PrivatePages(
            {"logs": LogPage(annealer.context.log_folder, annealer.idle_about)}, certificate, logkeys.Readers(session)
        ),
        on_listening=annealer.served_at,
        end_within_seconds=end_within_seconds(settings),
    )


def name() -> str:
    """The name of this process: host, boot and chance, so that nothing from before a restart counts as ours."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return f"{socket.gethostname()}-{boot}-{secrets.token_hex(4)}"


main = program(
    ClientKind.ANNEALER,
    "Make the machines of the committed noderoles ready, together with all other annealers.",
    run,
    check=lambda _: None,  # faults are found before
)

if __name__ == "__main__":
    main()
