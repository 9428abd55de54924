"""``rollout start``: a strategy is carried out from now on, unless something speaks against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, timeout_option, yes_option
from nodepool_ocb.cli.kit.performing import perform, usage
from nodepool_ocb.cli.kit.selecting import node_selector_option
from nodepool_ocb.cli.rollouts import rolling, strategy, watch
from nodepool_ocb.cli.tasks.options import facts_file_option
from nodepool_ocb.operations.rollouts import strategies
from nodepool_ocb.operations.rollouts.starting import RolloutStart

if TYPE_CHECKING:
    from nodepool_ocb.operations.rollouts.strategies import Strategy


@click.command(cls=Verb, operation=RolloutStart)
@strategy.files_argument
@click.option(
    "--default", "whole", is_flag=True, help="Without a file: one critical group of all nodes, which must all succeed."
)
@strategy.one_deployment_option
@strategy.name_option
@node_selector_option
@click.option(
    "--changed", is_flag=True,
    help="Run outdated noderoles again in place: ACTIVE ones with inputs that changed since their newest run.",
)  # fmt: skip
@click.option(
    "--refresh", "roles", multiple=True, metavar="ROLE", shell_complete=completion.roles,
    help="Run ACTIVE noderoles of this role again in place; may be given again. PROPOSED noderoles are not committed.",
)  # fmt: skip
@click.option(
    "--redeploy", "redeployed", multiple=True, metavar="ROLE", shell_complete=completion.roles,
    help="Run the noderoles of this role from the start, destructive ones too; may be given again. --dry-run names lost data.",
)  # fmt: skip
@click.option(
    "--batch", "batches", multiple=True, metavar="SIZE",
    help="Groups without batches: how many nodes (5, 10%) have been sent in total by the end of each batch; must rise.",
)  # fmt: skip
@click.option(
    "--phase", "phases", multiple=True, metavar="PHASE=ROLE,...",
    help="A phase of the strategy commits these roles, with all that they need on the node; may be given again.",
)  # fmt: skip
@click.option(
    "--force", is_flag=True, help="Also where the criteria of a group cannot be met, or a parent comes later."
)
@click.option("--wait", is_flag=True, help="Wait until it is over; then print its report.")
@timeout_option
@facts_file_option
@yes_option
@dry_run_option
def start(
    files: Sequence[str], whole: bool, deployment: str | None, name: str | None, selector: str | None, changed: bool,
    roles: Sequence[str], redeployed: Sequence[str], batches: Sequence[str], phases: Sequence[str], force: bool,
    wait: bool, timeout_seconds: float | None, facts_file: str | None, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Carry out a strategy: commit the PROPOSED noderoles of a deployment, one group of nodes after the other.

    With --changed or --refresh, run ACTIVE noderoles again in place, with --redeploy from the start; then no file means
    --default. An annealer drives it from
    here on. Refused while another rollout of the deployment, or a run of its tasks, is under way. Where phases name stages, the
    tasks of the deployment before these are committed, too; --facts-file is for them. With -l, the strategy sees only the nodes
    that it matches.
    """
    with usage():
        rerun = changed or bool(roles) or bool(redeployed)
        chosen = _chosen(files, whole or (rerun and not files), name, phases)
        chosen = strategies.with_batches(chosen, batches)
    operation = RolloutStart(
        strategy=chosen,
        deployment=deployment,
        selector=selector,
        refresh=tuple(roles),
        changed=changed,
        redeploy=tuple(redeployed),
        force=force,
        facts_file=facts_file,
    )
    begun = perform(operation, dry_run=dry_run, yes=yes).answer
    if begun.empty:
        strategy.show(begun.planned)
        output.say(f"nothing to do: strategy {chosen.name} has no groups")
    elif begun.key is None or begun.row is None:
        strategy.show(begun.planned)
        strategy.say_virtual(begun.planned)
        for sentence in begun.planned.losses:
            output.say(sentence)
        raise click.exceptions.Exit(10)
    elif wait:
        output.say(f"rollout {begun.key} begins")
        watch.wait(begun.key, timeout_seconds)
    else:
        rolling.print_row(begun.row)


def _chosen(files: Sequence[str], whole: bool, name: str | None, phases: Sequence[str]) -> Strategy:
    """The strategy with the phases of ``--phase``; without a file only phases that commit anything."""
    if bool(files) == whole:
        both = ", not both" if whole else ""
        raise click.UsageError(f"give the file of a strategy, or --default for one group of all nodes{both}")
    return strategies.with_phases(strategy.read(files, name), phases) if files else strategies.whole(phases)
