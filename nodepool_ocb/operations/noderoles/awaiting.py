"""The wait for noderoles: ``noderole wait``, and ``--wait`` of the verbs that commit, retry and refresh.

On ZooKeeper each change of the cluster is looked at as it comes; at a server of the API ``NoderoleWaitLook`` is polled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import asdict, replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.operations import polling, selection, waiting
from nodepool_ocb.operations.names import bound_in
from nodepool_ocb.operations.operation import AwaitedNoderoles, Operation, Right, Situation, Steps
from nodepool_ocb.operations.performer import AnyPerformer, Performer
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.waiting import CheckStatus, WaitStatus


def names(world: World, awaited: AwaitedNoderoles) -> Iterator[str]:
    """The noderoles, as ROLE@FQDN. Raises NotFound for a node or a deployment that was named and is gone."""
    yield from awaited.noderoles
    for view in selection.nodes_again(world, awaited.nodes, resolved=awaited.resolved):
        yield from (vertex.name for vertex in view.noderoles.values())
    if awaited.deployment is not None:
        yield from (vertex.name for vertex in bound_in(world, awaited.deployment))


class NoderoleWaitLook(Operation[WaitStatus], frozen=True, kw_only=True):
    """One look at the noderoles of a wait. The fields are those of ``AwaitedNoderoles``; ``known`` ones stay awaited."""

    noun = "noderole"
    verb = "wait"
    right = Right.VIEWER
    reads = (ReadWorld,)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    nodes: tuple[str, ...] = ()
    resolved: bool = False
    deployment: str | None = None
    known: tuple[str, ...] = ()  # ROLE@FQDN

    def decide(self, situation: Situation) -> Steps[WaitStatus]:
        world = yield from ReadWorld()
        awaited = AwaitedNoderoles(
            noderoles=self.noderoles, nodes=self.nodes, resolved=self.resolved, deployment=self.deployment
        )
        chosen = dict.fromkeys((*self.known, *names(world, awaited)))
        return waiting.look(world, chosen, situation.local_now)


def looks(
    performer: AnyPerformer, awaited: AwaitedNoderoles, deadline: float | None, tick_seconds: float | None = None
) -> Iterator[WaitStatus]:
    """A look now, after every change, and at every tick; raises TimedOut at the deadline (monotonic)."""
    if isinstance(performer, Performer):
        yield from waiting.looks(performer, lambda world: names(world, awaited), deadline, tick_seconds)
        return
    last: WaitStatus | None = None

    def ask() -> NoderoleWaitLook:
        return NoderoleWaitLook(**asdict(awaited), known=() if last is None else last.names)

    for found in polling.polled(performer, ask, deadline):
        yield replace(found, changed=last is None or replace(last, changed=True) != found)
        last = found


class NoderoleCheckLook(Operation[CheckStatus], frozen=True, kw_only=True):
    """One look at checks that were asked for. Raises NotFound if a noderole was deleted."""

    noun = "noderole"
    verb = "check"
    right = Right.VIEWER
    reads = (ReadWorld,)

    noderoles: tuple[str, ...]  # ROLE@FQDN

    def decide(self, situation: Situation) -> Steps[CheckStatus]:
        world = yield from ReadWorld()
        return waiting.check_look(world, self.noderoles, situation.local_now)


def check_looks(
    performer: AnyPerformer, checked: Iterable[str], deadline: float | None, tick_seconds: float | None = None
) -> Iterator[CheckStatus]:
    """A look now, after every change, and at every tick.

    Raises TimedOut at the deadline (monotonic), or NotFound if a noderole was deleted.
    """
    noderoles = tuple(checked)
    if isinstance(performer, Performer):
        yield from waiting.check_looks(performer, noderoles, deadline, tick_seconds)
        return
    yield from polling.polled(performer, lambda: NoderoleCheckLook(noderoles=noderoles), deadline)
