"""Reservations (EASY backfill): a waiting request reserves capacity that becomes free, and a later one must not delay it. Pure.

The first waiting request of a pool reserves the pool. It will start at the *shadow time*: when enough of the nodes there are
expected to have ended. A later request may start now in two cases: it is expected to end before the shadow time, or *spare*
capacity suffices for it. Spare is the capacity that the first one leaves at the shadow time. A node after the end of its
expected life may end at any moment, so the shadow time does not wait for it. An unknown life ends after all known ones.

A request at the limit of its tenant reserves room of that tenant, and no pool. So other tenants do not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from nodepool_ocb.pool.capacity.amounts import Amounts
from nodepool_ocb.pool.capacity.judging import static
from nodepool_ocb.pool.capacity.ledger import Ledger, MeterKey, Occupant
from nodepool_ocb.pool.capacity.matching import matched
from nodepool_ocb.pool.configuration import ProviderPool
from nodepool_ocb.pool.membership import PoolKey
from nodepool_ocb.pool.views import PoolNodeView, RequestView

Uses = Sequence[tuple[MeterKey, Amounts]]


class Reservation:
    """The capacity that one request waits for, from its shadow time ``at`` on.

    ``held``: nodes that it will use; no idle one of them is lent. ``evicted``: idle nodes to delete, so that it can start.
    """

    def __init__(self, request: str, at: float, held: Collection[str] = ()) -> None:
        self.request, self.at, self.held = request, at, frozenset(held)
        self.spare: dict[MeterKey, dict[str, float]] = {}
        self.released: frozenset[str] = frozenset()  # idle nodes that count as gone at the shadow time
        self.evicted: tuple[PoolNodeView, ...] = ()

    def outlasts(self, end: float) -> bool:
        """Whether a node that ends then could delay the request."""
        return end > self.at or math.isinf(end)

    def permits(self, uses: Uses) -> bool:
        """Whether nodes with these needs leave the request its capacity, however long they live."""
        return _fits(self.spare, [(key, need) for key, need in uses if key in self.spare])

    def spend(self, uses: Uses) -> None:
        """A later request takes a part of the spare capacity."""
        for key, need in uses:
            left = self.spare.get(key, {})
            for each in left.keys() & need.keys():
                left[each] -= need[each]


def reserve_tenant(ledger: Ledger, request: str, tenant: str | None, need: Amounts, now: float) -> Reservation:
    """The reservation of a request at the limit of its tenant."""
    uses = [(each, need) for each in ledger.tenant_meters(tenant)]
    at, gone = _shadow(ledger, uses, frozenset(), now)
    found = Reservation(request, at)
    _spare(found, ledger, uses, gone)
    return found


def reserve_pool(
    ledger: Ledger, request: RequestView, pool: ProviderPool, types: Sequence[str], now: float
) -> Reservation:
    """The reservation of the first request that waits for a pool. ``types``: the labels that it still needs."""
    key = (pool.provider, pool.name)
    found = (
        _reserve_slots(ledger, request, key, types, now)
        if static(pool)
        else _reserve_room(ledger, request, pool, types, now)
    )
    tenants = ledger.tenant_meters(request.record.tenant_name)
    _spare(found, ledger, [(each, ledger.of_labels(key, types)) for each in tenants], {})
    return found


def _reserve_room(
    ledger: Ledger, request: RequestView, pool: ProviderPool, types: Sequence[str], now: float
) -> Reservation:
    key = (pool.provider, pool.name)
    chosen = matched(types, {} if request.record.reuse is False else ledger.offers(key, types, ()))
    held = frozenset(each for each in chosen if each is not None)
    missing = [label for label, node in zip(types, chosen, strict=True) if node is None]
    need = ledger.of_labels(key, missing)
    uses = [(each, need) for each in ledger.checked_meters(pool)]
    at, gone = _shadow(ledger, uses, held, now)
    found = Reservation(request.id, at, held)
    _spare(found, ledger, uses, gone)
    found.released = frozenset(name for name, each in gone.items() if each.idle)
    if at <= now:
        found.evicted = _needed(ledger, uses, gone) or _beside(ledger, pool.provider, held, len(missing))
    return found


def _beside(ledger: Ledger, provider: str, held: Collection[str], most: int) -> tuple[PoolNodeView, ...]:
    """The oldest idle nodes of a provider that refused its last launch for its quota: it is full, whatever quota it reports."""
    if not ledger.refusals(provider):
        return ()
    pools = [nodes for key, nodes in ledger.occupants.items() if key[:2] == ("pool", provider)]
    idle = [each for nodes in pools for each in nodes.values() if each.idle and each.name not in held]
    return tuple(each.idle for each in sorted(idle, key=_soonest)[:most] if each.idle)


def _shadow(ledger: Ledger, uses: Uses, held: Collection[str], now: float) -> tuple[float, Mapping[str, Occupant]]:
    """The time at which all needs fit, and the occupants gone by then. Idle nodes go last among those that end now."""
    every = {name: each for key, _ in uses for name, each in ledger.occupants[key].items() if name not in held}
    room = {key: ledger.meters[key].left() for key, _ in uses}
    gone: dict[str, Occupant] = {}
    at = now
    for each in sorted(every.values(), key=_soonest):
        if _fits(room, uses):
            break
        at = max(at, each.end)
        gone[each.name] = each
        _release(room, each)
    return (at if _fits(room, uses) else math.inf), gone


def _soonest(each: Occupant) -> tuple[float, bool, float, str]:
    return each.end, each.idle is not None, each.idle.record.state_time if each.idle else 0.0, each.name


def _fits(room: Mapping[MeterKey, Amounts], uses: Uses) -> bool:
    return all(
        need.get(each, 0.0) <= 0.0 or need[each] <= left for key, need in uses for each, left in room[key].items()
    )


def _release(room: Mapping[MeterKey, dict[str, float]], occupant: Occupant) -> None:
    for key in room.keys() & set(occupant.meters):
        for each in room[key].keys() & occupant.need.keys():
            room[key][each] += occupant.need[each]


def _spare(found: Reservation, ledger: Ledger, uses: Uses, gone: Mapping[str, Occupant]) -> None:
    """Enter the capacity that the request leaves at its shadow time. All that is expected to end by then is gone.

    Of the nodes with an unknown life only so many are gone as the request needs: else requests would pass it without end.
    """
    for key, need in uses:
        room = {key: ledger.meters[key].left()}
        for each in ledger.occupants[key].values():
            if each.name in gone or (each.idle is None and each.end <= found.at and not math.isinf(each.end)):
                _release(room, each)
        found.spare[key] = {each: left - need.get(each, 0.0) for each, left in room[key].items()}


def _needed(ledger: Ledger, uses: Uses, gone: Mapping[str, Occupant]) -> tuple[PoolNodeView, ...]:
    """The idle nodes among ``gone`` without which the request does not fit: the oldest that suffice."""
    room = {key: ledger.meters[key].left() for key, _ in uses}
    for each in gone.values():
        _release(room, each)
    found: list[PoolNodeView] = []
    for each in reversed([each for each in gone.values() if each.idle]):
        less = msgspec.structs.replace(each, need={key: -value for key, value in each.need.items()})
        _release(room, less)
        if not _fits(room, uses) and each.idle:
            _release(room, each)
            found.append(each.idle)
    return tuple(reversed(found))


def _reserve_slots(ledger: Ledger, request: RequestView, key: PoolKey, types: Sequence[str], now: float) -> Reservation:
    """Of machines: the shadow time is the end of the node that completes the slots of the request."""
    every = ledger.occupants["pool", *key]
    busy = sorted((each for each in every.values() if not each.idle), key=lambda each: (each.end, each.name))
    low, high = 0, len(busy)
    while low < high:  # the fewest ended nodes that suffice
        middle = (low + high) // 2
        low, high = (low, middle) if None not in _slots(ledger, key, types, busy[:middle]) else (middle + 1, high)
    chosen = _slots(ledger, key, types, busy[:low])
    at = math.inf if None in chosen else max(now, busy[low - 1].end) if low else now
    return Reservation(request.id, at, [each for each in chosen if each])


def _slots(ledger: Ledger, key: PoolKey, types: Sequence[str], ended: Iterable[Occupant]) -> list[str | None]:
    """For each label an idle node, or the slot of an ended one."""
    offers = ledger.offers(key, types, ())
    for each in ended:
        for label in each.labels:
            if label in offers and len(offers[label]) < len(types):
                offers[label].append(each.name)
    return matched(types, offers)
