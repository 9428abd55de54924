"""``lease leaks``: machines at providers that have no record, listed and deleted.

The performer's host asks the providers in its launchers' file. The records are read after the providers have answered.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.clusters import ReadCluster
from nodepool_ocb.operations.reads.machines import DeleteStampedMachine, ListStampedMachines, StampedMachine
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.requests.finding import load
from nodepool_ocb.pool.idle.leaks import MachineMark, leaked
from nodepool_ocb.pool.views import PoolNodeView
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.pools import MachineLeakRow

_READS = (ReadCluster, ListStampedMachines, ReadPool)


class LeaseLeaks(Operation[list[MachineLeakRow]], frozen=True, kw_only=True):
    """The machines that have no record: of this cluster, and of others. Raises NotFound, or Unavailable."""

    noun = "lease"
    verb = "leaks"
    right = Right.VIEWER
    reads = _READS

    provider: str | None = None  # None: all that the host's launchers' file has

    def decide(self, situation: Situation) -> Steps[list[MachineLeakRow]]:  # noqa: ARG002
        ours = (yield from ReadCluster()).record.id
        found = yield from _leaks(self.provider, ours)
        return [_row(machine, ours) for machine in found]


class MachineLeakDeleted(Explained, frozen=True, kw_only=True):
    """The answer of a deletion; ``row`` is not in a transaction: the provider deletes the machine."""

    row: ChangeRow

    @property
    def outside(self) -> tuple[ChangeRow, ...]:
        """The row."""
        return (self.row,)


class LeaseLeaksDelete(Operation[MachineLeakDeleted], frozen=True, kw_only=True):
    """Delete a machine that has no record, at its provider.

    Raises NotFound, or Conflict if its stamp names another cluster than ``cluster``.
    """

    noun = "lease"
    verb = "leaks"
    right = Right.ADMIN
    reads = (*_READS, Agreement, DeleteStampedMachine)
    writes = ("leak",)

    provider: str
    external_id: str
    cluster: str | None = None  # the id that the stamp must name; None: this cluster

    def decide(self, situation: Situation) -> Steps[MachineLeakDeleted]:
        ours = (yield from ReadCluster()).record.id
        found = {each.external_id: each for each in (yield from _leaks(self.provider, ours))}
        machine = found.get(self.external_id)
        if machine is None:
            see = f"nodepool-ocb lease leaks {self.provider}"
            raise NotFound(f"machine {self.external_id} at provider {self.provider} is not a leak; see: {see}")
        expected = self.cluster or ours
        if (machine.cluster, machine.provider) != (expected, self.provider):
            raise Conflict(
                f"the stamp of {self.external_id} names provider {machine.provider} of cluster {machine.cluster}, and not"
                f" {self.provider} of {expected}; if that cluster is gone for good, name it with --cluster"
            )
        name = f"{self.external_id} at {self.provider}"
        row = ChangeRow(change="delete", kind="leak", name=name, state=None)
        if not situation.call.dry_run:
            yield from Agreement(f"delete machine {name}")
            yield from DeleteStampedMachine(machine)
        return MachineLeakDeleted(row=row, after=(f"{self.external_id} is deleted at {self.provider}",))


def _leaks(provider: str | None, ours: str) -> Steps[list[StampedMachine]]:
    """The leaks of this cluster, and all machines with the stamp of another one."""
    listed = yield from ListStampedMachines(provider)
    nodes = (yield from load()).view.nodes.values()
    return [each for each in listed if each.cluster != ours or _is_leak(each, nodes, ours)]


def _is_leak(machine: StampedMachine, nodes: Iterable[PoolNodeView], ours: str) -> bool:
    mark = MachineMark(
        external_id=machine.external_id,
        cluster=machine.cluster,
        provider=machine.provider,
        node=machine.node,
        key=machine.key,
    )
    return bool(leaked([mark], nodes, ours, machine.at))


def _row(machine: StampedMachine, ours: str) -> MachineLeakRow:
    return MachineLeakRow(
        name=f"{machine.at} --delete {machine.external_id}",
        provider=machine.at,
        external_id=machine.external_id,
        hostname=machine.name,
        pool=machine.pool,
        node=machine.node,
        cluster=machine.cluster,
        whose="ours" if machine.cluster == ours else "another cluster's",
        since=machine.since,
    )
