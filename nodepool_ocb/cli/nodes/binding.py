"""``node bind``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import divided, node_selector_option, nodes_given
from nodepool_ocb.operations.nodes.binding import NodeBind


@click.command(cls=Verb, operation=NodeBind)
@click.argument(
    "words",
    nargs=-1,
    metavar="[FQDN...|-] [ROLE]",
    shell_complete=completion.before(completion.nodes, completion.roles),
)
@node_selector_option
@click.option("--role", "roles", multiple=True, shell_complete=completion.roles, help="Instead of ROLE; any number.")
@click.option("--deployment", shell_complete=completion.deployments, help="The default is each node's own.")
@click.option("--parent", "parents", multiple=True, metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@dry_run_option
def bind(
    words: Sequence[str], selector: str | None, roles: Sequence[str], deployment: str | None, parents: Sequence[str],
    dry_run: bool,
) -> None:  # fmt: skip
    """Bind a role, and the roles that it requires, to nodes: PROPOSED until it is committed.

    The role is bound to all nodes or to none: a refusal for one node refuses all. A node that has the role stays as it is.
    """
    fqdns, wanted = (words, tuple(roles)) if roles else _divided(words, selector)
    operation = NodeBind(
        nodes=nodes_given(fqdns, selector),
        selector=selector,
        roles=wanted,
        deployment=deployment,
        parents=tuple(parents),
    )
    reporting.performed(perform(operation, dry_run=dry_run))


def _divided(words: Sequence[str], selector: str | None) -> tuple[Sequence[str], tuple[str, ...]]:
    fqdns, role = divided(words, selector, "the ROLE")
    return fqdns, (role,)
