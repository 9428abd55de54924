"""From a list, the nodes and the settings of a deployment to all that a run gives to nodes and to conditions: the one way. Pure.

Run inputs are made before the plan, for the conditions by which it is compiled. After the plan they give each node its
attributes::

    inputs = RunInputs(deployment, tasks, settings, everyone, nodes)
    judge = Judge(inputs.tasks, inputs.sources(status, members, evaluator=evaluator, old_facts_of=...), force=force)
    plan = compile(inputs.tasks, members, everyone, judge=judge, amount_of=judge.amount)
    plan = computed(plan, judge, inputs.tasks, members)
    judge.check()
    facts = inputs.attributes(plan)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json, Node
from nodepool_ocb.tasks import facts
from nodepool_ocb.tasks.compiling.election import elected
from nodepool_ocb.tasks.conditions.judging import ConditionInputs, OldFactsOf, no_old_facts
from nodepool_ocb.tasks.conditions.yaql.evaluation import Evaluator
from nodepool_ocb.tasks.facts import ClusterStatus
from nodepool_ocb.tasks.parameters import completed
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.priorities import agendas
from nodepool_ocb.tasks.substitution import substituted
from nodepool_ocb.tasks.tasklist import TaskList

COMMON: Final = "common"  # in the place of a node's name: the facts of all nodes
NODE_BYTES: Final = 480 * 1024  # of a node's facts and computed parameters, as JSON


class RunInputs:
    """The inputs that a run gives to its nodes.

    ``tasks`` is the list with the facts that are the same everywhere in its texts. ``members`` are all nodes of the deployment,
    with their roles in this run. ``common`` are the facts that all of them have. Raises Invalid if these are too large.
    """

    def __init__(
        self,
        deployment: str,
        tasks: TaskList,
        settings: Mapping[str, Json],
        everyone: Sequence[Member],
        nodes: Mapping[str, Node],
    ) -> None:
        """``everyone``: all nodes of the deployment, with their own roles; ``nodes``: the records, by fqdn."""
        roles = elected(tasks, everyone)
        self._settings = settings
        self._own_roles = {member.name: member.roles for member in everyone}
        self._addresses = {member.name: facts.addresses_of(nodes[member.name]) for member in everyone}
        self.members = tuple(replace(member, roles=roles[member.name]) for member in everyone)
        self.common = facts.common(deployment, settings, self.members, self._addresses)
        names = facts.names_of_all(self.common)
        filled = (replace(task, parameters=substituted(task.parameters, names)) for task in tasks.tasks)
        self.tasks = TaskList(tuple(filled), tasks.compat_prefix)

    def sources(
        self,
        status: ClusterStatus,
        of_run: Iterable[Member],
        *,
        old_facts_of: OldFactsOf = no_old_facts,
        evaluator: Evaluator | None = None,
    ) -> ConditionInputs:
        """The facts for the conditions of a run on these members. A primary has its plain role, too, as ``api`` sees it."""
        names = {member.name for member in of_run}
        both = [
            replace(member, roles=tuple(dict.fromkeys((*self._own_roles[member.name], *member.roles))))
            for member in self.members
        ]
        return ConditionInputs(
            facts.models(self._settings, status, [each for each in both if each.name in names], both),
            facts.given(self.common, self.members, self._addresses),
            old_facts_of,
            evaluator,
        )

    def attributes(self, plan: TaskPlan) -> dict[str, dict[str, Json]]:
        """Node, or ``COMMON`` → ``astute``, its facts, and ``parameters``, which differ on it: task → parameters.

        Raises Invalid if they are too large.
        """
        uids = {member.name: member.uid for member in self.members}
        agenda = agendas(plan, self.tasks, uids, completed)
        found: dict[str, dict[str, Json]] = {COMMON: {"astute": self.common}}
        for member in self.members:
            if member.name in agenda:
                own = facts.of_node(member, self._addresses)
                found[member.name] = {"astute": facts.with_tasks(own, agenda[member.name])}
        for vertex, parameters in plan.parameters.items():
            if vertex not in plan.skipped:
                task, node = plan.tasks[plan.task_of[vertex]], plan.nodes[plan.node_of[vertex]]
                found[node].setdefault("parameters", {})[task] = dict(parameters)
        return {node: _checked(node, values) for node, values in found.items()}


def _checked(node: str, values: dict[str, Json]) -> dict[str, Json]:
    size = len(msgspec.json.encode(values))
    if size > NODE_BYTES:
        raise Invalid(
            f"the facts of {node} with its computed parameters take {size // 1024} KiB, and may take {NODE_BYTES // 1024};"
            " run fewer tasks at once, with --tasks or --end"
        )
    return values
