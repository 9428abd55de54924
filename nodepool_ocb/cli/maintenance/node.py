"""``node hold`` and ``node release``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.cli.maintenance.options import maintenance_options, refuse_both, say
from nodepool_ocb.operations.nodes.changing import NodeRelease
from nodepool_ocb.operations.nodes.holding import NodeHold, NodesHeld


@click.command(cls=Verb, operation=NodeHold)
@nodes_argument
@node_selector_option
@maintenance_options
@click.option("--force", is_flag=True, help="Cancel the runs there; without, they go on to their end.")
@dry_run_option
def hold(
    fqdns: Sequence[str], selector: str | None, reason: str, until: float | None, seconds: float | None, force: bool,
    dry_run: bool,
) -> None:  # fmt: skip
    """Set nodes aside: nothing new begins there, and annealers do not probe them, before `node release` or the given time.

    Their noderoles stay as they are. Refused if another user holds one of them.
    """
    names = nodes_given(fqdns, selector)
    refuse_both(until, seconds)
    operation = NodeHold(nodes=names, selector=selector, reason=reason, until=until, seconds=seconds, force=force)
    performed = perform(operation, dry_run=dry_run)
    reporting.performed(performed)
    _say_how_it_ends(performed.answer)
    for name in performed.answer.running:
        output.say(f"{name} goes on to its end; to end it now: nodepool-ocb noderole cancel {name}")


def _say_how_it_ends(answer: NodesHeld) -> None:
    if answer.held:
        held = answer.held
        what = f"node {held[0]} is held" if len(held) == 1 else f"{len(held)} nodes are held"
        say(f"{what}: nothing new begins there", answer.until, answer.release)


@click.command(cls=Verb, operation=NodeRelease)
@nodes_argument
@node_selector_option
@dry_run_option
def release(fqdns: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Let annealers work on nodes again that were held, and probe them."""
    operation = NodeRelease(nodes=nodes_given(fqdns, selector), selector=selector)
    reporting.performed(perform(operation, dry_run=dry_run))
