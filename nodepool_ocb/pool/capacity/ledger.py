"""The usage of pools, providers, quotas and tenants, and the idle nodes: the books of one decision. Pure.

A node counts from its record on, so unfinished launches count. A failed or aborted launch counts while its machine may exist.
A free node belongs to no tenant. A node with a record that cannot be read counts where it is known to be. ``take`` and
``charge`` enter the plans of this decision, so later plans see them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import msgspec

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.capacity.amounts import Amounts, Meter, amounts, total
from nodepool_ocb.pool.configuration import PoolConfiguration, ProviderPool, StaticMachine
from nodepool_ocb.pool.launches.attempts import bare
from nodepool_ocb.pool.launches.refusals import quota_refusals
from nodepool_ocb.pool.membership import PoolKey
from nodepool_ocb.pool.slots import MachineIndex
from nodepool_ocb.pool.views import PoolNodeView, PoolView

MeterKey = tuple[str, ...]

LAUNCHING = frozenset({PoolNodeState.INIT, PoolNodeState.BUILDING, PoolNodeState.TESTING})
ENDED = frozenset({PoolNodeState.FAILED, PoolNodeState.ABORTED})
GOING = frozenset({PoolNodeState.USED, PoolNodeState.DELETING, *ENDED})


class Occupant(msgspec.Struct, frozen=True):
    """A node that uses capacity, or that will after the plans of this decision."""

    name: str  # the id of the node; of a planned launch a text of its own
    end: float  # the time at which this is expected to end; infinite if unknown
    need: Amounts
    labels: Sequence[str]
    meters: Sequence[MeterKey]
    idle: PoolNodeView | None = None  # a free node: it may be deleted to make room


class Ledger:
    """The books of a view."""

    def __init__(self, view: PoolView, configuration: PoolConfiguration, now: float, leaving: Collection[str]) -> None:
        self._lives, self._configuration, self._now, self._leaving = view.lives, configuration, now, leaving
        self.meters = _meters(view, configuration)
        self.occupants: dict[MeterKey, dict[str, Occupant]] = {key: {} for key in self.meters}
        self.idle: dict[PoolKey, dict[str, dict[str, PoolNodeView]]] = {}  # pool → label → id
        self.allocated: dict[str, list[PoolNodeView]] = {}  # request → its nodes
        self.launching: dict[str, int] = {}  # provider → launches under way
        self.refused = quota_refusals(view.nodes.values())  # by provider
        self._ordering: dict[str, int] = {}  # provider → launches under way, without a machine so far
        self._promised: dict[str, float] = {}  # provider that refused a launch → launches of plans that may begin
        self._needs: dict[tuple[str, str, str], dict[str, float]] = {}
        self._of_pools: dict[PoolKey, list[PoolNodeView]] = {}
        self._planned = 0
        for node in sorted(view.nodes.values(), key=lambda each: (each.record.state_time, each.id)):
            self._enter(node)
        self._unreadable = list(view.unreadable.values())
        for node in self._unreadable:
            self._enter(node)
        self.missing: dict[PoolKey, list[tuple[StaticMachine, int]]] = {}  # static pool → slots without a record
        for provider in configuration.providers.values():
            for pool in provider.pools.values():
                if pool.machines:
                    self._enter_slots(pool)

    def _enter_slots(self, pool: ProviderPool) -> None:
        """A slot without a record gets one soon: for those that wait it is as good as one that is given back now."""
        key, meter = (pool.provider, pool.name), ("pool", pool.provider, pool.name)
        index = MachineIndex(pool)
        hidden = any(
            each.locked and (each.record.provider is None or (pool_of(each) == key and index.place(each) is None))
            for each in self._unreadable
        )  # a user holds a node, perhaps a slot of this pool
        self.missing[key] = [] if hidden else index.missing(self._of_pools.get(key, ()))
        for place, (machine, _) in enumerate(self.missing[key]):
            name = f"slot/{place}"
            self.occupants[meter][name] = Occupant(name, self._now, {}, machine.labels, [meter])

    def _enter(self, node: PoolNodeView) -> None:
        record, key = node.record, pool_of(node)
        self._of_pools.setdefault(key, []).append(node)
        if record.allocated_to is not None:
            self.allocated.setdefault(record.allocated_to, []).append(node)
        idle = node.free and node.id not in self._leaving
        if idle:
            for label in node.labels:
                self.idle.setdefault(key, {}).setdefault(label, {})[node.id] = node
        if record.state in LAUNCHING:
            self._launch(key[0], 1, ordered=record.external_id is not None)
        if occupies(node):
            meters = [*self.pool_meters(key), *self.tenant_meters(None if node.free else record.tenant_name)]
            end, need = self._end(node, idle), self.of_node(node)
            self._occupy(Occupant(node.id, end, need, node.labels, meters, node if idle else None))

    def _occupy(self, occupant: Occupant) -> None:
        for key in occupant.meters:
            if occupant.name not in self.occupants[key]:
                self.meters[key].add(occupant.need)
            self.occupants[key][occupant.name] = occupant

    def _end(self, node: PoolNodeView, idle: bool) -> float:
        unclaimed = node.record.state in LAUNCHING and node.record.allocated_to is None  # it becomes idle soon
        if idle or unclaimed or node.record.state in GOING or node.id in self._leaving:
            return self._now
        if node.record.state is PoolNodeState.HOLD:
            return math.inf
        return max(self._now, node.created + self.life(node.labels))

    def life(self, labels: Iterable[str]) -> float:
        """The expected life of a node in seconds; of several labels the longest; infinite if one is unknown."""
        return max((self._lives.get(label, math.inf) for label in labels), default=math.inf)

    # -- needs --

    def of_node(self, node: PoolNodeView) -> dict[str, float]:
        """The resources of a node: of its record, or of its label."""
        if node.record.resources:
            return amounts(node.record.resources)
        return self.of_label(pool_of(node), node.labels[0] if node.labels else "")

    def of_label(self, key: PoolKey, label: str) -> dict[str, float]:
        """The resources of one node of a label in a pool."""
        found = self._needs.get((*key, label))
        if found is None:
            pool = self._configuration.pool(*key)
            offered = pool.labels.get(label) if pool else None
            found = self._needs[(*key, label)] = amounts(offered.resources if offered else None)
        return found

    def of_labels(self, key: PoolKey, labels: Iterable[str]) -> dict[str, float]:
        """The resources of a node of each label."""
        return total(self.of_label(key, label) for label in labels)

    # -- meters --

    def pool_meters(self, key: PoolKey) -> list[MeterKey]:
        """The meters on which each node of a pool counts."""
        found: list[MeterKey] = [("pool", *key), ("provider", key[0]), ("quota", key[0])]
        return [each for each in found if each in self.meters]

    def checked_meters(self, pool: ProviderPool) -> list[MeterKey]:
        """The meters that limit a launch in the pool."""
        found = self.pool_meters((pool.provider, pool.name))
        return [each for each in found if each[0] != "quota"] if pool.ignore_provider_quota else found

    def tenant_meters(self, tenant: str | None) -> list[MeterKey]:
        """The meter of a tenant, if it has limits."""
        return [("tenant", tenant)] if tenant is not None and ("tenant", tenant) in self.meters else []

    def lacking(self, keys: Iterable[MeterKey], need: Amounts) -> tuple[MeterKey, str] | None:
        """The first meter, and its key, without room for ``need``."""
        for key in keys:
            short = self.meters[key].lacking(need)
            if short is not None:
                return key, short
        return None

    # -- plans --

    def offers(self, key: PoolKey, types: Sequence[str], without: Collection[str]) -> dict[str, list[str]]:
        """For each label idle nodes, at most as many as ``types``: more are never needed. Nodes with few labels first."""
        found = {}
        for label in set(types):
            nodes = self.idle.get(key, {}).get(label, {})
            first = list(islice((each for each in nodes.values() if each.id not in without), len(types)))
            found[label] = [each.id for each in sorted(first, key=lambda each: len(each.labels))]
        return found

    def take(self, nodes: Iterable[PoolNodeView], tenant: str | None) -> None:
        """Idle nodes will be allocated."""
        for node in nodes:
            key = pool_of(node)
            for label in node.labels:
                self.idle[key][label].pop(node.id, None)
            meters = [*self.pool_meters(key), *self.tenant_meters(tenant)]
            end = self._now + self.life(node.labels)
            self._occupy(Occupant(node.id, end, self.of_node(node), node.labels, meters))

    def charge(self, key: PoolKey, labels: Iterable[str], tenant: str | None) -> None:
        """Nodes of these labels will be launched."""
        for label in labels:
            self._planned += 1
            meters = [*self.pool_meters(key), *self.tenant_meters(tenant)]
            end, need = self._now + self.life([label]), self.of_label(key, label)
            self._occupy(Occupant(f"plan/{self._planned}", end, need, (label,), meters))

    def promise(self, provider: str, launches: int) -> float:
        """Keep launches that may begin for a plan, so that no later one takes them; gives their number."""
        found = min(launches, self.trials(provider))
        if provider in self.refused:
            self._promised[provider] = self._promised.get(provider, 0) + found
        return found

    def begin(self, provider: str, launches: int, promised: float = 0) -> int:
        """Begin at most ``launches`` under max-concurrency, and after a refusal; gives the number that may begin."""
        if promised and provider in self.refused:
            self._promised[provider] -= promised
        begun = int(min(launches, self.slots(provider), self.trials(provider)))
        self._launch(provider, begun, ordered=False)
        return begun

    def _launch(self, provider: str, launches: int, *, ordered: bool) -> None:
        self.launching[provider] = self.launching.get(provider, 0) + launches
        if not ordered:
            self._ordering[provider] = self._ordering.get(provider, 0) + launches

    def trials(self, provider: str) -> float:
        """The launches that may begin after the provider refused one for its quota; 0 during the back-off."""
        refused = self.refused.get(provider)
        if refused is None:
            return math.inf
        used = self._ordering.get(provider, 0) + self._promised.get(provider, 0)
        return max(0, refused.most - used) if refused.until <= self._now else 0

    def refusals(self, provider: str) -> int:
        """The number of launches that the provider refused in a row for its quota."""
        refused = self.refused.get(provider)
        return 0 if refused is None else refused.refusals

    def room_comes(self, provider: str, request: str) -> bool:
        """Whether the provider has a machine that will go although the request keeps its nodes: one of another user."""
        return any(
            each.record.external_id is not None
            and not each.free
            and each.record.state is not PoolNodeState.HOLD
            and each.record.allocated_to != request
            for key, nodes in self._of_pools.items()
            if key[0] == provider
            for each in nodes
        )

    def slots(self, provider: str) -> float:
        """The launches that the provider's max-concurrency still permits."""
        found = self._configuration.providers.get(provider)
        if found is None or found.max_concurrency is None or found.max_concurrency < 0:
            return math.inf
        return max(0, found.max_concurrency - self.launching.get(provider, 0))


def pool_of(node: PoolNodeView) -> PoolKey:
    """Provider and pool of a node."""
    return node.record.provider or "", node.record.pool or ""


def occupies(node: PoolNodeView) -> bool:
    """Whether the node uses capacity."""
    if node.record.state in ENDED:
        return not bare(node)
    return node.record.state is not PoolNodeState.DELETED


def _meters(view: PoolView, configuration: PoolConfiguration) -> dict[MeterKey, Meter]:
    found: dict[MeterKey, Meter] = {}
    for provider in configuration.providers.values():
        found["provider", provider.name] = Meter(provider.limits)
        quota = view.quotas.get(provider.name)
        if quota is not None:
            meter = found["quota", provider.name] = Meter(quota.limits)
            meter.add({key.replace("_", "-"): value for key, value in quota.foreign.items()})
        for pool in provider.pools.values():
            found["pool", provider.name, pool.name] = Meter(pool.limits)
    for tenant, limits in configuration.tenant_limits.items():
        found["tenant", tenant] = Meter(limits)
    return found
