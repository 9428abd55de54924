"""``role list`` and ``role show``."""

from __future__ import annotations

from nodepool_ocb.operations.names import role_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import roles as shown
from nodepool_ocb.views.roles import RoleDocument, RoleRow


class RoleList(Operation[list[RoleRow]], frozen=True, kw_only=True):
    """The roles that were imported."""

    noun = "role"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld,)

    flags: tuple[str, ...] = ()  # all of them
    barclamp: str | None = None
    tasks: bool = False  # also the roles that runs of task lists made

    def decide(self, situation: Situation) -> Steps[list[RoleRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        return shown.rows(world, self.flags, self.barclamp, tasks=self.tasks)


class RoleShow(Operation[RoleDocument], frozen=True, kw_only=True):
    """One role, as it was imported."""

    noun = "role"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    role: str

    def decide(self, situation: Situation) -> Steps[RoleDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        return RoleDocument(self.role, role_of(world, self.role).record)
