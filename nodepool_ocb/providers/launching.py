"""The drivers of machines that are installed. ``open`` gives a provider whose calls are bounded (``calls``).

A driver is named by an entry point of the group ``nodepool_ocb.machines``. A driver that breaks the contract is left out with a
sentence; the others stay in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from nodepool_ocb import extensions
from nodepool_ocb.config import SshSettings
from nodepool_ocb.documents.document import SECRET
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, Resources
from nodepool_ocb.pool.documents.reading import LaunchDrivers
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.drivers import DriverGroup
from nodepool_ocb.providers.machines import MACHINE_GROUP, MachineDriver, MachineProvider, SlotLender
from nodepool_ocb.telemetry import redaction

KIND: Final = "machines"  # of extension
_DRIVERS: Final = DriverGroup[MachineDriver](KIND, MACHINE_GROUP, MachineDriver)


def installed() -> extensions.Found[MachineDriver]:
    """Every driver that the entry points name, by name; a driver that breaks the contract is left out."""
    return _DRIVERS.installed()


def names() -> tuple[str, ...]:
    """The names of the drivers that are offered; none is loaded."""
    return tuple(sorted(_DRIVERS.points()))


def drivers() -> LaunchDrivers:
    """The drivers, as the reading of a nodepool.yaml asks them."""
    return LaunchDrivers(names=frozenset(names()), faults=faults, resources=resources)


def faults(provider: LaunchProvider) -> list[str]:
    """The faults of a provider's driver and options, as sentences."""
    absent = f"no driver `{provider.driver}` launches machines here"
    return _DRIVERS.faults(provider.driver, lambda driver: driver.faults(provider), absent)


def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
    """The resources of one node of the label, as far as the configuration tells; one instance where the driver fails."""
    try:
        found = msgspec.convert(_DRIVERS.driver(provider.driver).resources(provider, label), dict[str, float])
    except Exception:  # of a package of others, or it is not installed
        return {"instances": 1}
    return {"instances": 1} | found


def open(provider: LaunchProvider, ssh: SshSettings) -> MachineCalls:
    """The provider's driver, ready to be used; nothing is asked of the provider yet. Raises Invalid with every fault.

    The credentials among the options are hidden in the log lines of this process from now on.
    """
    found = faults(provider)
    if found:
        raise Invalid([f"provider {provider.name}: {fault}" for fault in found])
    credentials = frozenset(_credentials(provider.options))
    redaction.remember(credentials)
    made: Any
    try:
        made = _DRIVERS.driver(provider.driver)(provider, ssh)
        fault = next(extensions.faults(made, MachineProvider, (SlotLender,)), None)
    except Invalid:
        raise
    except Exception as error:
        fault = f"it raised {extensions.in_a_line(error)}"
    if fault is not None:
        raise Invalid(f"provider {provider.name}: driver `{provider.driver}`: {fault}; correct its package")
    return MachineCalls(provider, made, redaction.Mask(credentials))


def _credentials(value: Json, key: str = "") -> Iterator[str]:
    """The texts below keys that name secrets, and the passwords in URLs."""
    if isinstance(value, dict):
        for below, each in value.items():
            yield from _credentials(each, str(below) if not SECRET.search(key) else key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _credentials(each, key)
    elif isinstance(value, str):
        if SECRET.search(key):
            yield value
        elif "://" in value and (password := _password(value)):
            yield password


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None
