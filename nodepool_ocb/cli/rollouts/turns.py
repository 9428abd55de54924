"""Reservations of rollouts, for verbs that are not operations yet; ``operations.commits.reservations`` has the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.commits.reservations import owned as owned
from nodepool_ocb.operations.performer import Reader

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

force_option = click.option("--force", is_flag=True, help="Also what a rollout under way commits in its turn.")


def kept(
    opened: Session, world: World, vertices: Sequence[Vertex], transactions: Iterable[Sequence[Change]], force: bool
) -> Iterator[Sequence[Change]]:
    return Reader(performer(), opened, {}).transactions(reservations.guarded(world, vertices, transactions, force))


def refuse(opened: Session, world: World, vertices: Sequence[Vertex]) -> None:
    performer().read(reservations.refuse_reserved(world, vertices), opened)


def warn(opened: Session, world: World, deployment: str, effect: str) -> None:
    performer().read(reservations.warnings(world, deployment, effect), opened)
