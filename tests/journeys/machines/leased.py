"""The addresses that the DHCP servers of admin nodes have given, by their logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

LEASE: Final = re.compile(r"DHCPACK\(\w+\) (\S+) (\S+)")


def owners(*logs: str) -> Mapping[str, set[str]]:
    """Address → the MACs that got it.

    >>> owners("dnsmasq-dhcp: DHCPACK(eth0) 10.1.0.20 52:54:00:00:00:01 n1")
    {'10.1.0.20': {'52:54:00:00:00:01'}}
    """
    found: dict[str, set[str]] = defaultdict(set)
    for log in logs:
        for address, mac in LEASE.findall(log):
            found[address].add(mac)
    return dict(found)
