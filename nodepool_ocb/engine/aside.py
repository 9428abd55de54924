"""What is set aside: nodes are held, deployments and daemons are paused, and nothing new is claimed there.

Whoever sets something aside says why, and perhaps until when. That ends it by itself, by ZooKeeper's clock: nobody writes
anything then, and the record of what is over stays until it is lifted or replaced. Another person may lift what one has set
aside, and not put another reason over it: nobody's reason is lost. A run that is to be ended is ended all the same. Pure.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeGuard

from msgspec.structs import replace

from nodepool_ocb.engine import deployments
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.aside import Aside
from nodepool_ocb.model.records import Change, Node, Set


def holds(aside: Aside | None, now: float) -> TypeGuard[Aside]:
    """Whether it is set aside now.

    >>> holds(Aside(by="ann", since=0.0, until=60.0), 59.0), holds(Aside(by="ann", since=0.0, until=60.0), 60.0)
    (True, False)
    """
    return aside is not None and (aside.until is None or now < aside.until)


def held(node: Node | None, now: float) -> bool:
    """Whether the node is held now."""
    return node is not None and holds(node.hold, now)


def sentence(aside: Aside) -> str:
    """Who, until when and why, as the end of a sentence.

    >>> sentence(Aside(by="ann", reason="new disk", since=0.0, until=3600.0))
    'by ann until 1970-01-01T01:00:00Z: new disk'
    """
    until = f" until {datetime.fromtimestamp(aside.until, UTC):%Y-%m-%dT%H:%M:%SZ}" if aside.until is not None else ""
    return f"by {aside.by}{until}" + (f": {aside.reason}" if aside.reason else "")


def put(
    before: Aside | None, what: str, lift: str, by: str, reason: str | None, now: float, until: float | None
) -> Aside:
    """What is to stand there; ``before`` where it says the same already.

    ``what`` names it with what was done to it ("node n1 is held"), ``lift`` is the command that undoes that. Raises Conflict
    where somebody else has set it aside, Invalid for a time that is over.
    """
    if until is not None and until <= now:
        raise Invalid("that would be over before it begins; name a time that is still to come")
    if holds(before, now):
        if before.by != by:
            raise Conflict(f"{what} {sentence(before)}; when that is over: {lift}")
        if (before.reason, before.until) == (reason, until):
            return before
    return Aside(by=by, reason=reason, since=now, until=until)


def pauses(world: World, deployment: str, now: float) -> dict[str, Aside]:
    """What pauses a deployment now: its own pause and those of the deployments above it, by name, the uppermost first."""
    line = reversed(world.line(deployment))
    return {name: pause for name in line if holds(pause := world.paused.get(name), now)}


def ends(world: World, vertex: Vertex, now: float) -> float | None:
    """When the first of what sets a noderole aside is over by itself; None where nothing does, or only people end it."""
    node = vertex.node.record
    found = [node.hold] if node is not None and holds(node.hold, now) else []
    found += pauses(world, vertex.record.deployment, now).values() if world.paused else ()
    return min((each.until for each in found if each.until is not None), default=None)


def pause(world: World, name: str, by: str, reason: str | None, now: float, until: float | None) -> list[Change]:
    """Nothing new begins in the deployment, or below it; empty where that is so already, for the same reason.

    Raises NotFound; and what ``put`` raises.
    """
    stored = deployments.of(world, name)
    what, before = f"{deployment(name)} is paused", stored.record.pause
    made = put(before, what, resuming(name), by, reason, now, until)
    return [] if made is before else [Set(paths.deployment(name), replace(stored.record, pause=made), stored.version)]


def resume(world: World, name: str) -> list[Change]:
    """What is left of a pause goes; empty where there is none. Raises NotFound."""
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
