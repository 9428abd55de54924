"""Nodes of pools by id, for all verbs of this folder. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.pool.views import PoolNodeView, PoolView


def node_of(view: PoolView, id: str) -> PoolNodeView:
    """The node of an id, which may lack leading zeros. Raises NotFound."""
    found = view.nodes.get(id.zfill(10) if id.isdecimal() else id)
    if found is None:
        if not view.nodes:
            raise NotFound(f"node {id} does not exist, and the pools have no other node; see: nodepool-ocb pool list")
        raise unknown("lease", id, view.nodes)
    return found


def nodes_of(view: PoolView, ids: Iterable[str]) -> list[PoolNodeView]:
    """The nodes of ids, each one time. Raises NotFound."""
    found = {node.id: node for node in (node_of(view, id) for id in ids)}
    return [*found.values()]
