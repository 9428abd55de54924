"""The connection string: which servers ZooKeeper has, and below which chroot we are. Pure.

``HOST:PORT,HOST:PORT/CHROOT``; a port is 2181 by default, an IPv6 address stands in brackets. kazoo gets the parsed
result, because it may read a person's text in another way.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import ranges

PORT: Final = 2181
FORM: Final = "write host:port,host:port/chroot"

_SERVER: Final = re.compile(r"(?P<host>\[[^][]*\]|[^][:]*)(?::(?P<port>.*))?", re.DOTALL)
_NAME: Final = re.compile(r"[\w.-]+")


class Ensemble(msgspec.Struct, frozen=True):
    """Every server, as host (without brackets) and port; ``chroot`` is empty, or begins with a slash."""

    servers: tuple[tuple[str, int], ...]
    chroot: str

    def __str__(self) -> str:
        """The connection string that every client reads alike.

        >>> str(parse("zk1,[::1]//"))
        'zk1:2181,[::1]:2181'
        """
        servers = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)
        return ",".join(servers) + self.chroot


def parse(hosts: str) -> Ensemble:
    """The parts of a connection string; raises Invalid with one sentence, which has neither its place nor a password.

    >>> parse("zk1.example.com,[::1]:2281/production")
    Ensemble(servers=(('zk1.example.com', 2181), ('::1', 2281)), chroot='/production')
    """
    servers, _, chroot = hosts.partition("/")
    if "@" in servers:  # the part before it may be a password
        raise Invalid(f"a user does not belong here: set zookeeper.username and zookeeper.password; {FORM}")
    try:
        if re.search(r"[\s\0-\x1f\x7f]", hosts):
            raise Invalid("a space is in it")
        return Ensemble(tuple(map(_server, servers.split(","))), _chroot(chroot))
    except Invalid as odd:
        raise Invalid(f"{hosts}: {odd}; {FORM}" if hosts else f"is empty; {FORM}") from odd


def _server(text: str) -> tuple[str, int]:
    if text.count(":") > 1 and _is_ipv6(text):
        raise Invalid(f"an IPv6 address stands in brackets: [{text}]:{PORT}")
    found = _SERVER.fullmatch(text)
    if found is None:
        raise Invalid(f"{text} is no server")
    host, port = found["host"], found["port"]
    if not host:
        raise Invalid(f"{text} names no host" if text else "a server is empty beside a comma, or before the chroot")
    if host.startswith("["):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise Invalid(f"{host} is no IPv6 address")
    elif not _NAME.fullmatch(host):
        raise Invalid(f"{host} is no name of a host")
    return host, PORT if port is None else _port(port)


def _port(text: str) -> int:
    found = ranges.port(text)
    if found is None:
        raise Invalid(f"port {text or 'after the colon'} is no number from 1 to {ranges.PORT}")
    return found


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _chroot(text: str) -> str:
    steps = [step for step in text.split("/") if step]
    if {".", ".."} & set(steps):
        raise Invalid("the chroot is a path without . and ..")
    return "".join(f"/{step}" for step in steps)
