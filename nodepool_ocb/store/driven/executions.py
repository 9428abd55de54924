"""An execution, a rollout or a run of tasks, in ZooKeeper: the code that both kinds share.

A deployment has one pointer for each kind (``pointers``). Below it, by ids, are the executions: the record of an
execution, its *head*, and its parts by their paths below the head. An execution with an empty head was never begun.
``Versions`` holds the version of each znode that was read. Every write names them, so a writer that does not know the
newest state is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Pointer, Record, RolloutPointer, Set, TaskRunPointer
from nodepool_ocb.rollout.records import RolloutRecord
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.driven.pointers import ID
from nodepool_ocb.tasks.runs.records import TaskRun

P = TypeVar("P", bound=Pointer)
H = TypeVar("H", bound=Record)
R = TypeVar("R", bound=Record)


class Versions(msgspec.Struct, Generic[P], frozen=True):
    """The versions of an execution that was read: the pointer of its deployment, and the version of each znode."""

    pointer: P
    version: int  # of the pointer; -1: it does not exist
    parts: Mapping[str, int]  # by the path below the head; "" is the head

    @property
    def head(self) -> int:
        return self.parts[""]


class Executions(msgspec.Struct, Generic[P, H], frozen=True):
    """A kind of execution: its records, and where they are."""

    pointers: type[P]
    heads: type[H]
    root: str
    pointer_path: Callable[[str], str]  # of a deployment
    path: Callable[..., str]  # of a deployment, an id, and a part

    def pointer(self, session: Session, deployment: str) -> tuple[P, int]:
        """The pointer of a deployment, and its version; -1 and a fresh pointer before its first execution."""
        return pointers.read(session, self.pointer_path(deployment), self.pointers)

    def head(self, session: Session, deployment: str, identity: str) -> tuple[Znode, H] | None:
        """The head; None for an execution that does not exist or was never begun. Raises Invalid."""
        znode = session.get(self.path(deployment, identity))
        return (znode, codec.decode(self.heads, znode)) if znode is not None and znode.data else None

    def listed(self, session: Session, deployments: Iterable[str] | None = None) -> list[tuple[str, str, H]]:
        """Each execution that was begun: deployment, id and head, the oldest first; heads that cannot be decoded are left out."""
        names = sorted(deployments if deployments is not None else session.children(self.root) or ())
        named = session.children_many([self.pointer_path(name) for name in names])
        keys = [
            (name, identity)
            for name, ids in zip(names, named, strict=True)
            for identity in sorted(ids or ())
            if ID.fullmatch(identity)
        ]
        znodes = session.get_many([self.path(*key) for key in keys])
        decoded = ((key, decoded_or_none(self.heads, znode)) for key, znode in zip(keys, znodes, strict=True))
        return [(*key, head) for key, head in decoded if head is not None]

    def asked(
        self, deployment: str, identity: str, parts: Mapping[str, Record], pointer: P, versions: Versions[P]
    ) -> list[Change]:
        """The transaction of a person; the driver, if there is one, reads the whole execution again before it
        continues.
        """
        return [
            Set(self.pointer_path(deployment), pointer, versions.version),
            *self._sets(deployment, identity, parts, versions),
        ]

    def driven(
        self, deployment: str, identity: str, parts: Mapping[str, Record], over: bool, versions: Versions[P], now: float
    ) -> list[Change]:
        """The transaction of a driver; refused if another drives, or if a person asked for a change meanwhile."""
        first = pointers.held(self.pointer_path(deployment), versions.pointer, versions.version, over, now)
        return [first, *self._sets(deployment, identity, parts, versions)]

    def _sets(
        self, deployment: str, identity: str, parts: Mapping[str, Record], versions: Versions[P]
    ) -> Iterable[Change]:
        return (
            Set(self.path(deployment, identity, part), record, versions.parts[part]) for part, record in parts.items()
        )

    def written(self, deployment: str, identity: str, versions: Versions[P], changes: Iterable[Change]) -> Versions[P]:
        """The versions once these changes are written."""
        own, head = self.pointer_path(deployment), self.path(deployment, identity)
        pointer, version, parts = versions.pointer, versions.version, dict(versions.parts)
        for change in changes:
            if not isinstance(change, Set):
                continue
            if change.path == own and isinstance(change.data, self.pointers):
                pointer, version = change.data, change.version + 1
            elif change.path == head or change.path.startswith(f"{head}/"):
                parts[change.path[len(head) + 1 :]] = change.version + 1
        return Versions(pointer, version, parts)


ROLLOUTS: Final = Executions(RolloutPointer, RolloutRecord, paths.ROLLOUTS, paths.rollouts, paths.rollout)
TASK_RUNS: Final = Executions(TaskRunPointer, TaskRun, paths.TASK_RUNS, paths.task_runs, paths.task_run)


def decoded_or_none(kind: type[R], znode: Znode | None) -> R | None:
    """The record; None if the znode is absent, is empty or cannot be decoded."""
    if znode is not None and znode.data:
        with contextlib.suppress(Invalid):
            return codec.decode(kind, znode)
    return None
