"""Runs of tasks: those of the past, their outcomes and facts; and the begin of a run."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, LockOwner, Role
from nodepool_ocb.operations.operation import Lookup, Procedure, final
from nodepool_ocb.tasks.plan import VIRTUAL
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRun

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.tasks.runs.history import HistoryRow

DONE = "it is done"  # the reason of a skipped instance that succeeded in an earlier run


class EarlierRun(NamedTuple):
    """A run that was begun."""

    id: str
    head: TaskRun


class ReadEarlierRuns(Lookup[tuple[EarlierRun, ...]], frozen=True):
    """The runs of a deployment, the newest first; runs that cannot be decoded are left out."""

    records = "runs of tasks"

    deployment: str

    def answer(self, reader: Reader) -> tuple[EarlierRun, ...]:
        from nodepool_ocb.store.tasks import runs

        found = runs.list_(reader.session, [self.deployment])
        return tuple(EarlierRun(each.id, each.head) for each in sorted(found, key=lambda each: each.id, reverse=True))


class FoundTaskRun(NamedTuple):
    """A run, and the outcome of each of its instances."""

    running: LoadedTaskRun
    rows: Sequence[HistoryRow]


class ReadTaskRun(Lookup["FoundTaskRun | None"], frozen=True):
    """A run as it is; None if it does not exist or was never begun.

    If it is under way, its instances stand as their noderoles do. Raises Invalid if a part of it is broken.
    """

    records = "runs of tasks, everything below /ocb"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> FoundTaskRun | None:
        from nodepool_ocb.store.tasks import runs
        from nodepool_ocb.store.world.load import load_world

        with final():
            read = runs.read(reader.session, self.deployment, self.identity)
        if read is None:
            return None
        running = read[0]
        world = World() if running.head.over else load_world(reader.session)
        return FoundTaskRun(running, runs.rows(reader.session, world, running))


class ReadDone(Lookup[frozenset[tuple[str, str]]], frozen=True):
    """The (task, node) that succeeded in a run that is over, or before it began; node "" for stages.

    On a node that was created after the run began, nothing was done in it: that was another node of this name.
    """

    records = "runs of tasks"

    deployment: str
    run: str

    def answer(self, reader: Reader) -> frozenset[tuple[str, str]]:
        return frozenset(Outcomes(reader.session, self.deployment).done_in(self.run))


class ReadSucceeded(Lookup[Mapping[tuple[str, str], str]], frozen=True):
    """(task, node) → the newest of these runs in which it succeeded; node "" for stages."""

    records = "runs of tasks"

    deployment: str
    runs: tuple[str, ...]  # that are over, the newest first

    def answer(self, reader: Reader) -> Mapping[tuple[str, str], str]:
        return Outcomes(reader.session, self.deployment).succeeded(self.runs)


class Outcomes:
    """The outcomes of the kept runs of a deployment; for one answer of a lookup."""

    def __init__(self, opened: Session, deployment: str) -> None:
        self._opened, self._deployment = opened, deployment
        self._created: dict[str, int] = {}  # path → the zxid of its creation

    def succeeded(self, runs: Collection[str]) -> dict[tuple[str, str], str]:
        """The answer of ``ReadSucceeded``."""
        found: dict[tuple[str, str], str] = {}
        for run in runs:
            for key in self.done_in(run):
                found.setdefault(key, run)
        return found

    def done_in(self, run: str) -> set[tuple[str, str]]:
        """The answer of ``ReadDone``."""
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
        """The nodes that are the same as when the run began; with "", the stages."""
        begun = paths.task_run(self._deployment, run)
        by_name = {name: paths.node(name) for name in nodes if name}
        unread = [path for path in (begun, *by_name.values()) if path not in self._created]
        for path, znode in zip(unread, self._opened.get_many(unread), strict=True):
            self._created[path] = znode.czxid if znode is not None else sys.maxsize
        return {VIRTUAL, *(name for name, path in by_name.items() if self._created[path] < self._created[begun])}


class ReadRunFacts(Lookup[Mapping[str, Json]], frozen=True):
    """The facts of a run: of one node, or those that all nodes have; empty if there are none."""

    records = "facts of runs of tasks"

    deployment: str
    run: str
    part: str = "common"

    def answer(self, reader: Reader) -> Mapping[str, Json]:
        return run_facts(reader.session, self.deployment, self.run, self.part)


def run_facts(opened: Session, deployment: str, run: str, part: str) -> Mapping[str, Json]:
    """The answer of ``ReadRunFacts``."""
    from nodepool_ocb.store.client import codec

    znode = opened.get(paths.task_facts(deployment, run, part))
    return codec.attributes(znode) if znode is not None else {}


class BeginTaskRun(Procedure[str], frozen=True, kw_only=True):
    """Write a run, bind its noderoles, and let an annealer drive it. The answer: its id.

    Raises Conflict while another run of the deployment is under way or being prepared, and if a noderole is in TRANSITION.
    """

    running: LoadedTaskRun  # its id is not known yet: ""
    roles: Mapping[str, Role]  # name → the role for the catalogue
    facts: Mapping[str, Mapping[str, Json]]  # node, or "common" → the attributes that jigs see
    texts: Sequence[tuple[str, str]]  # path, text of each file of the task list

    def carry_out(self, reader: Reader) -> str:
        from nodepool_ocb.store.tasks import beginning

        me = LockOwner(
            daemon=f"nodepool-ocb of {reader.performer.call.login}",
            host=socket.gethostname(),
            pid=os.getpid(),
            purpose="begins a run of tasks",
            since=reader.session.now(),
        )
        wanted = beginning.NewTaskRun(running=self.running, roles=self.roles, facts=self.facts, texts=self.texts)
        return beginning.begin(reader.session, wanted, me)
