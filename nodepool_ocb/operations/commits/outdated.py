"""Outdated noderoles: ACTIVE, with inputs that changed since their newest run. Pure: each function yields its reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from nodepool_ocb.engine import inputs, unreadable
from nodepool_ocb.engine.inputs import InputChange, concealing
from nodepool_ocb.engine.inputs.layers import BLOBS
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.operations.operation import Note, Steps
from nodepool_ocb.operations.reads.world import ReadAttributes, ReadRunInputs
from nodepool_ocb.views import noderoles as shown
from nodepool_ocb.views.noderoles import OutdatedRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.blobs import FoundBlobs

READS: Final = (ReadAttributes, ReadRunInputs)
SHOWN: Final = 3  # destructive noderoles that are named


class Outdated(msgspec.Struct, frozen=True):
    """The outdated noderoles, and the attributes from which this was decided."""

    vertices: list[Vertex]
    blobs: inputs.Blobs


def find(world: World, vertices: Iterable[Vertex]) -> Steps[Outdated]:
    """As ``found``, in the order of the graph."""
    unordered = yield from found(world, vertices)
    ordered = sorted(unordered.vertices, key=lambda each: (world.depth(each), each.name))
    return replace(unordered, vertices=ordered)


def found(world: World, vertices: Iterable[Vertex]) -> Steps[Outdated]:
    """The outdated ones of ``vertices``; a note names attributes that cannot be read. Noderoles that see these are left out."""
    vertices = list(vertices)
    read = yield from attributes(vertices)
    for reason in read.unreadable.values():
        yield Note(f"warning: noderoles that see these attributes are not reported as outdated: {reason}")
    spoiled = read.unreadable.keys()
    clear = (each for each in vertices if not spoiled or _clear(each, spoiled))
    return Outdated(inputs.all_outdated(world, clear, read.blobs), read.blobs)


def attributes(vertices: Sequence[Vertex]) -> Steps[FoundBlobs]:
    """The attributes that those of ``vertices`` see that may be outdated."""
    read = yield from ReadAttributes(tuple(inputs.read_for(vertices)), tuple(BLOBS.values()))
    return read


def to_run_again(found: Outdated) -> list[Vertex]:
    """The noderoles that a commit runs again in place: all except the destructive ones."""
    return [vertex for vertex in found.vertices if not vertex.destructive]


def left(found: Outdated) -> list[str]:
    """A sentence for each noderole that no commit runs again; the rest is counted after ``SHOWN``."""
    destructive = [vertex for vertex in found.vertices if vertex.destructive]
    said = [
        f"{vertex.name} is outdated and destructive, so it is left: {shown.run_again(vertex)}"
        for vertex in destructive[:SHOWN]
    ]
    if len(destructive) > SHOWN:
        said.append(f"and {len(destructive) - SHOWN} more like it: nodepool-ocb noderole list --outdated")
    return said


def _clear(vertex: Vertex, spoiled: Iterable[str]) -> bool:
    return not any(path in spoiled for each in unreadable.seen_by(vertex) for path in unreadable.blobs(each))


def explanations(world: World, found: Outdated, vertices: Sequence[Vertex]) -> Steps[list[str]]:
    """For each of ``vertices``: that it runs again, and the reason."""
    changed = yield from rows(world, Outdated(list(vertices), found.blobs))
    return [f"{row.noderole} runs again: {row.different}" for row in changed]


def rows(world: World, found: Outdated) -> Steps[list[OutdatedRow]]:
    """Each outdated noderole with the inputs that differ."""
    places = tuple(paths.given(vertex.role, vertex.node.name) for vertex in found.vertices)
    kept = yield from ReadRunInputs(places)
    declared = concealing.of_world(world)
    return [
        shown.outdated(vertex, concealed(inputs.differences(world, vertex, found.blobs, before), declared))
        for vertex, before in zip(found.vertices, kept, strict=True)
    ]


def concealed(found: Iterable[InputChange], declared: frozenset[str]) -> Iterator[InputChange]:
    """The differences without the values that are declared as secret."""
    for each in found:
        before, now = (UNSET if value is UNSET else concealing.IN_PLACE for value in (each.before, each.now))
        yield replace(each, before=before, now=now) if concealing.covers(declared, each.what) else each


def sentences(world: World, concerned: Callable[[Vertex], bool]) -> Steps[list[str]]:
    """The number of outdated noderoles that see a concerned one, and the command that runs them again."""
    if not any(map(concerned, world.vertices())):
        return []
    near = [each for each in world.vertices() if each.record.given and any(map(concerned, unreadable.seen_by(each)))]
    found = yield from find(world, near)
    return shown.sentences(found.vertices)
