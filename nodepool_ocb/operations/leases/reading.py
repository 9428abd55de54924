"""``lease list`` and ``lease show``."""

from __future__ import annotations

from nodepool_ocb.operations.leases import finding
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.requests.finding import load
from nodepool_ocb.views import pools as shown
from nodepool_ocb.views.pools import LeaseDocument, LeaseRow


class LeaseList(Operation[list[LeaseRow]], frozen=True, kw_only=True):
    """Every node of a pool, in each state, by id."""

    noun = "lease"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadPool,)

    labels: tuple[str, ...] = ()  # nodes with any of them; none: all
    provider: str | None = None
    request: str | None = None  # the id of a request
    states: tuple[str, ...] = ()  # any of them; none: all

    def decide(self, situation: Situation) -> Steps[list[LeaseRow]]:  # noqa: ARG002
        found = yield from load()
        return [
            shown.lease_row(node, found.holders)
            for _, node in sorted(found.view.nodes.items())
            if (not self.labels or not set(self.labels).isdisjoint(node.labels))
            and self.provider in (None, node.record.provider)
            and self.request in (None, node.record.allocated_to)
            and (not self.states or node.record.state in self.states)
        ]


class LeaseShow(Operation[LeaseDocument], frozen=True, kw_only=True):
    """One node of a pool with its record, and the holder of its lock. Raises NotFound."""

    noun = "lease"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadPool,)

    lease: str

    def decide(self, situation: Situation) -> Steps[LeaseDocument]:  # noqa: ARG002
        found = yield from load()
        return shown.lease_document(finding.node_of(found.view, self.lease), found.holders)
