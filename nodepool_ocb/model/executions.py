"""Executions: the rollouts and the runs of tasks of a deployment. Their names, their places, and the form of each write.

A deployment has one pointer for each kind of execution. Every write names the versions that its writer has read. So a
writer that does not know the newest state is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Pointer, Record, RolloutPointer, Set, TaskRunPointer

P = TypeVar("P", bound=Pointer)


class Key(NamedTuple):
    """The deployment and the id of an execution.

    >>> str(Key("lab", "0000000003"))
    'lab/0000000003'
    """

    deployment: str
    id: str

    def __str__(self) -> str:
        return f"{self.deployment}/{self.id}"


class Versions(msgspec.Struct, Generic[P], frozen=True):
    """The versions of an execution that was read: the pointer of its deployment, and the version of each znode."""

    pointer: P
    version: int  # of the pointer; -1: it does not exist
    parts: Mapping[str, int]  # by the path below the head; "" is the head

    @property
    def head(self) -> int:
        return self.parts[""]


class ExecutionKind(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """A kind of execution: its words for people, its places in the tree, and its transactions."""

    called: str  # before the name of one
    noun: str  # of its commands
    end: str  # the verb that ends one
    listing: str  # the verb that lists them
    pointers: type[P]
    root: str
    pointer_path: Callable[[str], str]  # of a deployment
    path: Callable[..., str]  # of a deployment, an id, and a part
    lock: Callable[[str, str], str]  # of a deployment and an id; its driver holds it

    # -- words --

    def name(self, key: Key) -> str:
        """The words for one execution.

        >>> TASK_RUN.name(Key("lab", "0000000003"))
        'tasks run lab/0000000003'
        """
        return f"{self.called} {key}"

    def under_way(self, key: Key, effect: str = "") -> str:
        """A refusal: this one is under way. ``effect`` states the consequence.

        >>> ROLLOUT.under_way(Key("lab", "1"))
        'rollout lab/1 is under way; wait for it: nodepool-ocb rollout wait lab/1, or end it: nodepool-ocb rollout cancel lab/1'
        """
        wait, end = (f"nodepool-ocb {self.noun} {verb} {key}" for verb in ("wait", self.end))
        return f"{self.name(key)} is under way{effect}; wait for it: {wait}, or end it: {end}"

    def deleted(self, key: Key) -> str:
        """The end of a wait for one that is gone."""
        return f"{self.name(key)} was deleted; see: nodepool-ocb {self.noun} {self.listing}"

    # -- transactions --

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
        path, known, version = self.pointer_path(deployment), versions.pointer, versions.version
        moved = Set(path, replace(known, over=over, since=now), version)
        held = Check(path, version) if over == known.over else moved
        return [held, *self._sets(deployment, identity, parts, versions)]

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


ROLLOUT: Final = ExecutionKind(
    called="rollout",
    noun="rollout",
    end="cancel",
    listing="list",
    pointers=RolloutPointer,
    root=paths.ROLLOUTS,
    pointer_path=paths.rollouts,
    path=paths.rollout,
    lock=paths.rollout_lock,
)
TASK_RUN: Final = ExecutionKind(
    called="tasks run",
    noun="tasks",
    end="stop",
    listing="runs",
    pointers=TaskRunPointer,
    root=paths.TASK_RUNS,
    pointer_path=paths.task_runs,
    path=paths.task_run,
    lock=paths.task_run_lock,
)
