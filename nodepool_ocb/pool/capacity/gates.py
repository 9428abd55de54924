"""Quick refusals: most of a long queue waits, and a launcher must see that without a full trial of each request. Pure.

During one pass capacity only shrinks. So a label that a pool could not give to a request for one node stays *shut* in that pool,
and with it each request that needs the label. A gate refuses only requests that a full trial would refuse, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from nodepool_ocb.pool.capacity.amounts import Amounts
from nodepool_ocb.pool.capacity.judging import MOST_NODES, offered_labels, static
from nodepool_ocb.pool.capacity.ledger import Ledger
from nodepool_ocb.pool.capacity.reserving import Reservation
from nodepool_ocb.pool.configuration import ProviderPool


class PoolGate:
    """The gate of one pool.

    ``safe``: a request for so many nodes of any labels fits into the empty pool. ``shut``: labels of which no node is left.
    """

    def __init__(self, ledger: Ledger, pool: ProviderPool) -> None:
        self.key = (pool.provider, pool.name)
        self.meter = ("pool", *self.key)
        self.labels = offered_labels(pool)
        self.shut: set[str] = set()
        self._ledger, self._pool, self._static = ledger, pool, static(pool)
        needs = [ledger.of_label(self.key, label) for label in self.labels]
        self._most, self._least = _extreme(needs, max), _extreme(needs, min)
        self._life = min((ledger.life([label]) for label in self.labels), default=math.inf)
        limits = [ledger.meters[key].limits for key in ledger.checked_meters(pool)]
        self.safe = min([MOST_NODES, *(_times(each, self._most) for each in limits)])
        if self._static:
            self.safe = min([self.safe, *_slots(pool).values()])
        self._tenants: dict[str | None, float] = {}
        self._room: tuple[int, float] = (-1, 0.0)

    def surely(self, count: int, tenant: str | None) -> bool:
        """Whether the pool can certainly serve a request for so many nodes at some time."""
        found = self._tenants.get(tenant)
        if found is None:
            limits = [self._ledger.meters[key].limits for key in self._ledger.tenant_meters(tenant)]
            found = self._tenants[tenant] = min([self.safe, *(_times(each, self._most) for each in limits)])
        return count <= found

    def overdrawn(self, count: int, tenant: str | None) -> bool:
        """Whether the tenant surely has no room for so many nodes of the pool now."""
        keys = self._ledger.tenant_meters(tenant)
        return any(count > _times(self._ledger.meters[key].left(), self._least) for key in keys)

    def refuses(self, types: Collection[str], now: float, state: int, reservations: Iterable[Reservation]) -> bool:
        """Whether the pool surely has no room for the labels now. ``state`` counts the changes of the books."""
        if not self.shut.isdisjoint(types):
            return True
        if self._room[0] != state:
            self._room = state, self._bound(now, reservations)
        return len(types) > self._room[1]

    def _bound(self, now: float, reservations: Iterable[Reservation]) -> float:
        """No request gets more nodes than this."""
        idle = len({node for nodes in self._ledger.idle.get(self.key, {}).values() for node in nodes})
        if self._static:
            return idle
        keys = self._ledger.checked_meters(self._pool)
        room = [_times(self._ledger.meters[key].left(), self._least) for key in keys]
        for each in reservations:
            if each.outlasts(now + self._life):
                room += [_times(each.spare[key], self._least) for key in keys if key in each.spare]
        return idle + max(0.0, min(room, default=math.inf))


def _extreme(needs: Sequence[Amounts], choose: Callable[[Iterable[float]], float]) -> dict[str, float]:
    """For each key the highest or the lowest need of a label."""
    keys = {key for each in needs for key in each}
    return {key: choose([each.get(key, 0.0) for each in needs]) for key in keys}


def _times(room: Mapping[str, float], need: Amounts) -> float:
    """How many nodes of this need the room holds."""
    return min((left // need[key] for key, left in room.items() if need.get(key, 0.0) > 0), default=math.inf)


def _slots(pool: ProviderPool) -> dict[str, float]:
    found: dict[str, float] = {}
    for machine in pool.machines:
        for label in set(machine.labels):
            found[label] = found.get(label, 0) + machine.slots
    return found
