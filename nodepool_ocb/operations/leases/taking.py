"""``lease take``: the nodes of a fulfilled request are held for a person.

A command ends, and its locks end with it. A launcher deletes a node that is ``in-use`` without a lock, as Nodepool's does. So a
taken node is in ``hold``: with an expiration, after which launchers delete it, and a comment that names the person. All of this
is in Nodepool's own fields. ``lease run`` holds locks, and its nodes are ``in-use``.
"""

from __future__ import annotations

from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Change, Delete, Set
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.pools import FoundPool, LockPoolNodes, ReadPool
from nodepool_ocb.operations.requests import finding
from nodepool_ocb.pool.states import PoolNodeEvent, pool_node_after
from nodepool_ocb.pool.views import PoolNodeView, RequestView
from nodepool_ocb.views.pools import LeaseRow, lease_row


class LeaseTaken(Explained, frozen=True, kw_only=True):
    """The answer: the nodes as they were taken, in the order of the request; none in a dry run."""

    until: float | None = None
    leases: tuple[LeaseRow, ...] = ()


class LeaseTake(Operation[LeaseTaken], frozen=True, kw_only=True):
    """Hold the nodes of a fulfilled request for a person, all or none of them, and delete the request.

    Raises NotFound, or Conflict for a request that is not fulfilled, or with a node that is gone or locked.
    """

    noun = "lease"
    verb = "take"
    right = Right.OPERATOR
    reads = (ReadPool, LockPoolNodes)
    writes = ("node of a pool", "request for nodes")

    request: str
    seconds: float = 3600.0  # then launchers delete the nodes
    comment: str | None = None

    def decide(self, situation: Situation) -> Steps[LeaseTaken]:
        if self.seconds <= 0:
            raise Invalid(f"a lease of {self.seconds:g} seconds is over at once; give, for example, --for 2h")
        found = yield from finding.load()
        ids = tuple(node.id for node in fulfilled(found, finding.request_of(found.view, self.request)))
        locks = yield from LockPoolNodes(ids, f"takes {self.request}")
        found = yield from finding.load()  # under the locks
        request = finding.request_of(found.view, self.request)
        comment = f"{situation.by}@{situation.call.host}" + (f": {self.comment}" if self.comment else "")
        changes: list[Change] = [lock.check for lock in locks.values()]
        for node in fulfilled(found, request):
            record = pool_node_after(
                node.record, PoolNodeEvent.HOLD, situation.now, comment=comment, hold_expiration=self.seconds
            )
            changes.append(Set(paths.pool_node(node.id), record, node.version))
        yield [*changes, Delete(paths.request(request.id), request.version)]
        if situation.call.dry_run:
            return LeaseTaken()
        after = yield from finding.load()
        rows = tuple(lease_row(after.view.nodes[id], {}) for id in ids if id in after.view.nodes)
        return LeaseTaken(until=situation.now + self.seconds, leases=rows)


def fulfilled(found: FoundPool, request: RequestView) -> list[PoolNodeView]:
    """The ready nodes of a request, in its order. Raises Conflict."""
    see = f"see: nodepool-ocb request show {request.id}"
    if request.record.state is not RequestState.FULFILLED:
        raise Conflict(f"request {request.id} is {request.record.state}, and only a fulfilled one has nodes; {see}")
    nodes = []
    for id in request.record.nodes:
        node = found.view.nodes.get(id)
        if node is None or node.record.state is not PoolNodeState.READY or node.record.allocated_to != request.id:
            state = "gone" if node is None else f"{node.record.state}, for {node.record.allocated_to or 'any request'}"
            raise Conflict(f"node {id} of request {request.id} is {state}; delete the request and make another; {see}")
        nodes.append(node)
    return nodes
