"""``nodepool-ocb noderole set`` and ``unset``: the attributes of a noderole that its user gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import attributes as given
from nodepool_ocb.cli.kit import completion, output, sealing, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.selecting import Noderoles, selector_option
from nodepool_ocb.cli.noderoles import runs
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.engine import attributes, deployments, structure
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Json, State
from nodepool_ocb.operations.names import catalogue

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

Blob = Mapping[str, Json]
Edit = Callable[[World, Vertex, Blob], Blob]  # the user's attributes as they are → as they are to be

SHOWN: Final = 3  # noderoles of which something is said, of many


@click.command("set", cls=Verb, writes=True)
@click.argument(
    "words",
    nargs=-1,
    metavar="[ROLE@FQDN...|-] PATH/TO=JSON...",
    shell_complete=completion.before(completion.noderoles, completion.assignments),
)
@selector_option
@dry_run_option
def set_(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Set attributes of noderoles, as their user: by the attribute's name, or at a path a/b/c.

    What a role's schemas refuse is not written; nor is anything while both a noderole and its deployment are committed.
    PATH=- asks for a text without echo, or reads it from stdin, and PATH=@FILE from a file: a secret then stands in no shell's
    history and no list of processes. What the role declares as secret is encrypted before it is written.
    PATH=secret:vault:PATH#KEY (or secret:file:/PATH, secret:env:NAME) refers to one that annealers look up when they need it.
    """
    from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

    assignments = sealing.read([word for word in words if "=" in word])
    if not assignments:
        raise click.UsageError("give PATH/TO=JSON after the names")
    asked = Noderoles([word for word in words if "=" not in word], selector)

    def edit(world: World, vertex: Vertex, before: Blob) -> Blob:
        known, below = catalogue(world), _below(world, vertex)
        quiet = rules.secret_places(known, vertex.role)
        after = given.assigned(
            before, assignments, lambda key: rules.attribute_path(known, vertex.role, key), below, quiet
        )
        rules.checked(known, vertex.role, after, below)
        refuse_unresolvable(world, after, before)
        return sealing.sealed(known, vertex.role, after, before)

    _change(asked, edit, dry_run)


@click.command(cls=Verb, writes=True)
@click.argument(
    "words",
    nargs=-1,
    metavar="[ROLE@FQDN...|-] PATH/TO...",
    shell_complete=completion.before(completion.noderoles, completion.settings),
)
@selector_option
@dry_run_option
def unset(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Take back what `noderole set` gave, by the attribute's name or its path; what counts then is said."""
    from nodepool_ocb.catalogue import rules

    names = () if selector is not None else tuple(takewhile(_may_be_name, words))
    keys = words[len(names) :]
    if not keys:
        raise click.UsageError("give PATH/TO after the names")
    asked, places = Noderoles(names, selector), dict[str, None]()

    def edit(world: World, vertex: Vertex, before: Blob) -> Blob:
        known = catalogue(world)
        places.update((rules.place(known, vertex.role, key), None) for key in keys)
        after = given.unset(before, places)
        rules.no_worse(known, vertex.role, before, after, _below(world, vertex))
        return after

    _change(asked, edit, dry_run, lambda opened, vertex: _what_counts(opened, vertex, places))


def _may_be_name(word: str) -> bool:
    return "@" in word or word == "-"


def _change(
    asked: Noderoles, edit: Edit, dry_run: bool, more: Callable[[Session, Vertex], Iterator[str]] | None = None
) -> None:
    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        units = [_written(opened, world, vertex, edit) for vertex in asked.of(opened, world)]
        return limits.parts(filter(None, units))

    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
        world = session.load(opened)
        vertices = asked.again(world)
        for deployment in sorted({vertex.record.deployment for vertex in vertices}):
            turns.warn(opened, world, deployment, "a node that it is done with does not see this")
        if more is not None and not dry_run:
            for vertex in vertices[:SHOWN]:
                for line in more(opened, vertex):
                    output.say(line if len(vertices) == 1 else f"{vertex.name}: {line}")
    _say_what_runs(vertices if changes else ())
    session.report(changes, dry_run)


def _written(opened: Session, world: World, vertex: Vertex, edit: Edit) -> list[Change]:
    """The user's attributes of one noderole, and all that they were judged from."""
    user = runs.layer(opened, paths.user(vertex.role, vertex.node.name))
    after = edit(world, vertex, user.value)  # a slip is named before the way to make the change
    permitted = deployments.changeable(world, vertex)
    if attributes.same(after, user.value):
        return []
    here = Check(paths.noderole(vertex.role, vertex.node.name), vertex.version)
    return [structure.unchanged(world), here, permitted, *_shared(world, vertex), user.becoming(after)]


def _say_what_runs(vertices: Iterable[Vertex]) -> None:
    """For those that are committed, when they see what was changed."""
    committed = [vertex for vertex in vertices if vertex.record.state is not State.PROPOSED]
    for vertex in committed[:SHOWN]:
        commit = f"nodepool-ocb deployment commit {vertex.record.deployment}"
        output.say(f"{vertex.name} is {vertex.record.state}: what runs next sees this, and {commit} lets it run")
    if len(committed) > SHOWN:
        output.say(f"and so for {len(committed) - SHOWN} more")


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


def _what_counts(opened: Session, vertex: Vertex, places: Mapping[str, None]) -> Iterator[str]:
    """For each path, its value now and who gives it."""
    from nodepool_ocb.catalogue import rules

    world = vertex.node.world
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
    declared = concealing.of_world(world)
    shown = {name: concealing.wrapped(blob, declared) for name, blob in layers.items()}
    return (given.counting(shown, place) for place in places)
