"""The changes that a caller with limits may write: those of records inside them. Pure.

An operation on an object inside may move others: the noderoles of a node that dies, or those below a noderole that is set back.
Each transaction is judged before it is written. A new record is judged as it is after the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine.advancing import advance, copied
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Denied
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Append, Change, Check, Raise
from nodepool_ocb.operations.limits.narrowing import Limits, names_within

_DEPLOYMENT: Final = "deployment "  # before its name, which may be that of a node


class WritePermit:
    """Of one call: ``begin`` gets each world that the call reads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: frozenset[str] = frozenset()
        self._inside: frozenset[str] = frozenset()

    def begin(self, world: World) -> None:
        """The names of now. Raises Invalid for a wrong selector."""
        self._known = frozenset(world.nodes) | {vertex.name for vertex in world.vertices()}
        self._inside = names_within(world, self._limits)

    def require(self, title: str, world: World, changes: Sequence[Change]) -> None:
        """Raises Denied, with the number of the objects outside; ``world``: from which the changes were decided."""
        written = frozenset(_written(changes))
        deployments = {name for name in written if name.startswith(_DEPLOYMENT)}
        names = written - deployments
        inside = self._inside
        if not names <= self._known:
            inside |= self._after(world, changes) - self._known
        own = {f"{_DEPLOYMENT}{name}" for name in self._limits.deployments} or deployments
        outside = len(names - inside) + len(deployments - own)
        if outside:
            raise Denied(
                f"{title} would also change {counted(outside, 'object')} outside the limits of this token, so it is refused;"
                " use a token without these limits"
            )

    def _after(self, world: World, changes: Sequence[Change]) -> frozenset[str]:
        after = copied(world)
        advance(after, changes)
        return names_within(after, self._limits)


def _written(changes: Iterable[Change]) -> Iterable[str]:
    """The nodes, noderoles and deployments that changes write, or a part of them. Gates and fences count versions alone."""
    for change in changes:
        if isinstance(change, Check | Append | Raise):
            continue
        match change.path.split("/")[2:]:
            case ["nodes", node, "noderoles", role, *_]:
                yield paths.noderole_name(role, node)
            case ["nodes", node] | ["nodes", node, "inventory" | "noderoles" | "power"]:
                yield node
            case ["deployments", name] | ["deployments", name, "roles", *_]:
                yield f"{_DEPLOYMENT}{name}"
