"""Who we are to ZooKeeper, over what, and what others may do with what we create."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from kazoo.hosts import collect_hosts

from nodepool_ocb.errors import Invalid
from nodepool_ocb.store import frames
from nodepool_ocb.store import tls as tls_files

if TYPE_CHECKING:
    from nodepool_ocb.config import ZooKeeperSettings

_ALL: Final = 31


def refuse_plain_text(settings: ZooKeeperSettings) -> None:
    """Raises Invalid where names, attributes and passwords would cross a network in the clear."""
    if settings.tls is not None or settings.allow_plaintext:
        return
    for host, _ in collect_hosts(settings.hosts)[0]:
        if not _loopback(host.strip()):
            raise Invalid(
                f"zookeeper.hosts: {host} is another machine, and whoever is on the way reads along;"
                " set zookeeper.tls, or zookeeper.allow_plaintext: true"
            )


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def acl(settings: ZooKeeperSettings) -> bytes:
    """What every znode that we create carries, packed: all rights for its creator, or for all.

    The creator is the user alone where there is one: ``auth`` would let in whoever has the same certificate, too.
    """
    creator = settings.acl == "creator" if settings.acl else settings.username is not None
    if not creator:
        return frames.access([(_ALL, "world", "anyone")])
    return frames.access([(_ALL, "auth", "") if settings.username is None else (_ALL, "sasl", settings.username)])


def options(settings: ZooKeeperSettings) -> dict[str, Any]:
    """What kazoo's client is made with; raises Invalid for a file of TLS that cannot be used."""
    options: dict[str, Any] = {"hosts": settings.hosts, "timeout": settings.session_timeout_seconds}
    if settings.username is not None:
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5", "username": settings.username, "password": settings.password
        }  # fmt: skip
    if settings.tls is not None:
        tls = settings.tls
        options |= {"use_ssl": True, "ca": tls.ca, "certfile": tls.cert, "keyfile": tls.key}
        options |= {"verify_certs": tls.verify, "check_hostname": tls.verify}
        tls_files.context(tls.ca, tls.cert, tls.key, tls.verify)  # said now rather than with the first connection
    return options
