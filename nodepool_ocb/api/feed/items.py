"""The parts of an event stream: the changes of one transaction, and an entry of the journal. Pure.

Each is encoded one time for all streams. ``EventFilter`` says which of them a stream shows, and in which form.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Record
from nodepool_ocb.model.secrecy import hidden
from nodepool_ocb.views.history import entries, placing
from nodepool_ocb.views.history.entries import EntryRow
from nodepool_ocb.views.history.recordchanges import RecordChange
from nodepool_ocb.views.view import public, whole

ENTRY: Final = "entry"  # the word for entries among the kinds of a filter


class ShownChange(msgspec.Struct, frozen=True):
    """A changed record with its JSON; ``gone`` is the JSON for a stream to which it belonged, and does no more."""

    change: RecordChange
    data: bytes
    gone: bytes


class ChangesItem(msgspec.Struct, frozen=True):
    """The records that one transaction left as they are; or deletions, with ``zxid`` before and ``until`` behind them."""

    zxid: int
    until: int
    changes: tuple[ShownChange, ...]

    @property
    def size(self) -> int:
        """In bytes, about."""
        return sum(len(each.data) + len(each.gone) for each in self.changes)


class EntryItem(msgspec.Struct, frozen=True):
    """An entry of the journal. ``places``: the deployments of all that it changed; None if some of it belongs to none."""

    number: int
    pool: bool
    zxid: int
    made: int  # milliseconds since the epoch
    entry: Entry
    data: bytes
    places: frozenset[str] | None

    @property
    def size(self) -> int:
        """In bytes, about."""
        return 2 * len(self.data)


Item: TypeAlias = ChangesItem | EntryItem


class ChangeBody(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a change in a stream. ``gone``: the record was deleted, or left the stream."""

    kind: str
    name: str
    zxid: int
    node: str | None
    deployment: str | None = None
    state: str | None = None
    was: str | None
    gone: bool = False
    record: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


def shown_change(change: RecordChange) -> ShownChange:
    """A change with its JSON."""
    record = change.record
    made = ChangeBody(
        kind=change.kind,
        name=change.name,
        zxid=change.zxid,
        node=change.node,
        deployment=change.deployment,
        state=change.state,
        was=change.was,
        record=hidden(whole(record)) if isinstance(record, Record) else msgspec.UNSET,
    )
    bare = ChangeBody(kind=change.kind, name=change.name, zxid=change.zxid, node=change.node, was=change.was, gone=True)
    gone = msgspec.json.encode(bare)
    return ShownChange(change, gone if record is None else msgspec.json.encode(made), gone)


def entry_item(row: EntryRow, zxid: int, made: int) -> EntryItem:
    """An entry with its JSON, made at a time."""
    places = placing.deployments(row.record)
    return EntryItem(row.number, row.pool is True, zxid, made, row.record, msgspec.json.encode(public(row)), places)


class SelectedNames(msgspec.Struct):
    """The nodes and noderoles that the selector of a token means now, and meant at the look before."""

    now: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()

    def look(self, names: frozenset[str]) -> None:
        """The selector means these now."""
        self.now, self.before = names, self.now


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream shows. An empty field limits nothing. ``within``: the limits of the token, None for none."""

    kinds: frozenset[str] = frozenset()
    deployments: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    within: frozenset[str] | None = None  # deployments
    selected: SelectedNames | None = None  # by the selector of the token

    def of_change(self, shown: ShownChange) -> bytes | None:
        """The JSON of a change in this stream; None if it has no place there."""
        change = shown.change
        if self.kinds and change.kind not in self.kinds:
            return None
        if self.nodes and change.node not in self.nodes:
            return None
        if self.selected is not None and change.name not in self.selected.now:
            return shown.gone if change.name in self.selected.before else None
        if self._has(change.deployment):
            return shown.data
        if change.former is not None and self._has(change.former):
            return shown.gone
        return None

    def _has(self, deployment: str | None) -> bool:
        return (not self.deployments or deployment in self.deployments) and (
            self.within is None or deployment in self.within
        )

    def has_entry(self, item: EntryItem) -> bool:
        """Whether an entry has its place in this stream: for a limited token if all of it is within the limits."""
        if self.kinds and ENTRY not in self.kinds:
            return False
        if self.selected is not None or (self.within is not None and not (item.places and item.places <= self.within)):
            return False
        if self.deployments and not self._concerns(item):
            return False
        subjects = item.entry.subjects
        return not self.nodes or any(entries.about(each, self.nodes) for each in subjects)

    def _concerns(self, item: EntryItem) -> bool:
        if item.places is not None and item.places & self.deployments:
            return True
        return any(entries.about(each, self.deployments) for each in item.entry.subjects)
