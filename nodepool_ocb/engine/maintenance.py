"""Holds and pauses: a node that is held, a deployment or a daemon that is paused. Nothing new is claimed there.

A hold or pause has an author, a reason, and optionally an end. At its end, by ZooKeeper's clock, it has no effect any more
without a write. Its record stays until a command lifts or replaces it. A different person may lift it, but may not replace
its reason while it holds. A run that must be ended is ended all the same. Pure.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TypeGuard

from msgspec.structs import replace

from nodepool_ocb.engine import deployments
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Change, Node, Set


def holds(aside: Maintenance | None, now: float) -> TypeGuard[Maintenance]:
    """Whether it is set aside now.

    >>> holds(Maintenance(by="ann", since=0.0, until=60.0), 59.0), holds(Maintenance(by="ann", since=0.0, until=60.0), 60.0)
    (True, False)
    """
    return aside is not None and (aside.until is None or now < aside.until)


def held(node: Node | None, now: float) -> bool:
    """Whether the node is held now."""
    return node is not None and holds(node.hold, now)


def sentence(aside: Maintenance) -> str:
    """The author, the end and the reason, as the end of a sentence.

    >>> sentence(Maintenance(by="ann", reason="new disk", since=0.0, until=3600.0))
    'by ann until 1970-01-01T01:00:00Z: new disk'
    """
    until = f" until {datetime.fromtimestamp(aside.until, UTC):%Y-%m-%dT%H:%M:%SZ}" if aside.until is not None else ""
    return f"by {aside.by}{until}" + (f": {aside.reason}" if aside.reason else "")


def put(
    before: Maintenance | None, what: str, lift: str, by: str, reason: str | None, now: float, until: float | None
) -> Maintenance:
    """The new hold or pause; ``before`` if it has the same author, reason and end already.

    ``what`` is the clause for messages ("node n1 is held"), ``lift`` is the command that undoes it. Raises Conflict if a
    different person set it aside and that still holds, Invalid for an end that has passed.
    """
    if until is not None and until <= now:
        raise Invalid("the given end is in the past; give a time in the future")
    if holds(before, now):
        if before.by != by:
            raise Conflict(f"{what} {sentence(before)}; to end it: {lift}")
        if (before.reason, before.until) == (reason, until):
            return before
    return Maintenance(by=by, reason=reason, since=now, until=until)


def pauses(world: World, deployment: str, now: float) -> dict[str, Maintenance]:
    """The pauses that hold for a deployment now: its own and those of the deployments above it, by name, the uppermost first."""
    line = reversed(world.line(deployment))
    return {name: pause for name in line if holds(pause := world.paused.get(name), now)}


def ends(world: World, vertex: Vertex, now: float) -> float | None:
    """The earliest end of a hold or pause of a noderole, in seconds since 1970; None if none holds, or none has an end."""
    node = vertex.node.record
    found = [node.hold] if node is not None and holds(node.hold, now) else []
    found += pauses(world, vertex.record.deployment, now).values() if world.paused else ()
    return min((each.until for each in found if each.until is not None), default=None)


def next_end(world: World, now: float) -> float:
    """When a hold of a node or a pause of a deployment ends next; infinite without one."""
    nodes = (view.record.hold for view in world.nodes.values() if view.record is not None)
    found = [each for each in (*world.paused.values(), *nodes) if each is not None]
    return min((each.until for each in found if each.until is not None and now < each.until), default=math.inf)


def pause(world: World, name: str, by: str, reason: str | None, now: float, until: float | None) -> list[Change]:
    """Pause a deployment: nothing new begins in it or below it. Empty if ``by`` paused it already with this reason and end.

    Raises NotFound, and the errors of ``put``.
    """
    stored = deployments.of(world, name)
    what, before = f"{deployment(name)} is paused", stored.record.pause
    made = put(before, what, resuming(name), by, reason, now, until)
    return [] if made is before else [Set(paths.deployment(name), replace(stored.record, pause=made), stored.version)]


def resume(world: World, name: str) -> list[Change]:
    """Delete the pause of a deployment from its record; empty if there is none. Raises NotFound."""
    stored = deployments.of(world, name)
    if stored.record.pause is None:
        return []
    return [Set(paths.deployment(name), replace(stored.record, pause=None), stored.version)]


def daemons(kind: str, host: str) -> str:
    """How the daemons that are paused are called."""
    return f"{kind}s of host {host}"


def resuming_daemons(kind: str, host: str) -> str:
    """The command that resumes them."""
    return f"nodepool-ocb daemon resume {kind}@{host}"


def deployment(name: str) -> str:
    """How a deployment that is paused is called: all that annealers do is in system, or below it."""
    return "everything" if name == SYSTEM else f"deployment {name}"


def releasing(fqdn: str) -> str:
    """The command that releases a node."""
    return f"nodepool-ocb node release {fqdn}"


def resuming(name: str) -> str:
    """The command that resumes it."""
    return "nodepool-ocb resume" if name == SYSTEM else f"nodepool-ocb deployment resume {name}"
