"""``node create``: one node, or many with names and addresses from a template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from nodepool_ocb.cli.kit import completion, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations.assignments import login
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate, is_template

MOST: Final = 1000  # nodes of one command


def _login(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        return login(value)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None


@click.command(cls=Verb, operation=NodeCreate)
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
    help="Runs see it: JSON, or plain text; admin-mac and admin-v4addr are obeyed or refused.",
)
@click.option("--mac", "macs", multiple=True, metavar="MAC", help="Of a NIC that it boots from; no other node has it.")
@click.option("--network", shell_complete=completion.networks, help="It gets the lowest free address of this network.")
@click.option("--rack", shell_complete=completion.racks)
@click.option("--bootenv", default="local", show_default=True)
@dry_run_option
def create(
    fqdn: str, available: bool | None, count: int | None, first: int, no_address: bool, addresses: tuple[str, ...],
    labels: Sequence[str], hints: Sequence[str], network: str | None, dry_run: bool, **fields: Any,
) -> None:  # fmt: skip
    """Create a node; the roles for new nodes are bound to it at once, unless it is virtual.

    A virtual node gets neither discovery nor bootstrap roles, also with --admin, because these act on a machine.
    With --count, FQDN and each --address are templates: {} is the number, {:03} the number with three digits at least.
    """
    if no_address and addresses:
        raise click.UsageError("--address and --no-address contradict each other; give one of them")
    for option, check in (("host_keys", assigning.host_keys), ("tags", assigning.checked_tags)):
        try:
            check(fields[option])
        except ValueError as wrong:
            raise click.UsageError(f"--{option.removesuffix('s').replace('_', '-')}: {wrong}") from None
    _check_templates(fqdn, addresses, fields["host_keys"], count)
    reached = () if no_address or fields["virtual"] else addresses or (fqdn,)
    given = {"labels": assigning.labels(labels), "hints": assigning.hints(hints), **fields}
    node = NewNode(addresses=reached, available=available is not False, **given)
    operation = NodeCreate(
        name=fqdn, node=node, as_configured=available is None, count=count, first=first, network=network
    )
    reporting.performed(perform(operation, dry_run=dry_run))


def _check_templates(fqdn: str, addresses: Sequence[str], host_keys: Sequence[str], count: int | None) -> None:
    if count is None:
        if is_template(fqdn):
            raise click.UsageError(f"{fqdn} is a template; give the number of nodes with --count")
        return
    if host_keys:
        raise click.UsageError("--host-key is of one machine; many have theirs pinned when they are reached first")
    for template in (fqdn, *addresses):
        if not is_template(template):
            raise click.UsageError(f"{template} has no place for the number of each node; write {{}} or {{:03}} there")
