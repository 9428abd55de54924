"""``role delete``."""

from __future__ import annotations

from nodepool_ocb.engine import roles
from nodepool_ocb.operations.names import role_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.world import ReadWorld


class RoleDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete a role. Refused while it is bound, is in a deployment, or is required by another role."""

    noun = "role"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadWorld, Agreement)
    writes = ("role",)

    role: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        role_of(world, self.role)
        if not situation.call.dry_run:
            yield from Agreement(f"delete role {self.role}")
        yield roles.deletion(world, [self.role])
        return Explained()
