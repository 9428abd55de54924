"""``secret list``."""

from __future__ import annotations

from nodepool_ocb.operations import owners
from nodepool_ocb.operations.names import catalogue
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.secrets import ReadKeyIds
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import cluster as shown
from nodepool_ocb.views.cluster import SecretRow


class SecretList(Operation[list[SecretRow]], frozen=True, kw_only=True):
    """Every secret: its owner, and the key that opens it or the place that it refers to. No value is shown."""

    noun = "secret"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, ReadKeyIds, *owners.READS)

    def decide(self, situation: Situation) -> Steps[list[SecretRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        found = yield from owners.of(world)
        keys = yield from ReadKeyIds()
        return list(shown.secrets(found, catalogue(world), keys))
