"""The steps for requests: claim, allocate, launch, fulfil, decline, release. Pure.

- A launcher claims a request that one of its pools can serve now, if no other launcher goes before it. It also claims the first
  waiting request of a pool that launches, if no pool of another launcher could serve that request sooner. A request that
  waits for a static machine, or for room of its tenant, stays REQUESTED, as with Nodepool: its requester may still revise it.
- A claim names the ready nodes that serve the whole request, if there are such: they are handed out with the claim.
- The holder of the lock allocates and launches. The nodes that are allocated to a request bind it to their pool.
- A pool that never can serve a request declines it. The request fails if no member is left that may serve it.
- A pending request without room returns its ready nodes, if an earlier request waits for the same pool.
- A pool gives a request up, if the provider refuses launches beside its nodes, and no machine of another user will make room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nodepool_ocb.model import limits
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.capacity.judging import PoolJudge, deadline
from nodepool_ocb.pool.capacity.ledger import LAUNCHING, Ledger, pool_of
from nodepool_ocb.pool.capacity.matching import matched
from nodepool_ocb.pool.capacity.planning import Planner, PoolFit, RequestPlan
from nodepool_ocb.pool.configuration import PoolConfiguration, ProviderPool
from nodepool_ocb.pool.instructions import (
    AllocateNodes,
    ClaimRequest,
    DeclineRequest,
    DeleteNode,
    FreeNode,
    FulfilRequest,
    Instruction,
    LaunchNode,
)
from nodepool_ocb.pool.launches.attempts import LaunchTries, bare, ended, tries
from nodepool_ocb.pool.launches.refusals import quota_refused
from nodepool_ocb.pool.membership import Membership, PoolKey
from nodepool_ocb.pool.views import PoolLauncher, PoolMember, PoolNodeView, RequestView
from nodepool_ocb.pool.wakes import Wakes

YIELD_SECONDS = 5.0  # a launcher leaves a request so long to each launcher that goes before it
MOST_YIELDS = 5
#: For a quota, in 150 s; then also the last pool gives up a request that fills the provider.
LAST_REFUSALS = 5
MOST_CLAIMS = 100  # of one decision; the next one follows at once
LIVE = LAUNCHING | {PoolNodeState.READY}


class RequestNodes:
    """The nodes that are allocated to a request, in the pool that serves it."""

    def __init__(self, request: RequestView, nodes: Iterable[PoolNodeView], declined: frozenset[PoolKey]) -> None:
        self.request = request
        usable = [each for each in nodes if pool_of(each) not in declined]
        live = [each for each in usable if each.record.state in LIVE]
        failed = [each for each in usable if ended(each)]
        binding = [*live, *(each for each in failed if each.record.state is not PoolNodeState.ABORTED)]
        pools = Counter(map(pool_of, binding))
        self._ended = failed
        self.pool: PoolKey | None = max(sorted(pools), key=lambda each: pools[each]) if pools else None
        self.live = sorted((each for each in live if pool_of(each) == self.pool), key=_ripeness)
        self.failed = [each for each in failed if pool_of(each) == self.pool]
        self.tries: LaunchTries = tries(self.failed)
        self.chosen = self._chosen()
        used = {each.id for each in self.chosen if each}
        self.surplus = [each for each in live if each.id not in used]

    def _chosen(self) -> list[PoolNodeView | None]:
        """For each label its node."""
        types = self.request.record.node_types
        offers = {label: [each.id for each in self.live if label in each.labels] for label in set(types)}
        nodes = {each.id: each for each in self.live}
        return [None if each is None else nodes[each] for each in matched(types, offers)]

    def attempt(self, pool: PoolKey) -> int:
        """The number of the next launch in a pool."""
        return tries(each for each in self._ended if pool_of(each) == pool).next

    @property
    def missing(self) -> list[str]:
        """The labels without a node."""
        types = self.request.record.node_types
        return [label for label, node in zip(types, self.chosen, strict=True) if node is None]


def _ripeness(node: PoolNodeView) -> tuple[bool, str]:
    return node.record.state is not PoolNodeState.READY, node.id


def _rivals(candidates: Sequence[PoolMember], plan: RequestPlan) -> list[PoolMember]:
    """The candidates that may serve the request now, as far as this launcher can tell."""
    waiting = {(each.provider, each.pool) for each in plan.verdicts}
    return [each for each in candidates if each.key not in waiting]


class Serving:
    """The steps of one launcher for the requests of one view."""

    def __init__(
        self,
        configuration: PoolConfiguration,
        me: PoolLauncher,
        membership: Membership,
        ledger: Ledger,
        judge: PoolJudge,
        planner: Planner,
        now: float,
        wakes: Wakes,
    ) -> None:
        self._configuration, self._me, self._membership = configuration, me, membership
        self._ledger, self._judge, self._planner = ledger, judge, planner
        self._now, self._wakes = now, wakes
        self.steps: list[Instruction] = []
        self._claims = 0
        self._mine = [each for each in membership.native if each.session == me.session]
        self._active = any(membership.active(each) for each in self._mine)

    def serve(self, queue: Sequence[RequestView]) -> bool:
        """Decide every request, those with nodes first. False: claims are left for the next decision."""
        begun: list[RequestView] = []
        others: list[RequestView] = []
        for request in queue:
            (begun if request.id in self._ledger.allocated else others).append(request)
        for request in [*begun, *others]:
            if self._claims >= MOST_CLAIMS:
                self._wakes.again()
                return False
            self._serve(request)
        return True

    def _serve(self, request: RequestView) -> None:
        if request.bytes > limits.REQUEST_BYTES:
            self._fail_large(request)
            return
        nodes: RequestNodes | None = None
        if request.id in self._ledger.allocated:
            declined = self._membership.declined(request)
            nodes = RequestNodes(request, self._ledger.allocated[request.id], declined)
        if request.ours and request.record.state is RequestState.PENDING:
            self._hold(request, nodes)
        elif request.ours:
            self._release(request, "its claim was not recorded")
        elif request.locked_by is None:
            self._seek(request, nodes)
        else:
            self._plan(request, nodes)  # its launcher serves it: only its capacity counts

    def _fail_large(self, request: RequestView) -> None:
        """Fail a request with a record that has no room for its nodes. Otherwise each turn would try in vain to serve it."""
        free = request.locked_by is None and self._active
        if request.ours or (free and self._membership.owns(self._me.session, request.id)):
            self._claims += 1
            reason = (
                f"its record has {request.bytes} bytes, and launchers serve records of at most {limits.REQUEST_BYTES};"
                " ask again with shorter requestor_data"
            )
            self.steps.append(
                DeclineRequest(request=request.id, version=request.version, pools=(), reason=reason, failed=True)
            )

    def _plan(self, request: RequestView, nodes: RequestNodes | None) -> RequestPlan | None:
        """The plan for the labels that are left; None if no label is left."""
        if nodes is None or nodes.pool is None:
            return self._planner.plan(request, request.record.node_types)
        due = nodes.tries.due <= self._now
        return self._planner.plan(request, nodes.missing, nodes.pool, due=due) if nodes.missing else None

    # -- a request that this launcher does not hold --

    def _seek(self, request: RequestView, nodes: RequestNodes | None) -> None:
        if not self._mine:  # the own registration is not visible yet, nor are perhaps those of others
            return
        plan = self._plan(request, nodes)
        if nodes is not None and nodes.pool is not None:
            if self._takes_over(request, nodes.pool):
                self._claim(request)
            return
        if plan is None or not self._active:
            return
        if plan.hopeful and not plan.reserves:
            return
        candidates = self._membership.candidates(request)
        if plan.fit is not None:
            self._claim_in_turn(request, _rivals(candidates, plan), plan.fit, fresh=nodes is None)
        elif plan.hopeful or not self._declines(request, candidates, plan):
            self._claim_first(request, candidates, plan)

    def _claim_first(self, request: RequestView, candidates: Sequence[PoolMember], plan: RequestPlan) -> None:
        """Claim the first waiting request of a pool, unless another launcher may have room for it sooner."""
        if not plan.reserves or any(each.key not in self._me.pools for each in candidates):
            return
        if self._membership.rank(self._me.session, request, candidates, {}) == 0:
            self._claim(request)

    def _takes_over(self, request: RequestView, pool: PoolKey) -> bool:
        """Whether this launcher continues a request with nodes: one that has their pool, or any if none has."""
        if not self._active:
            return False
        having = {
            each.session for each in self._membership.native if each.key == pool and self._membership.active(each)
        }
        if having:
            able = [each for each in self._membership.native if each.session in having]
            return self._membership.rank(self._me.session, request, able, {}) == 0
        return self._membership.owns(self._me.session, request.id)

    def _claim_in_turn(self, request: RequestView, rivals: Sequence[PoolMember], fit: PoolFit, *, fresh: bool) -> None:
        """``fresh``: no node was launched for it so far."""
        ahead = self._membership.rank(self._me.session, request, rivals, {fit.key: len(fit.launches)})
        if self._wakes.passed(request.created + min(ahead, MOST_YIELDS) * YIELD_SECONDS):
            whole = fresh and not fit.launches and request.record.state is RequestState.REQUESTED
            self._claim(request, fit.nodes if whole else ())

    def _claim(self, request: RequestView, nodes: Sequence[PoolNodeView] = ()) -> None:
        self._claims += 1
        found = tuple((each.id, each.version) for each in nodes)
        self.steps.append(ClaimRequest(request=request.id, version=request.version, nodes=found))

    # -- decline --

    def _declines(self, request: RequestView, candidates: Sequence[PoolMember], plan: RequestPlan) -> bool:
        """Decline for the own pools that never can serve the request, and fail it if no candidate is left."""
        unable = {
            (each.provider, each.pool): each.reason
            for each in plan.verdicts
            if self._too_late(request, each.code, each.ever)
        }
        own = [each for each in candidates if each.session == self._me.session and each.key in unable]
        left = [each for each in candidates if each not in own]
        if left and not own:
            return False
        ids = [each.record.id or "" for each in own]
        reasons = [f"{each.key[0]}/{each.key[1]}: {unable[each.key]}" for each in own]
        failed = False
        if not left:
            # the holder of the lock decides, also if it is not the owner any more: a launcher may have come since the claim
            if not own and not request.ours and not self._membership.owns(self._me.session, request.id):
                return False
            ids += [each.record.id or "" for each in self._membership.native if each not in own]
            declined = {*request.record.declined_by, *ids}
            failed = all(each.record.id in declined for each in self._membership.all)
            reasons = reasons or [self._unserved(request)]
        added = tuple(dict.fromkeys(each for each in ids if each not in request.record.declined_by))
        if not added and not failed:
            return False
        self._claims += 1
        self.steps.append(
            DeclineRequest(
                request=request.id, version=request.version, pools=added, reason="; ".join(reasons[:8]), failed=failed
            )
        )
        return True

    def _too_late(self, request: RequestView, code: str, ever: bool) -> bool:
        if not ever:
            return code != "DECLINED"
        wait = deadline(code)
        return wait is not None and self._wakes.passed(request.created + wait)

    def _unserved(self, request: RequestView) -> str:
        known = {label for each in self._membership.all for label in each.record.supported_labels}
        absent = [label for label in request.record.node_types if label not in known]
        if absent:
            return f"no running launcher has the label {absent[0]}; see: nodepool-ocb pool list"
        if request.record.declined_by:
            return request.record.reason or "each pool with its labels declined it"
        return "no pool of a running launcher has all its labels; one pool serves a request"

    # -- a request that this launcher holds --

    def _hold(self, request: RequestView, nodes: RequestNodes | None) -> None:
        if nodes is None or nodes.pool not in self._me.pools:
            if nodes is not None:
                self._return(nodes, "its pool has no running launcher")
            self._begin(request, nodes)
            return
        self._free(nodes.surplus, "the request has enough nodes")
        if not nodes.missing:
            self._fulfil(request, nodes)
        elif (refused := self._refused(request, nodes)) is not None:
            self._give_up(request, nodes, refused)
        elif self._wakes.passed(nodes.tries.due):
            self._continue(request, nodes)
        else:
            self._planner.plan(request, nodes.missing, nodes.pool, due=False)  # it keeps its room meanwhile

    def _begin(self, request: RequestView, nodes: RequestNodes | None) -> None:
        if not request.record.node_types:
            self.steps.append(FulfilRequest(request=request.id, version=request.version, nodes=()))
            return
        plan = self._planner.plan(request, request.record.node_types)
        if plan.fit is not None:
            self._carry_out(request, plan.fit, 1 if nodes is None else nodes.attempt(plan.fit.key))
            return
        candidates = self._membership.candidates(request)
        if self._declines(request, candidates, plan):
            return
        if any(each.key not in self._me.pools for each in candidates):
            self._release(request, "a pool of another launcher may serve it sooner")

    def _fulfil(self, request: RequestView, nodes: RequestNodes) -> None:
        ready = [each for each in nodes.chosen if each and each.record.state is PoolNodeState.READY and not each.locked]
        if len(ready) == len(request.record.node_types):
            found = tuple((each.id, each.version) for each in ready)
            self.steps.append(FulfilRequest(request=request.id, version=request.version, nodes=found))

    def _refused(self, request: RequestView, nodes: RequestNodes) -> str | None:
        """Why the pool cannot complete the request; None if it goes on."""
        pool = self._configuration.pool(*nodes.pool) if nodes.pool else None
        if pool is None:
            return "the pool is no longer configured"
        never = self._judge.never(request, pool)
        if never is not None:
            return never.reason
        if any(
            each.record.state is PoolNodeState.FAILED and not bare(each) for each in nodes.failed
        ) and self._wakes.passed(nodes.tries.due):
            return f"the machine of a failed launch still exists; the launch failed: {nodes.tries.reason}"
        retries = max(1, self._configuration.providers[pool.provider].launch_retries)
        if nodes.tries.final or nodes.tries.failed >= retries:
            return f"{nodes.tries.failed} launches failed; the last one: {nodes.tries.reason}"
        return self._full(request, nodes, pool)

    def _full(self, request: RequestView, nodes: RequestNodes, pool: ProviderPool) -> str | None:
        """Why the provider will not take another launch beside the nodes of the request, whatever quota it reports."""
        refusals, most = self._ledger.refusals(pool.provider), LAST_REFUSALS
        if self._others(request, (pool.provider, pool.name)):
            most = max(1, self._configuration.providers[pool.provider].launch_retries)
        if not nodes.live or refusals < most or self._ledger.room_comes(pool.provider, request.id):
            return None
        return f"{pool.provider} refused {refusals} launches in a row for its quota, beside the nodes of the request"

    def _give_up(self, request: RequestView, nodes: RequestNodes, refused: str) -> None:
        """The pool declines after its last try; another pool is tried, or the request fails."""
        key = nodes.pool or ("", "")
        ids = tuple(each for each in self._membership.ids(key) if each not in request.record.declined_by)
        failed, reason = not self._others(request, key), f"{key[0]}/{key[1]}: {refused}"
        self.steps.append(
            DeclineRequest(request=request.id, version=request.version, pools=ids, reason=reason, failed=failed)
        )

    def _others(self, request: RequestView, key: PoolKey) -> list[PoolMember]:
        """The members of other pools that may still serve the request."""
        return [
            each
            for each in self._membership.all
            if each.key != key
            and each.record.id not in request.record.declined_by
            and (not each.native or self._membership.offers(each, request.record.node_types))
        ]

    def _continue(self, request: RequestView, nodes: RequestNodes) -> None:
        plan = self._planner.plan(request, nodes.missing, nodes.pool)
        if plan.fit is not None:
            self._carry_out(request, plan.fit, nodes.tries.next)
            for each in nodes.failed:
                if each.record.state is not PoolNodeState.HOLD and not quota_refused(
                    each
                ):  # that one keeps its back-off
                    reason = f"attempt {nodes.tries.next} follows"
                    self.steps.append(DeleteNode(node=each.id, version=each.version, reason=reason))
        elif self._planner.reserved_by_other(request, nodes.pool):
            self._return(nodes, "an earlier request waits for the same pool")

    def _carry_out(self, request: RequestView, fit: PoolFit, attempt: int) -> None:
        if fit.nodes:
            found = tuple((each.id, each.version) for each in fit.nodes)
            self.steps.append(AllocateNodes(request=request.id, version=request.version, nodes=found))
        for label in fit.launches[: self._ledger.begin(fit.key[0], len(fit.launches), fit.promised)]:
            self.steps.append(
                LaunchNode(
                    provider=fit.key[0],
                    pool=fit.key[1],
                    label=label,
                    request=request.id,
                    attempt=attempt,
                    refusals=self._ledger.refusals(fit.key[0]),
                )
            )

    def _return(self, nodes: RequestNodes, reason: str) -> None:
        self._free([each for each in nodes.live if each not in nodes.surplus], reason)

    def _free(self, nodes: Iterable[PoolNodeView], reason: str) -> None:
        for each in nodes:
            if each.record.state is PoolNodeState.READY and not each.locked:
                self.steps.append(FreeNode(node=each.id, version=each.version, reason=reason))

    def _release(self, request: RequestView, reason: str) -> None:
        self.steps.append(DeclineRequest(request=request.id, version=request.version, pools=(), reason=reason))
