"""Attributes by owner, for verbs that are not operations yet; ``operations.owners`` has the rules."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine.world import World
from nodepool_ocb.operations import owners
from nodepool_ocb.operations.reads.noderoles import OwnedBlob
from nodepool_ocb.views.cluster import Owned

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


def of(opened: Session, world: World, roles: Collection[str] | None = None) -> list[Owned]:
    return performer().read(owners.of(world, roles), opened)


def blobs(opened: Session, world: World) -> list[OwnedBlob]:
    return performer().read(owners.blobs(world), opened)
