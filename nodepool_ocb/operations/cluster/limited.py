"""The part of ``status`` that is about some deployments, and the annealers, which work on all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.world import World
from nodepool_ocb.views.nodes import WORST
from nodepool_ocb.views.status import Overview

ANNEALER: Final = "annealer"


def within(found: Overview, world: World, names: frozenset[str], now: float) -> Overview:
    """The part of an overview that is about these deployments. A list that is not named here is empty."""
    noderoles = {each.name: each.record.state for each in world.vertices() if each.record.deployment in names}
    nodes = {name for name, view in world.nodes.items() if view.record is not None and view.record.deployment in names}
    counts = Counter(noderoles.values())
    return replace(
        found,
        aside=tuple(each for each in found.aside if each.what in _aside(found, world, names, nodes, now)),
        noderoles={state: counts[state] for state in WORST},
        errors=_of(found.errors, "noderole", noderoles),
        outdated=_of(found.outdated, "deployment", names),
        drift=_of(found.drift, "deployment", names),
        nodes=replace(
            found.nodes,
            all=len(nodes),
            not_alive=_of(found.nodes.not_alive, "name", nodes),
            not_available=_of(found.nodes.not_available, "name", nodes),
            suspected=_of(found.nodes.suspected, "name", nodes),
        ),
        hooks_without_code=(),
        deployments=_of(found.deployments, "name", names),
        daemons=_of(found.daemons, "kind", {ANNEALER}),
        claims=_of(found.claims, "noderole", noderoles),
        overdue=_of(found.overdue, "noderole", noderoles),
        quarantined=(),
    )


def _of(rows: Iterable[Any], key: str, names: Iterable[str] | Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row for row in rows if getattr(row, key) in names)


def _aside(found: Overview, world: World, names: frozenset[str], nodes: set[str], now: float) -> set[str]:
    """The words of the holds and pauses that keep work of these deployments back; those above them do, too."""
    above = {each for name in names if name in world.deployments for each in maintenance.pauses(world, name, now)}
    own = {maintenance.deployment(name) for name in above} | {f"node {name}" for name in nodes}
    return own | {each.what for each in found.aside if each.what.startswith(f"{ANNEALER}s ")}
