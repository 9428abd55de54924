"""The engine of rollouts: one step, from the records and the noderoles that are seen to decisions.

A step decides in one of five rounds, the first that has anything to decide, so that a round touches one kind of znode:

1. the pause of its deployment: then nothing is sent, and the rollout's own time stands still;
2. results: nodes in flight become sent, prepared, success, failure or unknown;
3. requested retries: nodes, then groups, are put back;
4. groups: they begin, pass phases and batches, pause, succeed and fail; and the rollout stops, or ends;
5. sending: nodes go in flight, as far as the limits allow.

If a part of a round was written, in its order, deciding again ends in the same place. The actions on noderoles (``actions``)
follow from the record alone, never from a decision that is not written yet.

The loop of a driver::

    rollout, versions = read()                                  # records.whole
    observer = Observer(world, deployment, rollout)             # of a world that is no older
    decided = step(rollout, observer.seen(), now)
    write(changed(rollout, apply(rollout, decided.decisions)))  # each part with the version that was read
    for transaction in apply_all(world, observer.moves(decided.actions), now):
        commit(transaction)                                     # held to the same record

Both writes carry one version of the record that was read (store.rollouts), which every other writer raises. So a slow driver
cannot commit noderoles that were taken back meanwhile. Several rounds may be written in one transaction, with the actions
that they allow. A round that is written in parts is written in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.rollout import groups
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.records import IN_FLIGHT, Decision, GroupState, NodeState, Progress, Rollout, cancelled
from nodepool_ocb.rollout.rounds import deciding, maintenance, retrying, returned, sending


class Directive(StrEnum):
    """The action for the noderoles of a node's phase."""

    COMMIT = "commit"  # those that are PROPOSED; in a rollout that reruns ACTIVE noderoles, these are refreshed
    RETRY = "retry"  # the same, and those in ERROR are retried
    RECALL = "recall"  # those in TODO or BLOCKED are proposed again, refreshes are withdrawn: nothing begins any more
    CANCEL = "cancel"  # the same, and the runs of those in TRANSITION are cancelled


#: Directives that let noderoles begin: not while the deployment is paused.
SENDS: Final = frozenset({Directive.COMMIT, Directive.RETRY})


class Action(msgspec.Struct, frozen=True):
    """A directive for one node. To carry it out twice does no harm."""

    directive: Directive
    node: str
    phase: int


class Step(msgspec.Struct, frozen=True):
    """``decisions`` are to be written, ``actions`` to be done; at ``due`` the time has come to look again."""

    decisions: tuple[Decision, ...]
    actions: tuple[Action, ...]
    due: float | None  # None: nothing comes from the passing of time


def step(rollout: Rollout, seen: Mapping[str, Seen], now: float, pause: Maintenance | None = None) -> Step:
    """The next decisions and actions. ``seen``: the noderoles of the ``watched`` nodes; ``pause``: its deployment's pause."""
    decisions = (
        maintenance.decide(rollout, pause, now)
        or returned.decide(rollout, seen, now)
        or retrying.decide(rollout, seen, now)
        or deciding.decide(rollout, seen, now)
        or sending.decide(rollout, now)
    )
    return Step(tuple(decisions), tuple(_actions(rollout, seen)), _due(rollout, now))


def watched(rollout: Rollout) -> dict[str, int]:
    """The nodes with states that ``step`` needs, each with its phase."""
    wanted = IN_FLIGHT | {NodeState.UNKNOWN}
    if rollout.head.retrying or cancelled(rollout.head):
        wanted |= {NodeState.FAILURE}
    return {name: progress.passed for name, progress in rollout.nodes.items() if progress.state in wanted}


def _actions(rollout: Rollout, seen: Mapping[str, Seen]) -> Iterator[Action]:
    recalled = returned.recalled(rollout)
    by_person = cancelled(rollout.head)
    for name, there in seen.items():
        progress = rollout.nodes[name]
        directive = _directive(progress, there, recalled(progress), by_person)
        if directive is not None and not (rollout.head.aside and directive in SENDS):
            yield Action(directive, name, progress.passed)


def _directive(progress: Progress, there: Seen, recalled: bool, by_person: bool) -> Directive | None:
    given_up = by_person and progress.state in IN_FLIGHT | {NodeState.FAILURE}
    if progress.state is NodeState.UNKNOWN or given_up:
        return Directive.CANCEL if there.waiting or there.running else None
    if recalled and progress.state in IN_FLIGHT:
        return Directive.RECALL if there.waiting else None
    if progress.state is not NodeState.SENDING:
        return None
    if there.errors:
        return Directive.RETRY if progress.noted(there.errors) else None
    return Directive.COMMIT if there.proposed or there.outdated else None


def _due(rollout: Rollout, now: float) -> float | None:
    if rollout.head.aside is not None:
        return None
    phases = rollout.head.strategy.phases
    ahead = now - groups.clock(rollout.head, now)
    at_work = (group for group in rollout.groups.values() if group.state is GroupState.RUNNING)
    deadlines = (groups.deadline(phases, group) + ahead for group in at_work)
    return min((each for each in deadlines if each > now), default=None)
