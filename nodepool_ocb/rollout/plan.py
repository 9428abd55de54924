"""A strategy applied to the nodes: a plan to look at, and a rollout that begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine.selection.bits import positions
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout import selectors
from nodepool_ocb.rollout.records import Rollout, ranges, split
from nodepool_ocb.rollout.selectors import Index
from nodepool_ocb.rollout.states.groups import GroupEvent, new_group
from nodepool_ocb.rollout.states.members import MemberEvent, new_member
from nodepool_ocb.rollout.states.rollouts import RolloutEvent, new_rollout
from nodepool_ocb.rollout.strategy import Criteria, InFlight, Strategy


class Overlap(msgspec.Struct, frozen=True):
    """Two groups that have nodes in common."""

    first: str
    second: str
    nodes: int


class RolloutPlan(msgspec.Struct, frozen=True):
    """The plan of a rollout: groups with their nodes, and the problems."""

    levels: tuple[tuple[str, ...], ...]  # groups by how many groups they must wait for, one after the other
    members: Mapping[str, tuple[str, ...]]  # group → nodes, in the order of the document
    overlaps: tuple[Overlap, ...]
    ungrouped: tuple[str, ...]  # nodes in no group
    unmet: Mapping[str, tuple[str, ...]]  # group → the criteria that cannot be met, with numbers
    strangers: Mapping[str, tuple[str, ...]]  # group → node_names that no node has


def plan(strategy: Strategy, nodes: Mapping[str, Node]) -> RolloutPlan:
    """The groups with their members, and the problems to know before they begin."""
    index = Index(nodes)
    masks = {group.name: index.mask(group.selectors) for group in strategy.groups}
    grouped = 0
    for mask in masks.values():
        grouped |= mask
    unmet = {group.name: tuple(_unmet(group.success_criteria, masks[group.name])) for group in strategy.groups}
    strangers = {group.name: tuple(index.strangers(group.selectors)) for group in strategy.groups}
    return RolloutPlan(
        levels=levels(strategy),
        members={name: tuple(index.names[position] for position in positions(mask)) for name, mask in masks.items()},
        overlaps=tuple(_overlaps(masks)),
        ungrouped=tuple(index.names[position] for position in positions(index.every & ~grouped)),
        unmet={name: reasons for name, reasons in unmet.items() if reasons},
        strangers={name: names for name, names in strangers.items() if names},
    )


def _unmet(criteria: Criteria, mask: int) -> Iterator[str]:
    """Before anything has failed, only a minimum can be out of reach."""
    least = criteria.minimum_successful_nodes or 0
    if least > mask.bit_count():
        nodes = mask.bit_count()
        yield f"minimum_successful_nodes: {least} wanted, and it has {counted(nodes, 'node')}"


def _overlaps(masks: Mapping[str, int]) -> Iterator[Overlap]:
    for (first, some), (second, others) in combinations(masks.items(), 2):
        if some & others:
            yield Overlap(first, second, (some & others).bit_count())


def levels(strategy: Strategy) -> tuple[tuple[str, ...], ...]:
    """The groups in rows: each depends on some group of the row before it, and on none of its own row or a later one."""
    waiting = {group.name: set(group.depends_on) for group in strategy.groups}
    rows: list[tuple[str, ...]] = []
    while waiting:
        row = tuple(name for name, above in waiting.items() if not above)
        if not row:
            raise Invalid(
                f"groups depend on one another, or on groups that do not exist: {', '.join(waiting)}; correct their depends_on"
            )
        rows.append(row)
        for name in row:
            del waiting[name]
        for above in waiting.values():
            above.difference_update(row)
    return tuple(rows)


class Again(msgspec.Struct, frozen=True):
    """The noderoles that the rollout runs again, in place of committing all PROPOSED ones."""

    words: str  # the selection, for people
    roles: Mapping[str, Mapping[str, int]]  # node → role → the epoch of its newest run
    redeploy: bool = False  # from the start, destructive ones too


def begin(
    strategy: Strategy, nodes: Mapping[str, Node], now: float, by: str | None = None, again: Again | None = None
) -> Rollout:
    """A rollout of these nodes, with its members chosen for good; nothing is sent yet.

    Nodes are sent in the order of their names; those with anything to run ``again`` first, so that a canary is one of them.
    Raises Invalid if groups depend on one another.
    """
    levels(strategy)
    index = Index(nodes)
    roles = again.roles if again else {}
    order = sorted(index.names, key=lambda name: (not roles.get(name), name))
    place = {name: position for position, name in enumerate(order)}
    groups, members = {}, {}
    for group in strategy.groups:
        chosen = sorted(place[index.names[position]] for position in positions(index.mask(group.selectors)))
        members[group.name] = tuple(order[position] for position in chosen)
        groups[group.name] = new_group(GroupEvent.PLAN, now, group=replace(group, selectors=()), members=ranges(chosen))
    progress = {
        name: new_member(
            MemberEvent.ENTER,
            now,
            domains=tuple(_domains(strategy.max_in_flight, nodes[name])),
            again=dict(roles.get(name, {})),
        )
        for name in order
    }
    head = new_rollout(
        RolloutEvent.BEGIN,
        now,
        strategy=replace(strategy, groups=()),
        groups=tuple(groups),
        nodes=len(nodes),
        inventory=selectors.version(nodes),
        by=by,
        again=again.words if again else None,
        redeploy=again is not None and again.redeploy,
    )
    return Rollout(head, groups, progress, members, split(progress))


def _domains(limits: InFlight, node: Node) -> Iterator[str]:
    """The failure domains of a node which the strategy limits."""
    if limits.rack is not None and node.rack is not None:
        yield f"rack {node.rack}"
    for key in limits.labels:
        if key in node.labels:
            yield f"label {key}:{node.labels[key]}"
