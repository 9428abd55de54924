"""The records of MACs and addresses, and the empty folders for them and for boot environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.model import paths
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.provisioning.found import FoundAddress, FoundHoldings

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
