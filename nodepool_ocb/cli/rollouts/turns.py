"""Reservations of rollouts, for verbs that are not operations yet; ``operations.commits.reservations`` has the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.commits.reservations import owned as owned

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


def refuse(opened: Session, world: World, vertices: Sequence[Vertex]) -> None:
    performer().read(reservations.refuse_reserved(world, vertices), opened)


def warn(opened: Session, world: World, deployment: str, effect: str) -> None:
    performer().read(reservations.warn(world, deployment, effect), opened)
