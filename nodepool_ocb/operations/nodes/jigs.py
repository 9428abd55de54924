"""The jigs that can run now."""

from __future__ import annotations

from nodepool_ocb.engine.world import World


def active_jigs(world: World) -> set[str] | None:
    """The jigs of the running annealers; None if no annealer runs, so that none can be asked."""
    return {jig for daemon in world.annealers.values() for jig in daemon.jigs} if world.annealers else None
