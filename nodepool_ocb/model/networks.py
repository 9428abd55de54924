"""Networks, their allocated addresses, and the owners of MAC addresses.

An address and a MAC are the name of a znode that is created only if it is absent. So neither has two owners, however many
writers there are. The records change in the transaction of the node's record, which names them in ``macs`` and ``networks``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from nodepool_ocb.model.ranges import Mac, Moment, Mtu, SliceCount, SliceIndex, Vlan
from nodepool_ocb.model.records import Record

Quarantine = Annotated[float, Meta(ge=0, le=31_536_000)]  # seconds: at most a year

RANGES = ("admin", "dhcp", "host", "admin6", "dhcp6", "host6")


class RelaySegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A further subnet of IPv4, behind a DHCP relay."""

    subnet: str  # "10.2.0.0/24"
    router: str  # the relay, or the router beside it
    dhcp: str = ""  # "first-last": for unknown machines there
    host: str = ""  # "first-last": fixed addresses of nodes there


class Network(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/networks/<network>``: a network that machines boot from."""

    subnet: str = ""  # "10.1.0.0/24"
    subnet6: str = ""  # "fd00::/64"
    router: str = ""
    router6: str = ""
    domain: str = ""  # of DNS
    nameservers: tuple[str, ...] = ()
    ntp: tuple[str, ...] = ()
    vlan: Vlan | None = None  # a fact: switches tag it, nothing of ours does
    mtu: Mtu = 1500
    ranges: Mapping[str, str] = {}  # of RANGES: "first-last"
    proxy: bool = False  # beside an existing DHCP server, which assigns the addresses
    segments: tuple[RelaySegment, ...] = ()
    quarantine_seconds: Quarantine = 86400.0  # from the release of an address until it is free again
    slice_count: SliceCount = 4  # equal parts of each dynamic range
    slices: Mapping[str, SliceIndex] = {}  # admin node → its part; no two have the same


class NetworkAddress(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``networks/<network>/addresses/<address>``: allocated to a node, or in quarantine since the znode was written."""

    node: str | None = None  # None: in quarantine
    mac: Mac | None = None  # the first one of the node when it was allocated
    since: Moment = 0.0
    former: str | None = None  # in quarantine: the node that had it


class MacOwner(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/macs/<mac>``: the one node with this MAC."""

    node: str
