"""``noderole attributes``: the attributes that a noderole's jig would see, by layer, and their differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.effective import Effective, below, effective, unlike
from nodepool_ocb.engine.inputs.layers import Brought
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import catalogue, noderole_of
from nodepool_ocb.operations.operation import Near, Note, Operation, Right, Situation, Steps, near_noderoles
from nodepool_ocb.operations.reads.noderoles import ReadBlobs, ReadRuns
from nodepool_ocb.operations.reads.secrets import RevealAttributes
from nodepool_ocb.operations.reads.world import ReadRunInputs, ReadWorld
from nodepool_ocb.views.attributes import effective as shown
from nodepool_ocb.views.noderoles import DifferenceRow


class NoderoleAttributes(Operation[shown.EffectiveDocument], frozen=True, kw_only=True):
    """The attributes that the jig of a noderole would see now, each with its layer."""

    noun = "noderole"
    verb = "attributes"
    right = Right.VIEWER
    reads = (ReadWorld, ReadBlobs, RevealAttributes)

    noderole: str  # ROLE@FQDN
    places: tuple[str, ...] = ()  # names or paths; none: all
    reveal: bool = False  # secret values in plain text; the performer's host needs the key

    @property
    def near(self) -> Near | None:
        return near_noderoles([self.noderole])

    def decide(self, situation: Situation) -> Steps[shown.EffectiveDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        vertex = noderole_of(world, self.noderole)
        found = yield from _seen(world, vertex, self.places, reveal=self.reveal)
        return shown.document(self.noderole, found)


class NoderoleAttributesDiff(Operation[shown.UnlikeDocument], frozen=True, kw_only=True):
    """The attributes that two noderoles see differently."""

    noun = "noderole"
    verb = "attributes"
    right = Right.VIEWER
    reads = (ReadWorld, ReadBlobs)

    noderole: str  # ROLE@FQDN
    other: str  # ROLE@FQDN
    places: tuple[str, ...] = ()  # names or paths; none: all

    @property
    def near(self) -> Near | None:
        return near_noderoles([self.noderole, self.other])

    def decide(self, situation: Situation) -> Steps[shown.UnlikeDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        one, other = noderole_of(world, self.noderole), noderole_of(world, self.other)
        of_one = yield from _seen(world, one, self.places, strict=False)
        of_other = yield from _seen(world, other, self.places, strict=False)
        found = unlike(of_one, of_other)
        if not found:
            yield Note(f"{one.name} and {other.name} see the same")
        return shown.unlike(one.name, other.name, found)


class NoderoleAttributesRuns(Operation[shown.UnlikeDocument], frozen=True, kw_only=True):
    """The inputs that differ between two successful runs of a noderole."""

    noun = "noderole"
    verb = "attributes"
    right = Right.VIEWER
    reads = (ReadWorld, ReadRuns, ReadRunInputs)

    noderole: str  # ROLE@FQDN
    runs: tuple[str, str]

    @property
    def near(self) -> Near | None:
        return near_noderoles([self.noderole])

    def decide(self, situation: Situation) -> Steps[shown.UnlikeDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        vertex = noderole_of(world, self.noderole)
        recorded = yield from ReadRuns(vertex.role, vertex.node.name)
        records = dict(recorded)
        for name in self.runs:
            if name not in records:
                raise NotFound(f"{vertex.name} has no run {name}; it has: {', '.join(records) or 'none'}")
            if records[name].outcome != "succeeded":
                raise NotFound(
                    f"the inputs of {name} are not kept: it {records[name].outcome}, and did not succeed;"
                    " name a run that succeeded"
                )
        [newest] = yield from ReadRunInputs((paths.given(vertex.role, vertex.node.name),))
        succeeded = sorted((each for each in recorded if each[1].outcome == "succeeded"), reverse=True)
        given = inputs.of_runs(vertex.record, newest, succeeded)
        one, other = self.runs
        same = records[one].given == records[other].given not in (0, inputs.UNKNOWN)
        for name in self.runs:
            if given[name].reason and not same:
                raise NotFound(f"the inputs of {name} are not known: {given[name].reason}; name another run")
        found = [] if same else inputs.between(given[one], given[other])
        document = shown.of_runs(one, other, outdated.concealed(found, concealing.of_world(world)))
        if not document.differences:
            yield Note(f"{one} and {other} were given the same")
        return document


class NoderoleAttributesChanged(Operation[list[DifferenceRow]], frozen=True, kw_only=True):
    """The inputs of a noderole that changed since its newest run."""

    noun = "noderole"
    verb = "attributes"
    right = Right.VIEWER
    reads = (ReadWorld, *outdated.READS)

    noderole: str  # ROLE@FQDN

    @property
    def near(self) -> Near | None:
        return near_noderoles([self.noderole])

    def decide(self, situation: Situation) -> Steps[list[DifferenceRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        vertex = noderole_of(world, self.noderole)
        found = yield from outdated.find(world, [vertex])
        rows = yield from outdated.rows(world, found)
        if not rows:
            yield Note(f"{vertex.name} is not outdated")
        return [each for row in rows for each in row.differences]


def _concealed(brought: Iterable[Brought], declared: frozenset[str]) -> Iterator[Brought]:
    """The layers without values that are declared as secret and stand there in plain text."""
    for each in brought:
        values = concealing.wrapped(each.layer.values, declared)
        yield replace(each, layer=replace(each.layer, values=values))


def _seen(
    world: World, vertex: Vertex, places: Sequence[str], *, strict: bool = True, reveal: bool = False
) -> Steps[list[Effective]]:
    """The attributes that a noderole sees at these places; ``strict``: raises NotFound for a place without any.

    ``reveal``: encrypted values in plain text; raises Sealed without the key.
    """
    from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

    sources = inputs.sources(world, vertex, world.role_of(vertex))
    read = yield from ReadBlobs(tuple(sources.blobs))
    if reveal:
        plain: dict[str, Mapping[str, Any]] = {}
        for path, blob in read.items():
            plain[path] = yield from RevealAttributes(blob)
        read = plain
    brought = list(inputs.brought(sources, dict(read)))
    found = effective(brought if reveal else _concealed(brought, concealing.of_world(world)))
    known = catalogue(world)
    wanted = [rules.place(known, vertex.role, each) for each in places]
    for place in wanted if strict else ():
        if not below(found, [place]):
            raise NotFound(
                f"{vertex.name} sees nothing at {place}; see: nodepool-ocb noderole attributes {vertex.name}"
            )
    return below(found, wanted) if places else found
