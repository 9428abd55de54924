"""The decision of a launcher: from a view of requests, nodes and launchers to the steps that it carries out now. Pure.

Each launcher decides alone, from the same records. Three rules let several do so without a centre:

- a step names the versions of the records that it was decided from, so two launchers cannot both carry it out;
- shared work has one owner, by a hash over the running launchers, so they rarely try;
- every fact that a successor needs is in a record.

The view must show the effects of this launcher's earlier steps before it decides again.
"""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.capacity.judging import PoolJudge
from nodepool_ocb.pool.capacity.ledger import Ledger
from nodepool_ocb.pool.capacity.planning import Planner
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.idle.stock import Stock
from nodepool_ocb.pool.idle.upkeep import Upkeep
from nodepool_ocb.pool.instructions import DeleteRequest, Instruction
from nodepool_ocb.pool.membership import Membership
from nodepool_ocb.pool.ordering import patience_ends, queue
from nodepool_ocb.pool.serving import Serving
from nodepool_ocb.pool.views import PoolLauncher, PoolView, RequestView
from nodepool_ocb.pool.wakes import Wakes

EXPIRED = "it expired"
RETURNED_SECONDS = 60.0  # a fulfilled request stays so long after its nodes are returned


class PoolDecision(msgspec.Struct, frozen=True):
    """The steps, in their order, and the seconds until the next decision; None: only after a change."""

    steps: tuple[Instruction, ...]
    seconds: float | None


def decide(view: PoolView, configuration: PoolConfiguration, me: PoolLauncher, now: float) -> PoolDecision:
    """The steps of the launcher ``me``. ``now``: seconds since the epoch, by ZooKeeper."""
    wakes, membership = Wakes(now), Membership(view.members)
    upkeep = Upkeep(view, configuration, me, membership, now, wakes)
    upkeep.keep()
    ledger = Ledger(view, configuration, now, upkeep.leaving)
    pools = [found for key in me.pools if (found := configuration.pool(*key)) is not None]
    open = frozenset(each.key for each in membership.native if each.session == me.session and membership.active(each))
    judge = PoolJudge(view, configuration, membership, ledger, open, me.session)
    planner = Planner(configuration, pools, membership, ledger, judge, now)
    serving = Serving(configuration, me, membership, ledger, judge, planner, now, wakes)
    expired = _expired(view, membership, me, wakes)
    gone = {each.request for each in expired}
    waiting = queue(view.requests.values(), configuration.patience_seconds, now)
    complete = serving.serve([each for each in waiting if each.id not in gone])
    for each in planner.reservations.values():
        upkeep.evict(each.evicted, each.request)
    stock = Stock(view, configuration, me, membership, ledger, judge, wakes)
    stock.slots()
    if complete:
        stock.fill(planner.contended)
    for refused in ledger.refused.values():
        wakes.passed(refused.until)
    end = patience_ends(view.requests.values(), configuration.patience_seconds, now)
    if end is not None:
        wakes.passed(end)
    return PoolDecision((*expired, *serving.steps, *upkeep.steps, *stock.steps), wakes.seconds)


def _expired(view: PoolView, membership: Membership, me: PoolLauncher, wakes: Wakes) -> list[DeleteRequest]:
    """The requests to delete: expired ones, and fulfilled ones without a node."""
    found = []
    for each in view.requests.values():
        reason = _over(view, each, wakes)
        if reason is not None and (each.ours or (each.locked_by is None and membership.owns(me.session, each.id))):
            expired = reason == EXPIRED
            found.append(DeleteRequest(request=each.id, version=each.version, reason=reason, expired=expired))
    return found


def _over(view: PoolView, request: RequestView, wakes: Wakes) -> str | None:
    """Why the request is to be deleted; None if it stays."""
    record = request.record
    if record.expires is not None and not _used(view, request) and wakes.passed(record.expires):
        return EXPIRED
    if record.state is not RequestState.FULFILLED or _kept(view, request):
        return None
    return "its nodes are returned" if wakes.passed(record.state_time + RETURNED_SECONDS) else None


def _used(view: PoolView, request: RequestView) -> bool:
    """Whether a requester has a node of the request."""
    return any(
        node.locked or node.record.state is not PoolNodeState.READY
        for each in request.record.nodes
        if (node := view.nodes.get(each)) is not None and node.record.allocated_to == request.id
    )


def _kept(view: PoolView, request: RequestView) -> bool:
    """Whether a node of the request is still allocated to it."""
    return any(
        node.record.allocated_to == request.id
        for each in request.record.nodes
        if (node := view.nodes.get(each)) is not None
    )
