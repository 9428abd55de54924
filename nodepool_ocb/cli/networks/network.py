"""``nodepool-ocb network``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.networks.allocating import NetworkAllocate, NetworkRelease
from nodepool_ocb.operations.networks.changing import (
    NetworkCreate,
    NetworkDelete,
    NetworkServe,
    NetworkSet,
    NetworkUnserve,
    NewNetwork,
)
from nodepool_ocb.operations.networks.reading import NetworkAddresses, NetworkList, NetworkShow

COLUMNS = ("name", "subnet", "subnet6", "vlan", "domain", "host", "dhcp", "servers", "addresses")
ADDRESS_COLUMNS = ("address", "node", "mac", "since", "former", "free", "reason")

network_argument = click.argument("network", shell_complete=completion.networks)
node_argument = click.argument("node", metavar="FQDN", shell_complete=completion.nodes)
address_argument = click.argument("address", required=False)


@click.group(cls=Noun)
def command() -> None:
    """Networks that machines boot from: subnets, ranges, and the addresses of nodes."""


@command.command(operation=NetworkCreate)
@click.argument("name")
@click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=completion.network_fields)
@dry_run_option
def create(name: str, words: Sequence[str], dry_run: bool) -> None:
    """Create a network from KEY=VALUE: subnet=, subnet6=, router=, router6=, domain=, nameservers=A,B, ntp=A,B, vlan=,
    mtu=, ranges.host=FIRST-LAST (also admin, dhcp, and host6, admin6, dhcp6), proxy=true, segments=JSON,
    quarantine_seconds=, slice_count=.
    """
    reporting.performed(perform(NetworkCreate(name=name, network=NewNetwork.of(words)), dry_run=dry_run))


@command.command("set", operation=NetworkSet)
@network_argument
@click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=completion.network_fields)
@dry_run_option
def set_(network: str, words: Sequence[str], dry_run: bool) -> None:
    """Change a network: KEY=VALUE as for `network create`. An empty value takes a range out."""
    reporting.performed(perform(NetworkSet(network=network, assignments=tuple(words)), dry_run=dry_run))


@command.command(operation=NetworkDelete)
@network_argument
@yes_option
@dry_run_option
def delete(network: str, yes: bool, dry_run: bool) -> None:
    """Delete a network. Refused while a node has an address of it."""
    reporting.performed(perform(NetworkDelete(network=network), dry_run=dry_run, yes=yes))


@command.command("list", operation=NetworkList)
def list_() -> None:
    """Every network, with the number of allocated addresses."""
    output.things(perform(NetworkList()).answer, COLUMNS)


@command.command(operation=NetworkShow)
@network_argument
def show(network: str) -> None:
    """One network, with the part of each dynamic range that each admin node offers."""
    output.thing(perform(NetworkShow(network=network)).answer, network)


@command.command(operation=NetworkAddresses)
@network_argument
def addresses(network: str) -> None:
    """The addresses of a network that have a node, or are in quarantine until the time in column "free"."""
    output.things(perform(NetworkAddresses(network=network)).answer, ADDRESS_COLUMNS, key="address")


@command.command(operation=NetworkAllocate)
@network_argument
@node_argument
@address_argument
@dry_run_option
def allocate(network: str, node: str, address: str | None, dry_run: bool) -> None:
    """Allocate an address to a node: ADDRESS, else the lowest free one of each family."""
    reporting.performed(perform(NetworkAllocate(network=network, node=node, address=address), dry_run=dry_run))


@command.command(operation=NetworkRelease)
@network_argument
@node_argument
@address_argument
@dry_run_option
def release(network: str, node: str, address: str | None, dry_run: bool) -> None:
    """Release ADDRESS of a node, else all that it has in the network. They are in quarantine then."""
    reporting.performed(perform(NetworkRelease(network=network, node=node, address=address), dry_run=dry_run))


@command.command(operation=NetworkServe)
@network_argument
@node_argument
@dry_run_option
def serve(network: str, node: str, dry_run: bool) -> None:
    """Give an admin node its slice of the dynamic ranges, so that no other server offers the same addresses."""
    reporting.performed(perform(NetworkServe(network=network, node=node), dry_run=dry_run))


@command.command(operation=NetworkUnserve)
@network_argument
@node_argument
@dry_run_option
def unserve(network: str, node: str, dry_run: bool) -> None:
    """Take the slice from a node; the other servers keep theirs."""
    reporting.performed(perform(NetworkUnserve(network=network, node=node), dry_run=dry_run))
