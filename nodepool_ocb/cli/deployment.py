"""``nodepool-ocb deployment``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from nodepool_ocb.cli.aside import deployment as aside
from nodepool_ocb.cli.kit import attributes as given
from nodepool_ocb.cli.kit import completion, output, sealing
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import (
    Noun,
    confirm,
    dry_run_option,
    settled_option,
    timeout_option,
    wait_options,
    yes_option,
)
from nodepool_ocb.cli.noderoles import outdated, waiting
from nodepool_ocb.cli.noderoles.committing import Commit
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.cli.schedule import checks
from nodepool_ocb.engine import deployments, nodes, structure, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.errors import Conflict, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import (
    Change,
    Delete,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Json,
    Role,
    Set,
)
from nodepool_ocb.operations.names import catalogue, deployment_of, role_of
from nodepool_ocb.views import deployments as shown
from nodepool_ocb.views.deployments import Branch

if TYPE_CHECKING:
    from rich.tree import Tree

    from nodepool_ocb.store.client.session import Session

name_argument = click.argument("name", shell_complete=completion.deployments)


@click.group(cls=Noun)
def command() -> None:
    """Deployments: create, configure, propose, commit, wait."""


command.add_command(checks)
command.add_command(aside.pause)
command.add_command(aside.resume)


def _bound(world: World, name: str) -> list[Vertex]:
    deployment_of(world, name)
    return [vertex for vertex in world.vertices() if vertex.record.deployment == name]


@command.command(writes=True)
@click.argument("name")
@click.option("--parent", default="system", show_default=True, shell_complete=completion.deployments)
@dry_run_option
def create(name: str, parent: str, dry_run: bool) -> None:
    """Make a deployment, PROPOSED."""

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        deployment_of(world, parent)
        yield deployments.create(world, name, parent, opened.now(), connection.me())

    with connection.session() as opened:
        connection.report(connection.change(opened, decide, dry_run), dry_run)


@command.command("list")
def list_() -> None:
    """Every deployment, with the states of what is bound in it."""
    output.things(
        shown.rows(connection.world(), time.time()), ("name", "parent", "state", "paused", "noderoles", "since")
    )


@command.command()
@name_argument
def show(name: str) -> None:
    """One deployment: its place in the tree, its roles with their attributes, and its noderoles."""
    world = connection.world()
    deployment_of(world, name)
    document = shown.document(world, name, time.time())
    about = output.fields(document, but=("roles", "noderoles", "pause"))
    roles = output.table(document.roles, ("role", "user", "system", "hooks", "refused"))
    bound = output.table(document.noderoles, ("noderole", "state", "since"))
    output.thing(document, name, about, _tree(shown.tree(world, name)), roles, bound)


def _tree(branch: Branch) -> Tree:
    from rich.tree import Tree

    made = Tree(branch.name)
    made.children += map(_tree, branch.below)
    return made


Blob = Mapping[str, Json]
Edit = Callable[[Mapping[str, Role], Blob], Blob]  # a role's attributes in a deployment as they are → as they are to be


@command.command("set", writes=True)
@name_argument
@click.argument("role", shell_complete=completion.roles)
@click.argument(
    "assignments", nargs=-1, required=True, metavar="PATH/TO=JSON...", shell_complete=completion.assignments
)
@dry_run_option
def set_(name: str, role: str, assignments: Sequence[str], dry_run: bool) -> None:
    """Set attributes of a role for the whole deployment, while it is PROPOSED (`system`, which never is: at any time).

    PATH=-, PATH=@FILE and PATH=secret:REFERENCE are as for `noderole set`.
    """
    from nodepool_ocb.catalogue import rules as roles  # here, since jsonschema takes long to import

    assignments = sealing.read(assignments)

    def edit(known: Mapping[str, Role], before: Blob) -> Blob:
        below = roles.template(known, role)
        quiet = roles.secret_places(known, role)
        after = given.assigned(before, assignments, lambda key: roles.attribute_path(known, role, key), below, quiet)
        roles.checked(known, role, after, below)
        return sealing.sealed(known, role, after, before)

    _change(name, role, edit, dry_run)


@command.command(writes=True)
@name_argument
@click.argument("role", shell_complete=completion.roles)
@click.argument("keys", nargs=-1, metavar="[PATH/TO...]", shell_complete=completion.settings)
@click.option("--force", is_flag=True, help="Without PATH: do not run its on_deployment_delete, which may refuse.")
@yes_option
@dry_run_option
def unset(name: str, role: str, keys: Sequence[str], force: bool, yes: bool, dry_run: bool) -> None:
    """Take back what `deployment set` gave, by the attribute's name or its path; what counts then is said.

    Without PATH the role leaves the deployment, with all its attributes there: refused while noderoles of it are bound there.
    """
    if not keys:
        _leave(name, role, force, yes, dry_run)
        return
    from nodepool_ocb.catalogue import rules as roles

    said: list[str] = []

    def edit(known: Mapping[str, Role], before: Blob) -> Blob:
        places = [roles.place(known, role, key) for key in keys]
        after, below = given.unset(before, places), roles.template(known, role)
        roles.no_worse(known, role, before, after, below)
        quiet = concealing.places(known.values())
        layers = {f"by default of role {role}": below, f"from deployment {name}": concealing.wrapped(after, quiet)}
        said[:] = [given.counting(layers, place) for place in places]
        return after

    _change(name, role, edit, dry_run)
    for line in said if not dry_run else ():
        output.say(line)


def _leave(name: str, role: str, force: bool, yes: bool, dry_run: bool) -> None:
    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        _changeable(world, name)
        yield deploymentroles.leaving(world, name, role, force)

    if not dry_run:
        confirm(f"take role {role} out of deployment {name}, with its attributes there", yes)
    with connection.session() as opened:
        changes = connection.change(opened, decide, dry_run)
    connection.report(changes, dry_run)
    _say_hooks(changes, f"if it refuses, the role stays: nodepool-ocb deployment show {name}")


def _say_hooks(changes: Iterable[Change], then: str) -> None:
    if any(isinstance(change, Set) and isinstance(change.data, DeploymentRole) for change in changes):
        output.say(f"an annealer runs on_deployment_delete first; {then}")


def _changeable(world: World, name: str) -> Stored[Deployment]:
    deployment = deployment_of(world, name)
    if deployment.record.state is not DeploymentState.PROPOSED and name != deployments.SYSTEM:
        raise Conflict(f"deployment {name} is COMMITTED; first: nodepool-ocb deployment propose {name}")
    return deployment


def _change(name: str, role: str, edit: Edit, dry_run: bool) -> None:
    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        deployment_of(world, name)
        role_of(world, role)
        unreadable.refuse(world, [paths.deployment_role(name, role)])
        stored = world.deployment_roles.get((name, role))
        before = stored.record.user if stored else {}
        user = edit(catalogue(world), before)  # a slip is named before the way to make the change
        _changeable(world, name)
        refuse_unresolvable(world, user, before)
        changes = deploymentroles.configured(world, name, role, user)
        if changes:
            yield changes

    with connection.session() as opened:
        changes = connection.change(opened, decide, dry_run)
        world = connection.load(opened)
        turns.warn(opened, world, name, "nodes that it is done with do not see this; the others do")
        said = [] if dry_run or not changes else outdated.sentences(opened, world, lambda each: _is(each, name, role))
    connection.report(changes, dry_run)
    if changes and name == deployments.SYSTEM:
        output.say(f"deployment {name} is always COMMITTED: what runs from now on sees this")
    for sentence in said:
        output.say(sentence)


def _is(vertex: Vertex, deployment: str, role: str) -> bool:
    return (vertex.record.deployment, vertex.role) == (deployment, role)


@command.command(writes=True)
@name_argument
@dry_run_option
def propose(name: str, dry_run: bool) -> None:
    """Keep annealers out of the deployment, so that people can change it."""

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        deployment_of(world, name)
        changes = deployments.turn(world, name, DeploymentState.PROPOSED, opened.now(), connection.me())
        if changes:
            yield changes

    with connection.session() as opened:
        changes = connection.change(opened, decide, dry_run)
        turns.warn(
            opened,
            connection.load(opened),
            name,
            "what it has sent waits until the deployment is committed, and the time of its phases runs on;"
            f" nodepool-ocb deployment commit {name} --no-noderoles lets annealers in again",
        )
    connection.report(changes, dry_run)


@command.command(writes=True)
@name_argument
@click.option("--no-noderoles", "alone", is_flag=True, help="Leave its noderoles, PROPOSED or outdated, to a rollout.")
@turns.force_option
@wait_options
@dry_run_option
def commit(name: str, alone: bool, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Commit everything that is PROPOSED in the deployment, run again what is outdated, and let annealers work in it.

    Outdated is what is ACTIVE and would be given something else than its newest run was; --dry-run says what. It runs in
    place, parents first. Refused without --force where a rollout under way commits any of that in its turn; --no-noderoles
    leaves it to the rollout.
    """
    if alone and wait:
        raise click.UsageError("--no-noderoles and --wait contradict each other: nothing would become ACTIVE")

    committing = Commit(force, dry_run)

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        now, by = opened.now(), connection.me()
        bound = _bound(world, name)
        deploymentroles.refuse_commit(world, name)
        unreadable.refuse_commit(world, bound, {vertex.node.name for vertex in bound} | _nodes(world, name))
        if not alone:
            yield from committing.transactions(opened, world, bound)
        if name != deployments.SYSTEM:  # last: annealers find all of it committed
            changes = deployments.turn(world, name, DeploymentState.COMMITTED, now, by)
            if changes:
                yield changes

    awaited = (lambda world: _names(world, name)) if wait else None
    waiting.change_and_wait(decide, awaited, timeout_seconds, dry_run, committing.explanations)
    committing.say_what_may_be_left(waited=wait and not dry_run)


def _nodes(world: World, name: str) -> set[str]:
    return {view.name for view in world.nodes.values() if view.record and view.record.deployment == name}


def _names(world: World, name: str) -> Iterable[str]:
    return [vertex.name for vertex in _bound(world, name)]


@command.command()
@name_argument
@settled_option
@timeout_option
def wait(name: str, timeout_seconds: float | None) -> None:
    """Wait until everything in the deployment is ACTIVE; ends at once when that cannot happen any more."""
    waiting.wait(lambda world: _names(world, name), timeout_seconds, again=f"deployment wait {name}")


@command.command(writes=True)
@name_argument
@yes_option
@dry_run_option
def delete(name: str, yes: bool, dry_run: bool) -> None:
    """Delete an empty deployment: its attributes and task list, and what is recorded of its rollouts and runs of tasks.

    If that takes several transactions, the first one marks the deployment, and from then on nothing can enter it. If the
    command stops half-way, repeat it.
    """
    with connection.session() as opened:
        world = connection.load(opened)
        deployment_of(world, name)
        deployments.deletable(world, name)
        held = ", ".join(role for deployment, role in sorted(world.deployment_roles) if deployment == name)
        confirm(f"delete deployment {name} with the attributes of its roles ({held or 'none'})", yes or dry_run)
        changes = connection.change(opened, lambda session, now: _deletion(session, now, name), dry_run)
    connection.report(changes, dry_run)
    _say_hooks(changes, f"then delete {name} once more; nodepool-ocb deployment show {name} says what is refused")


def _deletion(opened: Any, world: World, name: str) -> Iterator[Sequence[Change]]:
    """Where roles have a hook for it, their removal by an annealer; else, or when that was done, the deployment's."""
    from nodepool_ocb.store.tasks import beginning

    deployments.deletable(world, name)
    if name in world.task_runs:
        beginning.refuse_preparing(opened, name, world.task_runs[name].record)
    hooked: list[Change] = []
    for (deployment, role), below in sorted(world.deployment_roles.items()):
        known = world.roles.get(role)
        if deployment == name and known and deploymentroles.DELETE in known.record.hooks:
            marked = deploymentroles.marked(below.record)
            hooked.append(Set(paths.deployment_role(name, role), marked, below.version))
    if hooked:
        yield structure.raised(world, hooked)
    else:
        yield from _removal(opened, world, name)


def _removal(opened: Session, world: World, name: str) -> Iterator[Sequence[Change]]:
    """One transaction where that bears everything; else the deployment is marked before anything goes."""
    from nodepool_ocb.store.driven import pointers
    from nodepool_ocb.store.subtree import judged, removal_as_judged, subtree
    from nodepool_ocb.store.tasks import lists

    own = removal_as_judged(opened, world, paths.deployment(name))
    if not own:
        raise Stale(f"deployment {name} is gone", paths.deployment(name))
    views = deployments.of_tasks(world, name)
    of_nodes = {view.name: removal_as_judged(opened, world, paths.node(view.name)) for view in views}
    histories = [subtree(opened, path) for path in (paths.rollouts(name), paths.task_runs(name))]
    last: list[Change] = _roles_of_tasks(world, name)
    last += [change for znodes in histories for change in judged(world, znodes[-1:])] + own
    for fqdn, deletions in of_nodes.items():
        nodes.refuse_part(world, fqdn, deletions)
    former = [change for znodes in histories for change in judged(world, znodes[:-1])]
    listed = lists.removal(opened, lists.deployment(name))
    of_all_nodes = [change for deletions in of_nodes.values() for change in deletions]
    whole = structure.raised(world, [*of_all_nodes, *listed, *former, *last])
    if limits.fits(whole):
        yield whole
        return
    yield from deployments.marking(world, name)
    for fqdn, deletions in of_nodes.items():
        yield from nodes.taking_away(world, fqdn, deletions)
    heads = [each.path for znodes in histories for each in znodes if each.path.rpartition("/")[0] == znodes[-1].path]
    emptied = [change for znodes in histories for change in pointers.emptied(znodes[:-1], heads)]
    last[-1] = Delete(paths.deployment(name), world.deployments[name].version)
    yield from structure.in_parts(world, ([each] for each in [*listed, *emptied, *last]))


def _roles_of_tasks(world: World, name: str) -> list[Change]:
    from nodepool_ocb.tasks.runs import roles

    source = roles.barclamp(name)
    return [
        Delete(paths.role(role), stored.version)
        for role, stored in world.roles.items()
        if stored.record.barclamp == source
    ]
