"""``nodepool-ocb-launcher``: the process around a Launcher."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.command import CommandOptions, program
from nodepool_ocb.daemon.life import live
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.extensions import titled
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.providers import launching
from nodepool_ocb.store import nodepool11
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_launcher.configuration import (
    check,
    configuration,
    end_within_seconds,
    files,
    listen,
    load,
    opened,
    reloading,
)
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launcher import Launcher

log = logging.getLogger(__name__)


def run(asked: CommandOptions, settings: config.Settings) -> None:
    """Serve until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start, and NoCluster."""
    configured = settings
    left_out = launching.installed().left_out
    for each in left_out:
        log.warning("%s", each.sentence)
    changed = ChangedFiles(files(settings))
    read = load(settings)
    wants = configuration(settings, read)
    if read.zookeeper is not None and settings.zookeeper == config.ZooKeeperSettings() and not asked.zookeeper:
        settings = replace(settings, zookeeper=read.zookeeper)  # a nodepool.yaml alone is enough
    session = Session(
        settings.zookeeper,
        on_lost=lambda: launcher.lost(),
        on_connected=lambda: launcher.turns.wake.set(),
        tree=nodepool11.tree(settings.layout),
    )
    context = LauncherContext(session, settings, wants, opened(settings, wants), lambda: launcher.turns.wake.set())
    daemon = of_this_process(
        slots=settings.launcher.launch_workers, left_out=titled(left_out), providers=tuple(context.providers)
    )
    launcher = Launcher(context, daemon)
    offers = f"{counted(len(context.providers), 'provider')} and {counted(len(wants.labels), 'label')}"
    log.info("launcher %s with %s", context.id, offers)
    live(
        launcher,
        session,
        reloading(asked, configured, read, launcher, changed).plan,
        changed=changed,
        listen=asked.listen or listen(settings),
        on_listening=launcher.served_at,
        end_within_seconds=end_within_seconds(settings),
    )


main = program(
    ClientKind.LAUNCHER,
    "Serve requests for nodes: hand out ready nodes, launch nodes at providers, and delete them after their use.",
    run,
    check=check,
)

if __name__ == "__main__":
    main()
