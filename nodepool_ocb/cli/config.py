"""``nodepool-ocb config``."""

from __future__ import annotations

import click

from nodepool_ocb.cli import connection, output
from nodepool_ocb.cli.common import Noun, asked


@click.group(cls=Noun)
def command() -> None:
    """Check the configuration."""


@command.command()
@click.option("--offline", is_flag=True, help="Do not try to reach ZooKeeper.")
def check(offline: bool) -> None:
    """Read the configuration, say everything that is wrong with it, and try to reach ZooKeeper."""
    import msgspec

    from nodepool_ocb import config

    found = asked("config") or config.find()
    settings = connection.settings()
    if not offline:
        with connection.session():
            pass
    told = msgspec.to_builtins(settings)
    if told["zookeeper"].get("password"):
        told["zookeeper"]["password"] = "***"
    document = {"file": str(found) if found else None, "zookeeper_reached": not offline, "settings": told}
    shown = {"file": document["file"], "zookeeper reached": not offline}
    for section, values in told.items():
        shown |= (
            {f"{section}.{key}": value for key, value in values.items()}
            if isinstance(values, dict)
            else {section: values}
        )
    output.thing(document, str(found or "defaults"), output.fields(shown))
