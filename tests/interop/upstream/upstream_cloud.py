"""The clouds of Nodepool's tests as a driver of machines: each call goes to the adapter that the test inspects and breaks.

The driver stands where driver openstack of this product stands: it orders, finds, shows, deletes and lists servers by stamps.
All decisions about nodes are the launcher's. A provider has one adapter as long as the process lasts, as a real cloud does.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import nodepool.config
import nodepool.nodeutils
from nodepool.driver import Drivers
from nodepool.driver.openstack.adapter import OpenStackInstance, quota_from_flavor
from nodepool.driver.statemachine import NodescanRequest
from nodepool.exceptions import ConnectionTimeoutException, QuotaException
from openstack.exceptions import BadRequestException

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, Resources
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.fake import FakeCloud
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp

log = logging.getLogger(__name__)

BOOT_SECONDS: Final = 5.0  # `boot-timeout`, at most
LOOK_SECONDS: Final = 0.02  # between two looks at an answer of the adapter
DELETE_SECONDS: Final = 2.0  # that a deleted server may stay in the list
STATES: Final = {"ACTIVE": "running", "ERROR": "failed"}  # all others are building
FILES: list[
    tuple[str, str | None]
] = []  # the configurations of the launchers of this process, each with its secure file
_ADAPTERS: dict[str, Any] = {}


def configurations() -> list[Any]:
    """Nodepool's own reading of each configuration, as the files are now."""
    found = []
    for file, secure in FILES:
        if Path(file).exists():
            read = nodepool.config.loadConfig(file)
            if secure:
                nodepool.config.loadSecureConfig(read, secure)
            found.append(read)
    return found


def configured(name: str) -> Any:
    """Nodepool's configuration of a provider. Raises KeyError."""
    return next(each.providers[name] for each in reversed(configurations()) if name in each.providers)


def adapter(name: str) -> Any:
    """The adapter of a provider; its configuration is the present one."""
    provider = configured(name)
    if name not in _ADAPTERS:
        _ADAPTERS[name] = Drivers.get(provider.driver.name).getAdapter(provider)
    _ADAPTERS[name].provider = provider
    return _ADAPTERS[name]


class AdapterMachines:
    """A provider of machines in the adapter's cloud."""

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        del ssh
        self._provider = provider

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return FakeCloud.faults(provider)

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        """Those of the flavor that the label names, and of its volume."""
        for pool in configured(provider.name).pools.values():
            if label.name in pool.labels:
                wanted = pool.labels[label.name]
                flavor = adapter(provider.name)._findFlavor(wanted.flavor_name, wanted.min_ram)
                return _amounts(quota_from_flavor(flavor, label=wanted).get_resources())
        return {}

    # -- the contract --

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        cloud = adapter(self._provider.name)
        label = configured(self._provider.name).pools[order.pool.name].labels[order.label.name]
        cloud._findImage.cache_clear()  # driver openstack keeps no list of images
        if order.image is None and not cloud.labelReady(label):
            return MachineRefused(f"there is no image for label {label.name}", LaunchParty.REQUEST)
        zone = order.az or random.choice(label.pool.azs or cloud.getAZs())
        metadata = {**order.properties, **order.stamp.labels}
        ends = time.monotonic() + order.timeout_seconds
        try:
            making = cloud.getCreateStateMachine(order.name, label, order.image, metadata, _Requester(), zone, log)
            while making.external_id is None and time.monotonic() < ends and not order.stop.is_set():
                making.advance()
                time.sleep(LOOK_SECONDS)
        except Exception as error:
            made = self.find(order.stamp)
            return made if isinstance(made, Machine) and not _quota(error) else _refused(error)
        found = self.look(making.external_id) if making.external_id else None
        return found or MachineRefused("the server is gone after its creation", LaunchParty.PROVIDER)

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        return next((each for each in self.list() if each.stamp == stamp), None)

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        server = self._server(external_id)
        return None if server is None else self._machine(server)

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        server = self._server(external_id)
        if server is None:
            return None
        if MachineStamp.of(server["metadata"]) != stamp:
            return MachineRefused(f"server {external_id} carries another stamp", LaunchParty.REQUEST)
        adapter(self._provider.name)._deleteServer(external_id)
        ends = time.monotonic() + DELETE_SECONDS
        while time.monotonic() < ends:
            if self._server(external_id) is None:
                return None
            time.sleep(LOOK_SECONDS)
        return MachineRefused(f"server {external_id} is still there")

    def list(self) -> tuple[Machine, ...]:
        found = [self._machine(each) for each in self._servers()]
        return tuple(each for each in found if each.stamp is not None)

    def quota(self) -> ProviderQuota | MachineRefused:
        limits = _amounts(adapter(self._provider.name).getQuotaLimits().get_resources())
        foreign = [
            self._machine(each).resources for each in self._servers() if MachineStamp.of(each["metadata"]) is None
        ]
        used = {name: sum(each.get(name, 0.0) for each in foreign) for name in ("instances", "cores", "ram")}
        return ProviderQuota(limits=limits, foreign=used, read=time.time())

    def close(self) -> None: ...

    # -- servers --

    def _servers(self) -> list[Any]:
        """The servers that exist now, as the API lists them."""
        return [each for each in adapter(self._provider.name)._simpleServerList() if each["status"] != "DELETED"]

    def _server(self, external_id: str) -> Any:
        return next((each for each in self._servers() if each["id"] == external_id), None)

    def _machine(self, server: Any) -> Machine:
        cloud = adapter(self._provider.name)
        quota = quota_from_flavor(cloud._getFlavorFromServer(server))
        shown = OpenStackInstance(cloud.provider, server, quota)
        state = STATES.get(server["status"], "building")
        fault = getattr(cloud._getServerByIdNow(server["id"]), "fault", None) or {}
        return Machine(
            external_id=shown.external_id,
            name=server["name"],
            stamp=MachineStamp.of(server["metadata"]),
            state=state,
            fault=str(fault.get("message") or "the server is in ERROR") if state == "failed" else None,
            address=shown.interface_ip,
            public_ipv4=shown.public_ipv4,
            private_ipv4=shown.private_ipv4,
            public_ipv6=shown.public_ipv6,
            host_id=shown.host_id,
            cloud=shown.cloud,
            region=shown.region,
            az=shown.az,
            resources=_amounts(quota.get_resources()),
        )


class _Requester(SimpleNamespace):
    """The request of a launch: templates of metadata are not filled with data of requesters."""

    def getSafeAttributes(self) -> Any:
        raise RuntimeError("dynamic-instance-properties are not obeyed")


def _amounts(found: Mapping[str, float]) -> dict[str, float]:
    """Amounts without those that have no limit."""
    return {name: float(value) for name, value in found.items() if not math.isinf(value) and value >= 0}


def _quota(error: Exception) -> bool:
    return isinstance(error, QuotaException) or "quota" in str(error).lower()


def _refused(error: Exception) -> MachineRefused:
    """The refusal that an error means, with its party: as driver openstack has it."""
    if _quota(error):
        return MachineRefused(str(error), LaunchParty.QUOTA)
    party = LaunchParty.REQUEST if isinstance(error, BadRequestException) else LaunchParty.PROVIDER
    return MachineRefused(f"{type(error).__name__}: {error}", party)


# -- scans of machines --


def scanned(address: str, port: int, timeout_seconds: float, kinds: Collection[str] = ()) -> Any:
    """The host keys of a launched machine, by Nodepool's scan."""
    del kinds
    machine = SimpleNamespace(connection_type="ssh", interface_ip=address, connection_port=port)
    try:
        scan = NodescanRequest(machine, True, timeout_seconds, log)
        scan.setWorker(object())
        while not scan.complete:
            scan.advance(False)
        return tuple(scan.result())
    except ConnectionTimeoutException as late:
        time.sleep(BOOT_SECONDS)
        return MachineRefused(f"the scan timed out: {late}", LaunchParty.MACHINE)


def answered(address: str, port: int, timeout_seconds: float, kinds: Collection[str] = ()) -> Any:
    """The host keys of a static machine, by Nodepool's scan."""
    del kinds
    try:
        return tuple(nodepool.nodeutils.nodescan(address, port=port, timeout=timeout_seconds, gather_hostkeys=True))
    except Exception as error:
        return MachineRefused(f"{address}: {error!r}", LaunchParty.MACHINE)


def listens(host: str, port: int, timeout_seconds: float, banner: bool = True) -> Unreachable | None:
    """Whether a static machine answers, by Nodepool's scan."""
    try:
        nodepool.nodeutils.nodescan(host, port=port, timeout=timeout_seconds, gather_hostkeys=banner)
    except Exception as error:
        return Unreachable("connect", f"{host}: {error!r}")
    return None
