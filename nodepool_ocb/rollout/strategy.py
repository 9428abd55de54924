"""The values of a deployment strategy (seed 003): groups, selectors, criteria, phases. ``reading`` makes them from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.model.ranges import Percent, PhaseTime, Some, Times

SCHEMA: Final = "shipyard/DeploymentStrategy/v1"
NAME: Final = "deployment-strategy"  # of the document that is taken where a file has several (seed 003)


class Reaction(StrEnum):
    """The reaction when a critical group fails."""

    CONTINUE = "continue"  # the others go on, and the rollout fails at its end: Airship's rule
    STOP = "stop"  # no further group begins; those at work finish
    CANCEL = "cancel"  # nothing more is sent, and noderoles that have not begun are taken back


class OnTimeout(StrEnum):
    """The reaction when a phase of a group runs out of time."""

    FAIL = "fail"  # it fails: Airship's rule
    EVALUATE = "evaluate"  # its criteria are evaluated; its nodes that are unknown count as failed


class Selector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The intersection of its criteria; one that is empty is ignored."""

    node_names: tuple[str, ...] = ()
    node_tags: tuple[str, ...] = ()
    node_labels: tuple[str, ...] = ()  # "key:value"
    rack_names: tuple[str, ...] = ()


class Criteria(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Each is evaluated by itself; None: not asked."""

    percent_successful_nodes: Percent | None = None
    minimum_successful_nodes: Times | None = None
    maximum_failed_nodes: Times | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many of a group's nodes, or which part of them, have been sent when this batch ends."""

    nodes: Some | None = None
    percent: Percent | None = None
    pause: bool = False  # after it the group waits until it is promoted

    def of(self, members: int) -> int:
        """How many of so many members; a part is rounded up.

        >>> Batch(percent=10).of(5), Batch(nodes=9).of(5)
        (1, 5)
        """
        share = self.nodes if self.percent is None else -(-self.percent * members // 100)
        return members if share is None else min(share, members)


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of nodes that are deployed together."""

    name: str
    critical: bool = False
    depends_on: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    success_criteria: Criteria = Criteria()
    parallel_nodes: Some | None = None
    batches: tuple[Batch, ...] = ()
    timeouts: Mapping[str, PhaseTime] = {}
    on_critical_failure: Reaction | None = None  # else the strategy's


class Phase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that every node of a group takes: the noderoles that are committed, and the time that they may take.

    One that names neither roles nor stages commits, if it is the last, all that is left, and otherwise nothing.
    """

    name: str
    roles: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    timeout_seconds: PhaseTime = 3600.0


def commits_nothing(phases: Sequence[Phase], position: int) -> bool:
    """Whether a phase names no role and no stage, and is not the last."""
    phase = phases[position]
    return position < len(phases) - 1 and not (phase.roles or phase.stages)


class InFlight(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many nodes may be in flight at once."""

    nodes: Some | None = None
    group: Some | None = None
    rack: Some | None = None
    labels: Mapping[str, Some] = {}


class Breaker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """If more nodes than this fail in the whole rollout, it is cancelled, and has failed."""

    maximum_failed_nodes: Times | None = None
    maximum_failed_percent: Percent | None = None


#: Airship's phases; the times are those of Airship's deployment configuration.
PHASES: Final = (Phase(name="prepare", timeout_seconds=1800.0), Phase(name="deploy", timeout_seconds=3600.0))


class Strategy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Groups in the order of the document, and the rules for all of them."""

    name: str = NAME
    groups: tuple[Group, ...] = ()
    phases: tuple[Phase, ...] = PHASES
    parallel_groups: Some = 1
    max_in_flight: InFlight = InFlight()
    stop_early: bool = False
    on_critical_failure: Reaction = Reaction.CONTINUE
    on_timeout: OnTimeout = OnTimeout.FAIL
    breaker: Breaker = Breaker()
    redeploy: tuple[
        str, ...
    ] = ()  # run the noderoles of these roles from the start, in place of committing PROPOSED ones


def without_idle_phases(strategy: Strategy) -> Strategy:
    """The strategy with the phases alone that commit anything."""
    phases = strategy.phases
    kept = tuple(phase for position, phase in enumerate(phases) if not commits_nothing(phases, position))
    return replace(strategy, phases=kept)


#: Where there is no strategy: one critical group of all nodes, which must all succeed.
WHOLE: Final = Strategy(
    name="all-nodes",
    groups=(Group(name="all", critical=True, success_criteria=Criteria(percent_successful_nodes=100)),),
)
