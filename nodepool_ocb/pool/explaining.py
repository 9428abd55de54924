"""The reason why a request waits: the same pass over the queue as in ``decide``, with the verdict of each pool. Pure.

A wait has a code of PoolVerdict, or one of these:

- LAUNCHING: nodes of it are launched.
- BACKOFF: a launch failed, and the next one waits.
- STARTING: a launcher claims it next.
- NO_LAUNCHER: no pool of a running launcher has its labels.
- ELSEWHERE: only launchers with another file have a pool for it.

A request that is FULFILLED or FAILED has place 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.capacity.judging import PoolJudge
from nodepool_ocb.pool.capacity.ledger import Ledger
from nodepool_ocb.pool.capacity.planning import Planner, RequestPlan
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.idle.upkeep import Upkeep
from nodepool_ocb.pool.instructions import PoolVerdict, WaitReason
from nodepool_ocb.pool.membership import Membership
from nodepool_ocb.pool.ordering import WAITING, queue
from nodepool_ocb.pool.serving import RequestNodes
from nodepool_ocb.pool.views import PoolLauncher, PoolView, RequestView
from nodepool_ocb.pool.wakes import Wakes

#: The verdicts that tell most about a wait come first.
_TELLING = ("RESERVED", "LIMIT", "QUOTA", "TENANT_LIMIT", "PROVIDER_FAULT", "NO_IMAGE", "PAUSED", "ELSEWHERE")


def explain(view: PoolView, configuration: PoolConfiguration, request: RequestView, now: float) -> WaitReason:
    """Why the request waits. ``configuration``: the file of the launchers; their limits are in no record."""
    if request.record.state not in WAITING:
        code = request.record.state.upper()
        return WaitReason(
            request=request.id, place=0, code=code, reason=request.record.reason or f"it is {code.lower()}"
        )
    return reasons(view, configuration, now, [request.id])[request.id]


def reasons(
    view: PoolView, configuration: PoolConfiguration, now: float, ids: Iterable[str] | None = None
) -> Mapping[str, WaitReason]:
    """The reasons of these waiting requests, or of all, in one pass."""
    membership = Membership(view.members)
    upkeep = Upkeep(view, configuration, PoolLauncher(id="", session=0), membership, now, Wakes(now))
    upkeep.keep()
    ledger = Ledger(view, configuration, now, upkeep.leaving)
    open = frozenset(each.key for each in membership.native if membership.active(each))
    judge = PoolJudge(view, configuration, membership, ledger, open)
    pools = [pool for provider in configuration.providers.values() for pool in provider.pools.values()]
    planner = Planner(configuration, pools, membership, ledger, judge, now)
    waiting = queue(view.requests.values(), configuration.patience_seconds, now)
    places = {each.id: place for place, each in enumerate(waiting, 1)}
    wanted, found = set(places if ids is None else ids), {}
    for request in sorted(waiting, key=lambda each: each.id not in ledger.allocated):
        nodes = None
        if request.id in ledger.allocated:
            nodes = RequestNodes(request, ledger.allocated[request.id], membership.declined(request))
        plan = _planned(planner, request, nodes, request.id in wanted)
        if request.id in wanted:
            code, reason = _cause(membership, request, nodes, plan, now)
            verdicts = _verdicts(membership, configuration, request, plan)
            found[request.id] = WaitReason(
                request=request.id, place=places[request.id], code=code, reason=reason, pools=verdicts
            )
    return found


def _planned(planner: Planner, request: RequestView, nodes: RequestNodes | None, whole: bool) -> RequestPlan | None:
    """The plan for the labels that are left; None if none is."""
    plan = planner.trial if whole else planner.plan
    if nodes is None or nodes.pool is None:
        return plan(request, request.record.node_types)
    return plan(request, nodes.missing, nodes.pool) if nodes.missing else None


def _cause(
    membership: Membership, request: RequestView, nodes: RequestNodes | None, plan: RequestPlan | None, now: float
) -> tuple[str, str]:
    if nodes is not None and nodes.missing and nodes.tries.due > now:
        wait = nodes.tries.due - now
        return (
            "BACKOFF",
            f"attempt {nodes.tries.next} to launch a node is in {wait:.0f} s; the last one: {nodes.tries.reason}",
        )
    if plan is None and nodes is not None:
        ready = sum(1 for each in nodes.chosen if each and each.record.state is PoolNodeState.READY)
        busy = [
            f"{each.id} is {each.record.state}" for each in nodes.live if each.record.state is not PoolNodeState.READY
        ]
        return "LAUNCHING", "; ".join([f"{ready} of {len(nodes.chosen)} nodes are ready", *busy[:3]])
    if plan is not None and plan.fit is not None:
        return "STARTING", f"pool {plan.fit.key[0]}/{plan.fit.key[1]} has room for it"
    verdicts = plan.verdicts if plan is not None else ()
    causes = sorted((each for each in verdicts if each.code in _TELLING), key=lambda each: _TELLING.index(each.code))
    if causes:
        return causes[0].code, f"{causes[0].provider}/{causes[0].pool}: {causes[0].reason}"
    if membership.candidates(request):
        return "ELSEWHERE", "only launchers with another file have a pool for it"
    return "NO_LAUNCHER", "no pool of a running launcher has its labels; see: nodepool-ocb pool list"


def _verdicts(
    membership: Membership, configuration: PoolConfiguration, request: RequestView, plan: RequestPlan | None
) -> tuple[PoolVerdict, ...]:
    """The verdict of each pool: of those in the file, and of those that other launchers registered."""
    found = list(plan.verdicts) if plan is not None else []
    if plan is not None and plan.fit is not None:
        provider, pool = plan.fit.key
        found.append(PoolVerdict(provider=provider, pool=pool, code="SERVES", reason="it has room for the request"))
    others = {each.key for each in membership.candidates(request) if configuration.pool(*each.key) is None}
    for provider, pool in sorted(others):
        reason = "the file does not have it, so its limits are not known"
        found.append(PoolVerdict(provider=provider, pool=pool, code="ELSEWHERE", reason=reason))
    return tuple(found)
