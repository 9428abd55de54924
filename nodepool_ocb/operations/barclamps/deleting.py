"""``barclamp delete``."""

from __future__ import annotations

from nodepool_ocb.engine import roles
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.world import ReadWorld


class BarclampDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete the roles of a barclamp in one transaction.

    Refused while one of them is bound, is in a deployment, or is required by a role of another barclamp.
    """

    noun = "barclamp"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadWorld, Agreement)
    writes = ("role",)

    barclamp: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Raises NotFound for a barclamp without roles, and the errors of ``roles.deletion``."""
        world = yield from ReadWorld()
        going = roles.of_barclamp(world, self.barclamp)
        if not situation.call.dry_run:
            text = f"delete every role of barclamp {self.barclamp} ({', '.join(going)})"
            yield from Agreement(text)
        yield roles.deletion(world, going)
        return Explained()
