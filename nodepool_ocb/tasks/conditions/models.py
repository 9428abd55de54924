"""The facts for conditions: the models of the settings language and of ``api``, and the facts of a node for YAQL."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.model.records import Json


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that are the same for every node of a run."""

    settings: Mapping[str, Json] = {}
    cluster: Mapping[str, Json] = {}  # status, mode
    nodes_count: int = 0  # nodes of the run
    roles_of_run: frozenset[str] = frozenset()  # that some node of the run has
    roles_of_cluster: frozenset[str] = frozenset()  # that some node of the deployment has


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The facts of a node: ``$common`` and ``$node``, and both as one, ``$``."""

    common: Mapping[str, Json] = {}
    node: Mapping[str, Json] = {}

    @property
    def whole(self) -> Mapping[str, Json]:
        """The node's own facts over those that all nodes have."""
        return {**self.common, **self.node}
