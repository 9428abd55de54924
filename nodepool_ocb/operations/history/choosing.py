"""The choice of entries: by names, by a selector, by time. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nodepool_ocb.operations.operation import Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.selection import MatchNoderoles, MatchNodes

READS = (ReadWorld, MatchNodes, MatchNoderoles)


def beside(names: Sequence[str]) -> Steps[frozenset[str]]:
    """The subjects through which a deployment changes a noderole of these names: the deployment, and the role in it."""
    wanted = [name for name in names if "@" in name]
    if not wanted:
        return frozenset()
    world = yield from ReadWorld()
    found = [(name.partition("@")[0], vertex) for name in wanted if (vertex := world.vertex(name)) is not None]
    pairs = [(role, deployment) for role, vertex in found for deployment in world.line(vertex.record.deployment)]
    return frozenset(subject for role, deployment in pairs for subject in (deployment, f"{role} in {deployment}"))


def meant(selector: str | None) -> Steps[frozenset[str] | None]:
    """The names of the nodes and noderoles that a selector means now; None without one."""
    if selector is None:
        return None
    yield from ReadWorld()
    nodes = yield from MatchNodes(selector)
    noderoles = yield from MatchNoderoles(selector)
    return (nodes or frozenset()) | (noderoles or frozenset())


def since(situation: Situation, moment: float | None, seconds: float | None) -> float | None:
    """The time from which entries are wanted: ``moment``, or ``seconds`` ago."""
    return moment if seconds is None else situation.now - seconds
