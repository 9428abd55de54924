"""The answers of conditions for the compiler: whether a task runs on a node, with which parameters, and how many at a time.

An expression that fails on its facts is a fault of the plan. Faults are collected, and ``check`` raises all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions.memory import Memory
from nodepool_ocb.tasks.conditions.models import Models, NodeFacts
from nodepool_ocb.tasks.conditions.tree import ConditionResult, shown
from nodepool_ocb.tasks.conditions.yaql.evaluation import Evaluation, Evaluator, YaqlQuery, check_fault, scopes
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.tasklist import Expression, Language, Relation, Task, TaskList, relation

YAQL: Final = "yaql_exp"  # the only key of a mapping that is replaced by the value of its expression

FactsOf: TypeAlias = Callable[[Member | None], NodeFacts]  # of a node; None: those that all nodes have
OldFactsOf: TypeAlias = Callable[
    [Task, Member | None], NodeFacts | None
]  # of the task's last good run there; None: there was none


def no_old_facts(_task: Task, _member: Member | None) -> None:
    """Nothing ran before."""


class ConditionInputs(msgspec.Struct, frozen=True):
    """The inputs of conditions. ``evaluator``: that of YAQL; None: a list with YAQL is refused."""

    models: Models
    facts_of: FactsOf = lambda _: NodeFacts()
    old_facts_of: OldFactsOf = no_old_facts
    evaluator: Evaluator | None = None


class Judge:
    """Call it with a task and a node (None for a stage): None if it runs there, else the sentence why it is skipped.

    Every expression of the list is parsed at once: raises Invalid with FILE:LINE of each that cannot be. ``force``: nothing
    is known of runs before, so that everything counts as changed. ``computes``: the tasks that have computed parameters.
    """

    def __init__(self, tasks: TaskList, sources: ConditionInputs, *, force: bool = False) -> None:
        self._sources = sources
        self._force = force
        self._memory = Memory(sources.models, sources.evaluator)
        self.computes = frozenset(task.id for task in tasks.tasks if any(_in_parameters(task.parameters)))
        self._everywhere: dict[
            str, str | None
        ] = {}  # task → why it is skipped, by a condition that is the same for all nodes
        self.missing: dict[str, None] = {}  # settings that are not there, or null, and that a condition may miss
        self._faults: dict[tuple[str, str], str] = {}  # (place, sentence) → the whole sentence, with the first node
        for task in tasks.tasks:
            for what, expression in _expressions(task):
                self._try(task, what, None, self._memory.parsed, expression)
        self.check()

    @property
    def evaluated(self) -> int:
        """How many evaluations there were."""
        return self._memory.evaluated

    def __call__(self, task: Task, member: Member | None) -> str | None:
        condition = task.condition
        if isinstance(condition, bool):
            return None if condition else "its condition is false"
        if condition.language is Language.YAQL:
            return self._why(task, condition, member)
        if task.id not in self._everywhere:
            self._everywhere[task.id] = self._why(task, condition, member)
        return self._everywhere[task.id]

    def parameters(self, task: Task, member: Member | None) -> Mapping[str, Json]:
        """Those of the task's parameters that are computed, as they are on this node; of most tasks none."""
        if task.id not in self.computes:
            return {}
        return {
            name: self._try(task, f"parameters.{name}", member, self._resolved, task, value, member)
            for name, value in task.parameters.items()
            if any(_in_parameters(value))
        }

    def relations(self, task: Task, expression: Expression, member: Member) -> Sequence[Relation]:
        """The computed relations of a task on a node; none if they fail."""
        return self._try(task, "cross-depends", member, self._relations, task, expression, member) or ()

    def _relations(self, task: Task, expression: Expression, member: Member) -> Sequence[Relation]:
        value = check_fault(self._memory.answer(self._question(task, expression.text, member)))
        found = value if isinstance(value, list) else [value] if value is not None else []
        for each in found:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise Invalid(
                    f"it is {shown(value)}, and a list of relations is needed: {{name, role, policy}}; correct the expression"
                )
            if each.get("policy", "all") not in ("all", "any"):
                raise Invalid(f"policy {shown(each['policy'])} is neither all nor any; write one of these")
        return [relation(each) for each in found]

    def amount(self, task: Task, expression: Expression) -> int:
        """The amount in the strategy of a task, evaluated. If that fails: 1, and the fault is noted for ``check``."""
        return self._try(task, "strategy.amount", None, self._amount, task, expression) or 1

    def check(self) -> None:
        """Raises Invalid with every fault that was met, ``FILE:LINE: task: what is wrong``."""
        if self._faults:
            raise Invalid(tuple(self._faults.values()))

    def _why(self, task: Task, condition: Expression, member: Member | None) -> str | None:
        verdict = self._try(task, "condition", member, self._verdict, task, condition, member)
        return None if verdict is None or verdict.holds else f"its condition is {verdict}"

    def _verdict(self, task: Task, expression: Expression, member: Member | None) -> ConditionResult:
        if expression.language is not Language.YAQL:
            verdict = self._memory.verdict(expression)
            if expression.language is Language.SETTINGS and not expression.strict:
                self.missing |= {name: None for name, value in verdict.reads if value is None and name[-1] != "?"}
            return verdict
        question = self._question(task, expression.text, member)
        answer = self._memory.answer(question)
        return ConditionResult(expression.text, check_fault(answer), tuple(_read(question, answer)))

    def _resolved(self, task: Task, value: Json, member: Member | None) -> Json:
        text = _text(value)
        if text is not None:
            return check_fault(self._memory.answer(self._question(task, text, member)))
        if isinstance(value, dict):
            return {name: self._resolved(task, each, member) for name, each in value.items()}
        return [self._resolved(task, each, member) for each in value] if isinstance(value, list) else value

    def _amount(self, task: Task, expression: Expression) -> int:
        value = self._verdict(task, expression, None).value
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value[:10])
        if type(value) is not int or value < 1:
            raise Invalid(
                f"{expression.text} is {shown(value)}, and a whole number above 0 is needed; correct the expression"
            )
        return value

    def _question(self, task: Task, text: str, member: Member | None) -> YaqlQuery:
        old = None if self._force else self._sources.old_facts_of(task, member)
        return YaqlQuery(text, self._sources.facts_of(member), old or NodeFacts())

    def _try(self, task: Task, what: str, member: Member | None, answer: Callable[..., Any], *of: Any) -> Any:
        """The answer; None, with the fault noted, if it fails."""
        try:
            return answer(*of)
        except Invalid as fault:
            on = f" (on {member.name})" if member else ""
            sentence = f"{task.place or task.origin or 'list'}: {task.id}: {what}: {fault}"
            self._faults.setdefault((task.id, sentence), sentence + on)
            return None


def computed(plan: TaskPlan, judge: Judge, tasks: TaskList, members: Iterable[Member]) -> TaskPlan:
    """The plan with the computed parameters of every task that runs; ``judge.check`` tells which could not be."""
    if not judge.computes:
        return plan
    member = {each.name: each for each in members}
    found = dict(plan.parameters)
    for vertex, (number, node) in enumerate(zip(plan.task_of, plan.node_of, strict=True)):
        if plan.tasks[number] in judge.computes and vertex not in plan.skipped:
            own = judge.parameters(tasks.by_id[plan.tasks[number]], member.get(plan.nodes[node]))
            found[vertex] = {**found.get(vertex, {}), **own}
    return replace(plan, parameters=found)


def _expressions(task: Task) -> Iterator[tuple[str, Expression]]:
    """The expressions of a task, each with its field."""
    if isinstance(task.condition, Expression):
        yield "condition", task.condition
    if task.strategy and isinstance(task.strategy.amount, Expression):
        yield "strategy.amount", task.strategy.amount
    for computed_ in (*task.computed_depends, *task.computed_depended_by):
        yield "cross-depends", computed_
    for text in _in_parameters(task.parameters):
        yield "parameters", Expression(Language.YAQL, text)


def _in_parameters(value: Json) -> Iterator[str]:
    """The texts of the expressions in a value."""
    text = _text(value)
    if text is not None:
        yield text
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _in_parameters(each)


def _text(value: Json) -> str | None:
    """Of the expression that the value is."""
    alone = isinstance(value, dict) and value.keys() == {YAQL} and isinstance(value[YAQL], str)
    return value[YAQL] if alone else None


def _read(question: YaqlQuery, answer: Evaluation) -> Iterator[tuple[str, Json]]:
    """The facts that it read, as a verdict shows them: a large one by its size alone."""
    facts = scopes(question)
    for scope, names in sorted(answer.reads.items()):
        for name in names or ():
            yield f"{scope}.{name}", _brief(facts[scope].get(name))


def _brief(value: Json) -> Json:
    match value:
        case dict():
            return f"an object of {len(value)}"
        case list():
            return f"a list of {len(value)}"
    return value
