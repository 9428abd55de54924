"""Changes of the records of a World, for event streams: the newest version of each record, ordered by transactions. Pure.

A record that is newer than the transactions which are known in full waits for a later look. So all records that one transaction
left as they are come together. The transaction of a deletion is not known: deletions of a look come before its changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.model.records import (
    Daemon,
    Deployment,
    DeploymentRole,
    Record,
    Role,
    RolloutPointer,
    TaskRunPointer,
)
from nodepool_ocb.views.history import happenings
from nodepool_ocb.views.view import View

NODE: Final = "node"
NODEROLE: Final = "noderole"

#: The kinds of records that a World keeps as they were read, and the words for them.
KEPT: Final[Mapping[type[Record], str]] = {
    Role: "role",
    Deployment: "deployment",
    DeploymentRole: "deployment-role",
    RolloutPointer: "rollout",
    TaskRunPointer: "task-run",
    Daemon: "daemon",
}
#: The kinds with attributes or templates of any size: an event says that they changed, and no more.
BARE: Final = frozenset({"role", "deployment-role"})
KINDS: Final = (NODE, NODEROLE, *KEPT.values())

#: The kind of a record, and its name.
RecordKey: TypeAlias = tuple[str, str]
#: The records that are looked at together: those of a node, by its name, or those of a kind.
RecordPlace: TypeAlias = str | type[Record]


class RecordChange(View, frozen=True, kw_only=True):
    """A record as it is now. ``record`` is None after its deletion, and absent for kinds without a record in events."""

    kind: str
    name: str
    zxid: int  # of its newest version; 0 after its deletion
    deployment: str | None  # that it belongs to
    node: str | None
    state: str | None
    was: str | None  # the state before this change
    record: Record | msgspec.UnsetType | None
    former: str | None = None  # the deployment that it belonged to


class _Seen(NamedTuple):
    zxid: int
    deployment: str | None
    state: str | None


class SeenRecords:
    """The versions of all records of a World as of the last look."""

    def __init__(self) -> None:
        self._seen: dict[RecordPlace, dict[RecordKey, _Seen]] = {}
        self._waiting: set[RecordPlace] = set()  # some records are newer than the transactions that are known in full
        self.backwards = False  # a record was older than before: ZooKeeper was restored

    @property
    def waiting(self) -> bool:
        """Whether a later look has more."""
        return bool(self._waiting)

    def places(self, world: World) -> list[str]:
        """All nodes that are there, or were at the last look."""
        return [*world.nodes, *(place for place in self._seen if isinstance(place, str) and place not in world.nodes)]

    def look(
        self, world: World, nodes: Collection[str], kinds: Collection[type[Record]], zxid: int
    ) -> list[RecordChange]:
        """The changes up to a transaction, deletions first, then by transaction; of the nodes and kinds that may have some."""
        places = {*nodes, *(kind for kind in kinds if kind in KEPT), *self._waiting}
        self._waiting = set()
        found = [change for place in places for change in self._changed(world, place, zxid)]
        return sorted(found, key=lambda each: (each.zxid, each.kind, each.name))

    def _changed(self, world: World, place: RecordPlace, zxid: int) -> Iterator[RecordChange]:
        seen = self._seen.setdefault(place, {})
        there = dict(_records(world, place))
        for key in seen.keys() - there.keys():
            yield _change(key, _Seen(0, None, None), seen.pop(key), None)
        for key, (now, record) in there.items():
            was = seen.get(key)
            if was is not None and was.zxid == now.zxid:
                continue
            if now.zxid > zxid:
                self._waiting.add(place)
                continue
            self.backwards = self.backwards or (was is not None and now.zxid < was.zxid)
            seen[key] = now
            yield _change(key, now, was, record)
        if not seen and place not in self._waiting:
            del self._seen[place]


def _records(world: World, place: RecordPlace) -> Iterator[tuple[RecordKey, tuple[_Seen, Record]]]:
    if not isinstance(place, str):
        for name, stored in world.of(place).items():
            yield _kept(KEPT[place], name, stored)
    elif (view := world.nodes.get(place)) is not None:
        yield from _of_node(view)


def _of_node(view: NodeView) -> Iterator[tuple[RecordKey, tuple[_Seen, Record]]]:
    if view.record is not None:
        seen = _Seen(view.mzxid, view.record.deployment, happenings.state(view.record))
        yield (NODE, view.name), (seen, view.record)
    for vertex in view.noderoles.values():
        record = vertex.record
        yield (NODEROLE, vertex.name), (_Seen(vertex.mzxid, record.deployment, str(record.state)), record)


def _kept(word: str, name: str | tuple[str, ...], stored: Stored[Record]) -> tuple[RecordKey, tuple[_Seen, Record]]:
    record = stored.record
    names = (name,) if isinstance(name, str) else name
    title = f"{names[1]} in {names[0]}" if word == "deployment-role" else "/".join(names)
    deployment = names[0] if word in ("deployment", "deployment-role", "rollout", "task-run") else None
    state = str(record.state) if isinstance(record, Deployment | Daemon) else None
    return (word, title), (_Seen(stored.mzxid, deployment, state), record)


def _change(key: RecordKey, now: _Seen, was: _Seen | None, record: Record | None) -> RecordChange:
    kind, name = key
    node = name if kind == NODE else name.partition("@")[2] if kind == NODEROLE else None
    return RecordChange(
        kind=kind,
        name=name,
        zxid=now.zxid,
        deployment=now.deployment,
        node=node,
        state=now.state,
        was=was.state if was is not None else None,
        record=msgspec.UNSET if record is not None and kind in BARE else record,
        former=was.deployment if was is not None else None,
    )
