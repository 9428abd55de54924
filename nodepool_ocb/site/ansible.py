"""Nodes of an inventory of Ansible, as ``ansible-inventory --list`` prints it. Pure.

A host is a node; ``ansible_host``, ``ansible_port`` and ``ansible_user`` are its address and user; each group that it is in,
itself or through groups below, is a tag. Its other variables are Ansible's own and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.engine.addressing import PORT
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_node, port
from nodepool_ocb.model.records import Json
from nodepool_ocb.site.reading import place
from nodepool_ocb.site.wanted import Wanted, WantedNode

OF_ALL: Final = frozenset({"all", "ungrouped", "_meta"})


def read(document: Document, domain: str | None, defaults: Mapping[str, Any]) -> Wanted:
    """Its nodes; ``domain`` is put behind names without one, ``defaults`` are fields of all. Raises Invalid with every fault."""
    inventory = document.value
    variables = _mapping(_mapping(inventory).get("_meta")).get("hostvars")
    if not isinstance(inventory, dict) or not isinstance(variables, dict):
        raise Invalid(document.fault((), "is no inventory as `ansible-inventory --list` prints it: no _meta.hostvars"))
    tags = _tags(inventory)
    problems: list[str] = []
    nodes: dict[str, WantedNode] = {}
    for host in sorted({*variables, *tags}):
        known = _mapping(variables.get(host))
        key: Key = ("_meta", "hostvars", host) if host in variables else ()
        fqdn = host if "." in host or domain is None else f"{host}.{domain}"
        found = list(_wrong(host, fqdn, known))
        problems += [document.fault(key, text) for text in found]
        if not found:
            groups = dict.fromkeys((*defaults.get("tags", ()), *tags.get(host, ())))
            fields = {**defaults, **_fields(fqdn, known), "tags": tuple(groups)}
            if nodes.setdefault(fqdn, node := WantedNode(fqdn, place(document, key), fields)) is not node:
                problems.append(document.fault(key, f"{fqdn} is there twice, with and without its domain"))
    if problems:
        raise Invalid(problems)
    return Wanted(nodes=nodes)


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _tags(inventory: Mapping[str, Json]) -> dict[str, tuple[str, ...]]:
    """The groups of each host, those above its own included."""
    found: dict[str, set[str]] = {}
    for group in inventory.keys() - OF_ALL:
        for host in _hosts(inventory, group):
            found.setdefault(host, set()).add(group)
    for group in ("all", "ungrouped"):
        for host in _hosts(inventory, group):
            found.setdefault(host, set())
    return {host: tuple(sorted(groups)) for host, groups in found.items()}


def _hosts(inventory: Mapping[str, Json], group: str) -> Iterator[str]:
    groups = [group]
    for each in groups:  # grows while it is walked
        said = _mapping(inventory.get(each))
        yield from (host for host in said.get("hosts") or () if isinstance(host, str))
        groups += [child for child in said.get("children") or () if isinstance(child, str) and child not in groups]


def _wrong(host: str, fqdn: str, known: Mapping[str, Json]) -> Iterator[str]:
    if not is_node(fqdn) or "." not in fqdn:
        yield f"{host!r} is no fully qualified domain name in small letters; --domain example.com makes {host}.example.com"
    for name, kinds in (("ansible_host", str), ("ansible_user", str), ("ansible_port", int | str)):
        if name in known and (not isinstance(known[name], kinds) or "{{" in str(known[name])):
            yield f"{name} is no plain value; nothing here works out templates"
    if port(str(known.get("ansible_port", PORT))) is None:
        yield f"ansible_port is {known['ansible_port']!r}, and that is no port"


def _fields(fqdn: str, known: Mapping[str, Json]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    number = int(known.get("ansible_port", PORT))
    if "ansible_host" in known or number != PORT:
        host = known.get("ansible_host", fqdn)
        inside = f"[{host}]" if ":" in host else host
        fields["addresses"] = (host if number == PORT else f"{inside}:{number}",)
    if "ansible_user" in known:
        fields["user"] = known["ansible_user"]
    return fields
