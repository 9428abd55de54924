"""``nodepool-ocb daemon``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.model.records import Daemon, Json


@click.group(cls=Noun)
def command() -> None:
    """The daemons that are running."""


@command.command("list")
def list_() -> None:
    """Every daemon that has a session with ZooKeeper now."""
    from nodepool_ocb.model import paths
    from nodepool_ocb.store import daemons

    columns = ("kind", "id", "state", "trouble", "host", "pid", "version", "slots", "jigs", "pages", "started")
    unread: dict[str, str] = {}
    with session.session() as opened:
        opened.sync()
        running = {kind: daemons.read(opened, kind, unread) for kind in paths.DAEMON_KINDS}
    for reason in unread.values():
        output.say(f"warning: this record cannot be read: {reason}")
    output.things(rows(running), columns, key="id")


def rows(running: Mapping[str, Mapping[str, Daemon | None]]) -> list[dict[str, Json]]:
    """The daemons, by kind and id, as far as what they say can be read."""
    return [
        {
            "kind": kind,
            "id": identity,
            "state": daemon.state,
            "trouble": daemon.trouble,
            "host": daemon.host,
            "pid": daemon.pid,
            "version": daemon.version,
            "slots": daemon.slots,
            "jigs": list(daemon.jigs),
            "pages": daemon.pages,
            "started": daemon.started,
        }
        for kind, daemons in sorted(running.items())
        for identity, daemon in sorted(daemons.items())
        if daemon is not None
    ]
