"""What the kept runs of a deployment say of the past: what succeeded where, and with which facts.

On a node that was made after a run began, nothing was done in it: it was another node of that name.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.facts import ClusterStatus, cluster_status, remembered
from nodepool_ocb.tasks.plan import VIRTUAL, Member
from nodepool_ocb.tasks.tasklist import Task

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.tasks.runs import Listed
    from nodepool_ocb.tasks.conditions import Facts

DONE = "it is done"  # why a task is skipped that an earlier run did


class Past:
    """The runs that are over, the newest first; a run that changed nothing (``--noop``) does not count."""

    def __init__(self, opened: Session, deployment: str) -> None:
        from nodepool_ocb.store.tasks import runs

        self._opened, self._deployment = opened, deployment
        self.runs: list[Listed] = sorted(runs.list_(opened, [deployment]), key=lambda each: each.id, reverse=True)
        self._facts: dict[tuple[str, str], dict[str, Json]] = {}
        self._made: dict[str, int] = {}  # path → the zxid of what made it

    @property
    def status(self) -> ClusterStatus:
        """How the deployment stands, for conditions."""
        counted = [each for each in self.runs if not each.head.noop]
        return cluster_status(str(counted[0].head.state) if counted else None)

    @property
    def last(self) -> Listed:
        """The newest; raises Conflict where there is none that can be gone on with."""
        newest = next((each for each in self.runs if not each.head.noop), None)
        if newest is None:
            raise Conflict(
                f"deployment {self._deployment} has no run of tasks that could be gone on with; leave --retry away"
            )
        if not newest.head.over:
            raise Conflict(
                f"tasks run {self._deployment}/{newest.id} is under way; nodepool-ocb tasks wait {self._deployment}"
            )
        if newest.head.state == "successful":
            raise Conflict(
                f"nothing failed in tasks run {self._deployment}/{newest.id}; leave --retry away to run all again"
            )
        return newest

    @cached_property
    def succeeded(self) -> dict[tuple[str, str], str]:
        """(task, node) → the newest run in which it did well; node "" for stages."""
        found: dict[tuple[str, str], str] = {}
        for each in self.runs:
            if each.head.over and not each.head.noop:
                for key in self.done_in(each.id):
                    found.setdefault(key, each.id)
        return found

    def done_in(self, run: str) -> set[tuple[str, str]]:
        """What did well in a run that is over, or had before it began."""
        from nodepool_ocb.store.tasks import runs
        from nodepool_ocb.tasks.runs.history import of_json
        from nodepool_ocb.tasks.runs.records import Outcome, Table

        rows = [of_json(row) for row in runs.table(self._opened, self._deployment, run, Table.HISTORY)]
        here = self._here_since(run, {row.node for row in rows})
        return {
            (row.task, row.node)
            for row in rows
            if row.node in here
            and (row.outcome == Outcome.SUCCESSFUL or (row.outcome == Outcome.SKIPPED and row.reason == DONE))
        }

    def _here_since(self, run: str, nodes: set[str]) -> set[str]:
        """Those of the nodes that are the same as when the run began; with "", the stages."""
        begun = paths.task_run(self._deployment, run)
        by_name = {name: paths.node(name) for name in nodes if name}
        unread = [path for path in (begun, *by_name.values()) if path not in self._made]
        for path, znode in zip(unread, self._opened.get_many(unread), strict=True):
            self._made[path] = znode.czxid if znode is not None else sys.maxsize
        return {VIRTUAL, *(name for name, path in by_name.items() if self._made[path] < self._made[begun])}

    def facts_of(self, task: Task, member: Member | None) -> Facts | None:
        """Those with which the task did well on the node last; None where it never did."""
        node = member.name if member else VIRTUAL
        run = self.succeeded.get((task.id, node))
        if run is None:
            return None
        return remembered(self._read(run, "common"), self._read(run, node) if node else {})

    def _read(self, run: str, part: str) -> dict[str, Json]:
        from nodepool_ocb.store.client import codec

        key = (run, part)
        if key not in self._facts:
            znode = self._opened.get(paths.task_facts(self._deployment, run, part))
            self._facts[key] = codec.attributes(znode).get("astute", {}) if znode is not None else {}
        return self._facts[key]


def facts_file(opened: Session, deployment: str, run: str) -> str | None:
    """Where a run had the file of facts; None where it had none."""
    from nodepool_ocb.store.client import codec

    znode = opened.get(paths.task_facts(deployment, run))
    return codec.attributes(znode).get("tasks", {}).get("facts_file") if znode is not None else None
