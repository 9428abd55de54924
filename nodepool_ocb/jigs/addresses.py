"""Where a machine is: ``host``, ``host:port``, ``[v6]`` or ``[v6]:port``; a bare IPv6 address has no port."""

from __future__ import annotations

from typing import Final

PORT: Final = 22


def parse(address: str) -> tuple[str, int]:
    """Host and port; raises ValueError with a sentence.

    >>> parse("n1.example.com"), parse("10.0.0.1:2222"), parse("[fe80::1%eth0]:2222"), parse("fe80::1")
    (('n1.example.com', 22), ('10.0.0.1', 2222), ('fe80::1%eth0', 2222), ('fe80::1', 22))
    """
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"address {address!r}: write [IPv6] or [IPv6]:PORT")
        return host, _port(rest[1:], address) if rest else PORT
    if address.count(":") != 1:
        return address, PORT
    host, _, port = address.partition(":")
    return host, _port(port, address)


def _port(text: str, address: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f"address {address!r}: {text!r} is no port")
    return int(text)
