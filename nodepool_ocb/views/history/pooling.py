"""The entries of launchers: the ends of requests, and both ends of a node's life. Pure.

The subjects of an entry are the request, the node, its name below /ocb and its labels ("label small"): each of these finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.model.journal import Entry, PoolVerb
from nodepool_ocb.model.pool import NodeRequest, PoolNode, launch_facts
from nodepool_ocb.model.records import Json
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.differences import FieldRow
from nodepool_ocb.views.history import noting

LOGIN: Final = "launcher"
REQUEST: Final = "request for nodes"
NODE: Final = "node of a pool"
MACHINE: Final = "machine"
LISTED: Final = 20  # nodes or labels in an entry
SHORT: Final = 100  # characters of a requestor

_CHANGES: Final[Mapping[PoolVerb, str]] = {
    PoolVerb.EXPIRE_REQUEST: "delete",
    PoolVerb.DELETE_NODE: "delete",
    PoolVerb.DELETE_LEAK: "delete",
}


class EntryAuthor(msgspec.Struct, frozen=True):
    """The launcher of an entry, and the time by ZooKeeper's clock."""

    host: str
    at: float


def of_request(
    author: EntryAuthor,
    verb: PoolVerb,
    id: str,
    record: NodeRequest,
    nodes: Mapping[str, PoolNode] = {},
    reason: str | None = None,
) -> Entry:
    """The entry of a request; ``nodes``: those that it got, by id."""
    labels = tuple(dict.fromkeys(record.node_types))
    places = dict.fromkeys(_place(each) for each in nodes.values())
    fields: dict[str, Json] = {
        "labels": list(record.node_types[:LISTED]),
        "nodes": list(nodes)[:LISTED],
        "pool": ", ".join(each for each in places if each),
        "requestor": (record.requestor or "")[:SHORT],
    }
    return _entry(author, verb, (REQUEST, id), [*nodes, *map(_label, labels)], fields, reason)


def of_node(author: EntryAuthor, verb: PoolVerb, id: str, record: PoolNode, reason: str | None = None) -> Entry:
    """The entry of a node."""
    facts = launch_facts(record)
    labels = (record.type,) if isinstance(record.type, str) else record.type
    fields: dict[str, Json] = {
        "labels": list(labels[:LISTED]),
        "request": record.allocated_to or "",
        "pool": _place(record),
        "name": record.hostname or "",
        "address": record.interface_ip or "",
    }
    fqdn = facts.fqdn if facts is not None else None
    links = [each for each in (record.allocated_to, fqdn or record.hostname) if each]
    return _entry(author, verb, (NODE, id), [*links, *map(_label, labels)], fields, reason)


def of_leak(author: EntryAuthor, provider: str, machine: str, node: str, reason: str) -> Entry:
    """The entry of a machine without a record; ``node``: the id of the record that it had."""
    fields: dict[str, Json] = {"provider": provider, "node": node}
    return _entry(author, PoolVerb.DELETE_LEAK, (MACHINE, machine), [node], fields, reason)


def _entry(
    author: EntryAuthor,
    verb: PoolVerb,
    subject: tuple[str, str],
    links: Iterable[str],
    fields: Mapping[str, Json],
    reason: str | None,
) -> Entry:
    kind, name = subject
    rows = tuple(FieldRow(field=field, new=value) for field, value in fields.items() if value)
    own = ChangeRow(change=_CHANGES.get(verb, "change"), kind=kind, name=name, state=None, fields=rows)
    bare = Entry(at=author.at, login=LOGIN, host=author.host, verb=verb, reason=reason)
    linked = (ChangeRow(change="change", kind=kind, name=each, state=None) for each in links)
    made = noting.entry(bare, [own, *linked])
    return msgspec.structs.replace(made, changes=made.changes[:1], left_out=0)


def _place(record: PoolNode) -> str:
    return f"{record.provider}/{record.pool}" if record.provider else ""


def _label(name: str) -> str:
    """The name of a label among the subjects; images and nodes may have the same name."""
    return f"label {name}"
