"""``nodepool-ocb noderole set`` and ``unset``: the attributes of a noderole that its user gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import attributes as given
from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import catalogue, noderole_of
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.noderoles import runs
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.engine import attributes, deployments, structure
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Json, State

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

Blob = Mapping[str, Json]
Edit = Callable[[World, Vertex, Blob], Blob]  # the user's attributes as they are → as they are to be

name_argument = click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)


@click.command("set", cls=Verb)
@name_argument
@click.argument("assignments", nargs=-1, required=True, metavar="PATH/TO=JSON...")
@dry_run_option
def set_(name: str, assignments: Sequence[str], dry_run: bool) -> None:
    """Set attributes of a noderole, as its user: by the attribute's name, or at a path a/b/c.

    What the role's schemas refuse is not written; nor is anything while both it and its deployment are committed.
    """
    from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

    def edit(world: World, vertex: Vertex, before: Blob) -> Blob:
        known, below = catalogue(world), _below(world, vertex)
        after = given.assigned(before, assignments, lambda key: rules.attribute_path(known, vertex.role, key), below)
        rules.checked(known, vertex.role, after, below)
        return after

    _change(name, edit, dry_run)


@click.command(cls=Verb)
@name_argument
@click.argument("keys", nargs=-1, required=True, metavar="PATH/TO...")
@dry_run_option
def unset(name: str, keys: Sequence[str], dry_run: bool) -> None:
    """Take back what `noderole set` gave, by the attribute's name or its path; what counts then is said."""
    from nodepool_ocb.catalogue import rules

    places: dict[str, None] = {}

    def edit(world: World, vertex: Vertex, before: Blob) -> Blob:
        known = catalogue(world)
        places.update((rules.place(known, vertex.role, key), None) for key in keys)
        after = given.unset(before, places)
        rules.no_worse(known, vertex.role, before, after, _below(world, vertex))
        return after

    _change(name, edit, dry_run, lambda opened, world: _what_counts(opened, world, name, places))


def _change(
    name: str, edit: Edit, dry_run: bool, more: Callable[[Session, World], Iterator[str]] | None = None
) -> None:
    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        vertex = noderole_of(world, name)
        permitted = deployments.changeable(world, vertex)
        user = runs.layer(opened, paths.user(vertex.role, vertex.node.name))
        after = edit(world, vertex, user.value)
        if not given.same(after, user.value):
            here = Check(paths.noderole(vertex.role, vertex.node.name), vertex.version)
            yield [structure.unchanged(world), here, permitted, *_shared(world, vertex), user.becoming(after)]

    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
        world = session.load(opened)
        vertex = noderole_of(world, name)
        turns.warn(opened, world, vertex.record.deployment, "a node that it is done with does not see this")
        for line in more(opened, world) if more and not dry_run else ():
            output.say(line)
    if changes and vertex.record.state is not State.PROPOSED:
        commit = f"nodepool-ocb deployment commit {vertex.record.deployment}"
        output.say(f"{name} is {vertex.record.state}: what runs next sees this, and {commit} lets it run")
    session.report(changes, dry_run)


def _shared(world: World, vertex: Vertex) -> list[Check]:
    """The attributes of the deployment role, which the new ones were judged over, are still these."""
    key = vertex.record.deployment, vertex.role
    shared = world.deployment_roles.get(key)
    return [Check(paths.deployment_role(*key), shared.version)] if shared else []


def _below(world: World, vertex: Vertex) -> Blob:
    """What lies below the user's own: the defaults of the role, and what is set for the deployment."""
    from nodepool_ocb.catalogue import rules

    shared = world.deployment_roles.get((vertex.record.deployment, vertex.role))
    return attributes.merge(rules.template(catalogue(world), vertex.role), shared.record.user if shared else {})


def _what_counts(opened: Session, world: World, name: str, places: Mapping[str, None]) -> Iterator[str]:
    """For each path, its value now and who gives it."""
    from nodepool_ocb.catalogue import rules

    vertex = noderole_of(world, name)
    own = runs.attributes(opened, vertex)
    shared = world.deployment_roles.get((vertex.record.deployment, vertex.role))
    layers = {
        f"by default of role {vertex.role}": rules.template(catalogue(world), vertex.role),
        f"from the hooks of deployment {vertex.record.deployment}": shared.record.system if shared else {},
        f"from deployment {vertex.record.deployment}": shared.record.user if shared else {},
        "from its last run": own.wall,
        "from hooks": own.system,
        "from its user": own.user,
    }
    return (given.counting(layers, place) for place in places)
