"""``nodepool-ocb lock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, LockOwner

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.group(cls=Noun)
def command() -> None:
    """Who works on what now."""


@command.command("list")
def list_() -> None:
    """Every claim on a node, and every lock on a rollout, an image's builds or a build's uploads: whose, and since when."""
    with session.session() as opened:
        world = session.load(opened)
        found = [*rows(world), *rollout_locks(opened), *locks(opened, imaging.load(opened))]
    output.things(found, ("kind", "name", "owner", "host", "purpose", "since"))


def locks(opened: Session, images: imaging.Images) -> list[dict[str, Json]]:
    """The locks of builders, builds before uploads."""
    from nodepool_ocb.store.locks import holders

    uploads = dict.fromkeys(
        (view.name, upload.build, upload.provider) for view in images.values() for upload in imaging.uploads_of(view)
    )
    held: dict[tuple[str, str], LockOwner | None] = {("image", name): view.holder for name, view in images.items()}
    found = holders(opened, [paths.upload_lock(*each) for each in uploads])
    for (name, build, provider), holder in zip(uploads, found, strict=True):
        held["upload", f"{name}-{build} {provider}"] = holder
    return [_lock(kind, name, holder) for (kind, name), holder in sorted(held.items()) if holder is not None]


def rollout_locks(opened: Session) -> list[dict[str, Json]]:
    """Who drives which rollout."""
    from nodepool_ocb.store import rollouts

    listed = rollouts.list_(opened)
    return [_lock("rollout", rolling.name(each.deployment, each.id), each.holder) for each in listed if each.holder]


def _lock(kind: str, name: str, holder: LockOwner) -> dict[str, Json]:
    return {
        "kind": kind,
        "name": name,
        "owner": holder.daemon,
        "host": holder.host,
        "pid": holder.pid,
        "purpose": holder.purpose,
        "since": holder.since,
    }


def rows(world: World) -> list[dict[str, Json]]:
    """The claims, by node."""
    made: list[dict[str, Json]] = []
    for fqdn, view in sorted(world.nodes.items()):
        if view.claim is not None:
            owner = world.annealers.get(view.claim.annealer)
            made.append(
                {
                    "kind": "node",
                    "name": fqdn,
                    "node": fqdn,
                    "owner": view.claim.annealer,
                    "host": owner.host if owner else None,
                    "session": f"0x{view.claim_owner:x}",
                    "noderole": view.claim.noderole,
                    "purpose": view.claim.noderole,
                    "run": view.claim.run,
                    "epoch": view.claim.epoch,
                    "since": view.claim.since,
                }
            )
    return made
