"""Leaks: machines of this cluster at a provider, without a record that stands for them. Pure.

A machine is a leak if its stamp names this cluster and this provider, and no record has the same id and the same key. The key is
random for each attempt, so a machine of an earlier record with the same id is a leak, too. A record with facts that cannot be
read keeps its machine. A machine of another cluster, or without a whole stamp, is none. A listing and the records are not read
at the same moment, so a leak counts when two listings, some time apart, show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from nodepool_ocb.model.pool import launch_facts
from nodepool_ocb.pool.views import PoolNodeView

LEAK_SECONDS = 60.0  # between the two listings


class MachineMark(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a listed machine that decide whether it is a leak: its id, and the parts of its stamp."""

    external_id: str
    cluster: str | None  # None: it has no whole stamp
    provider: str = ""
    node: str = ""
    key: str = ""


class LeakSightings(msgspec.Struct, frozen=True, kw_only=True):
    """The leaks of one listing. ``since``: by external id, the time of the first listing that showed it."""

    since: Mapping[tuple[str, str], float] = {}  # (external id, key of the stamp) → time
    confirmed: tuple[MachineMark, ...] = ()  # seen twice: delete them


def leaked(
    machines: Iterable[MachineMark], nodes: Iterable[PoolNodeView], cluster: str, provider: str
) -> list[MachineMark]:
    """The machines of a listing that have no record."""
    kept: set[tuple[str, str]] = set()
    unknown: dict[str, str | None] = {}  # node without readable facts → the id of its machine, if it is known
    for node in nodes:
        facts = launch_facts(node.record)
        if facts is None:
            unknown[node.id] = node.record.external_id
        elif facts.key:
            kept.add((node.id, facts.key))

    def stands(each: MachineMark) -> bool:
        """Whether a record stands for the machine, or may do so."""
        damaged = each.node in unknown and unknown[each.node] in (None, each.external_id)
        return damaged or (each.node, each.key) in kept

    ours = [each for each in machines if each.cluster == cluster and each.provider == provider and each.key]
    return [each for each in ours if not stands(each)]


def sighted(before: LeakSightings, leaks: Iterable[MachineMark], now: float) -> LeakSightings:
    """The sightings after one more listing: a leak is confirmed if an earlier listing showed it ``LEAK_SECONDS`` ago."""
    found = {(each.external_id, each.key): each for each in leaks}
    since = {mark: before.since.get(mark, now) for mark in found}
    confirmed = tuple(each for mark, each in found.items() if now - since[mark] >= LEAK_SECONDS)
    return LeakSightings(since=since, confirmed=confirmed)
