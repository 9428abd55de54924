"""``export``."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from nodepool_ocb.engine import deployments
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadAttributes, ReadWorld
from nodepool_ocb.site import exporting


class ExportedSite(msgspec.Struct, frozen=True):
    """A site file, as JSON, and the names of its nodes."""

    document: msgspec.Raw  # "nodes" is the last of its keys
    nodes: tuple[str, ...]


class ExportSite(Operation[ExportedSite], frozen=True, kw_only=True):
    """The cluster, or a part of it, as a site file. Two exports of one state are equal, line for line."""

    noun = "export"
    verb = ""
    right = Right.VIEWER
    reads = (ReadWorld, selection.ResolveNodes, ReadAttributes)

    nodes: tuple[str, ...] = ()  # none, and no selector: all
    selector: str | None = None
    deployment: str | None = None  # only nodes of it, and of those below it
    catalogue: bool = True  # with the definitions of roles

    def decide(self, situation: Situation) -> Steps[ExportedSite]:  # noqa: ARG002
        world = yield from ReadWorld()
        meant: list[NodeView] | None = None
        if self.nodes or self.selector is not None:
            meant = yield from selection.nodes(world, self.nodes, self.selector)
        views = _chosen(world, self.deployment, meant)
        folders = [paths.noderole(each.role, view.name) for view in views for each in exporting.noderoles(view)]
        kept = yield from ReadAttributes(tuple(folders), ("user",))
        if kept.unreadable:
            raise Invalid([f"{why}; see: nodepool-ocb record show {path}" for path, why in kept.unreadable.items()])
        whole = meant is None and self.deployment is None
        document = exporting.document(world, views, dict(kept.blobs), whole=whole, catalogue=self.catalogue)
        return ExportedSite(msgspec.Raw(document), tuple(view.name for view in views))


def _chosen(world: World, deployment: str | None, meant: Collection[NodeView] | None) -> list[NodeView]:
    views = exporting.chosen(world)
    if meant is not None:
        names = {view.name for view in meant}
        views = [view for view in views if view.name in names]
    if deployment is None:
        return views
    deployment_of(world, deployment)
    line = deployments.below(world, deployment)
    return [view for view in views if view.record is not None and view.record.deployment in line]
