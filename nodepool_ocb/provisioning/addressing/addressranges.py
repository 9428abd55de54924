"""Ranges of addresses, as networks write them: ``first-last``, both included. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

import msgspec

Address: TypeAlias = IPv4Address | IPv6Address
Subnet: TypeAlias = IPv4Network | IPv6Network


class AddressRange(msgspec.Struct, frozen=True):
    """A range of addresses of one family; it has at least one."""

    first: Address
    last: Address

    def __contains__(self, address: Address) -> bool:
        return address.version == self.first.version and int(self.first) <= int(address) <= int(self.last)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def size(self) -> int:
        """The number of its addresses."""
        return int(self.last) - int(self.first) + 1

    def meets(self, other: AddressRange) -> bool:
        """Whether an address is in both."""
        return self.first in other or other.first in self

    def part(self, index: int, count: int) -> AddressRange:
        """One of ``count`` equal parts, which are disjoint and have all addresses together.

        >>> [str(span("10.1.0.10-10.1.0.19").part(index, 3)) for index in range(3)]
        ['10.1.0.10-10.1.0.12', '10.1.0.13-10.1.0.15', '10.1.0.16-10.1.0.19']
        """
        ends = [int(self.first) + self.size * each // count for each in (index, index + 1)]
        return AddressRange(self._address(ends[0]), self._address(ends[1] - 1))

    def free(self, taken: Container[str]) -> Iterator[Address]:
        """Its addresses that are not taken, the lowest first."""
        addresses = map(self._address, range(int(self.first), int(self.last) + 1))
        return (address for address in addresses if str(address) not in taken)

    def _address(self, number: int) -> Address:
        return IPv4Address(number) if self.first.version == 4 else IPv6Address(number)


def span(text: str) -> AddressRange:
    """Raises ValueError with a sentence.

    >>> span("10.1.0.10-10.1.0.99").size
    90
    """
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        found = AddressRange(ip_address(first), ip_address(last))
    except ValueError:
        raise ValueError(f"{text!r} is no range of addresses; write FIRST-LAST, as 10.1.0.10-10.1.0.99") from None
    if not dash or found.first.version != found.last.version or int(found.first) > int(found.last):
        raise ValueError(f"{text!r} does not rise from its first to its last address; write FIRST-LAST of one family")
    return found
