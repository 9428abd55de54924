"""Driver metal: machines of the fleet. Each one is erased and installed for each use, by the annealers.

The machines are nodes of /ocb, and the external id of one is its name. The driver decides nothing by itself: it asks the
launcher, whose turn has a view of /ocb, and writes the plan of the answer there (pool.metal).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.engine.selection import asks_outdated, parse
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.records import InstallRequest, Json, WipeMethod
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, Resources
from nodepool_ocb.pool.metal import choosing, taking
from nodepool_ocb.pool.metal.plans import MetalCount, MetalOffer, MetalPlan, MetalSight, MetalStamp, MetalUntaken
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.answers import AMOUNTS
from nodepool_ocb.providers.launchoptions import NO_OPTIONS, option_faults
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp

SECONDS: Final = 50.0  # for an answer of the launcher's turn; a return may take longer, and is asked for again
SELECTOR: Final = "selector"
KEYS: Final = "authorized-keys"
KEEPS: Final = "keep-roles"
WIPE: Final = "wipe"
_TEXTS: Final[Json] = {"type": "array", "items": {"type": "string"}}
#: The options of a pool and of a label.
OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        SELECTOR: {"type": "string", "minLength": 1},
        KEYS: _TEXTS,
        KEEPS: _TEXTS,
        WIPE: {"type": "string", "enum": [str(each) for each in WipeMethod if each is not WipeMethod.SIGNATURES]},
    },
    "additionalProperties": False,
}

MetalQuestion = Callable[[World, float], MetalPlan]


class MetalFleet(Protocol):
    """The launcher, as this driver asks it."""

    def ask(self, question: MetalQuestion, seconds: float) -> Any:
        """The answer of a plan after its changes were written, or MachineRefused. The question may be decided several times."""


class MetalMachines:
    """The machines that the labels of a provider select."""

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        del ssh
        self._provider = provider
        self._fleet: MetalFleet | None = None

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return [*option_faults(provider, NO_OPTIONS, OPTIONS, OPTIONS), *_faults(provider)]

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        del provider
        return {"instances": 1.0, _resource(label.name): 1.0} | dict(label.resources)

    def join(self, fleet: MetalFleet) -> None:
        """From now on questions go to this launcher."""
        self._fleet = fleet

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        offer = self._offer(order)
        answer = self._ask(lambda world, now: taking.take(world, offer, _plain(order.stamp), now))
        if isinstance(answer, MetalUntaken):
            return MachineRefused(answer.reason, LaunchParty.QUOTA if answer.ever else LaunchParty.REQUEST)
        return _machine(answer)

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        seen = self._ask(lambda world, now: MetalPlan(answer=taking.found(world, _plain(stamp), now)))
        return None if seen is None else _machine(seen)

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        seen = self._ask(lambda world, now: MetalPlan(answer=taking.sight(world, external_id, now)))
        return None if seen is None else _machine(seen)

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        request = secrets.token_hex(8)
        give_back = partial(taking.give_back, fqdn=external_id, stamp=_plain(stamp), request=request)
        answer = self._ask(lambda world, now: give_back(world, now=now))
        return MachineRefused(answer) if isinstance(answer, str) else answer

    def list(self) -> tuple[Machine, ...]:
        seen = self._ask(lambda world, now: MetalPlan(answer=taking.listed(world, now)))
        if isinstance(seen, MachineRefused):
            raise OcbError(seen.reason)
        own = (each for each in seen if each.stamp.provider == self._provider.name)
        return tuple(found for each in own if isinstance(found := _machine(each), Machine))

    def quota(self) -> ProviderQuota | MachineRefused:
        offers = _offers(self._provider)
        answer = self._ask(
            lambda world, now: MetalPlan(answer=choosing.counted(world, offers, self._provider.name, now))
        )
        if isinstance(answer, MachineRefused):
            return answer
        assert isinstance(answer, MetalCount)
        labels = answer.fitting if len(answer.fitting) <= AMOUNTS else ("",)
        named = {label: _resource(label) if label else "instances" for label in labels}
        return ProviderQuota(
            limits={name: float(answer.fitting[label]) for label, name in named.items()},
            foreign={name: float(answer.others[label]) for label, name in named.items()},
            read=time.time(),
        )

    def check(self, external_id: str, host_keys: tuple[str, ...]) -> MachineRefused | None:
        reason = self._ask(lambda world, _: MetalPlan(answer=taking.unfit(world, external_id, host_keys)))
        return MachineRefused(reason) if isinstance(reason, str) else reason

    def close(self) -> None:
        """The launcher has the connection."""

    def _ask(self, question: MetalQuestion) -> Any:
        if self._fleet is None:
            return MachineRefused("the launcher does not serve this provider yet", LaunchParty.HOST)
        return self._fleet.ask(question, SECONDS)

    def _offer(self, order: MachineOrder) -> MetalOffer:
        others = [each.selectors for each in _offers(self._provider) if each.label != order.label.name]
        return replace(
            _offer(order.pool, order.label),
            request=InstallRequest(
                image=order.label.diskimage,
                build=order.image or "",
                wipe=WipeMethod(order.label.options.get(WIPE) or order.pool.options.get(WIPE) or WipeMethod.OVERWRITE),
                authorized_keys=_listed(order.pool, order.label, KEYS),
            ),
            rivals=tuple(others),
        )


def _resource(label: str) -> str:
    """The machines that fit a label, as a resource of its nodes."""
    return f"machines for {label}"


def _selectors(pool: ProviderPool, label: PoolLabel) -> tuple[str, ...]:
    found = (options.get(SELECTOR) for options in (pool.options, label.options))
    return tuple(each for each in found if isinstance(each, str))


def _listed(pool: ProviderPool, label: PoolLabel, key: str) -> tuple[str, ...]:
    """The lists of the pool and of the label under a key, joined."""
    return (*pool.options.get(key, ()), *label.options.get(key, ()))


def _offer(pool: ProviderPool, label: PoolLabel) -> MetalOffer:
    return MetalOffer(label=label.name, selectors=_selectors(pool, label), keeps=_listed(pool, label, KEEPS))


def _offers(provider: LaunchProvider) -> list[MetalOffer]:
    """The machines of each label, in each pool that offers it."""
    return [_offer(pool, label) for pool in provider.pools.values() for label in pool.labels.values()]


def _faults(provider: LaunchProvider) -> Iterator[str]:
    """Those that no schema finds: of selectors, and of images."""
    for pool in provider.pools.values():
        yield from _selector_faults(f"pools[{pool.name}]", pool.options.get(SELECTOR))
        for label in pool.labels.values():
            path = f"pools[{pool.name}].labels[{label.name}]"
            yield from _selector_faults(path, label.options.get(SELECTOR))
            if not _selectors(pool, label):
                yield (
                    f"{path}: neither it nor its pool has `{SELECTOR}`; say which machines are erased for it, as in"
                    f" `{SELECTOR}: tag:lab`"
                )
            if label.diskimage is None:
                yield f"{path}: key `diskimage` is missing; name a disk image of format tar or raw"


def _selector_faults(path: str, text: Json) -> Iterator[str]:
    if not isinstance(text, str):
        return
    try:
        expression = parse(text)
    except OcbError as wrong:
        yield f"{path}.{SELECTOR}: {wrong}"
        return
    if asks_outdated(expression):
        yield f"{path}.{SELECTOR}: `outdated` is no property of a machine; leave it out"


def _plain(stamp: MachineStamp) -> MetalStamp:
    return MetalStamp(
        cluster=stamp.cluster, provider=stamp.provider, pool=stamp.pool, node=stamp.node, key=stamp.key
    )  # fmt: skip


def _machine(seen: MetalSight | MachineRefused) -> Machine | MachineRefused:
    if isinstance(seen, MachineRefused):
        return seen
    stamp = seen.stamp
    address = seen.address
    return Machine(
        external_id=seen.fqdn,
        name=seen.fqdn,
        stamp=MachineStamp(
            cluster=stamp.cluster, provider=stamp.provider, pool=stamp.pool, node=stamp.node, key=stamp.key
        ),
        state=seen.state,
        fault=seen.words,
        user=seen.user,
        address=address,
        port=seen.port,
        host_keys=seen.host_keys if seen.state == "running" else None,
        resources={},
    )
