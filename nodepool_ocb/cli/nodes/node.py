"""``nodepool-ocb node``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from nodepool_ocb.cli.aside import node as aside
from nodepool_ocb.cli.kit import assignments as assigning
from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, wait_options
from nodepool_ocb.cli.kit.selecting import Nodes, divided, nodes_argument, nodes_meant, selector_option
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.committing import Commit
from nodepool_ocb.cli.nodes import binding, creating, deleting, marking, renaming
from nodepool_ocb.cli.nodes.changing import change
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.cli.site import importing
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.names import deployment_of, node_of, record_of
from nodepool_ocb.views import nodes as shown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.group(cls=Noun)
def command() -> None:
    """Machines: create, bind roles to them, commit, take out of service."""


command.add_command(binding.bind)
command.add_command(creating.create)
command.add_command(deleting.delete)
command.add_command(marking.alive)
command.add_command(marking.dead)
command.add_command(aside.hold)
command.add_command(aside.release)
command.add_command(renaming.rename)
command.add_command(importing.import_)


@command.command("list")
@click.option("--deployment", shell_complete=completion.deployments)
@click.option("--tag", "tags", multiple=True, shell_complete=completion.tags, help="Only nodes with all of these tags.")
@click.option("--label", "labels", multiple=True, metavar="K=V", shell_complete=completion.labels)
@selector_option
def list_(deployment: str | None, tags: Sequence[str], labels: Sequence[str], selector: str | None) -> None:
    """Every node, with its worst noderole's state."""
    with connection.session() as opened:
        world = connection.load(opened)
        if deployment is not None:
            deployment_of(world, deployment)
        meant = nodes_meant(opened, world, selector)
    columns = ("name", "deployment", "alive", "available", "held", "state", "noderoles", "tags", "since", "reason")
    output.things(shown.rows(world, deployment, tags, assigning.labels(labels), meant, now=time.time()), columns)


@command.command()
@click.argument("fqdn", shell_complete=completion.nodes)
def show(fqdn: str) -> None:
    """One node, and its noderoles."""
    view = node_of(connection.world(), fqdn)
    node = shown.document(view, record_of(view), time.time())
    table = output.table(node.noderoles, ("noderole", "state", "since", "reason"))
    output.thing(node, fqdn, output.fields(node, but=("noderoles", "mark", "hold")), table)


@command.command("set", writes=True)
@click.argument(
    "words",
    nargs=-1,
    metavar="[FQDN...|-] KEY=VALUE...",
    shell_complete=completion.before(completion.nodes, completion.node_fields),
)
@selector_option
@dry_run_option
def set_(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Change nodes: alive=, available=, bootenv=, tags=A,B, addresses=HOST[:PORT],..., host_keys=KEY (none: the next is
    pinned), rack=, user=, labels.K=V, hints.K=VALUE (JSON, or plain text). An empty value takes a label or a hint away.
    """
    assignments = [word for word in words if "=" in word]
    if not assignments:
        raise click.UsageError("give KEY=VALUE after the names")
    chosen = Nodes([word for word in words if "=" not in word], selector)
    change(chosen, lambda _, view: assigning.node_fields(record_of(view), assignments), dry_run)


@command.command(writes=True)
@click.argument(
    "words",
    nargs=-1,
    metavar="[FQDN...|-] DEPLOYMENT",
    shell_complete=completion.before(completion.nodes, completion.deployments),
)
@selector_option
@dry_run_option
def move(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Move nodes to another deployment: what is bound from now on is bound there; their noderoles stay in theirs."""
    fqdns, deployment = divided(words, selector, "the DEPLOYMENT")

    def fields(world: World, _: NodeView) -> dict[str, Any]:
        deployment_of(world, deployment)
        return {"deployment": deployment}

    change(Nodes(fqdns, selector), fields, dry_run)


@command.command(writes=True)
@nodes_argument
@selector_option
@dry_run_option
def available(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Let annealers work on nodes."""
    change(Nodes(fqdns, selector), lambda *_: {"available": True}, dry_run)


@command.command(writes=True)
@nodes_argument
@selector_option
@dry_run_option
def unavailable(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Keep annealers away from nodes; their noderoles stay as they are."""
    change(Nodes(fqdns, selector), lambda *_: {"available": False}, dry_run)


@command.command(writes=True)
@nodes_argument
@selector_option
@turns.force_option
@wait_options
@dry_run_option
def commit(
    fqdns: Sequence[str], selector: str | None, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool
) -> None:
    """Commit all noderoles of nodes that are PROPOSED, and run again in place those that are ACTIVE and outdated.

    Refused without --force where a rollout under way commits them in its turn.
    """
    committing, nodes = Commit(force, dry_run), Nodes(fqdns, selector)

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        views = nodes.of(opened, world)
        bound = [vertex for view in views for vertex in view.noderoles.values()]
        deploymentroles.refuse_noderoles(world, bound)
        unreadable.refuse_commit(world, bound, [view.name for view in views])
        return committing.transactions(opened, world, bound)

    def chosen(world: World) -> list[str]:
        return [vertex.name for view in nodes.again(world) for vertex in view.noderoles.values()]

    waiting.change_and_wait(decide, chosen if wait else None, timeout_seconds, dry_run, committing.explanations)
    committing.say_what_may_be_left(waited=wait and not dry_run)
