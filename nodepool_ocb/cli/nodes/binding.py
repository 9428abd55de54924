"""``node bind``: roles to nodes, all decided in one pass over one world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.selecting import Nodes, divided, selector_option
from nodepool_ocb.cli.nodes.creating import active_jigs
from nodepool_ocb.engine.binding import plan_all
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.names import deployment_of, role_of
from nodepool_ocb.views.changes import ChangeRow, keeps

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb, writes=True)
@click.argument(
    "words",
    nargs=-1,
    metavar="[FQDN...|-] [ROLE]",
    shell_complete=completion.before(completion.nodes, completion.roles),
)
@selector_option
@click.option("--role", "roles", multiple=True, shell_complete=completion.roles, help="Instead of ROLE; any number.")
@click.option("--deployment", shell_complete=completion.deployments, help="The default is each node's own.")
@click.option("--parent", "parents", multiple=True, metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@dry_run_option
def bind(
    words: Sequence[str], selector: str | None, roles: Sequence[str], deployment: str | None, parents: Sequence[str],
    dry_run: bool,
) -> None:  # fmt: skip
    """Bind a role, and what it needs, to nodes: PROPOSED until it is committed.

    All are bound, or none: what is refused of one node is refused of all. A node that has the role stays as it is.
    """
    fqdns, wanted = (words, tuple(roles)) if roles else _divided(words, selector)
    chosen = Nodes(fqdns, selector)
    explanations, elsewhere, kept = list[str](), list[str](), list[ChangeRow]()

    def decide(opened: Session, world: World) -> Iterable[Sequence[Change]]:
        explanations.clear()
        elsewhere.clear()
        kept.clear()
        _check(world, wanted, deployment, fqdns)
        now, jigs = opened.now(), active_jigs(world)

        def one(view: NodeView) -> Sequence[Change]:
            plan = plan_all(
                world, wanted, view, now=now, by=connection.me(), deployment=deployment, jigs=jigs, parents=parents
            )
            explanations.extend(plan.explanations)
            elsewhere.extend(plan.elsewhere)
            kept.extend(keeps(view.noderoles[role]) for role in wanted if role in view.noderoles)
            return plan.changes

        return together.decided(world, chosen.of(opened, world), one)

    with connection.session() as opened:
        connection.report(connection.change(opened, decide, dry_run), dry_run, explanations, elsewhere, kept=kept)


def _divided(words: Sequence[str], selector: str | None) -> tuple[Sequence[str], tuple[str, ...]]:
    fqdns, role = divided(words, selector, "the ROLE")
    return fqdns, (role,)


def _check(world: World, roles: Iterable[str], deployment: str | None, fqdns: Iterable[str]) -> None:
    """Raises NotFound for what does not exist; a role among the nodes is probably one of several to bind."""
    for role in roles:
        role_of(world, role)
    if deployment is not None:
        deployment_of(world, deployment)
    for name in fqdns:
        if name in world.roles and name not in world.nodes:
            raise NotFound(f"node {name} does not exist; it is a role: of several, write --role for each")
