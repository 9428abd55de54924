"""``node reinstall``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit.options import Verb, dry_run_option, wait_options, yes_option
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.model.records import WipeMethod
from nodepool_ocb.operations.installations.reinstalling import NodeReinstall


@click.command(cls=Verb, operation=NodeReinstall)
@nodes_argument
@node_selector_option
@click.option("--image", help="The disk image to install, in place of that of the role.")
@click.option("--wipe", type=click.Choice([str(each) for each in WipeMethod]), help="Erase all fixed disks before.")
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
