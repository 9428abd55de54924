"""``node reinstall``, ``node decommission``, ``node recommission`` and ``node rescue``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, wait_options, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.model.records import WipeMethod
from nodepool_ocb.operations.installations.decommissioning import NodeDecommission, NodeRecommission
from nodepool_ocb.operations.installations.reinstalling import NodeReinstall
from nodepool_ocb.operations.installations.rescuing import NodeRescue

METHODS = click.Choice([str(each) for each in WipeMethod])


@click.command(cls=Verb, operation=NodeReinstall)
@nodes_argument
@node_selector_option
@click.option("--image", help="The disk image to install, in place of that of the role.")
@click.option("--wipe", type=METHODS, help="Erase all fixed disks before.")
@force_option
@yes_option
@wait_options
@dry_run_option
def reinstall(
    fqdns: Sequence[str],
    selector: str | None,
    image: str | None,
    wipe: str | None,
    force: bool,
    yes: bool,
    wait: bool,
    timeout_seconds: float | None,
    dry_run: bool,
) -> None:
    """Install machines again: the data of their chosen disks is lost. --dry-run names these disks.

    Each node needs allow_install. After the installation all other noderoles of the node run again. --image and --wipe count
    until the next reinstallation of the node.
    """
    method = WipeMethod(wipe) if wipe is not None else None
    nodes = nodes_given(fqdns, selector)
    operation = NodeReinstall(nodes=nodes, selector=selector, image=image, wipe=method, force=force)
    waiting.perform_and_wait(operation, wait, timeout_seconds, dry_run, yes)


@click.command(cls=Verb, operation=NodeDecommission)
@nodes_argument
@node_selector_option
@click.option(
    "--wipe", type=METHODS, help="How all fixed disks are erased, in place of the role's method; none keeps the data."
)
@force_option
@yes_option
@wait_options
@dry_run_option
def decommission(
    fqdns: Sequence[str],
    selector: str | None,
    wipe: str | None,
    force: bool,
    yes: bool,
    wait: bool,
    timeout_seconds: float | None,
    dry_run: bool,
) -> None:
    """Erase the disks of machines, switch them off, and take their nodes out of service. --dry-run names the disks.

    Each node needs allow_install, unless --wipe none keeps the data. `installation show` has the result of each disk. After
    that nothing runs on the node; `node delete` or `node recommission` is the next step.
    """
    method = WipeMethod(wipe) if wipe is not None else None
    operation = NodeDecommission(nodes=nodes_given(fqdns, selector), selector=selector, wipe=method, force=force)
    waiting.perform_and_wait(operation, wait, timeout_seconds, dry_run, yes)


@click.command(cls=Verb, operation=NodeRecommission)
@nodes_argument
@node_selector_option
@dry_run_option
def recommission(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Put decommissioned nodes into service again. They are not alive until their machines are installed, or answer."""
    reporting.performed(
        perform(NodeRecommission(nodes=nodes_given(fqdns, selector), selector=selector), dry_run=dry_run)
    )


@click.command(cls=Verb, operation=NodeRescue)
@nodes_argument
@node_selector_option
@click.option("--end", is_flag=True, help="Boot the machines into their own systems again.")
@dry_run_option
def rescue(fqdns: Sequence[str], selector: str | None, end: bool, dry_run: bool) -> None:
    """Boot machines into the rescue environment, for a person; no disk is changed.

    `installation show` has the host key of the environment. Nothing else runs on the node until --end, and the machine is back.
    """
    operation = NodeRescue(nodes=nodes_given(fqdns, selector), selector=selector, end=end)
    reporting.performed(perform(operation, dry_run=dry_run))
