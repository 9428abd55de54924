"""``nodepool-ocb daemon``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.maintenance import daemon as maintenance
from nodepool_ocb.operations.daemons.listing import DaemonList


@click.group(cls=Noun)
def command() -> None:
    """The daemons that are running."""


command.add_command(maintenance.pause)
command.add_command(maintenance.resume)


@command.command("list", operation=DaemonList)
def list_() -> None:
    """Every daemon that has a session with ZooKeeper now."""
    columns = (
        "kind",
        "id",
        "state",
        "trouble",
        "paused",
        "host",
        "pid",
        "version",
        "slots",
        "jigs",
        "left_out",
        "pages",
        "started",
    )
    output.things(perform(DaemonList()).answer, columns, key="id")
