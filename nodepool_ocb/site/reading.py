"""Documents to the state that they want: checked by the schema ``site.json`` and against one another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.document import Bounds, Document
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.documents.schema import faults
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.model.records import DeploymentState, Json, Role
from nodepool_ocb.site.desired_state import (
    Commitment,
    DesiredDeployment,
    DesiredNetwork,
    DesiredNode,
    DesiredNoderole,
    DesiredRole,
    DesiredState,
    SourceLocation,
)

SCHEMA: Final = "site.json"
#: The largest file: ten thousand noderoles and more, as ``export`` writes them.
MOST: Final = Bounds(bytes=32 << 20, nodes=2_000_000)
_COMMITMENTS: Final = {str(each): each for each in Commitment}
LISTS: Final = frozenset({"addresses", "tags", "host_keys", "macs"})


def read(documents: Iterable[Document]) -> DesiredState:
    """The wanted state of all documents together; raises Invalid with the faults of all documents, also if two of them
    name the same thing.
    """
    reader = _SiteReader()
    for document in documents:
        reader.read(document)
    if reader.problems:
        raise Invalid(reader.problems)
    return DesiredState(reader.roles, reader.deployments, reader.nodes, reader.whole, reader.as_stored, reader.networks)


class _SiteReader:
    def __init__(self) -> None:
        self.roles: dict[str, DesiredRole] = {}
        self.deployments: dict[str, DesiredDeployment] = {}
        self.nodes: dict[str, DesiredNode] = {}
        self.networks: dict[str, DesiredNetwork] = {}
        self.whole = self.as_stored = False
        self.problems: list[str] = []

    def read(self, document: Document) -> None:
        found = [fault.at(document.name) for fault in faults(document, SCHEMA)]
        self.problems += found or list(_misnamed(document))
        if found:
            return
        self.whole |= document.value.get("whole", False)
        self.as_stored |= document.value.get("as_stored", False)
        for name, raw in _of(document, "roles"):
            record = self._role(document, name, raw)
            if record is not None:
                self._put(self.roles, name, DesiredRole(name, place(document, ("roles", name)), record))
        for name, raw in _of(document, "deployments"):
            self._put(self.deployments, name, _deployment(name, place(document, ("deployments", name)), raw or {}))
        for name, raw in _of(document, "networks"):
            self._put(self.networks, name, DesiredNetwork(name, place(document, ("networks", name)), raw or {}))
        for name, raw in _of(document, "nodes"):
            self._put(self.nodes, name, _node(document, name, raw or {}))

    def _put(self, among: dict[str, Any], name: str, wanted: Any) -> None:
        before = among.setdefault(name, wanted)
        if before is not wanted:
            self.problems.append(wanted.place.fault(f"is in {before.place} already; write it in one place"))

    def _role(self, document: Document, name: str, raw: Mapping[str, Json]) -> Role | None:
        key: Key = ("roles", name)
        for word in raw:
            if word not in Role.__struct_fields__ or word == "unknown":
                known = did_you_mean(word, Role.__struct_fields__, present=raw) or "; remove it"
                self.problems.append(document.fault((*key, word), f"a role has no {word}{known}"))
        try:
            return msgspec.convert({**raw, "schema": 1}, Role)
        except msgspec.ValidationError as wrong:
            self.problems.append(document.fault(key, f"{wrong}; correct this key"))
            return None


def place(document: Document, key: Key) -> SourceLocation:
    """The place of a key in a document."""
    return SourceLocation(document.name, document.line(key), document.path(key))


def _of(document: Document, section: str) -> Iterator[tuple[str, Any]]:
    yield from (document.value.get(section) or {}).items()


def _misnamed(document: Document) -> Iterator[str]:
    """The schema knows no names."""
    for section, fits, how in (
        ("roles", is_name, "small letters, digits, '-', '_' and '.', at most 63"),
        ("deployments", is_name, "small letters, digits, '-', '_' and '.', at most 63"),
        ("networks", is_name, "small letters, digits, '-', '_' and '.', at most 63"),
        ("nodes", is_node, "a fully qualified domain name in small letters, as n1.example.com"),
    ):
        for name, _ in _of(document, section):
            if not fits(name):
                yield document.fault((section, name), f"{name!r} is no name here; write {how}")


def _deployment(name: str, where: SourceLocation, raw: Mapping[str, Any]) -> DesiredDeployment:
    state = raw.get("state")
    roles = {role: (said or {}).get("user") for role, said in (raw.get("roles") or {}).items()}
    checks = msgspec.convert({**raw["checks"], "since": 0.0}, Checks) if "checks" in raw else None
    turned = None if state is None else DeploymentState(state)
    return DesiredDeployment(name, where, raw.get("parent"), turned, checks, roles)


def _node(document: Document, fqdn: str, raw: Mapping[str, Json]) -> DesiredNode:
    key: Key = ("nodes", fqdn)
    fields = {
        name: tuple(value or ()) if name in LISTS else value
        for name, value in raw.items()
        if name != "noderoles" and (value is not None or name == "rack")
    }
    bound = raw.get("noderoles")
    if bound is None:
        return DesiredNode(fqdn, place(document, key), fields)
    listed = dict.fromkeys(bound, None) if isinstance(bound, list) else bound
    places = _places(document, (*key, "noderoles"), bound)
    noderoles = tuple(
        _noderole(role, fqdn, where, said or {}) for (role, said), where in zip(listed.items(), places, strict=True)
    )
    return DesiredNode(fqdn, place(document, key), fields, noderoles)


def _places(document: Document, key: Key, bound: Json) -> Iterator[SourceLocation]:
    """The place of each noderole of a node; as ``place``, with less work for each of a large file."""
    if isinstance(bound, list):
        yield from (place(document, (*key, bound.index(role))) for role in dict.fromkeys(bound))
        return
    name, above, line = document.name, document.path(key), document.line
    yield from (SourceLocation(name, line((*key, role)), f"{above}.{role}") for role in bound)


def _noderole(role: str, fqdn: str, where: SourceLocation, raw: Mapping[str, Json]) -> DesiredNoderole:
    state, parents = raw.get("state"), raw.get("parents")
    return DesiredNoderole(
        role,
        fqdn,
        where,
        raw.get("deployment"),
        None if state is None else _COMMITMENTS[state],
        None if parents is None else tuple(sorted(parents)),
        raw.get("user"),
        raw.get("once"),
    )
