"""``pool list`` and ``pool show``."""

from __future__ import annotations

from nodepool_ocb.errors import Ambiguous
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.requests.finding import load
from nodepool_ocb.views import pools as shown
from nodepool_ocb.views.pools import PoolDocument, PoolRow


class PoolList(Operation[list[PoolRow]], frozen=True, kw_only=True):
    """Every pool that a launcher has registered or that has nodes, by provider and name."""

    noun = "pool"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadPool,)

    def decide(self, situation: Situation) -> Steps[list[PoolRow]]:  # noqa: ARG002
        found = yield from load()
        if not found.view.members:
            yield Note(shown.NO_LAUNCHER)
        return shown.pool_rows(found.view)


class PoolShow(Operation[PoolDocument], frozen=True, kw_only=True):
    """One pool with its launchers and its nodes. Raises NotFound, or Ambiguous for a name of several pools."""

    noun = "pool"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadPool,)

    pool: str  # PROVIDER/POOL, or the name of the pool alone

    def decide(self, situation: Situation) -> Steps[PoolDocument]:
        found = yield from load()
        rows = {row.name: row for row in shown.pool_rows(found.view)}
        fitting = [row for row in rows.values() if self.pool in (row.name, row.pool)]
        if not fitting:
            raise unknown("pool", self.pool, rows)
        if len(fitting) > 1 and self.pool not in rows:
            raise Ambiguous(f"{self.pool} may be {' or '.join(row.name for row in fitting)}; write PROVIDER/POOL")
        return shown.pool_document(rows.get(self.pool, fitting[0]), found.view, found.holders, situation.now)
