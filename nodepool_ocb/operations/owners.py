"""All attributes of a cluster by owner, for operations that look for secrets among them. Pure: each function yields its reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from nodepool_ocb.engine import powering, unreadable
from nodepool_ocb.engine.inputs.layers import BLOBS
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.noderoles import OwnedBlob, ReadOwnedBlobs
from nodepool_ocb.views.cluster import Owned

READS: Final = (ReadOwnedBlobs,)


def of(world: World, roles: Collection[str] | None = None) -> Steps[list[Owned]]:
    """The attributes of roles, of roles in deployments, and of noderoles, and passwords of BMCs; ``roles``: of these alone."""
    found: list[Owned] = []
    for name, role in sorted(world.roles.items()):
        if roles is None or name in roles:
            found.append((f"role {name}", name, role.record.template))
    for (deployment, name), stored in sorted(world.deployment_roles.items()):
        if roles is None or name in roles:
            found.append((f"{name} in {deployment} (user)", name, stored.record.user))
            found.append((f"{name} in {deployment} (system)", name, stored.record.system))
    own = yield from blobs(world, roles)
    found += ((each.name, each.role, each.value) for each in own)
    return found if roles is not None else [*found, *((name, "", value) for name, value in passwords(world).items())]


def passwords(world: World) -> dict[str, Json]:
    """The passwords of BMCs, each as attributes with the place for which it is encrypted, by owner."""
    found: dict[str, Json] = {}
    for name, stored in sorted(powering.powers(world).items()):
        for field, value in passwords_of(stored.record):
            owner = f"power of {name}" if field == "password" else f"power of {name} ({field})"
            found[owner] = {"power": {"password": value}}
    return found


def passwords_of(record: MachinePower) -> list[tuple[str, Json]]:
    """The passwords of a record, by its fields."""
    fields = (("password", record.password), ("fresh", record.fresh))
    return [(field, value) for field, value in fields if value is not None]


def blobs(world: World, roles: Collection[str] | None = None) -> Steps[list[OwnedBlob]]:
    """The attributes of all noderoles, or of those of these roles; a note names those that cannot be decoded."""
    vertices = [each for each in world.vertices() if roles is None or each.role in roles]
    wanted = [
        (f"{vertex.name} ({layer})", vertex.role, path)
        for vertex in sorted(vertices, key=lambda each: each.name)
        for layer, path in zip(BLOBS, unreadable.blobs(vertex), strict=True)
    ]
    found = yield from ReadOwnedBlobs(tuple(wanted))
    return found
