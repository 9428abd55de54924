"""``rollout start``: a strategy is carried out from now on, unless something speaks against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, timeout_option
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.cli.rollouts import again, rolling, stages, strategy, watch
from nodepool_ocb.cli.rollouts.stages import Sending
from nodepool_ocb.cli.tasks.options import facts_file_option
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Check, DeploymentState, State
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.reads.rollouts import ReadRolloutDriver
from nodepool_ocb.operations.rollouts import finding
from nodepool_ocb.views.rollouts.rows import row
from nodepool_ocb.views.times import age

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import RolloutPlan
    from nodepool_ocb.rollout.records import Rollout
    from nodepool_ocb.rollout.strategy import Strategy
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb, writes=True)
@strategy.files_argument
@click.option(
    "--default", "whole", is_flag=True, help="Without a file: one critical group of all nodes, which must all succeed."
)
@strategy.one_deployment_option
@strategy.name_option
@selector_option
@again.changed_option
@again.refresh_option
@again.batch_option
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
@dry_run_option
def start(
    files: Sequence[str], whole: bool, deployment: str | None, name: str | None, selector: str | None, changed: bool,
    roles: Sequence[str], batches: Sequence[str], phases: Sequence[str], force: bool, wait: bool,
    timeout_seconds: float | None, facts_file: str | None, dry_run: bool,
) -> None:  # fmt: skip
    """Carry out a strategy: commit the PROPOSED noderoles of a deployment, one group of nodes after the other.

    With --changed or --refresh, run ACTIVE noderoles again in place; then no file means --default. An annealer drives it from
    here on. Refused while another rollout of the deployment, or a run of its tasks, is under way. Where phases name stages, the
    tasks of the deployment before these are committed, too; --facts-file is for them. With -l, the strategy sees only the nodes
    that it matches.
    """
    from nodepool_ocb.rollout import plan as planning

    chosen = again.with_batches(
        _chosen(files, whole or ((changed or bool(roles)) and not files), name, phases), batches
    )
    with session.session() as opened:
        world = session.load(opened)
        deployment = strategy.deployment_meant(world, deployment)
        unreadable.refuse_inventory(world)
        nodes = strategy.inventory_meant(opened, world, deployment, selector)
        plan = planning.plan(chosen, nodes)
        rerun = again.chosen(opened, world, deployment, nodes, roles, changed)
        rollout = planning.begin(chosen, nodes, opened.now(), session.me(), rerun)
        if not rollout.groups:
            strategy.show(chosen, plan, deployment, rollout.head.inventory)
            output.say(f"nothing to do: strategy {chosen.name} has no groups")
            return
        _refuse(opened, world, deployment, rollout)
        sending = stages.planned(opened, world, deployment, rollout) if stages.named(rollout) else None
        _refuse_nothing(world, deployment, rollout, sending)
        _refuse_hopeless(world, deployment, rollout, plan, force)
        if sending is not None:
            stages.remark(opened, sending, world)
        if dry_run:
            strategy.show(chosen, plan, deployment, rollout.head.inventory)
            strategy.remark_virtual(world, deployment)
            raise click.exceptions.Exit(10)
        strategy.remark(chosen, plan)
        strategy.remark_virtual(world, deployment)
        key = _begin(opened, world, deployment, sending or rollout, facts_file)
    if wait:
        output.say(f"rollout {key} begins")
        watch.wait(key, timeout_seconds)
    else:
        rolling.print_row(row(key, rollout.head, None, rollout.groups))


def _begin(opened: Session, world: World, deployment: str, wanted: Rollout | Sending, facts_file: str | None) -> Key:
    """Write it, held to it that its deployments stay committed, and its run of tasks before it."""
    from nodepool_ocb.store import rollouts
    from nodepool_ocb.store.tasks import rolled

    committed = [Check(paths.deployment(each), world.deployments[each].version) for each in below(world, deployment)]
    if not isinstance(wanted, stages.Sending):
        alone = lambda _: rolled.alone(opened, deployment)  # noqa: E731
        key = Key(deployment, rollouts.begin(opened, deployment, wanted, committed, alone))
    else:
        rollout, run = stages.begin(opened, world, wanted, facts_file)
        try:
            joined = lambda identity: rolled.joined(opened, *run, identity)  # noqa: E731
            key = Key(deployment, rollouts.begin(opened, deployment, rollout, committed, joined))
        except OcbError:
            stages.give_up(opened, run)
            raise
    performer().read(finding.warn_of_no_annealer(), opened)
    return key


# -- the strategy --


def _chosen(files: Sequence[str], whole: bool, name: str | None, phases: Iterable[str]) -> Strategy:
    """The strategy with the phases of ``--phase``; without a file only the phases that commit anything."""
    from nodepool_ocb.rollout.strategy import WHOLE, without_idle_phases

    if bool(files) == whole:
        both = ", not both" if whole else ""
        raise click.UsageError(f"give the file of a strategy, or --default for one group of all nodes{both}")
    if files:
        return _with_phases(strategy.chosen(files, name), phases)
    return without_idle_phases(_with_phases(WHOLE, phases))


def _with_phases(chosen: Strategy, given: Iterable[str]) -> Strategy:
    """The strategy with these phases, each ``NAME=ROLE,...``, committing these roles."""
    known = {phase.name: phase for phase in chosen.phases}
    for each in given:
        name, _, roles = each.partition("=")
        if name not in known or not roles:
            near = did_you_mean(name, known) or f"; the phases are: {', '.join(known)}"
            raise click.UsageError(f"--phase {each}: write PHASE=ROLE,... with a phase of the strategy{near}")
        known[name] = replace(known[name], roles=tuple(roles.split(",")), stages=())
    return replace(chosen, phases=tuple(known.values()))


# -- what speaks against it --


def _refuse(opened: Session, world: World, deployment: str, rollout: Rollout) -> None:
    """Raises Conflict, Invalid or NotFound where it could not be carried out."""
    from nodepool_ocb.store.driven import lines

    _refuse_another(opened, deployment)
    stages.refuse_run(opened, deployment)
    lines.entered(opened, deployment)
    for each in below(world, deployment):
        if world.deployments[each].record.state is DeploymentState.PROPOSED:
            advice = (
                f"nodepool-ocb deployment commit {each} --no-noderoles lets them in, and leaves the rest to the rollout"
            )
            raise Conflict(f"deployment {each} is PROPOSED, and annealers keep out of it; {advice}")
    for phase in rollout.head.strategy.phases:
        for role in phase.roles:
            if role not in world.roles:
                raise unknown("role", role, world.roles)


def _refuse_another(opened: Session, deployment: str) -> None:
    from nodepool_ocb.rollout.records import RolloutState
    from nodepool_ocb.store import rollouts

    newest = rollouts.newest(opened, deployment)
    found = rollouts.read(opened, deployment, newest) if newest is not None else None
    if newest is None or found is None or found[0].over:
        return
    key, head = Key(deployment, newest), found[0].head
    holder = performer().read(iter(ReadRolloutDriver(*key)), opened)
    who = f"{holder.daemon} on {holder.host} drives it" if holder else "no annealer drives it now"
    since = age(opened.now() - head.started)
    end = "" if head.state is RolloutState.CANCELLING else f", or end it: nodepool-ocb rollout cancel {key}"
    raise Conflict(
        f"rollout {key} is under way: {head.by or 'somebody'} started it {since} ago, it is {head.state}, and {who};"
        f" wait for it: nodepool-ocb rollout wait {key}{end}"
    )


def _refuse_nothing(world: World, deployment: str, rollout: Rollout, sending: Sending | None) -> None:
    """Raises Conflict if it would commit nothing; names the PROPOSED noderoles that it would not commit."""
    if rollout.head.again is not None:
        again.refuse_nothing(world, deployment, rollout)
        return
    from nodepool_ocb.rollout.observer import Observer

    observer = Observer(world, deployment, rollout)
    grouped = {node for members in rollout.members.values() for node in members}
    phases = range(len(rollout.head.strategy.phases))
    taken = {vertex for node in grouped for phase in phases for vertex in observer.noderoles(node, phase)}
    within = frozenset(below(world, deployment))
    there = [vertex for node in rollout.nodes for vertex in world.nodes[node].noderoles.values()]
    proposed = {v for v in there if v.record.state is State.PROPOSED and v.record.deployment in within}
    proposed -= {vertex for vertex in proposed - taken if vertex.record.task_run is not None}
    if not proposed & taken and not (sending and sending.waiting):
        left = counted(len(proposed), "noderole is", "noderoles are")
        many = f"; {left} in no phase of it, or on nodes in no group" if proposed else ""
        raise Conflict(
            f"nothing that this rollout would commit in deployment {deployment} is PROPOSED{many};"
            " bind roles first, or: nodepool-ocb noderole list --state PROPOSED"
        )
    if proposed - taken:
        some = ", ".join(sorted(vertex.name for vertex in proposed - taken)[:3])
        left = counted(len(proposed - taken), "noderole stays", "noderoles stay")
        output.say(f"note: {left} PROPOSED, in no phase or on nodes in no group: {some}")
    broken = sorted(vertex.name for vertex in taken if vertex.record.state is State.ERROR)
    if broken:
        many = f"{len(broken)} noderole" + ("s are" if len(broken) != 1 else " is")
        output.say(
            f"note: {many} in ERROR already, so that the nodes fail: {', '.join(broken[:3])};"
            " mend the cause, then: nodepool-ocb noderole retry"
        )


def _refuse_hopeless(world: World, deployment: str, rollout: Rollout, plan: RolloutPlan, force: bool) -> None:
    """Raises Invalid where criteria cannot be met, or a parent comes after its child; with ``force`` it says so."""
    from nodepool_ocb.rollout import precedence
    from nodepool_ocb.views.rollouts import strategies

    problems = [*strategies.unmet(plan), *strategies.late(list(precedence.late(world, deployment, rollout)))]
    if problems and not force:
        raise Invalid([f"{each}; --force starts it all the same" for each in problems])
    for each in problems:
        output.say(f"warning: {each}")
