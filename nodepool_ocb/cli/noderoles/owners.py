"""All attributes of a cluster, by owner: for commands that look for secrets among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.cli.kit import output
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.inputs.layers import BLOBS
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Spoiled
from nodepool_ocb.model.records import Json
from nodepool_ocb.views.cluster import Owned

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


class Blob(msgspec.Struct, frozen=True):
    """The attributes that a noderole keeps in a znode of their own."""

    name: str
    role: str
    path: str
    value: Json
    version: int


def of(opened: Session, world: World, roles: Collection[str] | None = None) -> Iterator[Owned]:
    """Those of roles, of roles in deployments, and of noderoles; ``roles``: of these alone."""
    for name, role in sorted(world.roles.items()):
        if roles is None or name in roles:
            yield f"role {name}", name, role.record.template
    for (deployment, name), stored in sorted(world.deployment_roles.items()):
        if roles is None or name in roles:
            yield f"{name} in {deployment} (user)", name, stored.record.user
            yield f"{name} in {deployment} (system)", name, stored.record.system
    for each in blobs(opened, world, roles):
        yield each.name, each.role, each.value


def blobs(opened: Session, world: World, roles: Collection[str] | None = None) -> Iterator[Blob]:
    """The attributes of all noderoles, or of those of these roles; a record that cannot be decoded is named, and left out."""
    from nodepool_ocb.store.client import codec

    vertices = [each for each in world.vertices() if roles is None or each.role in roles]
    wanted = [
        (f"{vertex.name} ({layer})", vertex.role, path)
        for vertex in sorted(vertices, key=lambda each: each.name)
        for layer, path in zip(BLOBS, unreadable.blobs(vertex), strict=True)
    ]
    for (name, role, path), znode in zip(wanted, opened.get_many([path for *_, path in wanted]), strict=True):
        try:
            if znode is not None:
                yield Blob(name, role, path, codec.attributes(znode), znode.version)
        except Spoiled as wrong:
            output.say(f"warning: {wrong}")
