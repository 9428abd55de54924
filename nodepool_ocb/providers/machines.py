"""The contract of a driver that launches machines. It stands beside the Uploader of images; one class may be both.

Expected faults are values: MachineRefused tells the cause and its party. Every machine carries a stamp from its creation on, so
``find`` and ``list`` see the machines that a dead launcher left. ``delete`` acts only on a machine that bears the whole stamp.
A driver that launches is named by an entry point of the group ``nodepool_ocb.machines``: docs/providers.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from nodepool_ocb.config import SshSettings
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, Resources
from nodepool_ocb.pool.views import ProviderQuota

MACHINE_GROUP: Final = "nodepool_ocb.machines"
MACHINE_STAMP: Final = "nodepool_ocb_node_"  # the prefix of the labels
MACHINE_STATES: Final = ("building", "running", "stopped", "failed", "deleting")


class MachineStamp(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of one attempt to launch one node. Two stamps are equal only if all parts are."""

    cluster: str  # the id of the cluster with the record
    provider: str
    pool: str
    node: str  # the id of the record
    key: str  # random, drawn for each attempt: ids return after a restore

    @property
    def labels(self) -> dict[str, str]:
        """The stamp as labels, as it is written on the machine."""
        return {MACHINE_STAMP + field: getattr(self, field) for field in self.__struct_fields__}

    @staticmethod
    def of(labels: Mapping[str, object]) -> MachineStamp | None:
        """The stamp among labels; None where it is absent or not whole: then the machine is not ours."""
        found = {field: labels.get(MACHINE_STAMP + field) for field in MachineStamp.__struct_fields__}
        if not all(isinstance(value, str) and value for value in found.values()):
            return None
        return msgspec.convert(found, MachineStamp)


class MachineOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One machine to launch."""

    name: str  # at the provider
    stamp: MachineStamp
    label: PoolLabel
    pool: ProviderPool
    image: str | None = None  # the provider's id of the image
    az: str | None = None
    machine: str | None = None  # of a static provider: its name in the file, or USER@NAME:PORT
    slot: int | None = None
    username: str | None = None  # the login; None: the label's
    annealed: bool = False  # it will be a node of /ocb, on which annealers act
    public_keys: tuple[str, ...] = ()  # authorized on the machine, if the driver can
    properties: Mapping[str, str] = {}  # further labels, which cannot replace the stamp
    stop: threading.Event  # when it is set, give up soon
    timeout_seconds: float


class LaunchParty(StrEnum):
    """The party at fault."""

    MACHINE = "machine"  # this launch failed; another may succeed
    PROVIDER = "provider"  # the provider does not answer, or fails
    QUOTA = "quota"  # the provider has no room now: the launch is aborted, and does not count
    REQUEST = "request"  # no launch of this label can succeed here: an image or a flavor does not exist
    HOST = "host"  # this host: it counts against no node and no provider


class MachineRefused(msgspec.Struct, frozen=True):
    """The call did not do its work."""

    reason: str
    party: LaunchParty = LaunchParty.MACHINE


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine at a provider. ``address`` None: it has none yet."""

    external_id: str
    name: str
    stamp: MachineStamp | None  # None: not ours
    state: str = "running"  # one of MACHINE_STATES
    fault: str | None = None  # the provider's words for a failed one
    user: str | None = None  # the login, where the provider decides it
    address: str | None = None  # to connect to
    port: int | None = None
    public_ipv4: str | None = None
    private_ipv4: str | None = None
    public_ipv6: str | None = None
    az: str | None = None
    region: str | None = None
    cloud: str | None = None
    host_id: str | None = None
    host_keys: tuple[str, ...] | None = None  # known from the provider; None: the launcher scans for them
    resources: Resources = {}
    properties: Mapping[str, Json] = {}
    since: float | None = None


class MachineProvider(Protocol):
    """A configured provider that launches. Its methods are called from several threads; each ends in its time."""

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        """Begin to make the machine, with its stamp. It may still be building when this returns."""

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        """The machine with this stamp; None where there is none. A successor asks this before it creates."""

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        """The machine as it is now; None where it is gone."""

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        """None when it is gone, with all that belongs to it. A machine with another stamp is refused."""

    def list(self) -> Iterable[Machine]:
        """All that carries a stamp, of any cluster. Raises Unavailable."""

    def quota(self) -> ProviderQuota | MachineRefused:
        """The limits of the provider, and the usage that is not ours."""

    def close(self) -> None:
        """Give back connections."""


class SlotLender(Protocol):
    """The further methods of a provider that lends machines which it does not make. Others have none of them.

    If its ``delete`` does nothing at all, it may say so by an attribute ``deletes`` that is False: then the record of a returned
    node is deleted without a call. It may have ``renew(orders)``, too: the answers of ``create`` to orders of slots of one
    machine, which were returned at the same time. The machine is then asked once for all of them.
    """

    def check(self, external_id: str, host_keys: tuple[str, ...]) -> MachineRefused | None:
        """None if the machine answers now, with one of these host keys if there are any. Asked before each hand-out."""


class MachineDriver(Protocol):
    """The class that an entry point names. Making one raises Invalid where something is not installed.

    ``ssh`` tells how this host logs in to machines. Most drivers have no need of it.
    """

    def __call__(self, provider: LaunchProvider, ssh: SshSettings) -> MachineProvider: ...

    def faults(self, provider: LaunchProvider) -> list[str]:
        """A static method: the faults of the provider's, its pools' and labels' options; it contacts no other system."""

    def resources(self, provider: LaunchProvider, label: PoolLabel) -> Resources:
        """A static method: the resources of one node of the label, as far as the configuration tells."""
