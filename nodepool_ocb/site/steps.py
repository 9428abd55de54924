"""The steps of a plan, and the world that advances while the plan is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import Change, Json, Role
from nodepool_ocb.provisioning.addressing.ledger import HoldingsLedger
from nodepool_ocb.site.desired_state import Circumstances, DesiredNoderole, DesiredState, StoredAttributes
from nodepool_ocb.site.transactions import Packing


class PlanStep(msgspec.Struct, frozen=True):
    """One step of a plan. Two plans with the same effect have equal steps, whenever they were made."""

    change: str  # create, change, commit, propose or delete
    kind: str
    name: str
    to: str = ""  # the new value as JSON


class Planning:
    """A plan under way."""

    def __init__(
        self, packing: Packing, wanted: DesiredState, about: Circumstances, kept: Mapping[str, StoredAttributes]
    ) -> None:
        """``packing`` advances its world."""
        world = packing.world
        self.world, self.wanted, self.about, self.kept = world, wanted, about, kept
        self.ledger = HoldingsLedger(world, about.holdings, about.now)
        self.packing = packing
        self.steps: list[PlanStep] = []
        self.notes: list[str] = []  # effects on other nodes
        self.moved: list[Vertex] = []  # noderoles that are committed, or taken back
        self.made: set[str] = set()  # noderoles that are new

    @property
    def catalogue(self) -> dict[str, Role]:
        return {name: stored.record for name, stored in self.world.roles.items()}

    def vertex(self, about: DesiredNoderole) -> Vertex | None:
        """The noderole that a statement is about, or None; as World.vertex, which takes a name apart."""
        node = self.world.nodes.get(about.fqdn)
        return node.noderoles.get(about.role) if node else None

    def take(self, changes: Sequence[Change], change: str, kind: str, name: str, to: Json = None) -> None:
        """One step, and the changes that it makes, if it makes any."""
        if changes:
            self.packing.take(changes)
            self.step(change, kind, name, to)

    def step(self, change: str, kind: str, name: str, to: Json = None) -> None:
        text = "" if to is None else msgspec.json.encode(to, order="sorted").decode()
        self.steps.append(PlanStep(change, kind, name, text))
