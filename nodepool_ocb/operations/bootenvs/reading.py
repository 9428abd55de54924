"""``bootenv list`` and ``bootenv show``."""

from __future__ import annotations

from nodepool_ocb.operations.bootenvs.changing import bootenv_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.provisioning import bootenvs as shown
from nodepool_ocb.views.provisioning.bootenvs import BootenvDocument, BootenvRow


class BootenvList(Operation[list[BootenvRow]], frozen=True, kw_only=True):
    """Every boot environment."""

    noun = "bootenv"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld,)

    def decide(self, situation: Situation) -> Steps[list[BootenvRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        return shown.rows(world)


class BootenvShow(Operation[BootenvDocument], frozen=True, kw_only=True):
    """One boot environment, with the nodes that it is set for, and the servers that have not published them all."""

    noun = "bootenv"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    bootenv: str

    def decide(self, situation: Situation) -> Steps[BootenvDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        return shown.document(world, self.bootenv, bootenv_of(world, self.bootenv))
