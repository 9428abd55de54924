"""Executions, rollouts and runs of tasks, in ZooKeeper: the reads that both kinds share.

Below the pointer of a deployment (``pointers``) are, by ids, the executions: the record of an execution, its *head*,
and its parts by their paths below the head. An execution with an empty head was never begun. ``model.executions`` has
the writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.executions import ROLLOUT, TASK_RUN, ExecutionKind
from nodepool_ocb.model.records import LockOwner, Pointer, Record
from nodepool_ocb.rollout.records import RolloutRecord
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.driven.pointers import ID
from nodepool_ocb.store.locks import holders
from nodepool_ocb.tasks.runs.records import TaskRun

P = TypeVar("P", bound=Pointer)
H = TypeVar("H", bound=Record)
R = TypeVar("R", bound=Record)


class Executions(msgspec.Struct, Generic[P, H], frozen=True):
    """The executions of a kind."""

    kind: ExecutionKind[P]
    heads: type[H]

    def pointer(self, session: Session, deployment: str) -> tuple[P, int]:
        """The pointer of a deployment, and its version; -1 and a fresh pointer before its first execution."""
        return pointers.read(session, self.kind.pointer_path(deployment), self.kind.pointers)

    def head(self, session: Session, deployment: str, identity: str) -> tuple[Znode, H] | None:
        """The head; None for an execution that does not exist or was never begun. Raises Invalid."""
        znode = session.get(self.kind.path(deployment, identity))
        return (znode, codec.decode(self.heads, znode)) if znode is not None and znode.data else None

    def driver(self, session: Session, deployment: str, identity: str) -> LockOwner | None:
        """The holder of the lock of an execution; None if it is free."""
        return holders(session, [self.kind.lock(deployment, identity)])[0]

    def listed(self, session: Session, deployments: Iterable[str] | None = None) -> list[tuple[str, str, H]]:
        """Each execution that was begun: deployment, id and head, the oldest first; heads that cannot be decoded are left out."""
        names = sorted(deployments if deployments is not None else session.children(self.kind.root) or ())
        named = session.children_many([self.kind.pointer_path(name) for name in names])
        keys = [
            (name, identity)
            for name, ids in zip(names, named, strict=True)
            for identity in sorted(ids or ())
            if ID.fullmatch(identity)
        ]
        znodes = session.get_many([self.kind.path(*key) for key in keys])
        decoded = ((key, decoded_or_none(self.heads, znode)) for key, znode in zip(keys, znodes, strict=True))
        return [(*key, head) for key, head in decoded if head is not None]


ROLLOUTS: Final = Executions(ROLLOUT, RolloutRecord)
TASK_RUNS: Final = Executions(TASK_RUN, TaskRun)


def decoded_or_none(kind: type[R], znode: Znode | None) -> R | None:
    """The record; None if the znode is absent, is empty or cannot be decoded."""
    if znode is not None and znode.data:
        with contextlib.suppress(Invalid):
            return codec.decode(kind, znode)
    return None
