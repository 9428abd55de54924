"""Strategies before they are carried out: what a check, a plan and selectors show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout.plan import Plan, levels
from nodepool_ocb.rollout.strategy import Group, Strategy
from nodepool_ocb.views.view import View

SHOWN: Final = 20  # overlaps and names in a sentence; -o json has all


class StrategyDocument(View, frozen=True):
    """A strategy with the rules that it leaves to the default, which are part of what it means."""

    record: Strategy


class PlanDocument(View, frozen=True):
    """Which nodes each group of a strategy has, and in which order."""

    name: str  # of the strategy
    deployment: str
    inventory: str  # the version of the nodes that it was made of
    record: Plan


class PlannedGroup(View, frozen=True, kw_only=True):
    """A group of a strategy."""

    level: int  # how many groups it must wait for, one after the other
    name: str
    critical: bool
    nodes: int | None  # None where no nodes were looked at
    depends_on: tuple[str, ...]
    success_criteria: str | None  # in words


class Selected(View, frozen=True, kw_only=True):
    """A node that selectors mean."""

    name: str
    deployment: str
    rack: str | None
    tags: tuple[str, ...]
    labels: tuple[str, ...]  # "key:value"


def checked(strategy: Strategy) -> list[PlannedGroup]:
    """The groups in the order of the document."""
    level_of = {name: level for level, row in enumerate(levels(strategy)) for name in row}
    return [_group(group, level_of[group.name]) for group in strategy.groups]


def planned(strategy: Strategy, plan: Plan) -> list[PlannedGroup]:
    """The groups in the order in which they would be carried out, as far as it is known."""
    groups = {group.name: group for group in strategy.groups}
    return [
        _group(groups[name], level, len(plan.members[name])) for level, row in enumerate(plan.levels) for name in row
    ]


def _group(group: Group, level: int, nodes: int | None = None) -> PlannedGroup:
    return PlannedGroup(
        level=level,
        name=group.name,
        critical=group.critical,
        nodes=nodes,
        depends_on=group.depends_on,
        success_criteria=criteria(group),
    )


def criteria(group: Group) -> str | None:
    """The criteria of a group in words.

    >>> from nodepool_ocb.rollout.strategy import Criteria, Group
    >>> criteria(Group(name="a", success_criteria=Criteria(percent_successful_nodes=50, maximum_failed_nodes=0)))
    'at least 50% successful, at most 0 failed'
    """
    wanted = group.success_criteria
    numbers = (
        (wanted.percent_successful_nodes, "at least {}% successful"),
        (wanted.minimum_successful_nodes, "at least {} successful"),
        (wanted.maximum_failed_nodes, "at most {} failed"),
    )
    return ", ".join(words.format(number) for number, words in numbers if number is not None) or None


def unmet(plan: Plan) -> list[str]:
    """A sentence for each criterion that cannot be met."""
    return [f"group {group}: {text}" for group, texts in plan.unmet.items() for text in texts]


def notes(plan: Plan) -> Iterator[str]:
    """What somebody should know of a plan."""
    for overlap in plan.overlaps[:SHOWN]:
        many = f"{overlap.nodes} node" + ("s" if overlap.nodes != 1 else "")
        yield f"groups {overlap.first} and {overlap.second} have {many} in common; each is sent once"
    if len(plan.overlaps) > SHOWN:
        yield f"{len(plan.overlaps) - SHOWN} more pairs of groups have nodes in common; -o json has all"
    for name, nodes in plan.members.items():
        if not nodes:
            yield f"group {name} has no nodes"
    for name, strangers in plan.strangers.items():
        yield f"group {name} names nodes that do not exist: {_some(strangers)}"
    if plan.ungrouped:
        yield f"{len(plan.ungrouped)} in no group: {_some(plan.ungrouped)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def selected(names: Iterable[str], nodes: Mapping[str, Node]) -> list[Selected]:
    """These of the nodes."""
    return [
        Selected(
            name=name,
            deployment=nodes[name].deployment,
            rack=nodes[name].rack,
            tags=nodes[name].tags,
            labels=tuple(f"{key}:{value}" for key, value in sorted(nodes[name].labels.items())),
        )
        for name in names
    ]
