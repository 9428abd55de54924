"""The records of MACs and addresses that a decision about some nodes needs, as they were read. Values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.model.networks import MacOwner, NetworkAddress


class FoundOwner(msgspec.Struct, frozen=True):
    """The owner of a MAC; ``record`` is None if it cannot be read."""

    record: MacOwner | None
    version: int


class FoundAddress(msgspec.Struct, frozen=True):
    """The record of an address; ``record`` is None if it cannot be read."""

    record: NetworkAddress | None
    version: int
    written: float  # seconds since the epoch, by ZooKeeper's clock


class FoundHoldings(msgspec.Struct, frozen=True, kw_only=True):
    """``owners``: by MAC; ``taken``: by network, the names of all its address records; ``addresses``: by network and address.

    ``addresses`` has the addresses of the nodes in question, and all that no record of a node names.
    """

    owners: Mapping[str, FoundOwner] = {}
    taken: Mapping[str, frozenset[str]] = {}
    addresses: Mapping[tuple[str, str], FoundAddress] = {}
