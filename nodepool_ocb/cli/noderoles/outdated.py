"""Which noderoles are outdated: they are ACTIVE, and would be given something else than their newest runs were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from nodepool_ocb.cli.kit import output
from nodepool_ocb.engine import inputs, unreadable
from nodepool_ocb.engine.inputs import Difference, concealing
from nodepool_ocb.engine.inputs.layers import BLOBS
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.views import noderoles as shown
from nodepool_ocb.views.noderoles import OutdatedRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.blobs import Read
    from nodepool_ocb.store.client.session import Session

SHOWN: Final = 3  # of those that are alike


class Outdated(msgspec.Struct, frozen=True):
    """Those that are, in the order of the graph, and the attributes that this was seen from."""

    vertices: list[Vertex]
    blobs: inputs.Blobs


def find(opened: Session, world: World, vertices: Iterable[Vertex]) -> Outdated:
    """Those of ``vertices`` that are outdated; says which attributes cannot be read: of who sees these nothing is said."""
    vertices = list(vertices)
    read = attributes(opened, vertices)
    for reason in read.unreadable.values():
        output.say(f"warning: who sees these is not said to be outdated: {reason}")
    spoiled = read.unreadable.keys()
    found = inputs.all_outdated(world, (each for each in vertices if not spoiled or _clear(each, spoiled)), read.blobs)
    return Outdated(sorted(found, key=lambda each: (world.depth(each), each.name)), read.blobs)


def attributes(opened: Session, vertices: Iterable[Vertex]) -> Read:
    """The attributes that those of ``vertices`` see that may be outdated."""
    from nodepool_ocb.store.client import blobs

    return blobs.read(opened, inputs.read_for(vertices), BLOBS.values())


def to_run_again(found: Outdated) -> list[Vertex]:
    """Those of them that a commit runs again in place: all but those whose roles are destructive."""
    return [vertex for vertex in found.vertices if not vertex.destructive]


def say_what_is_left(found: Outdated) -> None:
    """Say which of them no commit runs again."""
    left = [vertex for vertex in found.vertices if vertex.destructive]
    for vertex in left[:SHOWN]:
        output.say(f"{vertex.name} is outdated and destructive, so it is left: {shown.run_again(vertex)}")
    if len(left) > SHOWN:
        output.say(f"and {len(left) - SHOWN} more like it: nodepool-ocb noderole list --outdated")


def _clear(vertex: Vertex, spoiled: Iterable[str]) -> bool:
    return not any(path in spoiled for each in unreadable.seen_by(vertex) for path in unreadable.blobs(each))


def explanations(opened: Session, world: World, found: Outdated, vertices: Sequence[Vertex]) -> list[str]:
    """For each of ``vertices``, that it runs again, and why."""
    wanted = Outdated(list(vertices), found.blobs)
    return [f"{row.noderole} runs again: {row.different}" for row in rows(opened, world, wanted)]


def rows(opened: Session, world: World, found: Outdated) -> list[OutdatedRow]:
    """Each with what differs."""
    from nodepool_ocb.store.client import blobs

    kept = blobs.given(opened, [paths.given(vertex.role, vertex.node.name) for vertex in found.vertices])
    declared = concealing.of_world(world)
    return [
        shown.outdated(vertex, concealed(inputs.differences(world, vertex, found.blobs, before), declared))
        for vertex, before in zip(found.vertices, kept, strict=True)
    ]


def concealed(found: Iterable[Difference], declared: frozenset[str]) -> Iterator[Difference]:
    """The differences without the values that are declared as secret."""
    for each in found:
        before, now = (UNSET if value is UNSET else concealing.IN_PLACE for value in (each.before, each.now))
        yield replace(each, before=before, now=now) if concealing.covers(declared, each.what) else each


def sentences(opened: Session, world: World, concerned: Callable[[Vertex], bool]) -> list[str]:
    """How many of those that see somebody concerned are outdated, and how they are run again."""
    if not any(map(concerned, world.vertices())):
        return []
    near = [each for each in world.vertices() if each.record.given and any(map(concerned, unreadable.seen_by(each)))]
    return shown.sentences(find(opened, world, near).vertices)
