"""The layers of attributes that a jig sees, the weakest first (semantics: "The jig sees").

The facts of the machine come first, then the hints of the node, then the attributes of the ACTIVE noderoles beside it. Its
ancestors follow, from the most distant row to the nearest. Its own attributes are the last. Each noderole brings its role's
template and the attributes that its deployment sets for the role. Its wall follows, then the attributes of the system and of
the user. The noderoles beside have no order among themselves. So all their templates come first, then all attributes of
deployments, and so on. A default of one role hides no value that was set for another one.

``sources`` takes the records from the world. ``layers`` inserts the blobs that were read meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.attributes import merge
from nodepool_ocb.engine.inputs import machine
from nodepool_ocb.engine.inputs.templates import secret, template, watched
from nodepool_ocb.engine.world import NodeView, Vertex, World, ancestors
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, Role, State

#: The attributes that were read, by path; a path without any is not there.
Blobs: TypeAlias = Mapping[str, Mapping[str, Json]]


class LayerKind(StrEnum):
    """The origin of the values of a layer; the weakest first."""

    MACHINE = "machine"
    HINTS = "hints"
    TEMPLATE = "template"
    DEPLOYMENT_SYSTEM = "deployment system"
    DEPLOYMENT_USER = "deployment user"
    WALL = "wall"
    SYSTEM = "system"
    USER = "user"
    RUN = "run"  # of tasks


#: The noderoles in a catalogue that is kept: there may be a hundred thousand.
MOST_SOURCES: Final = 2000

#: Layers of a noderole that have znodes of their own, with the names of these; in the order of unreadable.blobs.
BLOBS: Final[Mapping[LayerKind, str]] = {LayerKind.WALL: "wall", LayerKind.SYSTEM: "system", LayerKind.USER: "user"}


class AttributeLayer(msgspec.Struct, frozen=True):
    """One layer: ``subject`` is a noderole.

    For a template it is the role, for attributes of a deployment ``ROLE of DEPLOYMENT``, for hints and facts the node, for a run
    the path.
    """

    kind: LayerKind
    subject: str
    values: Mapping[str, Json]

    def __str__(self) -> str:
        words = {LayerKind.TEMPLATE: "default of role", LayerKind.DEPLOYMENT_USER: "deployment: role"}
        words |= {LayerKind.DEPLOYMENT_SYSTEM: "deployment's system: role", LayerKind.HINTS: "hints of node"}
        words |= {LayerKind.MACHINE: "machine of node"}
        return f"{words.get(self.kind, f'{self.kind} of')} {self.subject}"


class Origin(StrEnum):
    """The way in which a layer reaches a noderole."""

    NODE = "node"
    BESIDE = "beside"  # an ACTIVE noderole of its node
    ANCESTOR = "ancestor"
    OWN = "own"
    RUN = "run"  # of tasks


class Brought(msgspec.Struct, frozen=True):
    """A layer and its origin; ``by`` is a noderole, for hints the node, for a task the path of its run's data."""

    origin: Origin
    by: str
    layer: AttributeLayer

    def __str__(self) -> str:
        """The layer for people; for a layer of another noderole, also the relation of that one.

        >>> str(Brought(Origin.ANCESTOR, "ntp@n2", AttributeLayer(LayerKind.TEMPLATE, "ntp", {})))
        'default of role ntp (ancestor ntp@n2)'
        >>> str(Brought(Origin.ANCESTOR, "ntp@n2", AttributeLayer(LayerKind.USER, "ntp@n2", {})))
        'user of ntp@n2 (ancestor)'
        """
        if self.origin not in (Origin.BESIDE, Origin.ANCESTOR):
            return str(self.layer)
        name = "" if self.by == self.layer.subject else f" {self.by}"
        return f"{self.layer} ({self.origin}{name})"


class AttributeSource(msgspec.Struct, frozen=True):
    """A noderole that attributes come from."""

    name: str
    role: str
    fqdn: str
    shared: tuple[AttributeLayer, ...]  # of its role and its deployment
    blobs: tuple[str, ...]  # the paths of its own blobs, in the order of BLOBS

    def layers(self, blobs: Blobs) -> Iterator[AttributeLayer]:
        """The layers, the weakest first; empty ones are left out."""
        yield from self.shared
        for kind, path in zip(BLOBS, self.blobs, strict=True):
            if values := blobs.get(path):
                yield AttributeLayer(kind, self.name, values)


class InputSources(msgspec.Struct, frozen=True):
    """The sources of the attributes of a noderole, and the other inputs of its run."""

    own: AttributeSource
    beside: tuple[AttributeSource, ...]  # the ACTIVE noderoles of its node, but for its ancestors
    above: tuple[tuple[AttributeSource, ...], ...]  # its ancestors, the most distant row first
    hints: Mapping[str, Json]
    role: Role
    watched: tuple[str, ...]  # the places that its role declares, or wants
    secret: tuple[str, ...] = ()  # the places that its role declares as secret
    machine: Mapping[str, Json] = {}  # the facts of the node's machine
    facts: tuple[str, ...] = ()  # of a task: the paths of the data of its run for all nodes, and for this one

    @property
    def blobs(self) -> list[str]:
        """The paths of the blobs to read, each once."""
        return list(dict.fromkeys(chain((path for each in self.everyone for path in each.blobs), self.facts)))

    @property
    def everyone(self) -> Iterator[AttributeSource]:
        return chain((self.own,), self.beside, *self.above)


class Catalogue:
    """The roles and deployments of a world, as sources need them; asks each but once.

    It may be kept while it is ``current``.
    """

    def __init__(self, world: World) -> None:
        self._world, self._version = world, world.catalogue
        self._roles = {name: stored.record for name, stored in world.roles.items()}
        self._shared: dict[tuple[str, str], tuple[AttributeLayer, ...]] = {}
        self._watched: dict[str, tuple[str, ...]] = {}
        self._secret: dict[str, tuple[str, ...]] = {}
        self._sources: dict[tuple[Vertex, str], AttributeSource] = {}
        self._machines: dict[str, Mapping[str, Json]] = {}

    @property
    def current(self) -> bool:
        """Whether the records that it was made from are still those of the world, and it did not grow large."""
        return self._version == self._world.catalogue and len(self._sources) < MOST_SOURCES

    def source(self, vertex: Vertex) -> AttributeSource:
        deployment = vertex.record.deployment
        found = self._sources.get((vertex, deployment))
        if found is None:
            found = AttributeSource(
                vertex.name, vertex.role, vertex.node.name, self._of(deployment, vertex.role), unreadable.blobs(vertex)
            )
            self._sources[vertex, deployment] = found
        return found

    def watched(self, role: str) -> tuple[str, ...]:
        if role not in self._watched:
            self._watched[role] = watched(self._roles, role) if role in self._roles else ()
        return self._watched[role]

    def machine(self, view: NodeView) -> Mapping[str, Json]:
        if view.name not in self._machines:
            self._machines[view.name] = machine.attributes(view)
        return self._machines[view.name]

    def secret(self, role: str) -> tuple[str, ...]:
        if role not in self._secret:
            self._secret[role] = secret(self._roles, role) if role in self._roles else ()
        return self._secret[role]

    def _of(self, deployment: str, role: str) -> tuple[AttributeLayer, ...]:
        key = deployment, role
        if key not in self._shared:
            self._shared[key] = tuple(layer for layer in self._read(deployment, role) if layer.values)
        return self._shared[key]

    def _read(self, deployment: str, role: str) -> Iterator[AttributeLayer]:
        if role in self._roles:
            yield AttributeLayer(LayerKind.TEMPLATE, role, template(self._roles, role))
        stored = self._world.deployment_roles.get((deployment, role))
        if stored is not None:
            yield AttributeLayer(LayerKind.DEPLOYMENT_SYSTEM, f"{role} of {deployment}", stored.record.system)
            yield AttributeLayer(LayerKind.DEPLOYMENT_USER, f"{role} of {deployment}", stored.record.user)


def sources(world: World, vertex: Vertex, role: Role, catalogue: Catalogue | None = None) -> InputSources:
    """All sources that a noderole may see; ``role``: its own, as it is run.

    A task sees the data of its run and its own attributes only.
    """
    if vertex.record.task_run is not None:
        return _of_task(vertex, role, vertex.record.deployment, vertex.record.task_run)
    catalogue = catalogue or Catalogue(world)
    node = vertex.node
    above = ancestors(vertex)
    others = {vertex, *(each for row in above for each in row)}
    active = (each for each in node.noderoles.values() if each.record.state is State.ACTIVE and each not in others)
    return InputSources(
        catalogue.source(vertex),
        tuple(catalogue.source(each) for each in sorted(active, key=lambda each: each.role)),
        tuple(tuple(map(catalogue.source, row)) for row in reversed(above)),
        node.record.hints if node.record else {},
        role,
        catalogue.watched(vertex.role),
        catalogue.secret(vertex.role),
        catalogue.machine(node),
    )


def _of_task(vertex: Vertex, role: Role, deployment: str, run: str) -> InputSources:
    fqdn = vertex.node.name
    facts = paths.task_facts(deployment, run), paths.task_facts(deployment, run, fqdn)
    own = AttributeSource(vertex.name, vertex.role, fqdn, (), unreadable.blobs(vertex))
    return InputSources(own, (), (), {}, role, (), facts=facts)


def brought(sources: InputSources, blobs: Blobs) -> list[Brought]:
    """All layers, the weakest first, each with its origin."""
    own = _of(Origin.OWN, sources.own, blobs)
    if sources.facts:
        return [*(Brought(Origin.RUN, each.subject, each) for each in _facts(sources, blobs)), *own]
    above = (each for row in sources.above for source in row for each in _of(Origin.ANCESTOR, source, blobs))
    return [*_around(sources, blobs), *above, *own]


def layers(sources: InputSources, blobs: Blobs) -> list[AttributeLayer]:
    """All of them, the weakest first."""
    return [each.layer for each in brought(sources, blobs)]


def around(sources: InputSources, blobs: Blobs) -> list[AttributeLayer]:
    """The layers of the node and of the noderoles beside."""
    return [each.layer for each in _around(sources, blobs)]


def _of(origin: Origin, source: AttributeSource, blobs: Blobs) -> Iterator[Brought]:
    return (Brought(origin, source.name, layer) for layer in source.layers(blobs))


def _around(sources: InputSources, blobs: Blobs) -> list[Brought]:
    beside = [each for source in sources.beside for each in _of(Origin.BESIDE, source, blobs)]
    beside.sort(key=lambda each: _STRENGTH[each.layer.kind])
    fqdn = sources.own.fqdn
    of_node = ((LayerKind.MACHINE, sources.machine), (LayerKind.HINTS, sources.hints))
    own = [Brought(Origin.NODE, fqdn, AttributeLayer(kind, fqdn, values)) for kind, values in of_node if values]
    return [*own, *beside]


def _facts(sources: InputSources, blobs: Blobs) -> Iterator[AttributeLayer]:
    """The layers of a run of tasks; of the parameters that differ by node, those of this task."""
    for path in sources.facts:
        values = dict(blobs.get(path, {}))
        parameters = values.pop("parameters", {}).get(sources.role.task)
        yield AttributeLayer(LayerKind.RUN, path, values | ({"task": {"parameters": parameters}} if parameters else {}))


def visible(layers: Iterable[AttributeLayer]) -> dict[str, Json]:
    """The attributes that a jig sees: these layers, merged."""
    merged: dict[str, Json] = {}
    for layer in layers:
        merged = merge(merged, layer.values)
    return merged


_STRENGTH: Final = {kind: strength for strength, kind in enumerate(LayerKind)}
