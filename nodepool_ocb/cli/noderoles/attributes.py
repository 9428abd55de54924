"""``noderole attributes``: what its jig would see now, who says it, and how that differs from another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import catalogue, noderole_of
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.noderoles import outdated
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.inputs.effective import Effective, below, effective, unlike
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.views.attributes import effective as shown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb)
@click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@click.argument("places", nargs=-1, metavar="[PATH]...", shell_complete=completion.places)
@click.option("--explain", is_flag=True, help="Each value with what it hides.")
@click.option("--diff", "other", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only what differs.")
@click.option("--changed", is_flag=True, help="What its newest run was given otherwise.")
def attributes(name: str, places: Sequence[str], explain: bool, other: str | None, changed: bool) -> None:
    """The attributes that the jig of a noderole would see now, each with the layer that says it.

    PATH: an attribute's name, or a path a/b/c; the default is all.
    """
    if changed and (other is not None or explain or places):
        raise click.UsageError("--changed stands alone")
    with session.session() as opened:
        world = session.load(opened)
        vertex = noderole_of(world, name)
        if changed:
            _changed(opened, world, vertex)
            return
        if other is not None:
            _compare(opened, world, (vertex, noderole_of(world, other)), places)
            return
        document = shown.document(name, _of(opened, world, vertex, places))
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


def _changed(opened: Session, world: World, vertex: Vertex) -> None:
    rows = outdated.rows(opened, world, outdated.find(opened, world, [vertex]))
    if not rows:
        output.say(f"{vertex.name} is not outdated")
    differences = [each for row in rows for each in row.differences]
    output.things(differences, ("what", "before", "now", "layer"), key="what")


def _of(
    opened: Session, world: World, vertex: Vertex, places: Sequence[str], *, strict: bool = True
) -> list[Effective]:
    """What a noderole sees at these places; raises NotFound for one at which there is nothing, where that is ``strict``."""
    from nodepool_ocb.catalogue import rules
    from nodepool_ocb.store.client import blobs

    sources = inputs.sources(world, vertex, world.role_of(vertex))
    found = effective(inputs.brought(sources, blobs.attributes(opened, sources.blobs)))
    known = catalogue(world)
    wanted = [rules.place(known, vertex.role, each) for each in places]
    for place in wanted if strict else ():
        if not below(found, [place]):
            raise NotFound(
                f"{vertex.name} sees nothing at {place}; all that it sees: noderole attributes {vertex.name}"
            )
    return below(found, wanted) if places else found
