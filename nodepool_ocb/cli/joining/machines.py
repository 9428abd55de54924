"""``node adopt``, ``hint``, ``machine``, ``inventory`` and ``going-down``: the machine of a node."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.joining.registration import facts_of_file
from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.joining.adopting import NodeAdopt, NodeHint
from nodepool_ocb.operations.joining.reporting import NodeGoingDown, NodeInventory, NodeMachine

deployment_option = click.option(
    "--deployment", default="system", shell_complete=completion.deployments, help="Of a new node."
)


@click.command(cls=Verb, operation=NodeAdopt)
@click.argument("mac", shell_complete=completion.registrations)
@click.argument("name", metavar="FQDN", shell_complete=completion.nodes)
@deployment_option
@click.option("--network", shell_complete=completion.networks, help="In which a new node gets an address.")
@click.option("--role", "roles", multiple=True, shell_complete=completion.roles, help="Of a new node: PROPOSED there.")
@dry_run_option
def adopt(mac: str, name: str, deployment: str, network: str | None, roles: Sequence[str], dry_run: bool) -> None:
    """Make a waiting machine a node: a new one, or one that exists. Nothing is installed on it.

    A node that exists gets the MACs, the address and the host keys of the machine.
    """
    operation = NodeAdopt(mac=mac, name=name, deployment=deployment, network=network, roles=tuple(roles))
    reporting.performed(perform(operation, dry_run=dry_run))


@click.command(cls=Verb, operation=NodeHint)
@click.argument("mac", shell_complete=completion.registrations)
@click.argument("name", metavar="FQDN", shell_complete=completion.nodes)
@deployment_option
@dry_run_option
def hint(mac: str, name: str, deployment: str, dry_run: bool) -> None:
    """Plan a node for the machine with this MAC: it becomes this node when it registers, without a rule."""
    reporting.performed(perform(NodeHint(mac=mac, name=name, deployment=deployment), dry_run=dry_run))


@click.command(cls=Verb, operation=NodeMachine)
@click.argument("fqdn", shell_complete=completion.nodes)
def machine(fqdn: str) -> None:
    """The facts of the machine of a node: memory, disks, network cards, and the ports of switches."""
    output.thing(perform(NodeMachine(node=fqdn)).answer, fqdn)


@click.command(cls=Verb, operation=NodeInventory)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("file", type=click.Path())
@dry_run_option
def inventory(fqdn: str, file: str, dry_run: bool) -> None:
    """Store the facts of a node's machine from JSON; - reads standard input."""
    reporting.performed(perform(NodeInventory(node=fqdn, inventory=facts_of_file(file)), dry_run=dry_run))


@click.command("going-down", cls=Verb, operation=NodeGoingDown)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.option("--reason", help="Why; `node show` has it.")
@dry_run_option
def going_down(fqdn: str, reason: str | None, dry_run: bool) -> None:
    """Say as the machine that it stops: the node is not alive until the machine says so, for an hour at most."""
    reporting.performed(perform(NodeGoingDown(node=fqdn, reason=reason), dry_run=dry_run))
