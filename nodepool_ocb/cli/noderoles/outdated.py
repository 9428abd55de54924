"""Outdated noderoles, for verbs that are not operations yet; ``operations.commits.outdated`` has the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.commits.outdated import Outdated as Outdated
from nodepool_ocb.operations.commits.outdated import concealed as concealed
from nodepool_ocb.views.noderoles import OutdatedRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.blobs import Read
    from nodepool_ocb.store.client.session import Session


def find(opened: Session, world: World, vertices: Iterable[Vertex]) -> Outdated:
    return performer().read(outdated.find(world, vertices), opened)


def attributes(opened: Session, vertices: Sequence[Vertex]) -> Read:
    return performer().read(outdated.attributes(vertices), opened)


def rows(opened: Session, world: World, found: Outdated) -> list[OutdatedRow]:
    return performer().read(outdated.rows(world, found), opened)


def sentences(opened: Session, world: World, concerned: Callable[[Vertex], bool]) -> list[str]:
    return performer().read(outdated.sentences(world, concerned), opened)
