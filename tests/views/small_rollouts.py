"""Rollouts of the seed's nodes, put into states by hand, to be shown."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.rollout import plan
from nodepool_ocb.rollout.records import GroupState, Rollout
from nodepool_ocb.rollout.strategy import Group, Strategy
from tests.cli.rollouts.driving import NODES


def rollout_of(*groups: Group, parallel_groups: int = 1) -> Rollout:
    return plan.begin(Strategy(groups=groups, parallel_groups=parallel_groups), NODES, now=1.0)


def in_state(rollout: Rollout, group: str, state: GroupState, **fields: object) -> Rollout:
    record = replace(rollout.groups[group], state=state, **fields)
    return replace(rollout, groups={**rollout.groups, group: record})
