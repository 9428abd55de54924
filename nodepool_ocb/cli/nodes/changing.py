"""``node set``, ``move``, ``available``, ``unavailable`` and ``commit``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, wait_options
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import divided, node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.operations.nodes.changing import NodeAvailable, NodeChange, NodeMove, NodeSet, NodeUnavailable
from nodepool_ocb.operations.nodes.committing import NodeCommit


@click.command("set", cls=Verb, operation=NodeSet)
@click.argument(
    "words",
    nargs=-1,
    metavar="[FQDN...|-] KEY=VALUE...",
    shell_complete=completion.before(completion.nodes, completion.node_fields),
)
@node_selector_option
@dry_run_option
def set_(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Change nodes: alive=, available=, bootenv=, allow_install=, tags=A,B, addresses=HOST[:PORT],..., host_keys=KEY (none: the
    next is pinned), rack=, user=, macs=MAC,..., labels.K=V, hints.K=VALUE (JSON, or plain text). An empty value takes a label or
    a hint away.
    """
    assignments = [word for word in words if "=" in word]
    if not assignments:
        raise click.UsageError("give KEY=VALUE after the names")
    names = nodes_given([word for word in words if "=" not in word], selector)
    _change(NodeSet(nodes=names, selector=selector, assignments=tuple(assignments)), dry_run)


def _change(operation: NodeChange, dry_run: bool) -> None:
    reporting.performed(perform(operation, dry_run=dry_run))


@click.command(cls=Verb, operation=NodeMove)
@click.argument(
    "words",
    nargs=-1,
    metavar="[FQDN...|-] DEPLOYMENT",
    shell_complete=completion.before(completion.nodes, completion.deployments),
)
@node_selector_option
@dry_run_option
def move(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Move nodes to another deployment: later binds go there; the present noderoles stay in their deployments."""
    fqdns, deployment = divided(words, selector, "the DEPLOYMENT")
    _change(NodeMove(nodes=nodes_given(fqdns, selector), selector=selector, deployment=deployment), dry_run)


@click.command(cls=Verb, operation=NodeAvailable)
@nodes_argument
@node_selector_option
@dry_run_option
def available(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Let annealers work on nodes."""
    _change(NodeAvailable(nodes=nodes_given(fqdns, selector), selector=selector), dry_run)


@click.command(cls=Verb, operation=NodeUnavailable)
@nodes_argument
@node_selector_option
@dry_run_option
def unavailable(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Keep annealers away from nodes; their noderoles stay as they are."""
    _change(NodeUnavailable(nodes=nodes_given(fqdns, selector), selector=selector), dry_run)


@click.command(cls=Verb, operation=NodeCommit)
@nodes_argument
@node_selector_option
@force_option
@wait_options
@dry_run_option
def commit(
    fqdns: Sequence[str], selector: str | None, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool
) -> None:
    """Commit all noderoles of nodes that are PROPOSED, and run again in place those that are ACTIVE and outdated.

    Refused without --force where a rollout under way commits them in its turn.
    """
    operation = NodeCommit(nodes=nodes_given(fqdns, selector), selector=selector, force=force)
    waiting.commit_and_wait(operation, wait, timeout_seconds, dry_run)
