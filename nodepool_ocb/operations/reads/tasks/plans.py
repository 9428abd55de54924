"""Plans of task lists: compiled with the answers to their conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.operations.reads.tasks.runs import Outcomes, run_facts
from nodepool_ocb.tasks.plan import VIRTUAL, Member, TaskPlan
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.tasks.tasklist import Task

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.tasks.conditions import NodeFacts
    from nodepool_ocb.tasks.facts import ClusterStatus
    from nodepool_ocb.tasks.run_inputs import RunInputs


class CompiledPlan(NamedTuple):
    """A plan, and the settings that its conditions missed and may miss."""

    plan: TaskPlan
    missing: tuple[str, ...]


class CompilePlan(Lookup[CompiledPlan], frozen=True, kw_only=True):
    """Compile a plan: one for the nodes of a run, or for a rollout one for each part of them, which then become one plan.

    Conditions in YAQL are evaluated by a bounded process of the performer's host. The facts of
    an earlier run are read if a condition asks for them. Raises Invalid with all that is wrong in the list on
    these nodes.
    """

    records = "runs of tasks, facts of runs of tasks"

    deployment: str
    inputs: RunInputs
    everyone: Sequence[Member]  # all nodes of the deployment
    parts: Mapping[str, Sequence[Member]]  # part → its nodes
    rolled: bool  # a rollout sends the parts
    selection: Selection
    force: bool  # conditions on changes see everything as new
    done: Set[tuple[str, str]]  # (task, node) that are left out, because they succeeded before
    status: ClusterStatus
    earlier: tuple[str, ...]  # ids of runs with facts to compare with, the newest first

    def answer(self, reader: Reader) -> CompiledPlan:
        from nodepool_ocb.bounded.yaql import Yaql
        from nodepool_ocb.tasks.compiling import compile
        from nodepool_ocb.tasks.conditions import Judge
        from nodepool_ocb.tasks.conditions.judging import computed
        from nodepool_ocb.tasks.runs import merging

        tasks, members = self.inputs.tasks, [each for own in self.parts.values() for each in own]
        earlier = _EarlierFacts(reader.session, self.deployment, self.earlier)
        with Yaql() as evaluator:
            sources = self.inputs.sources(self.status, members, evaluator=evaluator, old_facts_of=earlier.of)
            judge = Judge(tasks, sources, force=self.force)
            plans = {
                part: compile(
                    tasks,
                    own,
                    self.everyone,
                    selection=self.selection or None,
                    judge=judge,
                    done=self.done,
                    amount_of=judge.amount,
                    tolerant=self.rolled,
                    relations_of=judge.relations,
                )
                for part, own in self.parts.items()
            }
            plan = merging.united(plans) if self.rolled else next(iter(plans.values()))
            plan = computed(plan, judge, tasks, members)
            judge.check()
        return CompiledPlan(plan, tuple(judge.missing))


class _EarlierFacts:
    """The facts with which tasks succeeded before; read when a condition asks for them."""

    def __init__(self, opened: Session, deployment: str, runs: tuple[str, ...]) -> None:
        self._opened, self._deployment, self._runs = opened, deployment, runs
        self._facts: dict[tuple[str, str], Mapping[str, Json]] = {}

    @cached_property
    def _succeeded(self) -> Mapping[tuple[str, str], str]:
        return Outcomes(self._opened, self._deployment).succeeded(self._runs)

    def of(self, task: Task, member: Member | None) -> NodeFacts | None:
        """The facts of the newest run in which the task succeeded on the node; None if it never did."""
        node = member.name if member else VIRTUAL
        run = self._succeeded.get((task.id, node))
        if run is None:
            return None
        from nodepool_ocb.tasks.facts import remembered  # here, so that a start of the command does not load it

        return remembered(self._read(run, "common"), self._read(run, node) if node else {})

    def _read(self, run: str, part: str) -> Mapping[str, Json]:
        key = (run, part)
        if key not in self._facts:
            self._facts[key] = run_facts(self._opened, self._deployment, run, part).get("astute", {})
        return self._facts[key]
