"""The pass over the queue: for each request, in order, the pool that serves it now, or the cause of its wait. Pure.

A request starts only if all its nodes fit at once, so no two requests wait for each other's nodes. The first waiting request of a
pool reserves capacity (reserving.py). ``decide`` and ``explain`` use the same pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec

from nodepool_ocb.pool.capacity.amounts import Amounts, total
from nodepool_ocb.pool.capacity.gates import PoolGate
from nodepool_ocb.pool.capacity.judging import PoolJudge, deadline, static
from nodepool_ocb.pool.capacity.ledger import Ledger, MeterKey
from nodepool_ocb.pool.capacity.matching import matched
from nodepool_ocb.pool.capacity.reserving import Reservation, Uses, reserve_pool, reserve_tenant
from nodepool_ocb.pool.configuration import PoolConfiguration, ProviderPool
from nodepool_ocb.pool.instructions import PoolVerdict
from nodepool_ocb.pool.launches.refusals import refused_sentence
from nodepool_ocb.pool.membership import Membership, PoolKey
from nodepool_ocb.pool.states import new_request
from nodepool_ocb.pool.views import PoolNodeView, RequestView

_PROBE = new_request(0.0)  # a request for one node of any tenant
MOST_TRIALS = 1000  # of one decision; requests behind so many different ones that wait are looked at later
CAPACITY = frozenset({"LIMIT", "QUOTA"})  # a request with these waits for nodes of others to end


class PoolFit(msgspec.Struct, frozen=True):
    """The nodes with which a pool can serve a request now."""

    pool: ProviderPool
    nodes: tuple[PoolNodeView, ...]  # idle ones to allocate
    launches: tuple[str, ...]  # labels
    promised: float = 0  # launches that may begin, of a provider that refused one

    @property
    def key(self) -> PoolKey:
        """Provider and pool."""
        return self.pool.provider, self.pool.name


class RequestPlan(msgspec.Struct, frozen=True):
    """The plan for one request: ``fit`` None means that it waits."""

    request: RequestView
    fit: PoolFit | None
    verdicts: tuple[PoolVerdict, ...]
    reserves: bool = False  # it is the first that waits for a pool which launches
    hopeful: bool = False  # each pool can serve it later, without a deadline


class Planner:
    """Plans requests one after the other; each plan uses capacity that the next ones no longer have."""

    def __init__(
        self,
        configuration: PoolConfiguration,
        pools: Sequence[ProviderPool],
        membership: Membership,
        ledger: Ledger,
        judge: PoolJudge,
        now: float,
    ) -> None:
        self._configuration, self._pools, self._membership = configuration, pools, membership
        self._ledger, self._judge, self._now = ledger, judge, now
        self.reservations: dict[tuple[str, ...], Reservation] = {}  # by pool ("pool", ...) or by tenant ("tenant", ...)
        self.contended: set[str] = set()  # providers with capacity for which a request waits
        self._gates = [PoolGate(ledger, each) for each in pools]
        self._offering: dict[tuple[str, ...], list[PoolGate]] = {}  # by node_types
        self._trials = 0
        self._state = 0  # counts the changes of the books
        self._blocked: dict[tuple[object, ...], RequestPlan] = {}

    def plan(
        self, request: RequestView, types: Sequence[str], pinned: PoolKey | None = None, *, due: bool = True
    ) -> RequestPlan:
        """The plan for the labels that the request still needs. ``pinned``: the pool that already serves it.

        Before its next launch is ``due``, a provider that refused launches need not wait for it.
        """
        if pinned is None and (self._shut_out(request) or self._trials >= MOST_TRIALS):
            return RequestPlan(request, None, (), hopeful=True)
        return self.trial(request, types, pinned, due=due)

    def _shut_out(self, request: RequestView) -> bool:
        """Whether each pool with the labels is one that has no room now, and can serve the request later."""
        record = request.record
        if record.declined_by or record.provider:
            return False
        types = record.node_types
        offering = self._offering.get(types)
        if offering is None:
            offering = self._offering[types] = [each for each in self._gates if each.labels.issuperset(types)]
        count, tenant, others = len(types), record.tenant_name, self.reservations
        limited = ("tenant", tenant or "") in others
        return bool(offering) and all(
            each.surely(count, tenant)
            and (
                (each.meter in others and each.refuses(types, self._now, self._state, others.values()))
                or (limited and each.overdrawn(count, tenant))
            )
            for each in offering
        )

    def trial(
        self, request: RequestView, types: Sequence[str], pinned: PoolKey | None = None, *, due: bool = True
    ) -> RequestPlan:
        """The same, with the verdict of each pool in every case."""
        record = request.record
        mark = (record.node_types, record.provider, record.tenant_name, record.declined_by, record.reuse is False)
        if pinned is None and mark in self._blocked:  # nothing became free since its twin was refused
            return msgspec.structs.replace(self._blocked[mark], request=request, reserves=False)
        self._trials += 1
        fits, verdicts = [], []
        for pool in self._able(request, pinned):
            found = self._try(request, pool, types, pinned is not None)
            if isinstance(found, PoolFit):
                fits.append(found)
            else:
                verdicts.append(found)
        if fits:
            best = min(fits, key=lambda each: (each.pool.priority, len(each.launches), _lot(request.id, each.key)))
            self._spend(request, best)
            promised = self._ledger.promise(best.key[0], len(best.launches)) if due else 0
            return RequestPlan(request, msgspec.structs.replace(best, promised=promised), tuple(verdicts))
        hopeful = bool(verdicts) and all(each.ever and deadline(each.code) is None for each in verdicts)
        plan = RequestPlan(request, None, tuple(verdicts), self._reserve(request, types, verdicts), hopeful)
        self._shut(types, verdicts)
        if pinned is None:
            self._blocked[mark] = plan
        return plan

    def reserved_by_other(self, request: RequestView, pool: PoolKey | None) -> bool:
        """Whether an earlier request waits for the pool."""
        found = self.reservations.get(("pool", *pool)) if pool else None
        return found is not None and found.request != request.id

    def _able(self, request: RequestView, pinned: PoolKey | None) -> list[ProviderPool]:
        if pinned is not None:
            return [each for each in self._pools if (each.provider, each.name) == pinned]
        wanted = request.record.provider
        named = wanted and any(each.key[0] == wanted for each in self._membership.candidates(request))
        return [each for each in self._pools if each.provider == wanted] if named else list(self._pools)

    # -- one pool --

    def _try(
        self, request: RequestView, pool: ProviderPool, types: Sequence[str], begun: bool
    ) -> PoolFit | PoolVerdict:
        refused = None if begun else self._judge.never(request, pool) or self._judge.paused(pool)
        if refused is not None:
            return refused
        key, tenant = (pool.provider, pool.name), request.record.tenant_name
        end = self._now + self._ledger.life(types)
        others = [each for each in self.reservations.values() if each.request != request.id and each.outlasts(end)]
        chosen = self._choose(request, key, types, others)
        launches = tuple(label for label, node in zip(types, chosen, strict=True) if node is None)
        nodes = tuple(node for node in chosen if node is not None)
        refused = self._tenant_verdict(pool, tenant, types) or self._launch_verdict(pool, launches)
        if refused is not None:
            return refused
        fit = PoolFit(pool, nodes, launches)
        for each in others:
            if not each.permits(self._uses(fit, tenant, each)):
                return _verdict(pool, "RESERVED", f"its free capacity is reserved for request {each.request}")
        return fit

    def _choose(
        self, request: RequestView, key: PoolKey, types: Sequence[str], others: Sequence[Reservation]
    ) -> list[PoolNodeView | None]:
        """For each label an idle node, or None."""
        if request.record.reuse is False:
            return [None] * len(types)
        held = frozenset().union(*(each.held for each in others))
        chosen = matched(types, self._ledger.offers(key, types, held))
        idle = self._ledger.idle.get(key, {})
        return [None if node is None else idle[label][node] for label, node in zip(types, chosen, strict=True)]

    def _tenant_verdict(self, pool: ProviderPool, tenant: str | None, types: Sequence[str]) -> PoolVerdict | None:
        need = self._ledger.of_labels((pool.provider, pool.name), types)
        short = self._ledger.lacking(self._ledger.tenant_meters(tenant), need)
        if short is None:
            return None
        return _verdict(pool, "TENANT_LIMIT", f"tenant {tenant}: {self._ledger.meters[short[0]].sentence(short[1])}")

    def _launch_verdict(self, pool: ProviderPool, launches: Sequence[str]) -> PoolVerdict | None:
        """Why the pool cannot launch these labels now."""
        if not launches:
            return None
        if static(pool):
            return _verdict(pool, "LIMIT", f"no slot with the label {launches[0]} is free")
        lasting = self._judge.unlaunchable(pool, list(launches))
        if lasting is not None:
            return lasting
        if not self._ledger.trials(pool.provider):
            return _verdict(
                pool, "QUOTA", refused_sentence(pool.provider, self._ledger.refused[pool.provider], self._now)
            )
        if not self._ledger.slots(pool.provider):
            return _verdict(pool, "LIMIT", f"max-concurrency of {pool.provider} is reached")
        need = self._ledger.of_labels((pool.provider, pool.name), launches)
        short = self._ledger.lacking(self._ledger.checked_meters(pool), need)
        if short is None:
            return None
        code, usage = "QUOTA" if short[0][0] == "quota" else "LIMIT", self._ledger.meters[short[0]].sentence(short[1])
        return _verdict(pool, code, f"{short[0][0]} {short[0][-1]}: {usage}, {need[short[1]]:g} needed")

    def _uses(self, fit: PoolFit, tenant: str | None, beside: Reservation) -> Uses:
        """The capacity that a plan uses, as a reservation counts it: an idle node that would have been deleted counts."""
        launched = self._ledger.of_labels(fit.key, fit.launches)
        counted = [self._ledger.of_node(node) for node in fit.nodes if node.id in beside.released]
        every = total([launched, *map(self._ledger.of_node, fit.nodes)])
        pools: list[tuple[MeterKey, Amounts]] = [
            (each, total([launched, *counted])) for each in self._ledger.pool_meters(fit.key)
        ]
        return pools + [(each, every) for each in self._ledger.tenant_meters(tenant)]

    # -- effects on later requests --

    def _shut(self, types: Sequence[str], verdicts: Sequence[PoolVerdict]) -> None:
        """Shut the labels of which no pool that refused the request has a single node left."""
        waiting = {
            (each.provider, each.pool) for each in verdicts if each.ever and each.code in (*CAPACITY, "RESERVED")
        }
        for gate in self._gates:
            pool = self._configuration.pool(*gate.key)
            if gate.key not in waiting or pool is None:
                continue
            for label in set(types) - gate.shut:
                probe = RequestView(id="", record=_PROBE, version=0, created=self._now)
                found = self._try(probe, pool, [label], begun=True)
                if isinstance(found, PoolVerdict) and found.code in (*CAPACITY, "RESERVED"):
                    gate.shut.add(label)

    def _spend(self, request: RequestView, fit: PoolFit) -> None:
        self._state += 1
        tenant = request.record.tenant_name
        end = self._now + self._ledger.life([*fit.launches, *(label for node in fit.nodes for label in node.labels)])
        for each in self.reservations.values():
            if each.request != request.id and each.outlasts(end):
                each.spend(self._uses(fit, tenant, each))
        self._ledger.take(fit.nodes, tenant)
        self._ledger.charge(fit.key, fit.launches, tenant)

    def _reserve(self, request: RequestView, types: Sequence[str], verdicts: Sequence[PoolVerdict]) -> bool:
        """Reserve each pool, and the tenant, that no earlier request reserved. Gives whether it reserved a pool that launches."""
        found = False
        for each in verdicts:
            if each.code in CAPACITY and each.ever:
                self.contended.add(each.provider)
            pool = self._configuration.pool(each.provider, each.pool)
            key: tuple[str, ...] = ("pool", each.provider, each.pool)
            if pool is not None and each.ever and each.code in CAPACITY and key not in self.reservations:
                self.reservations[key] = reserve_pool(self._ledger, request, pool, types, self._now)
                self._state += 1
                found = found or not static(pool)
            key = ("tenant", request.record.tenant_name or "")
            if each.ever and each.code == "TENANT_LIMIT" and key not in self.reservations:
                need = self._ledger.of_labels((each.provider, each.pool), types)
                made = reserve_tenant(self._ledger, request.id, request.record.tenant_name, need, self._now)
                self.reservations[key] = made
                self._state += 1
        return found


def _lot(request: str, key: PoolKey) -> int:
    """Spreads requests over equal pools."""
    return crc32(f"{request}/{key[0]}/{key[1]}".encode())


def _verdict(pool: ProviderPool, code: str, reason: str, ever: bool = True) -> PoolVerdict:
    return PoolVerdict(provider=pool.provider, pool=pool.name, code=code, reason=reason, ever=ever)
