"""The records of former rollouts and runs of tasks of a deployment, and its task list, for their deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class HistoryDeletions(msgspec.Struct, frozen=True):
    """The deletions of a history, at the versions of the world that was read last."""

    below: Sequence[Change]  # of all former executions
    top: Sequence[Change]  # of the znode above them
    emptied: Sequence[Change]  # ``below`` in an order that may stop after each change


class ReadHistory(Lookup[HistoryDeletions], frozen=True):
    """All executions below a path; raises Stale if a record came or changed since the world was read."""

    records = "rollouts and runs of tasks"

    path: str

    def answer(self, reader: Reader) -> HistoryDeletions:
        from nodepool_ocb.store.driven import pointers
        from nodepool_ocb.store.subtree import judged, subtree

        znodes = subtree(reader.session, self.path)
        heads = [each.path for each in znodes if each.path.rpartition("/")[0] == znodes[-1].path]
        return HistoryDeletions(
            below=judged(reader.world, znodes[:-1]),
            top=judged(reader.world, znodes[-1:]),
            emptied=list(pointers.emptied(znodes[:-1], heads)),
        )


class ReadTaskList(Lookup[Sequence[Change]], frozen=True):
    """The deletions of a deployment's task list."""

    records = "task lists"

    deployment: str

    def answer(self, reader: Reader) -> Sequence[Change]:
        from nodepool_ocb.store.tasks import lists

        return lists.removal(reader.session, lists.deployment(self.deployment))


class RefusePreparing(Lookup[None], frozen=True):
    """Raises Conflict while a run of tasks of the deployment is being prepared."""

    records = "runs of tasks"

    deployment: str

    def answer(self, reader: Reader) -> None:
        from nodepool_ocb.store.tasks import beginning

        beginning.refuse_preparing(reader.session, self.deployment, reader.world.task_runs[self.deployment].record)
