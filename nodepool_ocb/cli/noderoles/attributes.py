"""``noderole attributes``: what its jig would see now, who says it, and how that differs from another's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.sealing import reveal_option
from nodepool_ocb.cli.noderoles import outdated, runs
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.effective import Effective, below, effective, unlike
from nodepool_ocb.engine.inputs.layers import Brought
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.operations.names import catalogue, noderole_of
from nodepool_ocb.views.attributes import effective as shown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

RUNS: Final = "Where two runs that succeeded were given something else."


@click.command(cls=Verb)
@click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@click.argument("places", nargs=-1, metavar="[PATH]...", shell_complete=completion.places)
@click.option("--explain", is_flag=True, help="Each value with what it hides.")
@click.option("--diff", "other", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only what differs.")
@click.option("--changed", is_flag=True, help="What its newest run was given otherwise.")
@click.option("--runs", "two", nargs=2, metavar="RUN RUN", shell_complete=completion.runs, help=RUNS)
@reveal_option
def attributes(
    name: str,
    places: Sequence[str],
    explain: bool,
    other: str | None,
    changed: bool,
    two: tuple[str, str] | None,
    reveal: bool,
) -> None:
    """The attributes that the jig of a noderole would see now, each with the layer that says it.

    PATH: an attribute's name, or a path a/b/c; the default is all.
    """
    if (changed or two) and (other is not None or explain or places or reveal or (changed and two)):
        raise click.UsageError(f"--{'changed' if changed else 'runs'} stands alone")
    if reveal and other is not None:
        raise click.UsageError("--reveal shows one noderole; leave --diff away")
    with session.session() as opened:
        world = session.load(opened)
        vertex = noderole_of(world, name)
        if changed:
            _changed(opened, world, vertex)
            return
        if two is not None:
            _compare_runs(opened, world, vertex, *two)
            return
        if other is not None:
            _compare(opened, world, (vertex, noderole_of(world, other)), places)
            return
        document = shown.document(name, _of(opened, world, vertex, places, reveal=reveal))
    if explain:
        output.text(document, "\n".join(shown.explained(document)))
    else:
        output.thing(document, name, output.table(shown.short(document), ("place", "value", "layer")))


def _compare(opened: Session, world: World, both: tuple[Vertex, Vertex], places: Sequence[str]) -> None:
    one, other = both
    found = unlike(_of(opened, world, one, places, strict=False), _of(opened, world, other, places, strict=False))
    document = shown.unlike(one.name, other.name, found)
    if not found:
        output.say(f"{one.name} and {other.name} see the same")
    output.text(document, "\n".join(shown.compared(document)))


def concealed(brought: Iterable[Brought], declared: frozenset[str]) -> Iterator[Brought]:
    """The layers without values that are declared as secret and stand there in plain text."""
    for each in brought:
        values = concealing.wrapped(each.layer.values, declared)
        yield replace(each, layer=replace(each.layer, values=values))


def _compare_runs(opened: Session, world: World, vertex: Vertex, one: str, other: str) -> None:
    from nodepool_ocb.store.client import blobs

    recorded = runs.recorded(opened, vertex)
    records = dict(recorded)
    for name in (one, other):
        if name not in records:
            raise NotFound(f"{vertex.name} has no run {name}; it has: {', '.join(records) or 'none'}")
        if records[name].outcome != "succeeded":
            raise NotFound(f"what {name} was given is not kept: it {records[name].outcome}, and did not succeed")
    [newest] = blobs.given(opened, [paths.given(vertex.role, vertex.node.name)])
    succeeded = sorted((each for each in recorded if each[1].outcome == "succeeded"), reverse=True)
    given = inputs.of_runs(vertex.record, newest, succeeded)
    same = records[one].given == records[other].given not in (0, inputs.UNKNOWN)
    for name in (one, other):
        if given[name].reason and not same:
            raise NotFound(f"what {name} was given is not known: {given[name].reason}")
    found = [] if same else inputs.between(given[one], given[other])
    document = shown.of_runs(one, other, outdated.concealed(found, concealing.of_world(world)))
    if not document.differences:
        output.say(f"{one} and {other} were given the same")
    output.text(document, "\n".join(shown.compared(document)))


def _changed(opened: Session, world: World, vertex: Vertex) -> None:
    rows = outdated.rows(opened, world, outdated.find(opened, world, [vertex]))
    if not rows:
        output.say(f"{vertex.name} is not outdated")
    differences = [each for row in rows for each in row.differences]
    output.things(differences, ("what", "before", "now", "layer"), key="what")


def _of(
    opened: Session, world: World, vertex: Vertex, places: Sequence[str], *, strict: bool = True, reveal: bool = False
) -> list[Effective]:
    """What a noderole sees at these places; raises NotFound for one at which there is nothing, where that is ``strict``.

    ``reveal``: with what is encrypted in plain text; raises Sealed without the key.
    """
    from nodepool_ocb.catalogue import rules
    from nodepool_ocb.cli.kit import sealing
    from nodepool_ocb.store.client import blobs

    sources = inputs.sources(world, vertex, world.role_of(vertex))
    read = blobs.attributes(opened, sources.blobs)
    if reveal:
        read = {path: sealing.revealed(blob) for path, blob in read.items()}
    brought = list(inputs.brought(sources, read))
    found = effective(brought if reveal else concealed(brought, concealing.of_world(world)))
    known = catalogue(world)
    wanted = [rules.place(known, vertex.role, each) for each in places]
    for place in wanted if strict else ():
        if not below(found, [place]):
            raise NotFound(
                f"{vertex.name} sees nothing at {place}; all that it sees: noderole attributes {vertex.name}"
            )
    return below(found, wanted) if places else found
