"""Extensions that annealers leave out, as their registrations name them. Pure."""

from __future__ import annotations

from nodepool_ocb.engine.world import World
from nodepool_ocb.extensions import reasons


def left_out(world: World, kind: str, *names: str) -> str:
    """The reason of the first annealer that leaves out an extension of one of these names; empty if none does."""
    for identity, daemon in sorted(world.annealers.items()):
        for reason in reasons(daemon.left_out, kind, *names):
            return f"annealer {identity} leaves it out: {reason}"
    return ""
