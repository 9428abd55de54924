"""The nodes of a lease, as COMMAND sees them. Pure.

Records come from other software, and their texts go into files that ssh and Ansible obey. So each text must have the form of its
kind. A name of another form is replaced by one from the node's id. An address, a user or a key of another form is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.pool import PoolNode
from nodepool_ocb.model.records import Json

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\$?")
_HOST_KEY: Final = re.compile(r"([a-z0-9][a-z0-9@.-]{2,63} [A-Za-z0-9+/]{4,16384}={0,3})(?: .*)?")
_SSH_PORT: Final = 22


class LeasedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node with the texts that may stand in files and in the environment."""

    id: str
    name: str  # unique in the lease
    label: str
    provider: str | None
    pool: str | None
    address: str
    port: int
    user: str
    host_keys: tuple[str, ...]  # "ssh-ed25519 AAAA..."; none: the label does not check them
    slot: int | None = None  # of a static machine

    @property
    def place(self) -> str:
        """Address and port; IPv6 in brackets."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def leased(found: Sequence[tuple[str, str, PoolNode]]) -> list[LeasedNode]:
    """The nodes in the order of the request: each with its id, the label that was asked for, and its record. Raises Conflict."""
    names = [_name(id, record) for id, _, record in found]
    often = Counter(names)
    return [
        _leased(id, f"{name}-{id}" if often[name] > 1 else name, label, record)
        for name, (id, label, record) in zip(names, found, strict=True)
    ]


def _leased(id: str, name: str, label: str, record: PoolNode) -> LeasedNode:
    if record.connection_type not in (None, "ssh"):
        raise Conflict(
            f"node {id} is reached by {record.connection_type}, and a command needs ssh; ask for another label"
        )
    address = record.interface_ip or record.public_ipv4 or record.private_ipv4 or record.public_ipv6
    if address is None or not _is_address(address):
        raise Conflict(f"node {id} has no address that can be used: {address!r}; see: nodepool-ocb lease show {id}")
    user = record.username or "root"
    if not _LOGIN.fullmatch(user):
        raise Conflict(f"node {id} has no user that can be used: {user!r}; see: nodepool-ocb lease show {id}")
    keys = [_HOST_KEY.fullmatch(key) for key in record.host_keys or ()]
    if None in keys:
        raise Conflict(f"node {id} has a host key in no known form; see: nodepool-ocb lease show {id}")
    return LeasedNode(
        id=id,
        name=name,
        label=label,
        provider=record.provider,
        pool=record.pool,
        address=address,
        port=record.connection_port or record.ssh_port or _SSH_PORT,
        user=user,
        host_keys=tuple(found[1] for found in keys if found is not None),
        slot=record.slot,
    )


def _name(id: str, record: PoolNode) -> str:
    return record.hostname if record.hostname and _NAME.fullmatch(record.hostname) else f"node-{id}"


def _is_address(text: str) -> bool:
    """
    >>> [_is_address(each) for each in ("10.0.0.1", "fe80::1", "n1.example.com", "-oProxyCommand=x", "a b", "fe80::1%a b")]
    [True, True, True, False, False, False]
    """
    try:
        return ipaddress.ip_address(text) is not None and "%" not in text
    except ValueError:
        return _NAME.fullmatch(text) is not None


def known_hosts(nodes: Sequence[LeasedNode]) -> str:
    """The file of host keys, by address and by name."""
    lines = []
    for node in nodes:
        place = node.address if node.port == _SSH_PORT else f"[{node.address}]:{node.port}"
        lines += [f"{place},{node.name} {key}" for key in node.host_keys]
    return "".join(f"{line}\n" for line in lines)


def ssh_config(nodes: Sequence[LeasedNode], identity: str, hosts: str) -> str:
    """The configuration of ssh: ``ssh -F FILE NAME``. ``identity`` and ``hosts`` are files."""
    lines = []
    for node in nodes:
        lines += [
            f"Host {node.name}",
            f"  HostName {node.address}",
            f"  HostKeyAlias {node.name}",
            f"  Port {node.port}",
            f"  User {node.user}",
            f"  StrictHostKeyChecking {'yes' if node.host_keys else 'accept-new'}",
        ]
    lines += [
        "Host *",
        f'  IdentityFile "{identity}"',
        "  IdentitiesOnly yes",
        f'  UserKnownHostsFile "{hosts}"',
        "  GlobalKnownHostsFile /dev/null",
        "  UpdateHostKeys no",
    ]
    return "".join(f"{line}\n" for line in lines)


def inventory(nodes: Sequence[LeasedNode], identity: str, config: str) -> dict[str, Json]:
    """Ansible's inventory: all nodes, and a group for each label that can name one."""
    hosts: dict[str, Json] = {}
    groups: dict[str, dict[str, Json]] = {}
    for node in nodes:
        hosts[node.name] = {
            "ansible_host": node.address,
            "ansible_port": node.port,
            "ansible_user": node.user,
            "lease_label": node.label,
            "lease_node": node.id,
        }
        group = re.sub(r"[^A-Za-z0-9_]", "_", node.label)
        if group not in ("all", "ungrouped") and not group[:1].isdecimal():
            groups.setdefault(group, {})[node.name] = None
    of_all: Json = {
        "ansible_ssh_private_key_file": identity,
        "ansible_ssh_common_args": f'-F "{config}"',
    }
    children: dict[str, Json] = {name: {"hosts": {**members}} for name, members in groups.items()}
    return {"all": {"hosts": hosts, "vars": of_all, **({"children": children} if children else {})}}
