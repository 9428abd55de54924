"""Nodes of an inventory of Ansible, as ``ansible-inventory --list`` prints it. Pure.

A host is a node; ``ansible_host``, ``ansible_port`` and ``ansible_user`` are its address and user. Each group of the
host, direct or through groups below, is a tag. Its other variables are Ansible's own and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.engine.addressing import PORT
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_node, port
from nodepool_ocb.model.records import Json
from nodepool_ocb.site.desired_state import DesiredNode, DesiredState
from nodepool_ocb.site.reading import place

MOST_GROUPS: Final = 1000  # of a host
OF_ALL: Final = frozenset({"all", "ungrouped", "_meta"})


def read(document: Document, domain: str | None, defaults: Mapping[str, Any]) -> DesiredState:
    """Its nodes; ``domain`` is put behind names without one, ``defaults`` are fields of all. Raises Invalid with every fault."""
    inventory = document.value
    variables = _mapping(_mapping(inventory).get("_meta")).get("hostvars")
    if not isinstance(inventory, dict) or not isinstance(variables, dict):
        raise Invalid(
            document.fault(
                (), "is no inventory as `ansible-inventory --list` prints it: no _meta.hostvars; give its output"
            )
        )
    problems = [document.fault(key, text) for key, text in _misshapen(inventory)]
    if problems:
        raise Invalid(problems)
    tags = _tags(inventory)
    nodes: dict[str, DesiredNode] = {}
    for host in sorted({*variables, *tags}):
        known = _mapping(variables.get(host))
        key: Key = ("_meta", "hostvars", host) if host in variables else ()
        fqdn = host if "." in host or domain is None else f"{host}.{domain}"
        found = list(_wrong(host, fqdn, known))
        problems += [document.fault(key, text) for text in found]
        if not found:
            groups = dict.fromkeys((*defaults.get("tags", ()), *tags.get(host, ())))
            fields = {**defaults, **_fields(fqdn, known), "tags": tuple(groups)}
            if nodes.setdefault(fqdn, node := DesiredNode(fqdn, place(document, key), fields)) is not node:
                problems.append(
                    document.fault(key, f"{fqdn} is there twice, with and without its domain; remove one of them")
                )
    if problems:
        raise Invalid(problems)
    return DesiredState(nodes=nodes)


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _misshapen(inventory: Mapping[str, Json]) -> Iterator[tuple[Key, str]]:
    """The faults of groups with a wrong form."""
    for name, group in inventory.items():
        if name == "_meta":
            continue
        if not isinstance(group, dict):
            yield (name,), f"is {_kind(group)}, and a group is a mapping with hosts and children; correct it"
            continue
        for key in ("hosts", "children"):
            said = group.get(key)
            if not (said is None or (isinstance(said, list) and all(isinstance(each, str) for each in said))):
                yield (name, key), f"is {_kind(said)}, and not a list of names; correct it"


def _kind(value: Json) -> str:
    return "a list of other things" if isinstance(value, list) else f"{value!r:.40}"


def _tags(inventory: Mapping[str, Json]) -> dict[str, tuple[str, ...]]:
    """The groups of each host, those above its own included; raises Invalid where a host is in very many."""
    import networkx as nx  # here: it takes long to import, and few commands come so far

    names = sorted(inventory.keys() - OF_ALL)
    bits = {name: 1 << at for at, name in enumerate(names)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(inventory.keys() - {"_meta"})
    graph.add_edges_from((name, child) for name in list(graph) for child in _listed(inventory, name, "children"))
    knots = nx.condensation(graph)  # groups that contain one another are one
    above: dict[int, int] = {}
    for knot in nx.topological_sort(knots):
        above[knot] = sum(bits.get(name, 0) for name in knots.nodes[knot]["members"])
        for parent in knots.predecessors(knot):
            above[knot] |= above[parent]
    found: dict[str, int] = {}
    for name in inventory.keys() - {"_meta"}:
        for host in _listed(inventory, name, "hosts"):
            found[host] = found.get(host, 0) | above[knots.graph["mapping"][name]]
    for host, groups in found.items():
        if groups.bit_count() > MOST_GROUPS:
            raise Invalid(
                f"{host} is in {groups.bit_count()} groups, and may be in {MOST_GROUPS}, since each is a tag; take it out of some"
            )
    return {host: tuple(_named(names, groups)) for host, groups in found.items()}


def _listed(inventory: Mapping[str, Json], group: str, key: str) -> Sequence[str]:
    said = _mapping(inventory.get(group)).get(key)
    return said if isinstance(said, list) else ()


def _named(names: Sequence[str], groups: int) -> Iterator[str]:
    """The names of bits, in their order."""
    while groups:
        lowest = groups & -groups
        yield names[lowest.bit_length() - 1]
        groups ^= lowest


def _wrong(host: str, fqdn: str, known: Mapping[str, Json]) -> Iterator[str]:
    if not is_node(fqdn) or "." not in fqdn:
        yield f"{host!r} is no fully qualified domain name in small letters; --domain example.com makes {host}.example.com"
    for name, kinds in (("ansible_host", str), ("ansible_user", str), ("ansible_port", int | str)):
        if name in known and (not isinstance(known[name], kinds) or "{{" in str(known[name])):
            yield f"{name} is no plain value; nothing here works out templates"
    if port(str(known.get("ansible_port", PORT))) is None:
        yield f"ansible_port is {known['ansible_port']!r}, and that is no port; write a number from 1 to 65535"


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
