"""Strategies before a rollout: the results of a check, a plan and selectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout.plan import RolloutPlan, levels
from nodepool_ocb.rollout.precedence import Late
from nodepool_ocb.rollout.report import SKIPPED
from nodepool_ocb.rollout.strategy import Group, Strategy, commits_nothing
from nodepool_ocb.views.view import View

SHOWN: Final = 20  # overlaps and names in a sentence; -o json has all


class StrategyDocument(View, frozen=True):
    """A strategy, with the rules that it leaves to the default."""

    record: Strategy


class RolloutPlanDocument(View, frozen=True):
    """Which nodes each group of a strategy has, and in which order."""

    name: str  # of the strategy
    deployment: str
    inventory: str  # the version of the nodes that it was made of
    record: RolloutPlan


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


def planned(strategy: Strategy, plan: RolloutPlan) -> list[PlannedGroup]:
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


def unmet(plan: RolloutPlan) -> list[str]:
    """A sentence for each criterion that cannot be met by the nodes that a group has.

    A group without nodes gets no sentence: it fails when its turn comes, as in Airship's design.
    """
    return [f"group {group}: {text}" for group, texts in plan.unmet.items() for text in texts if plan.members[group]]


def late(found: Sequence[Late]) -> list[str]:
    """A sentence for each noderole that waits for a parent which comes too late; SHOWN at the most."""
    more = [f"{len(found) - SHOWN} more noderoles wait for parents that come later"] if len(found) > SHOWN else []
    return [*map(_late, found[:SHOWN]), *more]


def _late(each: Late) -> str:
    waits = f"group {each.turn.group}: {each.noderole} waits for {each.parent}, which"
    if each.parent_turn is None:
        return f"{waits} is PROPOSED, and which no group and phase commits; commit it first, or select its node"
    group = each.parent_turn.group
    if group != each.turn.group:
        return f"{waits} group {group} commits later; let group {each.turn.group} depend on group {group}"
    what = "batch" if each.parent_turn.batch != each.turn.batch else "phase"
    return f"{waits} is committed in a later {what} of this group"


def skipped(strategy: Strategy) -> Iterator[str]:
    """A sentence for each phase that commits nothing."""
    for position, phase in enumerate(strategy.phases):
        if commits_nothing(strategy.phases, position):
            yield f"phase {phase.name} is {SKIPPED}"


def notes(strategy: Strategy, plan: RolloutPlan) -> Iterator[str]:
    """Warnings about a plan, as sentences."""
    yield from skipped(strategy)
    for overlap in plan.overlaps[:SHOWN]:
        many = counted(overlap.nodes, "node")
        yield f"groups {overlap.first} and {overlap.second} have {many} in common; each is sent once"
    if len(plan.overlaps) > SHOWN:
        more = counted(len(plan.overlaps) - SHOWN, "more pair of groups has", "more pairs of groups have")
        yield f"{more} nodes in common; -o json has all"
    for name, nodes in plan.members.items():
        if not nodes:
            fails = "".join(f", and fails: {text}" for text in plan.unmet.get(name, ()))
            yield f"group {name} has no nodes{fails}"
    for name, strangers in plan.strangers.items():
        yield f"group {name} names nodes that do not exist: {some(strangers, SHOWN)}"
    if plan.ungrouped:
        yield f"{len(plan.ungrouped)} in no group: {some(plan.ungrouped, SHOWN)}"


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
