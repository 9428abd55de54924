"""The lasting verdicts: why a pool cannot serve a request now, or never can, whatever other nodes do. Pure.

A pool without the image, or with a provider that fails, may serve the request later, but only for a time: then it declines.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.pool.capacity.ledger import Ledger
from nodepool_ocb.pool.capacity.matching import matched
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, ProviderPool
from nodepool_ocb.pool.instructions import PoolVerdict
from nodepool_ocb.pool.membership import Membership, PoolKey
from nodepool_ocb.pool.views import NO_PROVIDER, PoolView, ReadyImage, RequestView

MOST_NODES = 400  # of one request: one transaction hands all of them out
IMAGE_SECONDS = 3600.0  # a request waits so long for a missing image
FAULT_SECONDS = 3600.0  # a request waits so long for a provider that fails


def static(pool: ProviderPool) -> bool:
    """Whether the pool has machines of its own, and launches none."""
    return bool(pool.machines)


def image_of(view: PoolView, pool: ProviderPool, label: str) -> ReadyImage | None:
    """The image from which a label is launched; None where the label needs none, or has none ready."""
    offered = pool.labels.get(label)
    if offered is None or offered.diskimage is None:
        return None
    return launched_from(view.images, pool, offered.diskimage)


def launched_from(images: Mapping[tuple[str, str], ReadyImage], pool: ProviderPool, image: str) -> ReadyImage | None:
    """The ready image of this name, as the pool launches it."""
    return images.get((NO_PROVIDER if pool.fleet else pool.provider, image))


class PoolJudge:
    """The verdicts over one view.

    ``open``: the pools of launchers that begin new work. ``session``: of the launcher that decides; None: of all.
    """

    def __init__(
        self,
        view: PoolView,
        configuration: PoolConfiguration,
        membership: Membership,
        ledger: Ledger,
        open: frozenset[PoolKey],
        session: int | None = None,
    ) -> None:
        self._view, self._configuration, self._membership, self._ledger = view, configuration, membership, ledger
        self._open, self._session = open, session
        self._never: dict[tuple[object, ...], PoolVerdict | None] = {}

    def never(self, request: RequestView, pool: ProviderPool) -> PoolVerdict | None:
        """Why the pool can never serve the request; None if it can."""
        record = request.record
        key = (pool.provider, pool.name)
        if record.declined_by and self._membership.declined_here(request, self._session, key):
            return _verdict(pool, "DECLINED", "it declined the request", ever=False)
        mark = (record.node_types, record.tenant_name, *key)
        if mark not in self._never:
            self._never[mark] = self._unable(record.node_types, record.tenant_name, pool)
        return self._never[mark]

    def _unable(self, types: tuple[str, ...], tenant: str | None, pool: ProviderPool) -> PoolVerdict | None:
        absent = sorted(set(types) - offered_labels(pool))
        if absent:
            return _verdict(pool, "NO_LABEL", f"it does not have the label {absent[0]}", ever=False)
        if len(types) > MOST_NODES:
            return _verdict(pool, "LIMIT", f"a request has at most {MOST_NODES} nodes", ever=False)
        if static(pool):
            short = _no_slot(types, pool)
            if short is not None:
                return _verdict(pool, "LIMIT", f"its machines have too few slots of {short}", ever=False)
        key = (pool.provider, pool.name)
        need = self._ledger.of_labels(key, types)
        for meter in [*self._ledger.tenant_meters(tenant), *self._ledger.checked_meters(pool)]:
            short = self._ledger.meters[meter].never(need)
            if short is not None:
                code = {"tenant": "TENANT_LIMIT", "quota": "QUOTA"}.get(meter[0], "LIMIT")
                limit = self._ledger.meters[meter].limits[short]
                reason = f"the request needs {need[short]:g} {short}; the limit of {_named(meter)} is {limit:g}"
                return _verdict(pool, code, reason, ever=False)
        return None

    def paused(self, pool: ProviderPool) -> PoolVerdict | None:
        """Why the pool begins nothing new."""
        if (pool.provider, pool.name) not in self._open:
            return _verdict(pool, "PAUSED", "no running launcher serves it, or it is paused")
        if self._provider(pool).max_concurrency == 0:
            return _verdict(pool, "PAUSED", f"max-concurrency of {pool.provider} is 0")
        return None

    def unlaunchable(self, pool: ProviderPool, labels: list[str]) -> PoolVerdict | None:
        """Why none of these labels can be launched in the pool now, apart from capacity."""
        fault = self._view.faults.get(pool.provider)
        if fault is not None:
            return _verdict(pool, "PROVIDER_FAULT", f"{pool.provider}: {fault}")
        for label in labels:
            offered = pool.labels.get(label)
            if offered is None:
                return _verdict(pool, "NO_LABEL", f"it does not have the label {label}", ever=False)
            if offered.diskimage is not None and image_of(self._view, pool, label) is None:
                reason = f"{pool.provider} has no ready upload of {offered.diskimage}; see: nodepool-ocb image list"
                return _verdict(pool, "NO_IMAGE", reason)
        return None

    def _provider(self, pool: ProviderPool) -> LaunchProvider:
        return self._configuration.providers[pool.provider]


def offered_labels(pool: ProviderPool) -> frozenset[str]:
    """The labels of a pool: those of its machines, or those that it launches."""
    if static(pool):
        return frozenset(label for machine in pool.machines for label in machine.labels)
    return frozenset(pool.labels)


def _no_slot(types: tuple[str, ...], pool: ProviderPool) -> str | None:
    """A label for which the machines of the pool have too few slots."""
    offers: dict[str, list[str]] = {label: [] for label in types}
    for place, machine in enumerate(pool.machines):
        for label in set(machine.labels) & offers.keys():
            offers[label] += [f"{place}/{slot}" for slot in range(min(machine.slots, len(types)))]
    offers = {label: slots[: len(types)] for label, slots in offers.items()}
    found = matched(types, offers)
    return next((label for label, slot in zip(types, found, strict=True) if slot is None), None)


def _named(meter: tuple[str, ...]) -> str:
    words = {"pool": "pool", "provider": "provider", "quota": "the quota of", "tenant": "tenant"}
    return f"{words[meter[0]]} {meter[-1]}"


def _verdict(pool: ProviderPool, code: str, reason: str, ever: bool = True) -> PoolVerdict:
    return PoolVerdict(provider=pool.provider, pool=pool.name, code=code, reason=reason, ever=ever)


def deadline(code: str) -> float | None:
    """Seconds after which a request no longer waits for the end of a lasting verdict; None: without end."""
    return {"NO_IMAGE": IMAGE_SECONDS, "PROVIDER_FAULT": FAULT_SECONDS}.get(code)
