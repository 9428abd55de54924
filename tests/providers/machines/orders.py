"""Orders for machines, and providers to give them to."""

from __future__ import annotations

import itertools
import secrets
import threading
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, StaticMachine
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp

SSH: Final = SshSettings(key_files=())

_numbers = itertools.count(1)


def new_stamp(**parts: str) -> MachineStamp:
    made = MachineStamp(
        cluster="ours", provider="p", pool="main", node=f"{next(_numbers):010}", key=secrets.token_hex(6)
    )
    return replace(made, **parts)


def new_order(label: PoolLabel | None = None, timeout_seconds: float = 60.0, **fields: Any) -> MachineOrder:
    """An order of its own."""
    stamp = fields.pop("stamp", None) or new_stamp()
    label = label or PoolLabel(name="small")
    pool = fields.pop("pool", None) or ProviderPool(name="main", provider="p", labels={label.name: label})
    return MachineOrder(
        name=fields.pop("name", f"{label.name}-p-{stamp.node}"),
        stamp=stamp,
        label=label,
        pool=pool,
        stop=threading.Event(),
        timeout_seconds=timeout_seconds,
        **fields,
    )


def fake_provider(driver: str = "fake", **options: Any) -> LaunchProvider:
    return LaunchProvider(name="p", driver=driver, options={"fake-cloud": options})


def static_provider(*machines: StaticMachine, **options: Any) -> LaunchProvider:
    pool = ProviderPool(name="main", provider="p", machines=machines)
    return LaunchProvider(name="p", driver="static", pools={"main": pool}, options=options)


def opened(provider: LaunchProvider, ssh: SshSettings = SSH) -> MachineCalls:
    return launching.open(provider, ssh)


def made(outcome: Machine | MachineRefused | None) -> Machine:
    assert isinstance(outcome, Machine), outcome
    return outcome


def refused(outcome: object, party: LaunchParty | None = None) -> str:
    assert isinstance(outcome, MachineRefused), outcome
    assert party is None or outcome.party is party, outcome
    return outcome.reason
