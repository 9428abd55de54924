"""The records of MACs and addresses, and the empty folders for them and for boot environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import AdoptionRule, MachineRegistration
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.provisioning.addressing.found import FoundAddress, FoundHoldings

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class ReadHoldings(Lookup[FoundHoldings], frozen=True):
    """The owners of these MACs, the holdings of these nodes, and the addresses that are taken in each network."""

    records = "MAC addresses, addresses of networks"

    macs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def answer(self, reader: Reader) -> FoundHoldings:
        from nodepool_ocb.store import networks

        return networks.found(reader.session, reader.world, self.macs, self.nodes)


class ReadNetworkAddresses(Lookup["Mapping[str, FoundAddress]"], frozen=True):
    """All address records of a network, by address."""

    records = "addresses of networks"

    network: str

    def answer(self, reader: Reader) -> Mapping[str, FoundAddress]:
        from nodepool_ocb.store import networks

        return networks.addresses(reader.session, self.network)


class EnsureNetworks(Lookup[None], frozen=True):
    """Make the empty folders of networks and MACs in a cluster that is older than they are. A dry run makes none."""

    records = "MAC addresses, networks"
    kept = True

    def answer(self, reader: Reader) -> None:
        if not reader.performer.call.dry_run:
            reader.session.ensure(paths.NETWORKS, paths.MACS)


class EnsureBootenvs(Lookup[None], frozen=True):
    """Make the empty folder of boot environments in a cluster that is older than they are. A dry run makes none."""

    records = "boot environments"
    kept = True

    def answer(self, reader: Reader) -> None:
        if not reader.performer.call.dry_run:
            reader.session.ensure(paths.BOOTENVS)


class ReadRegistrations(Lookup["Mapping[str, Stored[MachineRegistration]]"], frozen=True):
    """All registrations, by MAC."""

    records = "registrations"

    def answer(self, reader: Reader) -> Mapping[str, Stored[MachineRegistration]]:
        from nodepool_ocb.store import joining

        return joining.registrations(reader.session)


class ReadRegistration(Lookup["Stored[MachineRegistration] | None"], frozen=True):
    """The registration of this MAC."""

    records = "registrations"

    mac: str

    def answer(self, reader: Reader) -> Stored[MachineRegistration] | None:
        from nodepool_ocb.store import joining

        return joining.registration(reader.session, self.mac)


class ReadAdoptionRules(Lookup["Mapping[str, Stored[AdoptionRule]]"], frozen=True):
    """All rules of adoption, by name."""

    records = "rules of adoption"

    def answer(self, reader: Reader) -> Mapping[str, Stored[AdoptionRule]]:
        from nodepool_ocb.store import joining

        return joining.rules(reader.session)


class ReadMacOwners(Lookup["Mapping[str, str]"], frozen=True):
    """The node of each of these MACs that has one."""

    records = "MAC addresses"

    macs: tuple[str, ...]

    def answer(self, reader: Reader) -> Mapping[str, str]:
        from nodepool_ocb.store import joining

        return joining.owners(reader.session, self.macs)


class EnsureJoining(Lookup[None], frozen=True):
    """Make the empty folders of registrations and rules in a cluster that is older than they are. A dry run makes none."""

    records = "registrations, rules of adoption"
    kept = True

    def answer(self, reader: Reader) -> None:
        if not reader.performer.call.dry_run:
            reader.session.ensure(paths.REGISTRATIONS, paths.ADOPTION)
