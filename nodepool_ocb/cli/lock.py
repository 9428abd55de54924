"""``nodepool-ocb lock``."""

from __future__ import annotations

import click

from nodepool_ocb.cli import connection, output
from nodepool_ocb.cli.common import Noun
from nodepool_ocb.model import Json
from nodepool_ocb.world import World


@click.group(cls=Noun)
def command() -> None:
    """Who works on which node now."""


@command.command("list")
def list_() -> None:
    """Every claim: the node, its owner, the noderole that it is for, and since when."""
    output.things(rows(connection.world()), ("node", "owner", "host", "noderole", "epoch", "since"), key="node")


def rows(world: World) -> list[dict[str, Json]]:
    """The claims, by node."""
    told: list[dict[str, Json]] = []
    for fqdn, view in sorted(world.nodes.items()):
        if view.claim is not None:
            owner = world.annealers.get(view.claim.annealer)
            told.append(
                {
                    "node": fqdn,
                    "owner": view.claim.annealer,
                    "host": owner.host if owner else None,
                    "session": f"0x{view.claim_owner:x}",
                    "noderole": view.claim.noderole,
                    "run": view.claim.run,
                    "epoch": view.claim.epoch,
                    "since": view.claim.since,
                }
            )
    return told
