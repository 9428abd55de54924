"""Noderoles in ERROR by cause: many noderoles with one cause are one row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from nodepool_ocb.engine import addressing
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.views.history.entries import EntryRow
from nodepool_ocb.views.view import View

NODE: Final = "NODE"  # in a cause, for the name or the address of its node
UNKNOWN: Final = "no reason was recorded"
EXAMPLES: Final = 3
_LONE: Final = r"(?<![\w.-])(?:{})(?![\w-])"  # a name in a text, and no part of a longer one


class ErrorCause(View, frozen=True, kw_only=True):
    """The noderoles in ERROR with one cause."""

    cause: str  # a reason, with NODE for the names and addresses of its node
    noderoles: int
    nodes: int
    racks: Mapping[str, int]  # rack → nodes; nodes without a rack are left out
    roles: tuple[str, ...]
    deployments: tuple[str, ...]
    first: float
    last: float
    examples: tuple[str, ...]  # noderoles, the first ones
    before: EntryRow | None  # the newest entry of the journal before the first


class ErrorCauseLine(View, frozen=True, kw_only=True):
    """A cause for the eye."""

    cause: str
    noderoles: int
    nodes: int
    first: float
    example: str
    before: str | None


def cause(vertex: Vertex) -> str:
    """The reason of a noderole, without the names and addresses of its node."""
    reason = vertex.record.reason
    if not reason:
        return UNKNOWN
    names = "|".join(map(re.escape, sorted(_names(vertex.node), key=len, reverse=True)))
    return re.sub(_LONE.format(names), NODE, reason)


def _names(node: NodeView) -> Iterator[str]:
    yield node.name
    for address in node.record.addresses if node.record is not None else ():
        yield address
        with suppress(ValueError):  # an address that another client wrote
            host, port = addressing.parse(address)
            yield from (f"{host}:{port}", f"[{host}]:{port}", host)


def grouped(failed: Iterable[Vertex]) -> list[list[Vertex]]:
    """The noderoles by cause, the most frequent cause first; in each group the oldest first."""
    found: dict[str, list[Vertex]] = {}
    for vertex in sorted(failed, key=lambda each: (each.record.since, each.name)):
        found.setdefault(cause(vertex), []).append(vertex)
    return sorted(found.values(), key=lambda those: (-len(those), those[0].record.since))


def row(group: Sequence[Vertex], before: EntryRow | None) -> ErrorCause:
    """A group as one row."""
    nodes = {each.node.name: each.node for each in group}
    racks = Counter(view.record.rack for view in nodes.values() if view.record is not None and view.record.rack)
    return ErrorCause(
        cause=cause(group[0]),
        noderoles=len(group),
        nodes=len(nodes),
        racks=dict(sorted(racks.items())),
        roles=tuple(sorted({each.role for each in group})),
        deployments=tuple(sorted({each.record.deployment for each in group})),
        first=group[0].record.since,
        last=group[-1].record.since,
        examples=tuple(each.name for each in group[:EXAMPLES]),
        before=before,
    )


def line(row: ErrorCause) -> ErrorCauseLine:
    """The row for a table."""
    entry = None if row.before is None else row.before.record
    return ErrorCauseLine(
        cause=row.cause,
        noderoles=row.noderoles,
        nodes=row.nodes,
        first=row.first,
        example=row.examples[0],
        before=None if entry is None else f"{entry.login}: {entry.verb} {', '.join(entry.subjects[:1])}".strip(),
    )


def moments(groups: Iterable[Sequence[Vertex]]) -> tuple[float, ...]:
    """The time of the first noderole of each group, in their order."""
    return tuple(each[0].record.since for each in groups)
