"""``node reinstall``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit.options import Verb, dry_run_option, wait_options, yes_option
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.operations.installations.reinstalling import NodeReinstall


@click.command(cls=Verb, operation=NodeReinstall)
@nodes_argument
@node_selector_option
@force_option
@yes_option
@wait_options
@dry_run_option
def reinstall(
    fqdns: Sequence[str],
    selector: str | None,
    force: bool,
    yes: bool,
    wait: bool,
    timeout_seconds: float | None,
    dry_run: bool,
) -> None:
    """Install machines again: the data of their chosen disks is lost. --dry-run names these disks.

    Each node needs allow_install. After the installation all other noderoles of the node run again.
    """
    operation = NodeReinstall(nodes=nodes_given(fqdns, selector), selector=selector, force=force)
    waiting.perform_and_wait(operation, wait, timeout_seconds, dry_run, yes)
