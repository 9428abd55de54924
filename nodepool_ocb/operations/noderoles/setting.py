"""``noderole set`` and ``unset``: the attributes of a noderole that its user gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from nodepool_ocb.engine import attributes, deployments, structure
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Json, State
from nodepool_ocb.operations import attributes as given
from nodepool_ocb.operations import secrets, selection
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.names import catalogue
from nodepool_ocb.operations.noderoles import layers
from nodepool_ocb.operations.operation import (
    Explained,
    Lookup,
    Near,
    Note,
    Operation,
    Right,
    Situation,
    Steps,
    near_noderoles,
)
from nodepool_ocb.operations.reads.noderoles import ReadAttributesAt
from nodepool_ocb.operations.reads.world import ReadWorld

Blob = Mapping[str, Json]
SHOWN: Final = 3  # noderoles that sentences name, of many


class NoderoleAttributesChange(Operation[Explained], frozen=True, kw_only=True):
    """The base of both: ``edit`` gives the new attributes of one noderole."""

    noun = "noderole"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (
        ReadWorld,
        ReadAttributesAt,
        selection.ResolveNoderoles,
        *reservations.READS,
        *layers.READS,
    )
    writes = ("attributes",)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def edit(self, world: World, vertex: Vertex, before: Blob) -> Steps[Blob]:
        """The user's attributes as they are to be."""
        raise NotImplementedError

    def effects(self, vertex: Vertex) -> Steps[list[str]]:
        """Sentences about the values after the change."""
        del vertex
        yield from ()
        return []

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        chosen = yield from selection.noderoles(world, self.noderoles, self.selector)
        units = []
        for vertex in chosen:
            unit = yield from self._written(world, vertex)
            units.append(unit)
        changes = list(limits.parts(filter(None, units)))
        yield from changes
        names = [vertex.name for vertex in chosen]
        after = yield from ReadWorld()
        vertices = selection.noderoles_again(after, names, resolved=self.selector is not None)
        for deployment in sorted({vertex.record.deployment for vertex in vertices}):
            yield from reservations.warn(after, deployment, "a node that it is done with does not see this")
        for vertex in () if situation.call.dry_run else vertices[:SHOWN]:
            lines = yield from self.effects(vertex)
            for line in lines:
                yield Note(line if len(vertices) == 1 else f"{vertex.name}: {line}")
        yield from map(Note, _later(vertices if changes or situation.written else ()))
        return Explained()

    def _written(self, world: World, vertex: Vertex) -> Steps[list[Change]]:
        """The user's attributes of one noderole, and checks of all records that they were judged from."""
        user = yield from ReadAttributesAt(paths.user(vertex.role, vertex.node.name))
        after = yield from self.edit(world, vertex, user.value)  # a slip is named before the way to make the change
        permitted = deployments.changeable(world, vertex)
        if attributes.same(after, user.value):
            return []
        here = Check(paths.noderole(vertex.role, vertex.node.name), vertex.version)
        return [structure.unchanged(world), here, permitted, *_shared(world, vertex), user.becoming(after)]


class NoderoleSet(NoderoleAttributesChange, frozen=True, kw_only=True):
    """Set attributes of noderoles. Values that the role's schemas refuse are not written; secret ones are encrypted."""

    verb = "set"
    reads = (*NoderoleAttributesChange.reads, *secrets.READS)

    assignments: tuple[str, ...]  # PATH/TO=JSON

    def edit(self, world: World, vertex: Vertex, before: Blob) -> Steps[Blob]:
        from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

        known, below = catalogue(world), layers.below(world, vertex)
        quiet = rules.secret_places(known, vertex.role)
        after = given.assigned(
            before, self.assignments, lambda key: rules.attribute_path(known, vertex.role, key), below, quiet
        )
        rules.checked(known, vertex.role, after, below)
        refuse_unresolvable(world, after, before)
        sealed = yield from secrets.sealed(known, vertex.role, after, before)
        return sealed


class NoderoleUnset(NoderoleAttributesChange, frozen=True, kw_only=True):
    """Take back attributes that ``noderole set`` gave; notes name the values that count then."""

    verb = "unset"

    keys: tuple[str, ...]  # names or paths of attributes

    def edit(self, world: World, vertex: Vertex, before: Blob) -> Steps[Blob]:
        from nodepool_ocb.catalogue import rules

        known = catalogue(world)
        after = given.unset(before, self._places(world, vertex))
        rules.no_worse(known, vertex.role, before, after, layers.below(world, vertex))
        yield from ()
        return after

    def _places(self, world: World, vertex: Vertex) -> list[str]:
        from nodepool_ocb.catalogue import rules

        known = catalogue(world)
        return [rules.place(known, vertex.role, key) for key in self.keys]

    def effects(self, vertex: Vertex) -> Steps[list[str]]:
        """For each path, its value now and the layer that gives it."""
        world = vertex.node.world
        found = yield from layers.by_giver(vertex)
        declared = concealing.of_world(world)
        shown = {name: concealing.wrapped(blob, declared) for name, blob in found.items()}
        return [given.counting(shown, place) for place in dict.fromkeys(self._places(world, vertex))]


def _later(vertices: Sequence[Vertex]) -> Iterable[str]:
    """For committed noderoles: the time at which they see the change."""
    committed = [vertex for vertex in vertices if vertex.record.state is not State.PROPOSED]
    for vertex in committed[:SHOWN]:
        commit = f"nodepool-ocb deployment commit {vertex.record.deployment}"
        yield f"{vertex.name} is {vertex.record.state}: its next run sees this; to let it run: {commit}"
    if len(committed) > SHOWN:
        yield f"and so for {len(committed) - SHOWN} more"


def _shared(world: World, vertex: Vertex) -> list[Check]:
    """The attributes of the deployment role, over which the new ones were judged, must still be these."""
    key = vertex.record.deployment, vertex.role
    shared = world.deployment_roles.get(key)
    return [Check(paths.deployment_role(*key), shared.version)] if shared else []
