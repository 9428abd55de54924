"""``apply`` and ``node import``."""

from __future__ import annotations

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.site import planning
from nodepool_ocb.operations.site.fields import refuse_fields
from nodepool_ocb.site.desired_state import DesiredState


class ApplySite(Operation[Explained], frozen=True, kw_only=True):
    """Make the cluster as site files state; the rest stays as it is."""

    noun = "apply"
    verb = ""
    right = Right.OPERATOR
    reads = planning.READS
    writes = planning.WRITES

    wanted: DesiredState
    prune: bool = False  # also delete the records that the files lack, in the deployments of the files

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Raises the errors of ``plan``, and Invalid for fields that no verb takes for a node."""
        refuse_fields(self.wanted)
        world = yield from ReadWorld()
        return (yield from planning.carried_out(world, situation, self.wanted, prune=self.prune))


class NodeImport(Operation[Explained], frozen=True, kw_only=True):
    """Create the nodes of a table or an inventory."""

    noun = "node"
    verb = "import"
    right = Right.OPERATOR
    reads = planning.READS
    writes = planning.WRITES

    wanted: DesiredState
    update: bool = False  # change nodes that exist with other fields; else they are refused

    def decide(self, situation: Situation) -> Steps[Explained]:
        """As ``ApplySite``; raises Conflict, without ``update``, for a node that exists with other fields."""
        refuse_fields(self.wanted)
        world = yield from ReadWorld()
        if not self.update:
            _refuse_others(world, self.wanted)
        return (yield from planning.carried_out(world, situation, self.wanted))


def _refuse_others(world: World, wanted: DesiredState) -> None:
    problems = []
    for fqdn, each in wanted.nodes.items():
        view = world.nodes.get(fqdn)
        record = view.record if view is not None else None
        other = [name for name, value in each.fields.items() if record is not None and getattr(record, name) != value]
        if other:
            problems.append(each.place.fault(f"exists already, with other {', '.join(other)}; --update changes it"))
    if problems:
        raise Conflict("\n".join(problems))
