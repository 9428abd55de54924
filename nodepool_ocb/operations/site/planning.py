"""A plan for site files: decided whole, shown, agreed to, and written as it was shown.

If another writer changes the cluster meanwhile, the plan is made again; the call goes on if it has no step that was not shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.kinds import OF_NODE
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.commits import outdated, reservations
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.nodes.domain import admin_domain
from nodepool_ocb.operations.operation import Explained, Situation, Steps
from nodepool_ocb.operations.reads.networks import EnsureNetworks, ReadHoldings
from nodepool_ocb.operations.reads.site import ReadKept, ReadRemovals, ShowPlan
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.addressing.found import FoundHoldings
from nodepool_ocb.provisioning.addressing.macs import spelled
from nodepool_ocb.site.desired_state import Circumstances, DesiredState
from nodepool_ocb.site.steps import PlanStep

if TYPE_CHECKING:
    from nodepool_ocb.site import plan as plans

READS: Final = (
    *(ReadWorld, ReadKept, ReadRemovals, ShowPlan, *placement.READS),
    *outdated.READS,
    *reservations.READS,
)
WRITES: Final = (
    *("role", "deployment", "deployment role", "node", "noderole", "attributes", "network"),
    *OF_NODE,  # of nodes that are pruned
    *placement.WRITES,
)
RENEW: Final = frozenset({"role", "attributes", "deployment role"})  # kinds of which a change makes noderoles outdated


def carried_out(world: World, situation: Situation, wanted: DesiredState, *, prune: bool = False) -> Steps[Explained]:
    """The plan from this world, written; raises Conflict for a plan with steps that were not shown."""
    found = yield from _plan(world, situation, wanted, prune)
    going = () if situation.call.dry_run else found.going
    shown = yield from ShowPlan(found.steps, going, lambda: _warnings(world, found.steps))
    _refuse_more(found.steps, shown, situation.transactions)
    yield from reservations.refuse_reserved(found.world, found.moved)
    yield from found.transactions
    after: Sequence[str] = ()
    if not (situation.call.dry_run or RENEW.isdisjoint({step.kind for step in shown})):
        now = yield from ReadWorld()
        after = yield from outdated.sentences(now, lambda _: True)
    return Explained(explanations=found.notes, notes=found.notes, after=tuple(after))


def _plan(world: World, situation: Situation, wanted: DesiredState, prune: bool) -> Steps[plans.SitePlan]:
    from nodepool_ocb.site import plan as plans  # here, since the other verbs of `node` need no plan

    jigs = active_jigs(world)
    held = yield from _holdings(wanted)
    about = Circumstances(
        now=situation.now,
        by=situation.by,
        jigs=None if jigs is None else frozenset(jigs),
        admin_domain=admin_domain(world, situation.settings),
        available=situation.settings.nodes.available,
        holdings=held,
    )
    given = [
        paths.user(each.role, each.fqdn)
        for each in wanted.noderoles()
        if each.user is not None and world.vertex(each.name) is not None
    ]
    kept = yield from ReadKept(tuple(given))
    if not prune:
        return plans.plan(world, wanted, about, kept)
    removals = yield from ReadRemovals(tuple(plans.removable(world, wanted, about)))

    def removal(path: str) -> list[Change]:
        found = removals[path]
        if isinstance(found, OcbError):
            raise found
        return found

    return plans.plan(world, wanted, about, kept, removal)


def _holdings(wanted: DesiredState) -> Steps[FoundHoldings]:
    """Those that the files concern; without a word of them nothing is read."""
    concerned = {"hints", "macs", "networks"}
    chosen = {fqdn: each.fields for fqdn, each in wanted.nodes.items() if not concerned.isdisjoint(each.fields)}
    if not chosen and not wanted.networks:
        return FoundHoldings()
    yield from EnsureNetworks()
    macs = {
        mac for each in chosen.values() for mac in spelled(each.get("hints", {}).get("admin-mac"), each.get("macs", ()))
    }
    return (yield from ReadHoldings(tuple(sorted(macs)), tuple(sorted(chosen))))


def _warnings(world: World, steps: Sequence[PlanStep]) -> Steps[None]:
    for step in steps:
        if (step.change, step.kind) == ("propose", "deployment"):
            effect = "the noderoles that it has sent wait until the deployment is committed"
            yield from reservations.warn(world, step.name, effect)


def _refuse_more(steps: Sequence[PlanStep], shown: Collection[PlanStep], transactions: int) -> None:
    more = [f"{step.change} {step.kind} {step.name}" for step in steps if step not in shown]
    if more:
        done = counted(transactions, "transaction was", "transactions were")
        raise Conflict(
            f"the cluster changed since this was planned, and it would take more now: {some(more)}; {done} written,"
            " and the same command goes on from there: look at it with --dry-run"
        )
