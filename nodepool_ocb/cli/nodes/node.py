"""``nodepool-ocb node``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from nodepool_ocb.cli.kit import assignments as assigning
from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.names import deployment_of, node_of, record_of, role_of
from nodepool_ocb.cli.kit.options import Noun, confirm, dry_run_option, wait_options, yes_option
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.committing import Commit
from nodepool_ocb.cli.nodes import creating, marking, renaming
from nodepool_ocb.cli.nodes.changing import change
from nodepool_ocb.cli.nodes.creating import active_jigs
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.engine import binding, nodes, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete
from nodepool_ocb.views import nodes as shown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.group(cls=Noun)
def command() -> None:
    """Machines: create, bind roles to them, commit, take out of service."""


command.add_command(creating.create)
command.add_command(marking.alive)
command.add_command(marking.dead)
command.add_command(renaming.rename)


@command.command("list")
@click.option("--deployment", shell_complete=completion.deployments)
@click.option("--tag", "tags", multiple=True, help="Only nodes with all of these tags.")
@click.option("--label", "labels", multiple=True, metavar="K=V")
def list_(deployment: str | None, tags: Sequence[str], labels: Sequence[str]) -> None:
    """Every node, with its worst noderole's state."""
    world = connection.world()
    if deployment is not None:
        deployment_of(world, deployment)
    columns = ("name", "deployment", "alive", "available", "state", "noderoles", "tags", "since", "reason")
    output.things(shown.rows(world, deployment, tags, assigning.labels(labels)), columns)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
def show(fqdn: str) -> None:
    """One node, and its noderoles."""
    view = node_of(connection.world(), fqdn)
    node = shown.document(view, record_of(view))
    table = output.table(node.noderoles, ("noderole", "state", "since", "reason"))
    output.thing(node, fqdn, output.fields(node, but=("noderoles", "mark")), table)


@command.command("set")
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("assignments", nargs=-1, required=True, metavar="KEY=VALUE...")
@dry_run_option
def set_(fqdn: str, assignments: Sequence[str], dry_run: bool) -> None:
    """Change a node: alive=, available=, bootenv=, tags=A,B, addresses=HOST[:PORT],..., host_keys=KEY (none: the next is
    pinned), rack=, user=, labels.K=V, hints.K=VALUE (JSON, or plain text). An empty value takes a label or a hint away.
    """

    change(fqdn, lambda _, view: assigning.node_fields(record_of(view), assignments), dry_run)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("deployment", shell_complete=completion.deployments)
@dry_run_option
def move(fqdn: str, deployment: str, dry_run: bool) -> None:
    """Move a node to another deployment: what is bound from now on is bound there; its noderoles stay in theirs."""

    def fields(world: World, _: NodeView) -> dict[str, Any]:
        deployment_of(world, deployment)
        return {"deployment": deployment}

    change(fqdn, fields, dry_run)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
@click.pass_context
def available(ctx: click.Context, fqdn: str) -> None:
    """Let annealers work on the node."""
    ctx.invoke(set_, fqdn=fqdn, assignments=("available=true",), dry_run=False)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
@click.pass_context
def unavailable(ctx: click.Context, fqdn: str) -> None:
    """Keep annealers away from the node; its noderoles stay as they are."""
    ctx.invoke(set_, fqdn=fqdn, assignments=("available=false",), dry_run=False)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("role", shell_complete=completion.roles)
@click.option("--deployment", shell_complete=completion.deployments, help="The default is the node's own.")
@click.option("--parent", "parents", multiple=True, metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@dry_run_option
def bind(fqdn: str, role: str, deployment: str | None, parents: Sequence[str], dry_run: bool) -> None:
    """Bind a role, and what it needs, to a node: PROPOSED until it is committed."""
    explanations, elsewhere = list[str](), list[str]()

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        role_of(world, role), node_of(world, fqdn)
        if deployment is not None:
            deployment_of(world, deployment)
        plan = binding.plan(
            world, role, fqdn, now=opened.now(), by=connection.me(), deployment=deployment, jigs=active_jigs(world),
            parents=parents,
        )  # fmt: skip
        explanations[:], elsewhere[:] = plan.explanations, plan.elsewhere
        if plan.changes:
            yield plan.changes

    with connection.session() as opened:
        connection.report(connection.change(opened, decide, dry_run), dry_run, explanations, elsewhere)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
@turns.force_option
@wait_options
@dry_run_option
def commit(fqdn: str, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Commit all noderoles of a node that are PROPOSED, and run again in place those that are ACTIVE and outdated.

    Refused without --force where a rollout under way commits them in its turn.
    """
    committing = Commit(force, dry_run)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        bound = node_of(world, fqdn).noderoles.values()
        deploymentroles.refuse_noderoles(world, bound)
        unreadable.refuse_commit(world, bound, [fqdn])
        return committing.transactions(opened, world, bound)

    def chosen(world: World) -> list[str]:
        return [vertex.name for vertex in node_of(world, fqdn).noderoles.values()]

    waiting.change_and_wait(decide, chosen if wait else None, timeout_seconds, dry_run, committing.explanations)
    committing.say_what_may_be_left(waited=wait and not dry_run)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
@yes_option
def delete(fqdn: str, yes: bool) -> None:
    """Delete a node and its noderoles; the machine itself is left as it is."""
    with connection.session() as opened:
        view = node_of(connection.load(opened), fqdn)
        bound = ", ".join(sorted(view.noderoles)) or "no noderoles"
        elsewhere = _elsewhere(view)
        also = f", and what is PROPOSED below them on other nodes ({', '.join(elsewhere)})" if elsewhere else ""
        confirm(f"delete node {fqdn} with its noderoles and their history ({bound}){also}", yes)
        begun: list[Sequence[Change]] = []

        def decide(session: Any, world: World) -> Iterator[Sequence[Change]]:
            if begun and fqdn not in world.nodes:
                return  # an annealer went on with it, and has finished
            more = set() if yes or begun else set(_elsewhere(node_of(world, fqdn))) - set(elsewhere)
            if more:
                raise Conflict(f"{', '.join(sorted(more))} came to depend on {fqdn} meanwhile; look, and ask again")
            for transaction in _deletion(session, world, fqdn):
                yield transaction
                begun.append(transaction)

        changes = connection.change(opened, decide)
        connection.report(changes)
        if not any(isinstance(change, Delete) for change in changes):
            output.say(f"{fqdn} goes when the hooks of on_node_delete have run")


def _elsewhere(view: NodeView) -> list[str]:
    """The noderoles of other nodes that go with it."""
    return sorted(vertex.name for vertex in nodes.going(view) if vertex.node is not view)


def _deletion(opened: Any, world: World, fqdn: str) -> Iterator[Sequence[Change]]:
    from nodepool_ocb.store.subtree import removal_as_judged

    asked = nodes.delete(world, fqdn)
    if asked:
        yield asked
        return
    view = world.nodes[fqdn]
    elsewhere = [vertex for vertex in reversed(nodes.going(view)) if vertex.node is not view]
    places = [paths.noderole(vertex.role, vertex.node.name) for vertex in elsewhere]
    deletions = [each for place in (*places, paths.node(fqdn)) for each in removal_as_judged(opened, world, place)]
    yield from nodes.taking_away(world, fqdn, deletions)
