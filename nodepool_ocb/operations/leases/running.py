"""``lease run``: nodes are asked for, locked, used by a command of the performer's host, and returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.leases.order import LeaseEnded, LeaseOrder
from nodepool_ocb.operations.operation import Procedure, Right, Situation, Steps
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.requests import finding
from nodepool_ocb.operations.requests.creating import NodesWanted, hindrances

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader

MOST_NODES: Final = 100  # of one lease: all of them become in-use in one transaction


class RunUnderLease(Procedure[LeaseEnded], frozen=True):
    """Make the request, wait, lock the nodes, run the command, and return the nodes in every case."""

    records = "requests for nodes, nodes of pools, locks of nodes of pools"

    order: LeaseOrder

    def carry_out(self, reader: Reader) -> LeaseEnded:
        from nodepool_ocb.operations.leases.lending import Lending

        return Lending(reader, self.order).run()


class LeaseRun(NodesWanted[LeaseEnded], frozen=True, kw_only=True):
    """Run a command on the performer's host with leased nodes; the answer has its exit code.

    The request ends with the session. The command ends with the lease: when its time is over, when the session or the process
    that performs this ends, and on a signal. Raises Invalid, Unavailable or Denied if no lease was made.
    A dry run answers with the row of the request that it would make.
    """

    noun = "lease"
    verb = "run"
    right = Right.OPERATOR
    reads = (ReadPool, Announcement, RunUnderLease)
    writes = ("node of a pool", "request for nodes")

    command: tuple[str, ...]
    seconds: float = 3600.0  # the longest time of the lease
    wait_seconds: float | None = None  # until the nodes are ready; None: any time
    identity: str | None = None  # a private key of the performer's host that the nodes know; None: a key for this lease

    def decide(self, situation: Situation) -> Steps[LeaseEnded]:
        if len(self.node_types) > MOST_NODES:
            raise Invalid(f"{len(self.node_types)} nodes: a lease has at most {MOST_NODES}; give a smaller --count")
        if self.seconds <= 0:
            raise Invalid(f"a lease of {self.seconds:g} seconds is over at once; give a longer --timeout")
        found = yield from finding.load()
        yield from Announcement(tuple(hindrances(found.view, self.labels)))
        record = self.record(situation)
        if situation.call.dry_run:
            return LeaseEnded(code=0, row=self.row(record))
        order = LeaseOrder(
            record=record,
            priority=self.priority,
            command=self.command,
            seconds=self.seconds,
            wait_seconds=self.wait_seconds,
            identity=self.identity,
        )
        return (yield from RunUnderLease(order))
