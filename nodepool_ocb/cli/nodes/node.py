"""``nodepool-ocb node``."""

from __future__ import annotations

from typing import Final

import click

from nodepool_ocb.cli.kit.options import Noun

PLACE: Final = "nodepool_ocb.cli.nodes"


@click.group(
    cls=Noun,
    modules={
        f"{PLACE}.binding": ("bind",),
        f"{PLACE}.changing": ("set", "move", "available", "unavailable", "commit"),
        f"{PLACE}.creating": ("create",),
        f"{PLACE}.deleting": ("delete",),
        f"{PLACE}.marking": ("alive", "dead"),
        f"{PLACE}.reading": ("list", "show"),
        f"{PLACE}.reinstalling": ("reinstall", "decommission", "recommission", "rescue"),
        f"{PLACE}.renaming": ("rename",),
        "nodepool_ocb.cli.joining.machines": ("adopt", "hint", "machine", "inventory", "going-down"),
        "nodepool_ocb.cli.maintenance.node": ("hold", "release"),
        "nodepool_ocb.cli.site.importing": ("import",),
    },
)
def command() -> None:
    """Machines: create, bind roles to them, commit, take out of service."""
