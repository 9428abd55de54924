"""Which nodes are sent now: those of groups at work, as far as the limits of nodes in flight allow.

A phase takes the members that have passed the phases before it, whichever group sent them, and are neither in flight nor
lost. So no node is sent twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.rollout import groups
from nodepool_ocb.rollout.records import (
    IN_FLIGHT,
    Decision,
    GroupRecord,
    GroupState,
    NodeState,
    Progress,
    Rollout,
    RolloutState,
)
from nodepool_ocb.rollout.states.members import MemberEvent, member_after
from nodepool_ocb.rollout.strategy import InFlight


def decide(rollout: Rollout, now: float) -> list[Decision]:
    """The nodes that go in flight."""
    if rollout.head.state not in (RolloutState.RUNNING, RolloutState.STOPPING) or rollout.head.aside is not None:
        return []
    room = _Room(rollout)
    found = []
    taken: set[str] = set()
    for name, record in rollout.groups.items():
        if record.state is not GroupState.RUNNING or groups.lost(rollout, name):
            continue
        if groups.clock(rollout.head, now) >= groups.deadline(rollout.head.strategy.phases, record):
            continue
        phase = rollout.head.strategy.phases[record.phase].name
        for node in to_send(rollout, name):
            progress = rollout.nodes[node]
            if node not in taken and room.take(record, progress):
                taken.add(node)
                sent = member_after(progress, MemberEvent.SEND, now, group=name, reason=None)
                found.append(Decision(node, sent, f"sent: {phase} of group {name}"))
    return found


def to_send(rollout: Rollout, name: str) -> Iterator[str]:
    """The members of a group's batches so far that its phase waits to send."""
    record = rollout.groups[name]
    for node in groups.scope(rollout, name):
        progress = rollout.nodes[node]
        if progress.passed == record.phase and progress.state in (NodeState.NOT_STARTED, NodeState.PREPARED):
            yield node


def held_back(rollout: Rollout, name: str, node: str) -> str | None:
    """Why a group at work may not send a node: a pause, or a limit of nodes in flight, and which; else None."""
    if rollout.head.aside is not None:
        return f"its deployment is paused {rollout.head.aside}"
    return _Room(rollout).full(rollout.groups[name], rollout.nodes[node])


class _Room:
    """How many more nodes may go in flight."""

    def __init__(self, rollout: Rollout) -> None:
        self._limits: InFlight = rollout.head.strategy.max_in_flight
        self._all = 0
        self._groups: Counter[str] = Counter()
        self._domains: Counter[str] = Counter()
        for progress in rollout.nodes.values():
            if progress.state in IN_FLIGHT:
                self._count(progress.group or "", progress)

    def _count(self, group: str, progress: Progress) -> None:
        self._all += 1
        self._groups[group] += 1
        self._domains.update(progress.domains)

    def take(self, record: GroupRecord, progress: Progress) -> bool:
        """Count the node in, if there is room for it."""
        if self.full(record, progress) is not None:
            return False
        self._count(record.group.name, progress)
        return True

    def full(self, record: GroupRecord, progress: Progress) -> str | None:
        """Why there is no room for a node; None if there is."""
        limits, name = self._limits, record.group.name
        of_group = record.group.parallel_nodes or limits.group
        if limits.nodes is not None and self._all >= limits.nodes:
            return _in_flight(self._all)
        if of_group is not None and self._groups[name] >= of_group:
            return _in_flight(self._groups[name], f" of group {name}")
        for domain in progress.domains:
            if self._domains[domain] >= self._most(domain):
                return _in_flight(self._domains[domain], f" of {domain}")
        return None

    def _most(self, domain: str) -> int:
        kind, _, name = domain.partition(" ")
        if kind == "rack":
            return self._limits.rack or 1
        return min((most for key, most in self._limits.labels.items() if name.startswith(f"{key}:")), default=1)


def _in_flight(count: int, of: str = "") -> str:
    return f"{counted(count, f'node{of} is', f'nodes{of} are')} in flight, as many as may be"
