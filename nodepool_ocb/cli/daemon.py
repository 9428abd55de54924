"""``nodepool-ocb daemon``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.aside import daemon as aside
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.views import daemons as shown


@click.group(cls=Noun)
def command() -> None:
    """The daemons that are running."""


command.add_command(aside.pause)
command.add_command(aside.resume)


@command.command("list")
def list_() -> None:
    """Every daemon that has a session with ZooKeeper now."""
    from nodepool_ocb.model import paths
    from nodepool_ocb.store import daemons

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
    unread: dict[str, str] = {}
    with session.session() as opened:
        opened.sync()
        running = {kind: daemons.read(opened, kind, unread) for kind in paths.DAEMON_KINDS}
    for reason in unread.values():
        output.say(f"warning: this record cannot be read: {reason}")
    output.things(shown.rows(running), columns, key="id")
