"""``node create``: one node, or many whose names and addresses follow a template."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import assignments as assigning
from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.assignments import login
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.binding import Plan
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Node
from nodepool_ocb.operations.names import deployment_of

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

MOST: Final = 1000  # nodes of one command
PLACE: Final = re.compile(r"\{(?::0(\d))?\}")  # of the number in a template, and its least digits


def _login(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        return login(value)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None


@click.command(cls=Verb, writes=True)
@click.argument("fqdn")
@click.option("--admin", is_flag=True, help="An admin node: gets the bootstrap roles instead of the discovery roles.")
@click.option(
    "--virtual", is_flag=True, help="No machine is behind it: it is always alive, and gets no roles by itself."
)
@click.option("--available/--not-available", default=None, help="May annealers work on it?  [default: nodes.available]")
@click.option("--count", type=click.IntRange(1, MOST), help="So many, with the lowest numbers that are free.")
@click.option("--first", type=click.IntRange(0), default=1, show_default=True, help="The lowest number, with --count.")
@click.option("--address", "addresses", multiple=True, metavar="A[:PORT]", help="Where it answers, if not at its name.")
@click.option("--no-address", is_flag=True, help="It cannot be reached yet.")
@click.option("--user", default="root", show_default=True, callback=_login, help="The login of annealers on it.")
@click.option("--host-key", "host_keys", multiple=True, metavar="'TYPE KEY'", help="Pin its SSH host key.")
@click.option("--deployment", default="system", show_default=True, shell_complete=completion.deployments)
@click.option("--tag", "tags", multiple=True, shell_complete=completion.tags)
@click.option("--label", "labels", multiple=True, metavar="K=V", shell_complete=completion.labels)
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="K=VALUE",
    help="Runs see it: JSON, or plain text; admin-mac and admin-v4addr are checked.",
)
@click.option("--rack", shell_complete=completion.racks)
@click.option("--bootenv", default="local", show_default=True)
@dry_run_option
def create(
    fqdn: str, available: bool | None, count: int | None, first: int, no_address: bool, addresses: tuple[str, ...],
    labels: Sequence[str], hints: Sequence[str], dry_run: bool, **fields: Any,
) -> None:  # fmt: skip
    """Create a node; the roles for new nodes are bound to it at once, unless it is virtual.

    A virtual node gets neither discovery nor bootstrap roles, also with --admin, because these act on a machine.
    With --count, FQDN and each --address are templates: {} is the number, {:03} the number with three digits at least.
    """
    if no_address and addresses:
        raise click.UsageError("--address and --no-address contradict each other")
    for option, check in (("host_keys", assigning.host_keys), ("tags", assigning.checked_tags)):
        try:
            check(fields[option])
        except ValueError as wrong:
            raise click.UsageError(f"--{option.removesuffix('s').replace('_', '-')}: {wrong}") from None
    _check_templates(fqdn, addresses, fields["host_keys"], count)
    may = connection.settings().nodes.available if available is None else available
    reached = () if no_address or fields["virtual"] else addresses or (fqdn,)
    node = Node(
        addresses=reached, available=may, labels=assigning.labels(labels), hints=assigning.hints(hints), **fields
    )
    wanted = Wanted(fqdn, node, None if count is None else first)
    made: list[Change] = []
    explanations, elsewhere = list[str](), list[str]()
    with connection.session() as opened:
        for _ in range(count or 1):  # a transaction each: what was made when it is interrupted stays
            changes, plan = _made(opened, wanted, made, dry_run)
            made += changes
            explanations += plan.explanations
            elsewhere += plan.elsewhere
        connection.report(made, dry_run, explanations, elsewhere)


class Wanted(NamedTuple):
    """A node; or one of many, if there is a ``first`` number."""

    fqdn: str
    node: Node
    first: int | None

    def free(self, world: World, taken: Set[str]) -> tuple[str, Node]:
        """With the lowest number that no node has; ``taken``: the paths of those that are not in the world yet."""
        if self.first is None:
            return self.fqdn, self.node
        there = {paths.node(name) for name in world.nodes} | taken | world.unreadable.keys()
        number = next(n for n in itertools.count(self.first) if paths.node(filled(self.fqdn, n)) not in there)
        addresses = tuple(filled(address, number) for address in self.node.addresses)
        return filled(self.fqdn, number), replace(self.node, addresses=addresses)


def _check_templates(fqdn: str, addresses: Sequence[str], host_keys: Sequence[str], count: int | None) -> None:
    if count is None:
        if PLACE.search(fqdn):
            raise click.UsageError(f"{fqdn} is a template; --count says of how many")
        return
    if host_keys:
        raise click.UsageError("--host-key is of one machine; many have theirs pinned when they are reached first")
    for template in (fqdn, *addresses):
        if not PLACE.search(template):
            raise click.UsageError(f"{template} has no place for the number of each node; write {{}} or {{:03}} there")


def filled(template: str, number: int) -> str:
    """The template with a number in each place.

    >>> filled("web-{:03}.example.com", 7), filled("10.0.0.{}", 7)
    ('web-007.example.com', '10.0.0.7')
    """
    return PLACE.sub(lambda place: f"{number:0{place.group(1) or 1}d}", template)


def _made(opened: Session, wanted: Wanted, before: Sequence[Change], dry_run: bool) -> tuple[list[Change], Plan]:
    """What was written of one node, ``before`` being made by now, and what was decided."""
    domain = connection.settings().admin_domain
    taken = {change.path for change in before}
    plans: list[Plan] = []

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        deployment_of(world, wanted.node.deployment)
        fqdn, node = wanted.free(world, taken)
        admin_domain = domain or (world.cluster.record.admin_domain if world.cluster else None)
        plan = nodes.create(
            world, fqdn, node, admin_domain=admin_domain, now=opened.now(), jigs=active_jigs(world), by=connection.me()
        )
        plans.append(plan)
        yield plan.changes

    return connection.change(opened, decide, dry_run), plans[-1]


def active_jigs(world: World) -> set[str] | None:
    """The jigs of the living annealers; None while there is no annealer to ask."""
    return {jig for daemon in world.annealers.values() for jig in daemon.jigs} if world.annealers else None
