"""The drivers of machines that are installed. ``open`` gives a provider whose calls are bounded (``calls``).

A driver is named by an entry point of the group ``nodepool_ocb.machines``. A driver that breaks the contract is left out with a
sentence; the others stay in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from nodepool_ocb import extensions
from nodepool_ocb.config import SshSettings
from nodepool_ocb.documents.document import SECRET
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, Resources
from nodepool_ocb.pool.reading import LaunchDrivers
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import MACHINE_GROUP, MachineDriver, MachineProvider, SlotLender
from nodepool_ocb.telemetry import redaction

KIND: Final = "machines"  # of extension


def installed() -> extensions.Found[MachineDriver]:
    """Every driver that the entry points name, by name; a driver that breaks the contract is left out."""
    return extensions.load(KIND, MACHINE_GROUP, _unmade, MachineDriver)


def names() -> tuple[str, ...]:
    """The names of the drivers that are offered; none is loaded."""
    return tuple(sorted(extensions.points(MACHINE_GROUP)))


def drivers() -> LaunchDrivers:
    """The drivers, as the reading of a nodepool.yaml asks them."""
    return LaunchDrivers(names=frozenset(names()), faults=faults, resources=resources)


def faults(provider: LaunchProvider) -> list[str]:
    """The faults of a provider's driver and options, as sentences."""
    points = extensions.points(MACHINE_GROUP)
    if provider.driver not in points:
        hint = did_you_mean(provider.driver, points)
        return [f"no driver `{provider.driver}` launches machines here; there are {', '.join(sorted(points))}{hint}"]
    try:
        return list(_driver(points[provider.driver]).faults(provider))
    except Invalid as left_out:
        return [str(left_out)]
    except Exception as error:  # of a package of others: its provider alone is left out
        return [f"driver `{provider.driver}` raised {extensions.in_a_line(error)}"]


def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
    """The resources of one node of the label, as far as the configuration tells; one instance where the driver fails."""
    point = extensions.points(MACHINE_GROUP).get(provider.driver)
    if point is None:
        return {"instances": 1}
    try:
        found = msgspec.convert(_driver(point).resources(provider, label), dict[str, float])
    except Exception:  # of a package of others
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
        made = _driver(extensions.points(MACHINE_GROUP)[provider.driver])(provider, ssh)
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


def _unmade(driver: MachineDriver) -> MachineDriver:
    return driver


def _driver(point: EntryPoint) -> MachineDriver:
    """Raises Invalid for a driver that is left out."""
    found = extensions.one(KIND, point, _unmade, MachineDriver)
    if isinstance(found, extensions.LeftOut):
        raise Invalid(f"{found.sentence}; correct its package, and install it anew")
    return found
