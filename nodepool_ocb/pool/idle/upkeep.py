"""The steps for nodes without a holder: ages, returned nodes, lost launches, and idle nodes that make room. Pure.

A locked node belongs to the holder of its lock; it is left alone, except that a launch of this launcher has a deadline. Of the
running launchers with the provider of a node, the hash selects the one that acts. A node of a provider that is not configured
here stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from nodepool_ocb.model.pool import PoolNodeState, RequestState, launch_facts
from nodepool_ocb.pool.capacity.judging import static
from nodepool_ocb.pool.capacity.ledger import LAUNCHING, pool_of
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.idle.aging import hold_seconds, outdated, ready_seconds
from nodepool_ocb.pool.instructions import (
    AdoptNode,
    DeleteNode,
    FailNode,
    FreeNode,
    Instruction,
    LaunchNode,
    slot_launch,
)
from nodepool_ocb.pool.launches.attempts import ABORTED_SECONDS, backoff, bare
from nodepool_ocb.pool.launches.refusals import quota_backoff, quota_refused
from nodepool_ocb.pool.membership import Membership
from nodepool_ocb.pool.ordering import WAITING
from nodepool_ocb.pool.slots import MachineIndex
from nodepool_ocb.pool.views import PoolLauncher, PoolNodeView, PoolView
from nodepool_ocb.pool.wakes import Wakes

GRACE_SECONDS = 10.0  # a record may be read before the lock that its writer holds
MOVING = LAUNCHING | {PoolNodeState.DELETING, PoolNodeState.FAILED, PoolNodeState.ABORTED}
STATIC_SECONDS = 30.0  # a static machine that did not answer is tried again then
FAILED_SECONDS = 60.0  # a failed launch for min-ready stays so long after its back-off


class Upkeep:
    """The steps of one launcher for the nodes of one view. ``leaving``: idle nodes that no request gets."""

    def __init__(
        self,
        view: PoolView,
        configuration: PoolConfiguration,
        me: PoolLauncher,
        membership: Membership,
        now: float,
        wakes: Wakes,
    ) -> None:
        self._view, self._configuration, self._me = view, configuration, me
        self._membership, self._now, self._wakes = membership, now, wakes
        self.steps: list[Instruction] = []
        self.leaving: set[str] = set()
        self._owned: dict[str, bool] = {}
        pools = [pool for provider in configuration.providers.values() for pool in provider.pools.values()]
        self._machines = {(each.provider, each.name): MachineIndex(each) for each in pools if static(each)}
        self._doubled = self._in_taken_slots()

    def keep(self) -> None:
        """Decide every node."""
        for node in self._view.nodes.values():
            if node.record.provider not in self._configuration.providers:
                continue
            if node.ours:
                self._overdue(node)
            elif not node.locked:
                self._unlocked(node)
        self._replace_outdated()

    def _in_taken_slots(self) -> set[str]:
        """The nodes in a slot that another record holds."""
        of_pools: dict[tuple[str, str], list[PoolNodeView]] = {key: [] for key in self._machines}
        for node in self._view.nodes.values():
            if (nodes := of_pools.get(pool_of(node))) is not None:
                nodes.append(node)
        return {id for key, nodes in of_pools.items() for id in self._machines[key].doubled(nodes)}

    def _misfit(self, node: PoolNodeView) -> str | None:
        """Why a node of a static machine cannot be used; None if it can, and for other nodes."""
        machines = self._machines.get(pool_of(node))
        if machines is None:
            return None
        return "another node has its slot" if node.id in self._doubled else machines.misfit(node)

    def _owns(self, node: PoolNodeView) -> bool:
        found = self._owned.get(node.id)
        if found is None:
            found = self._owned[node.id] = self._membership.owns(self._me.session, node.id, node.record.provider)
        return found

    def _delete(self, node: PoolNodeView, reason: str, heir: LaunchNode | None = None) -> None:
        self.leaving.add(node.id)
        if self._owns(node):
            self.steps.append(DeleteNode(node=node.id, version=node.version, reason=reason, heir=heir))

    def _heir(self, node: PoolNodeView) -> LaunchNode | None:
        """The launch that follows in the slot of a returned node; None if it must wait for the deletion of the record."""
        key, facts = pool_of(node), launch_facts(node.record)
        machines = self._machines.get(key)
        if machines is None or key[0] in self._view.faults:
            return None
        if facts is None or facts.fqdn is not None or node.record.slot is None or self._misfit(node) is not None:
            return None
        place = machines.place(node)
        machine = None if place is None else machines.machines[place]
        if machine is None or not machine.labels or self._annealed(machine.labels[0]):
            return None
        return slot_launch(*key, machine, node.record.slot)

    def _annealed(self, label: str) -> bool:
        policy = self._configuration.labels.get(label)
        return policy is not None and policy.annealed

    def _unlocked(self, node: PoolNodeView) -> None:
        state = node.record.state
        if state in LAUNCHING:
            self._launching(node)
        elif state is PoolNodeState.READY:
            self._ready(node)
        elif state is PoolNodeState.IN_USE:
            if self._wakes.passed(node.record.state_time + GRACE_SECONDS):
                self._delete(node, "its user is gone")
        elif state is PoolNodeState.HOLD:
            self._held(node)
        elif state is PoolNodeState.USED:
            self._delete(node, "it was returned", self._heir(node))
        elif state is PoolNodeState.DELETED:
            if self._wakes.passed(node.record.state_time + GRACE_SECONDS):  # its writer deletes the record next
                self._delete(node, "its machine is gone")
        elif state is PoolNodeState.DELETING:
            if node.record.provider not in self._view.faults and self._owns(node):
                self.steps.append(AdoptNode(node=node.id, version=node.version))
        else:
            self._ended(node)

    # -- launches --

    def _launching(self, node: PoolNodeView) -> None:
        """A launch without a launcher: continue it, or delete it if this is not possible or of no use."""
        if not self._wakes.passed(node.record.state_time + GRACE_SECONDS):
            return
        pool = self._configuration.pool(*pool_of(node))
        wrong = self._misfit(node)
        known = pool is not None and (static(pool) or set(node.labels) <= pool.labels.keys())
        if launch_facts(node.record) is None:
            self._delete(node, "its launcher is gone, and was not one of this product")
        elif wrong is not None:
            self._delete(node, f"its launcher is gone, and {wrong}")
        elif not known:
            self._delete(node, "its launcher is gone, and its pool does not have the label any more")
        elif self._orphan(node):
            self._delete(node, "its launcher and its request are gone")
        elif self._owns(node):
            self.steps.append(AdoptNode(node=node.id, version=node.version))

    def _overdue(self, node: PoolNodeView) -> None:
        """A launch of this launcher after its deadline."""
        record, provider = node.record, self._configuration.providers[node.record.provider or ""]
        facts = launch_facts(record)
        if record.state not in LAUNCHING or facts is None:
            return
        policies = [self._configuration.labels[each] for each in node.labels if each in self._configuration.labels]
        testing = record.state is PoolNodeState.TESTING
        seconds = max((each.roles_seconds for each in policies), default=1800.0) if testing else provider.launch_seconds
        if self._wakes.passed(max(record.state_time, facts.not_before) + seconds):
            name = "the roles of the label" if testing else "the launch"
            keep = testing and any(each.keep_failed for each in policies)
            reason = f"{name} took more than {seconds:g} s"
            self.steps.append(FailNode(node=node.id, version=node.version, reason=reason, keep=keep))

    def _ended(self, node: PoolNodeView) -> None:
        """A failed or aborted launch: its record stays until the next attempt is due."""
        facts = launch_facts(node.record)
        if facts is not None and not bare(node) and self._owns(node):
            self.steps.append(AdoptNode(node=node.id, version=node.version))
        if facts is None:
            due = 0.0
        elif node.record.state is PoolNodeState.ABORTED:
            end = quota_backoff(node) if quota_refused(node) else node.record.state_time + ABORTED_SECONDS
            due = end + FAILED_SECONDS
        elif node.record.allocated_to is not None:
            due = math.inf if self._serves(node) else 0.0
        elif facts.machine is not None:
            due = node.record.state_time + STATIC_SECONDS
        else:
            due = node.record.state_time + backoff(facts.attempt) + FAILED_SECONDS
        if (facts is None or bare(node)) and not math.isinf(due) and self._wakes.passed(due):
            self._delete(node, node.record.reason or "its launch failed")

    # -- ready and held nodes --

    def _ready(self, node: PoolNodeView) -> None:
        if node.record.allocated_to is not None:
            if self._orphan(node) and self._owns(node):
                reason = f"request {node.record.allocated_to} does not use it"
                self.steps.append(FreeNode(node=node.id, version=node.version, reason=reason))
            return
        seconds = ready_seconds(self._configuration, node)
        wrong = self._misfit(node)
        if wrong is not None:
            self._delete(node, wrong)
        elif not math.isinf(seconds) and self._wakes.passed(node.record.state_time + seconds):
            self._delete(node, f"it was ready for more than {seconds:g} s (max-ready-age)")

    def _held(self, node: PoolNodeView) -> None:
        seconds = hold_seconds(self._configuration, node)
        if not math.isinf(seconds) and self._wakes.passed(node.record.state_time + seconds):
            self._delete(node, f"it was held for more than {seconds:g} s")

    def _replace_outdated(self) -> None:
        """One idle node of a label at a time. None while a launch of the label is under way, or failed a short time ago.

        So an image that does not boot costs a few idle nodes, and not all of them.
        """
        moving = {
            (*pool_of(each), label)
            for each in self._view.nodes.values()
            if each.record.state in MOVING
            for label in each.labels
        }
        for node in sorted(self._view.nodes.values(), key=lambda each: (each.record.state_time, each.id)):
            if not node.free or node.id in self.leaving or not node.labels:
                continue
            reason, place = outdated(self._view, self._configuration, node), (*pool_of(node), node.labels[0])
            if reason is not None and place not in moving:
                moving.add(place)
                self._delete(node, reason)

    # -- requests of nodes --

    def _orphan(self, node: PoolNodeView) -> bool:
        """Whether the node is allocated to a request that is gone or does not use it."""
        if node.record.allocated_to is None:
            return False
        request = self._view.requests.get(node.record.allocated_to)
        if request is None or request.record.state is RequestState.FAILED:
            return True
        if request.record.state is RequestState.FULFILLED:
            return node.id not in request.record.nodes
        return pool_of(node) in self._membership.declined(request)

    def _serves(self, node: PoolNodeView) -> bool:
        """Whether the request of the node still waits for it."""
        request = self._view.requests.get(node.record.allocated_to or "")
        return request is not None and request.record.state in WAITING and not self._orphan(node)

    def evict(self, nodes: Iterable[PoolNodeView], request: str) -> None:
        """Delete idle nodes that take the room for which the first request waits."""
        for node in nodes:
            if node.id not in self.leaving:
                self._delete(node, f"request {request} waits for its room")
