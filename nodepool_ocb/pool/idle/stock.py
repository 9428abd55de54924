"""The steps for nodes that no request asked for yet: min-ready, and the slots of static machines. Pure.

Of the launchers that maintain a label, the hash selects one. Unfinished launches count as ready. While a request waits for
capacity of a provider, no node of min-ready is launched there. A node with a record that cannot be read counts as ready.
"""

from __future__ import annotations

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.capacity.judging import PoolJudge, static
from nodepool_ocb.pool.capacity.ledger import LAUNCHING, Ledger, pool_of
from nodepool_ocb.pool.configuration import PoolConfiguration, ProviderPool, StaticMachine
from nodepool_ocb.pool.instructions import Instruction, LaunchNode, slot_launch
from nodepool_ocb.pool.launches.attempts import LaunchTries, ended, tries
from nodepool_ocb.pool.membership import Membership, PoolKey
from nodepool_ocb.pool.ranking import weight
from nodepool_ocb.pool.views import PoolLauncher, PoolNodeView, PoolView
from nodepool_ocb.pool.wakes import Wakes

MOST_LAUNCHES = 100  # of one decision


class Stock:
    """The steps of one launcher for min-ready and for slots."""

    def __init__(
        self,
        view: PoolView,
        configuration: PoolConfiguration,
        me: PoolLauncher,
        membership: Membership,
        ledger: Ledger,
        judge: PoolJudge,
        wakes: Wakes,
    ) -> None:
        self._view, self._configuration, self._me = view, configuration, me
        self._membership, self._ledger, self._judge, self._wakes = membership, ledger, judge, wakes
        self.steps: list[Instruction] = []

    # -- min-ready --

    def fill(self, contended: set[str]) -> None:
        """Launch the nodes that are missing from min-ready. ``contended``: providers for which a request waits."""
        idle, failed = self._counted()
        for policy in self._configuration.labels.values():
            have = sum(count for (_, label), count in idle.items() if label == policy.name)
            have += sum(policy.name in each.labels or not each.labels for each in self._view.unreadable.values())
            if have >= policy.min_ready or self._membership.keeper(policy.name) != self._me.session:
                continue
            for _ in range(min(policy.min_ready - have, MOST_LAUNCHES)):
                if not self._launch(policy.name, contended, idle, failed):
                    break

    def _counted(self) -> tuple[dict[tuple[PoolKey, str], int], dict[tuple[PoolKey, str], list[PoolNodeView]]]:
        """By pool and label: the number of nodes that are free or become so, and the failed launches of none's request."""
        idle: dict[tuple[PoolKey, str], int] = {}
        failed: dict[tuple[PoolKey, str], list[PoolNodeView]] = {}
        for node in self._view.nodes.values():
            record = node.record
            if record.allocated_to is not None:
                continue
            for label in node.labels:
                place = (pool_of(node), label)
                if record.state in LAUNCHING or record.state is PoolNodeState.READY:
                    idle[place] = idle.get(place, 0) + 1
                elif ended(node):
                    failed.setdefault(place, []).append(node)
        return idle, failed

    def _launch(
        self,
        label: str,
        contended: set[str],
        idle: dict[tuple[PoolKey, str], int],
        failed: dict[tuple[PoolKey, str], list[PoolNodeView]],
    ) -> bool:
        found: list[tuple[int, int, bytes, PoolKey, LaunchTries]] = []
        for key in self._me.pools:
            pool = self._configuration.pool(*key)
            known = tries(failed.get((key, label), ()))
            if pool is None or key[0] in contended or not self._room(pool, label) or not self._wakes.passed(known.due):
                continue
            found.append((pool.priority, idle.get((key, label), 0), weight(label, key), key, known))
        if not found:
            return False
        *_, key, known = min(found)
        self._ledger.charge(key, [label], None)
        self._ledger.begin(key[0], 1)
        idle[key, label] = idle.get((key, label), 0) + 1
        self.steps.append(
            LaunchNode(
                provider=key[0], pool=key[1], label=label, attempt=known.next, refusals=self._ledger.refusals(key[0])
            )
        )
        return True

    def _room(self, pool: ProviderPool, label: str) -> bool:
        """Whether a node of the label can be launched in the pool now."""
        key = (pool.provider, pool.name)
        if (
            static(pool)
            or label not in pool.labels
            or self._judge.paused(pool)
            or self._judge.unlaunchable(pool, [label])
        ):
            return False
        if min(self._ledger.trials(pool.provider), self._ledger.slots(pool.provider)) < 1:
            return False
        return self._ledger.lacking(self._ledger.checked_meters(pool), self._ledger.of_label(key, label)) is None

    # -- static machines --

    def slots(self) -> None:
        """Make a record for each slot of a machine that has none."""
        for key in self._me.pools:
            if key[0] not in self._view.faults:
                for machine, slot in self._ledger.missing.get(key, ()):
                    self._slot(key, machine, slot)

    def _slot(self, key: PoolKey, machine: StaticMachine, slot: int) -> None:
        work = f"{key[0]}/{key[1]}/{machine.name}/{machine.username}/{machine.port}/{slot}"
        if not machine.labels or not self._membership.owns(self._me.session, work, key[0]):
            return
        self.steps.append(slot_launch(*key, machine, slot))
