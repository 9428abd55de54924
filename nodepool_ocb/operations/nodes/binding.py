"""``node bind``: roles to nodes, all decided in one pass over one world."""

from __future__ import annotations

from collections.abc import Sequence

from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.binding import plan_all
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations import outside, selection
from nodepool_ocb.operations.names import deployment_of, role_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.changes import ChangeRow, keeps


class NodeBind(Operation[Explained], frozen=True, kw_only=True):
    """Bind roles, and the roles that they need, to nodes: PROPOSED until they are committed.

    All are bound, or none. A node that has the role keeps it as it is.
    """

    noun = "node"
    verb = "bind"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes)
    writes = ("node", "noderole", "deployment role")

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    roles: tuple[str, ...]
    deployment: str | None = None  # None: each node's own
    parents: tuple[str, ...] = ()  # ROLE@FQDN

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Raises NotFound for a name that does not exist, and the errors of ``plan_all``."""
        world = yield from ReadWorld()
        self._check(world)
        explanations, notes, kept = list[str](), list[str](), list[ChangeRow]()
        jigs = active_jigs(world)

        def one(view: NodeView) -> Sequence[Change]:
            plan = plan_all(
                world,
                self.roles,
                view,
                now=situation.now,
                by=situation.by,
                deployment=self.deployment,
                jigs=jigs,
                parents=self.parents,
            )
            explanations.extend(plan.explanations)
            notes.extend(plan.elsewhere)
            bound = [view.noderoles[role] for role in self.roles if role in view.noderoles]
            own = situation.own(world, bound)
            kept.extend(map(keeps, own))
            notes.extend(outside.left_alone(len(bound) - len(own)))
            return plan.changes

        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        yield from together.decided(world, chosen, one)
        return Explained(explanations=tuple(explanations), notes=tuple(notes), kept=tuple(kept))

    def _check(self, world: World) -> None:
        for role in self.roles:
            role_of(world, role)
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        for name in self.nodes:
            _refuse_role(world, name)


def _refuse_role(world: World, name: str) -> None:
    """A role among the nodes is probably one of several to bind."""
    if name in world.roles and name not in world.nodes:
        raise NotFound(f"node {name} does not exist; it is a role: of several, write --role for each")
