"""``lease return``, ``lease hold``, ``lease release`` and ``lease delete``: the next state of nodes of pools.

Each takes the lock of every node first: a node with a lock is in the hands of a launcher or of a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.model.records import Change, Set
from nodepool_ocb.operations.leases.finding import nodes_of
from nodepool_ocb.operations.operation import Explained, Lookup, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.pools import LockPoolNodes, ReadPool, TakenLock
from nodepool_ocb.operations.requests import finding
from nodepool_ocb.pool.states import PoolNodeEvent, pool_node_after
from nodepool_ocb.pool.views import PoolNodeView, PoolView

_MINE: Final = (ReadPool, LockPoolNodes)


class LeaseChange(Operation[Explained], frozen=True, kw_only=True):
    """The common part: nodes that go to another state by one event."""

    noun = "lease"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = _MINE
    writes = ("node of a pool",)
    event: ClassVar[PoolNodeEvent]
    #: The states in which it makes sense; others are refused.
    states: ClassVar[frozenset[PoolNodeState]]
    done: ClassVar[PoolNodeState]  # a node in this state stays as it is

    leases: tuple[str, ...]

    def decide(self, situation: Situation) -> Steps[Explained]:
        self.check()
        found = yield from finding.load()
        ids = tuple(node.id for node in self._concerned(found.view))
        yield from self._agree(situation, ids)
        locks = yield from LockPoolNodes(ids, self.title())
        found = yield from finding.load()  # under the locks
        changes = [self._units(node, situation, locks) for node in self._concerned(found.view) if node.id in ids]
        yield from limits.parts(changes)
        return Explained()

    def check(self) -> None:
        """Raises Invalid for arguments that cannot be."""

    def fields(self, situation: Situation) -> Mapping[str, Any]:  # noqa: ARG002
        """The other fields that change."""
        return {}

    def _agree(self, situation: Situation, ids: tuple[str, ...]) -> Steps[None]:  # noqa: ARG002
        yield from ()

    def _concerned(self, view: PoolView) -> list[PoolNodeView]:
        found = [node for node in nodes_of(view, self.leases) if node.record.state is not self.done]
        for node in found:
            if node.record.state not in self.states:
                fit = ", ".join(sorted(self.states))
                raise Conflict(
                    f"node {node.id} is {node.record.state}, and {self.title()} is for nodes in: {fit};"
                    f" see: nodepool-ocb lease show {node.id}"
                )
        return found

    def _units(self, node: PoolNodeView, situation: Situation, locks: Mapping[str, TakenLock]) -> list[Change]:
        record = pool_node_after(node.record, self.event, situation.now, **self.fields(situation))
        lock = [locks[node.id].check] if node.id in locks else []
        return [*lock, Set(paths.pool_node(node.id), record, node.version)]


class LeaseReturn(LeaseChange, frozen=True, kw_only=True):
    """Return nodes after their use: launchers delete them, or clean a static machine. Raises NotFound, or Conflict."""

    verb = "return"
    event = PoolNodeEvent.RETURN
    states = frozenset({PoolNodeState.IN_USE, PoolNodeState.HOLD})
    done = PoolNodeState.USED


class LeaseRelease(LeaseChange, frozen=True, kw_only=True):
    """End the hold of nodes: they count as used. Raises NotFound, or Conflict for a node that is not held."""

    verb = "release"
    event = PoolNodeEvent.RETURN
    states = frozenset({PoolNodeState.HOLD})
    done = PoolNodeState.USED

    def fields(self, situation: Situation) -> Mapping[str, Any]:  # noqa: ARG002
        return {"comment": None, "hold_expiration": None}


class LeaseHold(LeaseChange, frozen=True, kw_only=True):
    """Keep nodes for a person: no launcher hands them out or deletes them until the hold ends. Raises NotFound, or Conflict."""

    verb = "hold"
    event = PoolNodeEvent.HOLD
    states = frozenset(
        {PoolNodeState.READY, PoolNodeState.IN_USE, PoolNodeState.USED, PoolNodeState.FAILED, PoolNodeState.HOLD}
    )
    done = PoolNodeState.DELETED

    comment: str | None = None
    seconds: float | None = None  # None: until it is released, or the age of holds in the launcher's file

    def check(self) -> None:
        if self.seconds is not None and self.seconds <= 0:
            raise Invalid(f"a hold of {self.seconds:g} seconds is over at once; give, for example, --for 2h")

    def fields(self, situation: Situation) -> Mapping[str, Any]:
        by = f"{situation.by}@{situation.call.host}"
        return {"comment": f"{by}: {self.comment}" if self.comment else by, "hold_expiration": self.seconds}


class LeaseDelete(LeaseChange, frozen=True, kw_only=True):
    """Ask for the deletion of nodes and their machines; launchers carry it out. Raises NotFound, or Conflict."""

    verb = "delete"
    event = PoolNodeEvent.DELETE
    reads = (*_MINE, Agreement)
    states = frozenset(set(PoolNodeState) - {PoolNodeState.DELETING})
    done = PoolNodeState.DELETING

    def _agree(self, situation: Situation, ids: tuple[str, ...]) -> Steps[None]:
        if ids and not situation.call.dry_run:
            yield from Agreement(f"delete node{'s' if len(ids) > 1 else ''} {', '.join(ids)} with the machines")
