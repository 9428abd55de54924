"""The layers of attributes that a jig sees, the weakest first (semantics: "The jig sees").

The hints of the node; all that the ACTIVE noderoles beside it say; its ancestors, from the most distant row to the
nearest; its own. Each noderole brings its role's template, what its deployment sets for the role, its wall, and what the
system and the user set. Of the noderoles beside, which are in no order, all templates come first, then all that deployments
set, and so on: a default of one hides nothing that somebody set for another.

``sources`` takes from the world what is needed, and ``layers`` lays the blobs that were read meanwhile between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.attributes import merge
from nodepool_ocb.engine.inputs.templates import template, watched
from nodepool_ocb.engine.world import Vertex, World, ancestors
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, Role, State

#: The attributes that were read, by path; a path without any is not there.
Blobs: TypeAlias = Mapping[str, Mapping[str, Json]]


class Kind(StrEnum):
    """Who says what is in a layer; the weakest first."""

    HINTS = "hints"
    TEMPLATE = "template"
    DEPLOYMENT_SYSTEM = "deployment system"
    DEPLOYMENT_USER = "deployment user"
    WALL = "wall"
    SYSTEM = "system"
    USER = "user"
    RUN = "run"  # of tasks


#: What a noderole keeps in znodes of its own, by their names; in the order of their paths in unreadable.blobs.
BLOBS: Final[Mapping[Kind, str]] = {Kind.WALL: "wall", Kind.SYSTEM: "system", Kind.USER: "user"}


class Layer(msgspec.Struct, frozen=True):
    """What one says: ``subject`` is a noderole; for what a deployment sets ROLE of DEPLOYMENT, for hints the node."""

    kind: Kind
    subject: str
    values: Mapping[str, Json]

    def __str__(self) -> str:
        words = {Kind.TEMPLATE: "default of role", Kind.DEPLOYMENT_USER: "deployment: role"}
        words |= {Kind.DEPLOYMENT_SYSTEM: "deployment's system: role", Kind.HINTS: "hints of node"}
        return f"{words.get(self.kind, f'{self.kind} of')} {self.subject}"


class Source(msgspec.Struct, frozen=True):
    """A noderole that attributes come from."""

    name: str
    role: str
    fqdn: str
    shared: tuple[Layer, ...]  # of its role and its deployment
    blobs: tuple[str, ...]  # the paths of what is kept for itself, as BLOBS has them

    def layers(self, blobs: Blobs) -> Iterator[Layer]:
        """The weakest first; those that say nothing are left out."""
        yield from self.shared
        for kind, path in zip(BLOBS, self.blobs, strict=True):
            if values := blobs.get(path):
                yield Layer(kind, self.name, values)


class Sources(msgspec.Struct, frozen=True):
    """Where the attributes of a noderole come from, and what else its run is given."""

    own: Source
    beside: tuple[Source, ...]  # the ACTIVE noderoles of its node, but for its ancestors
    above: tuple[tuple[Source, ...], ...]  # its ancestors, the most distant row first
    hints: Mapping[str, Json]
    role: Role
    watched: tuple[str, ...]  # the places that its role declares, or wants
    facts: tuple[str, ...] = ()  # of a task: the paths of what its run gives to all nodes, and to this one

    @property
    def blobs(self) -> list[str]:
        """The paths of all that is to be read, each once."""
        return list(dict.fromkeys(chain((path for each in self.everyone for path in each.blobs), self.facts)))

    @property
    def everyone(self) -> Iterator[Source]:
        return chain((self.own,), self.beside, *self.above)


class Catalogue:
    """The roles and deployments of a world, as sources need them; asks each but once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._roles = {name: stored.record for name, stored in world.roles.items()}
        self._shared: dict[tuple[str, str], tuple[Layer, ...]] = {}
        self._watched: dict[str, tuple[str, ...]] = {}
        self._sources: dict[Vertex, Source] = {}

    def source(self, vertex: Vertex) -> Source:
        found = self._sources.get(vertex)
        if found is None:
            shared = self._of(vertex.record.deployment, vertex.role)
            blobs = unreadable.blobs(vertex)
            found = self._sources[vertex] = Source(vertex.name, vertex.role, vertex.node.name, shared, blobs)
        return found

    def watched(self, role: str) -> tuple[str, ...]:
        if role not in self._watched:
            self._watched[role] = watched(self._roles, role) if role in self._roles else ()
        return self._watched[role]

    def _of(self, deployment: str, role: str) -> tuple[Layer, ...]:
        key = deployment, role
        if key not in self._shared:
            self._shared[key] = tuple(layer for layer in self._read(deployment, role) if layer.values)
        return self._shared[key]

    def _read(self, deployment: str, role: str) -> Iterator[Layer]:
        if role in self._roles:
            yield Layer(Kind.TEMPLATE, role, template(self._roles, role))
        stored = self._world.deployment_roles.get((deployment, role))
        if stored is not None:
            yield Layer(Kind.DEPLOYMENT_SYSTEM, f"{role} of {deployment}", stored.record.system)
            yield Layer(Kind.DEPLOYMENT_USER, f"{role} of {deployment}", stored.record.user)


def sources(world: World, vertex: Vertex, role: Role, catalogue: Catalogue | None = None) -> Sources:
    """Everything that a noderole may see; ``role``: its own, as it is run.

    A task sees what its run gives it, and nothing else.
    """
    if vertex.record.task_run is not None:
        return _of_task(vertex, role, vertex.record.deployment, vertex.record.task_run)
    catalogue = catalogue or Catalogue(world)
    node = vertex.node
    above = ancestors(vertex)
    others = {vertex, *(each for row in above for each in row)}
    active = (each for each in node.noderoles.values() if each.record.state is State.ACTIVE and each not in others)
    return Sources(
        catalogue.source(vertex),
        tuple(catalogue.source(each) for each in sorted(active, key=lambda each: each.role)),
        tuple(tuple(map(catalogue.source, row)) for row in reversed(above)),
        node.record.hints if node.record else {},
        role,
        catalogue.watched(vertex.role),
    )


def _of_task(vertex: Vertex, role: Role, deployment: str, run: str) -> Sources:
    fqdn = vertex.node.name
    facts = paths.task_facts(deployment, run), paths.task_facts(deployment, run, fqdn)
    own = Source(vertex.name, vertex.role, fqdn, (), unreadable.blobs(vertex))
    return Sources(own, (), (), {}, role, (), facts)


def _facts(sources: Sources, blobs: Blobs) -> Iterator[Layer]:
    """What a run of tasks gives: of the parameters that differ by node, those of this task."""
    for path in sources.facts:
        values = dict(blobs.get(path, {}))
        parameters = values.pop("parameters", {}).get(sources.role.task)
        yield Layer(Kind.RUN, path, values | ({"task": {"parameters": parameters}} if parameters else {}))


def layers(sources: Sources, blobs: Blobs) -> list[Layer]:
    """All of them, the weakest first."""
    if sources.facts:
        return [*_facts(sources, blobs), *sources.own.layers(blobs)]
    above = (layer for row in sources.above for each in row for layer in each.layers(blobs))
    return [*around(sources, blobs), *above, *sources.own.layers(blobs)]


def around(sources: Sources, blobs: Blobs) -> list[Layer]:
    """What is seen of the node and of the noderoles beside."""
    beside = [layer for each in sources.beside for layer in each.layers(blobs)]
    beside.sort(key=lambda layer: _STRENGTH[layer.kind])
    hints = [Layer(Kind.HINTS, sources.own.fqdn, sources.hints)] if sources.hints else []
    return [*hints, *beside]


def visible(layers: Iterable[Layer]) -> dict[str, Json]:
    """What a jig sees of these layers."""
    merged: dict[str, Json] = {}
    for layer in layers:
        merged = merge(merged, layer.values)
    return merged


_STRENGTH: Final = {kind: strength for strength, kind in enumerate(Kind)}
