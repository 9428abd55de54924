"""The admin domain, to which the names of nodes belong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodepool_ocb.engine.world import World

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings


def admin_domain(world: World, settings: Settings) -> str | None:
    """The domain of the configuration, or else that of the cluster's record."""
    return settings.admin_domain or (world.cluster.record.admin_domain if world.cluster else None)
