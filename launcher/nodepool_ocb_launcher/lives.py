"""The life of nodes by label: the median of recent nodes, from the record to its end. In memory, seeded from records."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from statistics import median
from typing import Final

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.views import PoolNodeView

REMEMBERED: Final = 50  # nodes of a label
ENDING: Final = frozenset({PoolNodeState.USED, PoolNodeState.DELETING, PoolNodeState.DELETED})


class Lives:
    """``medians`` by label, in seconds; a label without an ended node is absent."""

    def __init__(self) -> None:
        self.medians: dict[str, float] = {}
        self._ages: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._used: dict[str, tuple[float, tuple[str, ...]]] = {}  # by id: the time of creation, and the labels

    def see(self, nodes: Mapping[str, PoolNodeView], now: float) -> None:
        """Note the nodes of a view: a used node that ended since the last one had its whole life."""
        for id in [id for id in self._used if id not in nodes or nodes[id].record.state in ENDING]:
            created, labels = self._used.pop(id)
            self._ended(labels, now - created)
        for id, node in nodes.items():
            if node.record.state is PoolNodeState.IN_USE and id not in self._used:
                self._used[id] = node.created, node.labels

    def seed(self, nodes: Mapping[str, PoolNodeView]) -> None:
        """Take the lives of nodes that ended before this process began."""
        for node in nodes.values():
            if node.record.state in ENDING:
                self._ended(node.labels, node.record.state_time - node.created)

    def _ended(self, labels: tuple[str, ...], seconds: float) -> None:
        for label in labels:
            self._ages[label].append(max(0.0, seconds))
            self.medians[label] = median(self._ages[label])
