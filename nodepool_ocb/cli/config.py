"""``nodepool-ocb config``."""

from __future__ import annotations

from pathlib import Path

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Noun, asked
from nodepool_ocb.cli.kit.performing import direct
from nodepool_ocb.views.cluster import config_words


@click.group(cls=Noun)
def command() -> None:
    """Check the configuration."""


@command.command(local="It checks the configuration file of this host.")
@click.option("--offline", is_flag=True, help="Do not try to reach ZooKeeper.")
@click.option(
    "--nodepool",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file with diskimages, providers and labels, instead of those that the configuration names.",
)
def check(offline: bool, nodepool: Path | None) -> None:
    """Read the configuration, report its faults, and try to reach ZooKeeper.

    It also reports key files, folders and certificates that daemons of this host would lack, as far as the present user
    can see them.

    The file with diskimages and providers (builder.nodepool) is part of it where it exists. Its diskimages are checked
    by their backends. Providers that a builder of this host would leave out are warned of.

    So is the file with labels and pools (launcher.nodepool). It warns of the keys that launchers refuse, and lists the
    pools without a driver here.
    """
    from nodepool_ocb.operations import configuration  # here, since it loads providers and backends

    document = configuration.checked(direct(), asked("config"), nodepool, offline=offline)
    output.thing(document, document.file or "defaults", output.fields(config_words(document)))
