"""``pool erase``: deletes the records of a provider's nodes, without a request to the provider."""

from __future__ import annotations

from collections.abc import Iterator

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Delete
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.pools import LockPoolNodes, ReadPool, ReadPoolAtFirst
from nodepool_ocb.operations.requests.finding import load, load_at_first
from nodepool_ocb.pool.views import PoolNodeView, PoolView


class PoolErase(Operation[Explained], frozen=True, kw_only=True):
    """Delete the records of every node of a provider, as they were when the agreement was asked for.

    Refused if a running launcher has the provider, or if a node is locked. Raises Conflict, or NotFound.
    """

    noun = "pool"
    verb = "erase"
    right = Right.ADMIN
    reads = (ReadPoolAtFirst, Announcement, Agreement, LockPoolNodes, ReadPool)
    writes = ("node of a pool",)

    provider: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        first = yield from load_at_first()
        nodes = self._of(first.view)
        if not situation.call.dry_run:
            yield from Announcement(tuple(_stays(nodes)))
            count = len(nodes)
            yield from Agreement(
                f"erase the records of {count} node{'s' if count > 1 else ''} of {self.provider}, and leave the machines"
            )
        asked = {node.id: node.version for node in nodes}
        locks = yield from LockPoolNodes(tuple(asked), self.title())
        left = self._of((yield from load()).view)
        if any(asked.get(node.id) != node.version for node in left):
            raise Conflict(
                f"the nodes of {self.provider} were changed meanwhile; see: nodepool-ocb lease list --provider {self.provider}"
            )
        units: list[list[Change]] = []
        for node in left:
            lock = [locks[node.id].end] if node.id in locks else []
            folder = [Delete(paths.pool_node_lock(node.id), -1)] if lock else []
            units.append([*lock, *folder, Delete(paths.pool_node(node.id), node.version)])
        yield from limits.parts(units)
        return Explained()

    def _of(self, view: PoolView) -> list[PoolNodeView]:
        """Its nodes. Raises Conflict if a launcher of now has the provider, or NotFound."""
        host = next((each.record.hostname for each in view.members if each.record.provider_name == self.provider), None)
        if host is not None:
            raise Conflict(
                f"the launcher on {host} has provider {self.provider}; take it out of its nodepool.yaml first, or delete"
                " the nodes: nodepool-ocb lease delete"
            )
        found = [node for _, node in sorted(view.nodes.items()) if node.record.provider == self.provider]
        if not found:
            known = {node.record.provider for node in view.nodes.values() if node.record.provider}
            hint = did_you_mean(self.provider, known) or "; for its uploads: nodepool-ocb image erase PROVIDER"
            raise NotFound(f"no node is of provider {self.provider}{hint}")
        return found


def _stays(nodes: list[PoolNodeView]) -> Iterator[str]:
    """A sentence for each machine that stays at its provider."""
    for node in nodes:
        if node.record.external_id is not None:
            yield f"{node.record.provider} may still have {node.record.external_id}: delete it there by hand"
