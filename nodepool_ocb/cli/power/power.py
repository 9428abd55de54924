"""``nodepool-ocb power``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nodepool_ocb.cli.kit import completion, output, reporting, sealing
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, timeout_option
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.errors import InError
from nodepool_ocb.operations.polling import polled
from nodepool_ocb.operations.power.discovering import PowerDiscover
from nodepool_ocb.operations.power.reading import PowerList, PowerShow
from nodepool_ocb.operations.power.requesting import PowerChange, PowerCheck, PowerCycle, PowerOff, PowerOn
from nodepool_ocb.operations.power.rotating import PowerRotate
from nodepool_ocb.operations.power.setting import PowerSet, PowerUnset

if TYPE_CHECKING:
    from nodepool_ocb.operations.power.requesting import PowerAsked
    from nodepool_ocb.views.provisioning.power import PowerRow

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = ("node", "power", "seen", "driver", "address", "chassis", "request", "trouble")
DISCOVERED = ("node", "bmc", "driver", "address", "trouble")

network_option = click.option("--network", is_flag=True, help="The boot is one from the network, this one time.")
force_option = click.option("--force", is_flag=True, help="Also a machine on which a noderole runs.")


@click.group(cls=Noun)
def command() -> None:
    """The power of machines: switch them on and off by their BMCs."""


def _requesting(function: F) -> F:
    """The arguments that all requests share."""
    wait = click.option("--wait", is_flag=True, help="Wait until each request is done, or has failed.")
    for option in (dry_run_option, timeout_option, wait, node_selector_option, nodes_argument):
        function = option(function)
    return function


@command.command("set", operation=PowerSet)
@click.argument("words", nargs=-1, required=True, metavar="FQDN... KEY=VALUE...", shell_complete=completion.nodes)
@node_selector_option
@click.option("--within", multiple=True, metavar="SUBNET", help="The networks of your BMCs; {bmc} is an address there.")
@dry_run_option
def set_(words: Sequence[str], selector: str | None, within: Sequence[str], dry_run: bool) -> None:
    """Set the access to BMCs: driver=, address=, username=, password=, chassis=, and options of the driver.

    password=- asks for it; @FILE and secret:REFERENCE are read as in `noderole set`. {host} in an address is the first label of
    the node's name. An empty value removes a key.
    """
    names = [word for word in words if "=" not in word]
    assignments = sealing.read([word for word in words if "=" in word])
    operation = PowerSet(
        nodes=nodes_given(names, selector), selector=selector, assignments=tuple(assignments), within=tuple(within)
    )
    reporting.performed(perform(operation, dry_run=dry_run))


@command.command(operation=PowerUnset)
@nodes_argument
@node_selector_option
@dry_run_option
def unset(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Forget the access to BMCs."""
    reporting.performed(perform(PowerUnset(nodes=nodes_given(fqdns, selector), selector=selector), dry_run=dry_run))


@command.command("list", operation=PowerList)
@click.argument("fqdns", nargs=-1, metavar="[FQDN...]", shell_complete=completion.nodes)
@node_selector_option
def list_(fqdns: Sequence[str], selector: str | None) -> None:
    """The machines with power settings, their states, and their requests."""
    output.things(perform(PowerList(nodes=tuple(fqdns), selector=selector)).answer, COLUMNS, key="node")


@command.command("discover", operation=PowerDiscover)
@click.argument("fqdns", nargs=-1, metavar="[FQDN...]", shell_complete=completion.nodes)
@node_selector_option
@click.option("--within", multiple=True, metavar="SUBNET", help="A network of BMCs; another address is a trouble.")
def discover(fqdns: Sequence[str], selector: str | None, within: Sequence[str]) -> None:
    """The BMCs that machines reported; `power set ... address={bmc}` uses them."""
    operation = PowerDiscover(nodes=tuple(fqdns), selector=selector, within=tuple(within))
    output.things(perform(operation).answer, DISCOVERED, key="node")


@command.command(operation=PowerShow)
@click.argument("fqdn", shell_complete=completion.nodes)
def show(fqdn: str) -> None:
    """One machine, without its password."""
    output.thing(perform(PowerShow(node=fqdn)).answer, fqdn)


@command.command("on", operation=PowerOn)
@_requesting
@network_option
def on(fqdns: Sequence[str], selector: str | None, network: bool, **rest: Any) -> None:
    """Switch machines on."""
    _request(PowerOn(nodes=nodes_given(fqdns, selector), selector=selector, network=network), **rest)


@command.command("off", operation=PowerOff)
@_requesting
@force_option
def off(fqdns: Sequence[str], selector: str | None, force: bool, **rest: Any) -> None:
    """Switch machines off, without asking their systems."""
    _request(PowerOff(nodes=nodes_given(fqdns, selector), selector=selector, force=force), **rest)


@command.command("cycle", operation=PowerCycle)
@_requesting
@network_option
@force_option
def cycle(fqdns: Sequence[str], selector: str | None, network: bool, force: bool, **rest: Any) -> None:
    """Switch machines off, then on."""
    nodes = nodes_given(fqdns, selector)
    _request(PowerCycle(nodes=nodes, selector=selector, network=network, force=force), **rest)


@command.command("check", operation=PowerCheck)
@_requesting
def check(fqdns: Sequence[str], selector: str | None, **rest: Any) -> None:
    """Ask the BMCs for the state of machines; `power list` shows the answers."""
    _request(PowerCheck(nodes=nodes_given(fqdns, selector), selector=selector), **rest)


@command.command("rotate", operation=PowerRotate)
@_requesting
def rotate(fqdns: Sequence[str], selector: str | None, **rest: Any) -> None:
    """Give the BMCs new passwords; a password is stored before its BMC is given it."""
    _request(PowerRotate(nodes=nodes_given(fqdns, selector), selector=selector), **rest)


def _request(operation: PowerChange | PowerRotate, *, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    performed = perform(operation, dry_run=dry_run)
    reporting.performed(performed)
    if wait and performed.answer.request is not None:
        _await(performed.answer, timeout_seconds)


def _await(asked: PowerAsked, timeout_seconds: float | None) -> None:
    """Raises InError with the reasons of failures, or TimedOut."""
    assert asked.request is not None, "a dry run is not awaited"
    look = PowerList(nodes=asked.nodes)
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    with waits.going_on("the machines", lambda: "power list"):
        for rows in polled(performer(), lambda: look, deadline):
            if not any(row.asked == asked.request and row.outcome == "waiting" for row in rows):
                break
    ended = {row.node: row for row in rows}
    failures = [f"{name}: {why}" for name in asked.nodes if (why := _failure(ended.get(name), asked.request))]
    if failures:
        raise InError("; ".join(failures))


def _failure(row: PowerRow | None, request: str) -> str | None:
    """Why the request of a node is not done; None where it is."""
    if row is None:
        return "its power settings were removed meanwhile"
    if row.asked != request:
        return "a newer request took the place of this one"
    return None if row.outcome == "done" else row.trouble or "no reason is known"
