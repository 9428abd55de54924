"""``power on``, ``off``, ``cycle`` and ``check``: requests, which an annealer carries out."""

from __future__ import annotations

from typing import Any, ClassVar

from nodepool_ocb.engine import powering
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.power import PowerAction
from nodepool_ocb.model.records import Change, Set
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.operation import Explained, Lookup, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.power import DrawRequest
from nodepool_ocb.operations.reads.world import ReadWorld


class PowerAsked(Explained, frozen=True, kw_only=True):
    """The answer: the id of the request, and the nodes that have it."""

    request: str | None = None  # None in a dry run
    nodes: tuple[str, ...] = ()


class PowerChange(Operation[PowerAsked], frozen=True, kw_only=True):
    """The base of these verbs. Refused while another request of a node is under way."""

    noun = "power"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (ReadWorld, selection.ResolveNodes, DrawRequest)
    writes: ClassVar[tuple[str, ...]] = ("power",)
    action: ClassVar[PowerAction]

    nodes: tuple[str, ...] = ()
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[PowerAsked]:
        """All are judged before the first is written."""
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        id = yield from DrawRequest()

        def one(view: NodeView) -> list[Change]:
            stored = powering.record_of(world, view.name)
            self.judge(view)
            request = powering.request(id, self.action, situation.by, situation.now, network=self.to_network())
            after = powering.asked(stored.record, request)
            return [] if after == stored.record else [Set(paths.power(view.name), after, stored.version)]

        yield from together.decided(world, chosen, one)
        names = tuple(view.name for view in chosen)
        return PowerAsked(request=None if situation.call.dry_run else id, nodes=names)

    def judge(self, view: NodeView) -> None:
        """Raises Conflict if the machine should not be switched now."""

    def to_network(self) -> bool:
        """Whether the next boot is one from the network."""
        return False


class PowerOn(PowerChange, frozen=True, kw_only=True):
    """Switch machines on."""

    verb = "on"
    action = PowerAction.ON

    network: bool = False  # the boot is one from the network

    def to_network(self) -> bool:
        return self.network


class PowerOff(PowerChange, frozen=True, kw_only=True):
    """Switch machines off, without asking their systems."""

    verb = "off"
    action = PowerAction.OFF

    force: bool = False  # also a machine on which a noderole runs

    def judge(self, view: NodeView) -> None:
        _refuse_work(view, self.force)


class PowerCycle(PowerChange, frozen=True, kw_only=True):
    """Switch machines off, then on."""

    verb = "cycle"
    action = PowerAction.CYCLE

    network: bool = False  # the boot is one from the network
    force: bool = False  # also a machine on which a noderole runs

    def judge(self, view: NodeView) -> None:
        _refuse_work(view, self.force)

    def to_network(self) -> bool:
        return self.network


class PowerCheck(PowerChange, frozen=True, kw_only=True):
    """Ask the BMCs of machines for their state."""

    verb = "check"
    action = PowerAction.LOOK


def _refuse_work(view: NodeView, force: bool) -> None:
    if view.claim is not None and not force:
        raise Conflict(
            f"{view.claim.noderole} is at work on {view.name}; wait until it ends (nodepool-ocb noderole wait"
            f" {view.claim.noderole}), or switch the machine all the same with --force"
        )
