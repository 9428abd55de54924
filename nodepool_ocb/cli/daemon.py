"""``nodepool-ocb daemon``."""

from __future__ import annotations

import click

from nodepool_ocb.cli import connection, output
from nodepool_ocb.cli.common import Noun
from nodepool_ocb.model import Json
from nodepool_ocb.world import World


@click.group(cls=Noun)
def command() -> None:
    """The daemons that are running."""


@command.command("list")
def list_() -> None:
    """Every daemon that has a session with ZooKeeper now."""
    columns = ("kind", "id", "state", "trouble", "host", "pid", "version", "slots", "jigs", "pages", "started")
    output.things(rows(connection.world()), columns, key="id")


def rows(world: World) -> list[dict[str, Json]]:
    """The daemons, by kind and id."""
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
        for kind, daemons in sorted(world.daemons.items())
        for identity, daemon in sorted(daemons.items())
    ]
